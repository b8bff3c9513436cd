"""Conditions on columns, such as `logS > -4 and not in_domain`."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import numpy as np

from molsepnorm.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Kind: TypeAlias = Literal["number", "text", "yes/no", "cell"]
"""Kind of a column's values. A cell is text of the input, which may be compared with a number or a
text."""

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]*)`""")
_EXAMPLE = "write a condition such as 'logS > -4 and similarity > 0.3'"


@dataclass(frozen=True)
class FilterColumns:
    """The columns that a condition or a ranking may name."""

    kinds: Mapping[str, Kind]
    """Kind of each column, by its name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of columns, such as that of a target for its prediction."""
    probabilities: Collection[str] = ()
    """Columns of probabilities, which are hardly ever equal to a number."""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of each column of predicted classes."""

    def find(self, name: str, where: str) -> str:
        """Return the column of this name or short name.

        Args:
            name: the name.
            where: beginning of the message of an error.

        Raises:
            ConfigError: there is no such column, or the name has two meanings.
        """
        if name in self.aliases and name in self.kinds:
            raise ConfigError(
                f"{where}: '{name}' is a column of the input and a target: write "
                f"'{self.aliases[name]}' for the prediction, or leave the column out"
            )
        if name in self.kinds:
            return name
        if name in self.aliases:
            return self.aliases[name]
        known = [*self.aliases, *self.kinds]
        raise ConfigError(
            f"{where}: there is no column '{name}'. {did_you_mean(name, known)} Columns of the "
            "input are named with --columns; --uncertainty and --domain add others"
        )


class Filter:
    """A condition on the columns of a table, which pandas evaluates.

    It may hold comparisons, chained ones too, `and`, `or`, `not`, brackets, numbers, texts, True,
    False and names of columns. A name that is no Python name is written between backticks. A
    comparison with a missing number is false, except for `!=`.

    >>> import pandas as pd
    >>> columns = FilterColumns({"logS_pred": "number", "kind": "cell"}, {"logS": "logS_pred"})
    >>> chosen = Filter("-4 < logS <= 0 and kind != 'salt'", columns)
    >>> chosen(pd.DataFrame({"logS_pred": [-5.0, 0, 0], "kind": ["", "", "salt"]}))
    array([False,  True, False])

    Args:
        text: the condition.
        columns: the columns that it may name.

    Raises:
        ConfigError: the text is no such condition, names an unknown column or class, compares a
            number with a text, or has == or != for a probability.
    """

    def __init__(self, text: str, columns: FilterColumns) -> None:
        self._text, self._columns = text, columns
        self._quoted: dict[str, str] = {}  # placeholder -> name between backticks
        self._names: dict[str, str] = {}  # column -> name in the expression
        self._compared: dict[str, set[str]] = {"number": set(), "text": set()}
        try:
            tree = ast.parse(_QUOTED.sub(self._placeholder, text.strip()), mode="eval")
            self._expression = self._condition(tree.body)
        except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
            reason = f" ({error.msg})" if isinstance(error, SyntaxError) else ""
            self._fail(f"it cannot be read{reason}: {_EXAMPLE}")
        for name in set.intersection(*self._compared.values()):
            self._fail(f"'{name}' is compared with a number and with a text: choose one")

    @property
    def numbers(self) -> list[str]:
        """Columns of the input that are compared with numbers; their values must be numbers."""
        return sorted(self._compared["number"])

    def __call__(self, table: pd.DataFrame) -> np.ndarray:  # bool (n,)
        """Return which rows fulfil the condition. Columns of `numbers` hold numbers."""
        own = table[[*self._names]].rename(columns=self._names)
        for column, name in self._names.items():
            if self._columns.kinds[column] == "yes/no":
                own[name] = own[name].astype(bool)
            elif self._columns.kinds[column] == "number":
                own[name] = own[name].astype(np.float64)
        return own.eval(self._expression, engine="python").to_numpy(dtype=bool)

    def _placeholder(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name = f"_column_{len(self._quoted)}_"
        self._quoted[name] = match[1]
        return name

    def _fail(self, reason: str) -> NoReturn:
        raise ConfigError(f"filter '{self._text}': {reason}")

    def _source(self, node: ast.AST) -> str:
        """Return the text of a part of the condition."""
        return re.sub(
            r"_column_\d+_",
            lambda match: f"`{self._quoted.get(match[0], match[0])}`",
            ast.unparse(node),
        )

    def _condition(self, node: ast.expr) -> str:
        """Check a condition, and return it as an expression for pandas."""
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(map(self._condition, node.values))})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(not {self._condition(node.operand)})"
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name) and self._kind(node) == "yes/no":
            return self._value(node)
        self._fail(f"'{self._source(node)}' is no condition: {_EXAMPLE}")

    def _comparison(self, node: ast.Compare) -> str:
        text, sides = self._source(node), [node.left, *node.comparators]
        columns = [self._column(each) for each in sides if isinstance(each, ast.Name)]
        kinds = set(map(self._kind, sides))
        if not columns or kinds == {"cell"} or kinds == {"cell", "yes/no"}:
            self._fail(f"'{text}': compare a column with a number or a text")
        if len(kinds - {"cell"}) > 1:
            self._fail(f"'{text}' compares a {' with a '.join(sorted(kinds - {'cell'}))}")
        (kind,) = kinds - {"cell"}
        for sign in node.ops:
            if type(sign) not in _SIGNS:
                self._fail(f"'{text}': compare with {', '.join(_SIGNS.values())}")
            if isinstance(sign, ast.Eq | ast.NotEq):
                for column in columns:
                    if column in self._columns.probabilities:
                        self._fail(
                            f"'{text}': '{column}' is a probability, which hardly ever equals a "
                            "number: compare it with < or >, such as > 0.5"
                        )
            elif kind != "number":
                self._fail(f"'{text}': a {kind} is compared with == or !=")
        for column in columns:
            if self._columns.kinds[column] == "cell":
                self._compared[kind].add(column)
            for side in sides:
                classes = self._columns.classes.get(column)
                if classes and isinstance(side, ast.Constant) and side.value not in classes:
                    self._fail(
                        f"'{column}' has no class {side.value!r}. "
                        f"{did_you_mean(str(side.value), classes)}"
                    )
        values = [self._value(each) for each in sides]
        links = [
            f"({left} {_SIGNS[type(sign)]} {right})"
            for left, sign, right in zip(values, node.ops, values[1:], strict=False)
        ]
        return f"({' and '.join(links)})"

    def _kind(self, node: ast.expr) -> Kind:
        if isinstance(node, ast.Name):
            return self._columns.kinds[self._column(node)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            if self._kind(node.operand) == "number":
                return "number"
        elif isinstance(node, ast.Constant):
            kinds: dict[type, Kind] = {bool: "yes/no", str: "text", int: "number", float: "number"}
            if type(node.value) in kinds:
                return kinds[type(node.value)]
        self._fail(f"'{self._source(node)}' is no column, number or text: {_EXAMPLE}")

    def _value(self, node: ast.expr) -> str:
        """Return a column, number or text in the expression for pandas."""
        if isinstance(node, ast.Name):
            return self._names.setdefault(self._column(node), f"column{len(self._names)}")
        value = ast.literal_eval(node)
        return repr(value if isinstance(value, bool | str) else float(value))

    def _column(self, node: ast.Name) -> str:
        name = self._quoted.get(node.id)
        if name is None:  # Python's parser returns names in the form NFKC
            known = {*self._columns.kinds, *self._columns.aliases}
            normal = {unicodedata.normalize("NFKC", each): each for each in known}
            name = node.id if node.id in known else normal.get(node.id, node.id)
        return self._columns.find(name, f"filter '{self._text}'")

"""Conditions on columns, such as `logS > -4 and not in_domain`.

A condition is parsed with Python's grammar and evaluated on arrays; no Python code is run. It may
hold comparisons, chained ones too, `and`, `or`, `not`, brackets, numbers, texts, True, False and
names of columns. A name that is no Python name is written between backticks.
"""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from molsepnorm.errors import ConfigError, did_you_mean

Kind: TypeAlias = Literal["number", "text", "yes/no", "cell"]
"""Kind of a column's values. A cell is text of the input, which may be compared with a number or a
text."""

_Condition: TypeAlias = Callable[[Mapping[str, np.ndarray]], np.ndarray]
_Value: TypeAlias = Callable[[Mapping[str, np.ndarray]], Any]

_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]*)`""")
_MAX_INTEGER = 1 << 53  # from here on, different integers have the same floating-point number
_EXAMPLE = "write a condition such as 'logS > -4 and similarity > 0.3'"


@dataclass(frozen=True)
class FilterColumns:
    """The columns that a condition or a ranking may name."""

    kinds: Mapping[str, Kind]
    """Kind of each column, by its name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of columns, such as that of a target for its prediction."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Columns that an option would add, with the option."""
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
        if name in self.absent:
            raise ConfigError(f"{where}: '{name}' is computed with {self.absent[name]}: add it")
        known = [*self.aliases, *self.kinds]
        raise ConfigError(
            f"{where}: there is no column '{name}'. {did_you_mean(name, known)} Columns of the "
            "input are named with --columns"
        )


class Filter:
    """A condition on the columns of a table, which chooses its rows.

    A comparison with a missing number is false, except for `!=`, as in pandas.

    >>> columns = FilterColumns({"logS_pred": "number", "kind": "cell"}, {"logS": "logS_pred"})
    >>> chosen = Filter("-4 < logS <= 0 and kind != 'salt'", columns)
    >>> chosen({"logS_pred": np.array([-5.0, 0, 0]), "kind": np.array(["", "", "salt"])})
    array([False,  True, False])

    Args:
        text: the condition.
        columns: the columns that it may name.

    Raises:
        ConfigError: the text is no such condition, names an unknown column or class, compares a
            number with a text, or has == or != for a probability.
    """

    def __init__(self, text: str, columns: FilterColumns) -> None:
        self._given = text, columns
        parser = _Parser(text, columns)
        self._condition = parser.parse()
        self.numbers = tuple(sorted(parser.numbers))
        """Columns of the input that are compared with numbers; their values must be numbers."""

    def __call__(self, table: Mapping[str, np.ndarray]) -> np.ndarray:  # bool (n,)
        """Return which rows fulfil the condition, given columns (n,) by name."""
        return self._condition(table)

    def __reduce__(self) -> tuple[Any, ...]:
        return Filter, self._given


class _Parser:
    def __init__(self, text: str, columns: FilterColumns) -> None:
        self._text, self._columns = text, columns
        self._quoted: dict[str, str] = {}  # placeholder -> name between backticks
        self.numbers: set[str] = set()
        self._texts: set[str] = set()

    def parse(self) -> _Condition:
        code = _QUOTED.sub(self._placeholder, self._text.strip())
        try:
            tree = ast.parse(code, mode="eval")
            condition = self._condition(tree.body)
        except SyntaxError as error:
            self._fail(f"it cannot be read ({error.msg}): {_EXAMPLE}")
        except (RecursionError, MemoryError, OverflowError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            self._fail(f"it cannot be read: {_EXAMPLE}")
        for name in self.numbers & self._texts:
            self._fail(f"'{name}' is compared with a number and with a text: choose one")
        return condition

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

    def _condition(self, node: ast.expr) -> _Condition:
        if isinstance(node, ast.BoolOp):
            combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            parts = [self._condition(each) for each in node.values]
            return lambda table: combine.reduce([part(table) for part in parts])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            negated = self._condition(node.operand)
            return lambda table: ~negated(table)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            links = [self._comparison(node, *each) for each in pairs]
            return lambda table: np.logical_and.reduce([link(table) for link in links])
        if isinstance(node, ast.Name):
            name = self._name(node)
            if self._columns.kinds[name] == "yes/no":
                return lambda table: table[name].astype(bool)
            self._fail(f"'{self._source(node)}' alone is no condition: compare it with a value")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            self._fail("write 'and' and 'or' in place of & and |")
        self._fail(f"'{self._source(node)}' is no condition: {_EXAMPLE}")

    def _comparison(
        self, whole: ast.Compare, left: ast.expr, sign: ast.cmpop, right: ast.expr
    ) -> _Condition:
        compare = _OPERATORS.get(type(sign))
        if compare is None:
            self._fail(f"'{self._source(whole)}': compare with ==, !=, <, <=, > or >=")
        kinds = self._kind(left), self._kind(right)
        for one, other in (kinds, kinds[::-1]):
            if one == "cell" and other == "cell":
                self._fail(f"'{self._source(whole)}' compares columns of the input: give a value")
            if one == "cell" and other == "yes/no":
                self._fail(f"'{self._source(whole)}' compares a column of the input with yes or no")
        merged = {kind for kind in kinds if kind != "cell"}
        if len(merged) > 1:
            self._fail(f"'{self._source(whole)}' compares a {' with a '.join(sorted(merged))}")
        (kind,) = merged
        if kind != "number" and compare not in (operator.eq, operator.ne):
            self._fail(f"'{self._source(whole)}': a {kind} is compared with == or !=")
        for side in (left, right):
            if compare in (operator.eq, operator.ne) and self._is_probability(side):
                name = self._source(side)
                self._fail(
                    f"'{self._source(whole)}': '{name}' is a probability, which hardly ever equals "
                    f"a number: compare it with < or >, such as {name} > 0.5"
                )
        for side, opposite in ((left, right), (right, left)):
            if isinstance(side, ast.Name) and not isinstance(opposite, ast.Name):
                classes = self._columns.classes.get(self._name(side))
                value = self._constant(opposite)
                if classes is not None and value not in classes:
                    self._fail(
                        f"'{self._source(side)}' has no class '{value}'. "
                        f"{did_you_mean(str(value), classes)}"
                    )
        first, second = self._value(left, kind), self._value(right, kind)

        def compared(table: Mapping[str, np.ndarray]) -> np.ndarray:
            rows = len(next(iter(table.values())))
            return np.broadcast_to(np.asarray(compare(first(table), second(table))), rows)

        return compared

    def _kind(self, node: ast.expr) -> Kind:
        if isinstance(node, ast.Name):
            return self._columns.kinds[self._name(node)]
        value = self._constant(node)
        if isinstance(value, bool):
            return "yes/no"
        return "text" if isinstance(value, str) else "number"

    def _is_probability(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self._name(node) in self._columns.probabilities

    def _value(self, node: ast.expr, kind: Kind) -> _Value:
        if not isinstance(node, ast.Name):
            value = self._constant(node)
            return lambda _: value
        name = self._name(node)
        if kind == "number":
            self.numbers |= {name} if self._columns.kinds[name] == "cell" else set()
            return lambda table: table[name].astype(np.float64)
        self._texts.add(name)
        return lambda table: table[name]

    def _name(self, node: ast.Name) -> str:
        columns, name = self._columns, self._quoted.get(node.id)
        if name is None:
            name = node.id  # in the form NFKC, in which Python's parser returns names
            known = {*columns.kinds, *columns.aliases, *columns.absent}
            same = [each for each in known if unicodedata.normalize("NFKC", each) == name]
            if name not in known and len(same) == 1:
                (name,) = same
        return columns.find(name, f"filter '{self._text}'")

    def _constant(self, node: ast.expr) -> float | str | bool:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._constant(node.operand)
            if not isinstance(value, bool | str):
                return -value if isinstance(node.op, ast.USub) else value
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | str):
            return node.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            if isinstance(node.value, int) and abs(node.value) >= _MAX_INTEGER:
                self._fail(
                    f"{node.value} has too many digits to be compared as a number. An identifier "
                    f"is compared as a text: == '{node.value}'"
                )
            return float(node.value)
        self._fail(f"'{self._source(node)}' is no column, number or text: {_EXAMPLE}")

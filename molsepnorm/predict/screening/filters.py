"""Conditions on columns, such as `logS > -4 and not in_domain`, which pandas evaluates."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias
from unicodedata import normalize

import numpy as np
import pandas as pd

from molsepnorm.errors import ConfigError, did_you_mean

Kind: TypeAlias = Literal["number", "probability", "text", "yes/no", "cell"]
"""Kind of a column's values. A probability hardly ever equals a number. A cell is text of the
input, which may be compared with a number or a text."""

_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]*)`""")
_EXAMPLE = "write a condition such as 'logS > -4 and similarity > 0.3'"


@dataclass(frozen=True)
class FilterColumns:
    """The columns that a condition or a ranking may name."""

    kinds: Mapping[str, Kind]
    """Kind of each column, by its name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of columns, such as that of a target for its prediction."""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of each column of predicted classes."""

    def find(self, name: str, where: str) -> str:
        """Return the column of this name or short name, which Python's parser returns as NFKC."""
        known = {normalize("NFKC", each): each for each in (*self.aliases, *self.kinds)}
        name = known.get(normalize("NFKC", name), name)
        column = self.aliases.get(name, name)
        if column != name and name in self.kinds:
            raise ConfigError(
                f"{where}: '{name}' is a column of the input and a target: write '{column}' for "
                "the prediction, or leave the column out"
            )
        if column not in self.kinds:
            raise ConfigError(
                f"{where}: there is no column '{name}'. {did_you_mean(name, known.values())} "
                "Columns of the input are named with --columns; --uncertainty and --domain add "
                "others"
            )
        return column


class Filter:
    """A condition on the columns of a table: an expression of `pandas.eval`.

    A name that is no Python name is written between backticks. A comparison with a missing number
    is false, except for `!=`.

    >>> columns = FilterColumns({"logS_pred": "number", "kind": "cell"}, {"logS": "logS_pred"})
    >>> chosen = Filter("-4 < logS <= 0 and kind != 'salt'", columns)
    >>> chosen(pd.DataFrame({"logS_pred": [-5.0, 0, 0], "kind": ["", "", "salt"]}))
    array([False,  True, False])

    Raises:
        ConfigError: the text is no condition, calls a function, names an unknown column or class,
            compares a number with a text, or has == or != for a probability.
    """

    def __init__(self, text: str, columns: FilterColumns) -> None:
        self._text, self._columns = text, columns
        self._quoted: dict[str, str] = {}  # placeholder -> name between backticks
        self._expression = _QUOTED.sub(self._placeholder, text.strip())
        self._compared: dict[str, set[str]] = {"number": set(), "text": set()}
        try:
            nodes = [*ast.walk(ast.parse(self._expression, mode="eval"))]
            self._names = {n.id: self._column(n) for n in nodes if isinstance(n, ast.Name)}
            for node in nodes:
                if isinstance(node, ast.Attribute | ast.Call):  # pandas could write files
                    self._fail(f"it may not call functions: {_EXAMPLE}")
                if isinstance(node, ast.Compare):
                    self._check(node)
            for name in set.intersection(*self._compared.values()):
                self._fail(f"'{name}' is compared with a number and with a text: choose one")
            self(self._example())
        except ConfigError:
            raise
        except Exception as error:  # those of Python's parser and of pandas
            self._fail(f"it cannot be read ({str(error) or type(error).__name__}): {_EXAMPLE}")

    @property
    def numbers(self) -> list[str]:
        """Columns of the input that are compared with numbers; their values must be numbers."""
        return sorted(self._compared["number"])

    def __call__(self, table: pd.DataFrame) -> np.ndarray:  # bool (n,)
        """Return which rows fulfil the condition. Columns of `numbers` hold numbers."""
        types = {"yes/no": bool, "number": np.float64, "probability": np.float64}
        values = {
            name: table[column].astype(types.get(self._columns.kinds[column], table[column].dtype))
            for name, column in self._names.items()
        }
        fulfilled = pd.eval(self._expression, engine="python", resolvers=[values])
        if not isinstance(fulfilled, pd.Series) or fulfilled.dtype != bool:
            self._fail(f"it is no condition: {_EXAMPLE}")
        return fulfilled.to_numpy()

    def _example(self) -> pd.DataFrame:
        values = {"number": 0.0, "probability": 0.0, "yes/no": False}
        kinds = {name: self._columns.kinds[name] for name in self._names.values()}
        kinds |= dict.fromkeys(self._compared["number"], "number")
        return pd.DataFrame({name: [values.get(kind, "")] for name, kind in kinds.items()})

    def _placeholder(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name = f"_column_{len(self._quoted)}_"
        self._quoted[name] = match[1]
        return name

    def _fail(self, reason: str) -> NoReturn:
        raise ConfigError(f"filter '{self._text}': {reason}")

    def _column(self, node: ast.Name) -> str:
        return self._columns.find(self._quoted.get(node.id, node.id), f"filter '{self._text}'")

    def _check(self, node: ast.Compare) -> None:
        """Check a comparison, and note which cells it compares with what."""
        sides = [leaf for side in (node.left, *node.comparators) for leaf in ast.walk(side)]
        columns = [self._names[leaf.id] for leaf in sides if isinstance(leaf, ast.Name)]
        values = [leaf.value for leaf in sides if isinstance(leaf, ast.Constant)]
        by_kind: dict[str, list[str]] = {}
        for column in columns:
            by_kind.setdefault(self._columns.kinds[column], []).append(column)
        cells, probable = by_kind.pop("cell", []), by_kind.pop("probability", [])
        known = {bool: "yes/no", str: "text"}
        kinds = {*by_kind, *(known.get(type(value), "number") for value in values)}
        kinds |= {"number"} if probable else set()
        text = ast.unparse(node)
        for placeholder, name in self._quoted.items():
            text = text.replace(placeholder, f"`{name}`")
        if cells and not kinds & {"number", "text"}:
            self._fail(f"'{text}': compare a column with a number or a text")
        if len(kinds) > 1:
            self._fail(f"'{text}' compares a {' with a '.join(sorted(kinds))}")
        (kind,) = kinds
        if kind in self._compared:
            self._compared[kind].update(cells)
        if probable and any(isinstance(sign, ast.Eq | ast.NotEq) for sign in node.ops):
            self._fail(
                f"'{text}': '{probable[0]}' is a probability, which hardly ever equals a number: "
                "compare it with < or >, such as > 0.5"
            )
        if kind != "number" and any(
            isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for sign in node.ops
        ):
            self._fail(f"'{text}': a {kind} is compared with == or !=")
        for column in columns:
            classes = self._columns.classes.get(column, ())
            for value in values:
                if classes and value not in classes:
                    hint = did_you_mean(str(value), classes)
                    self._fail(f"'{column}' has no class {value!r}. {hint}")

"""Every error that molsepnorm raises on purpose::

    MolsepnormError           what went wrong, where, what was expected, what to do
    ├── ConfigError           a setting, option, column or name that does not exist or does not fit
    │   └── OpenChoice        a setting that is needed and cannot be guessed
    ├── DataError             a file or a table whose content cannot be used
    │   └── InvalidMolecule   one molecule that cannot become a graph
    ├── DivergedError         a training whose loss is no longer finite
    ├── ModelError            a model folder that is incomplete, damaged or too new
    └── StorageError          a place that cannot be read or written, or a full disk

The command line prints the message alone and exits with the class's `exit_code`: 2 for a wrong
request, 1 for one that failed. It prints a `DataWarning` on standard error.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

__all__ = [
    "ConfigError",
    "DataError",
    "DataWarning",
    "DivergedError",
    "InvalidMolecule",
    "ModelError",
    "MolsepnormError",
    "OpenChoice",
    "StorageError",
    "counted",
    "did_you_mean",
    "first_of",
    "listed",
    "prefixed",
    "require_several",
    "separated",
    "warn_of_data",
]


class MolsepnormError(Exception):
    """The base class of all errors. Its arguments are the lines of the message, which may quote
    text with line breaks."""

    exit_code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class ConfigError(MolsepnormError, ValueError):
    """A setting, option, column or name that does not exist or does not fit."""

    exit_code = 2


class OpenChoice(ConfigError):
    """A setting that is needed and cannot be guessed."""


class DataError(MolsepnormError, ValueError):
    """A file or a table whose content cannot be used."""


class InvalidMolecule(DataError):
    """One molecule that cannot become a graph; the message is the reason, fit for a table cell."""


class DivergedError(MolsepnormError):
    """A training whose loss or outputs are no longer finite numbers."""


class ModelError(MolsepnormError):
    """A model folder that is incomplete, damaged or written by a newer molsepnorm."""


class DataWarning(UserWarning):
    """A table was read in a way that should be checked."""


def warn_of_data(message: str) -> None:
    """Issue a `DataWarning`."""
    warnings.warn(message, DataWarning, stacklevel=2)


class StorageError(MolsepnormError, OSError):
    """A place that cannot be read or written, or a full disk."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the nearest known one, and all.

    >>> did_you_mean("dropuot", ["dropout", "layers"])
    "Did you mean 'dropout'? Known: dropout, layers."
    >>> did_you_mean("x", ["IC50, nM", "pH"])
    "Known: 'IC50, nM', pH."
    """
    known = sorted(known)
    by_lower = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"Did you mean '{by_lower[nearest[0]]}'? " if nearest else ""
    return f"{hint}Known: {separated(known)}."


def separated(names: Iterable[str], mark: str = ",") -> str:
    """Return names separated by a mark, and in quotation marks if they have the mark themselves.

    >>> separated(["IC50, nM", "pH"]), separated(["IC50, nM", "pH"], ";")
    ("'IC50, nM', pH", 'IC50, nM; pH')
    """
    return f"{mark} ".join(f"'{name}'" if mark in name else name for name in names)


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, for a message.

    >>> counted(1, "row"), counted(0, "row"), counted(1200, "class")
    ('1 row', '0 rows', '1,200 classes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def first_of(names: Sequence[str], limit: int, mark: str = ",") -> str:
    """Return the first names, separated by a mark, and the number of the others, for a message.

    >>> first_of(["a", "b", "c"], 3), first_of(["a", "b", "c", "d", "e"], 3)
    ('a, b, c', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separated(names[:limit], mark) + more


def listed(names: Sequence[str]) -> str:
    """Return all names, for a message.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = names
    return f"{', '.join(others)}{' and ' * bool(others)}{last}"


def require_several(values: object, name: str) -> None:
    """Raise a `ConfigError` if the argument `name` is a text, a mapping, a table, a set or no
    iterable: Python would iterate over characters, keys or column names.

    >>> require_several("CCO", "smiles")
    Traceback (most recent call last):
    molsepnorm.errors.ConfigError: smiles must be a list, and is one text: write ['CCO']
    """
    if isinstance(values, str | bytes | bytearray):
        shown = repr(values) if len(values) <= 60 else f"{values[:59]!r}…"
        raise ConfigError(f"{name} must be a list, and is one text: write [{shown}]")
    if isinstance(values, Mapping) or getattr(values, "ndim", 1) != 1:
        raise ConfigError(
            f"{name} must be a list, and is a {type(values).__name__}: pass one column of it, "
            "such as table['smiles']"
        )
    if isinstance(values, set | frozenset):
        raise ConfigError(f"{name} is a set, which has no order: pass a list")
    if not isinstance(values, Iterable):
        raise ConfigError(f"{name} must be a list; got {values!r}")


@contextmanager
def prefixed(where: object) -> Iterator[None]:
    """Prefix the messages of errors in the block with where they happened.

    >>> with prefixed("runs/a"):
    ...     raise ConfigError("no such split")
    Traceback (most recent call last):
    molsepnorm.errors.ConfigError: runs/a: no such split
    """
    try:
        yield
    except MolsepnormError as error:
        if str(error).startswith(str(where)):
            raise
        first, *more = error.lines
        raise type(error)(f"{where}: {first}", *more) from error

"""Check the SMILES and feature columns that are given to a `Predictor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from molsepnorm.errors import ConfigError, require_several
from molsepnorm.predict.encode import Row
from molsepnorm.tasks import require_same_order, with_text_names

if TYPE_CHECKING:
    import pandas as pd

Cells: TypeAlias = "pd.DataFrame | Mapping[str, Iterable[Any]]"
"""The cells of feature columns, by name."""

_END = object()  # of a shorter list


def checked_rows(
    smiles: Iterable[str], columns: Cells | None, names: Sequence[str]
) -> Iterator[Row]:
    """Check the arguments of `Predictor.predict`, and return the rows for `Prepare`.

    Args:
        smiles, columns: as for `Predictor.predict`.
        names: the feature columns of the model.

    Raises:
        ConfigError: as for `Predictor.predict`.
    """
    from molsepnorm.molecules.featurize.sdf import written

    require_several(smiles, "smiles")
    if columns is not None:
        _require_table(columns)
        columns = with_text_names(columns)
    require_same_order(smiles=smiles, columns=columns)
    require_feature_columns(names, columns, "columns")
    texts = map(written, python_values(smiles))
    if columns is None:
        return texts
    for name in names:
        require_several(columns[name], f"columns['{name}']")
    return _with_cells(texts, [python_values(columns[name]) for name in names])


def require_feature_columns(
    names: Sequence[str], columns: Iterable[str] | None, source: str
) -> None:
    """Raise a `ConfigError` unless the feature columns of a model are among these columns.

    Args:
        names: the feature columns of the model.
        columns: names of the columns that the source has; None if it has only SMILES.
        source: name of the source in errors.
    """
    if not names and columns is not None:
        raise ConfigError("the model has no feature columns: predict from the SMILES alone")
    found = [] if columns is None else [*columns]
    if missing := [name for name in names if name not in found]:
        raise ConfigError(
            f"the model reads the feature columns {', '.join(names)}, and {source} has no column "
            f"{', '.join(missing)}: use a table that has all of them"
        )


def python_values(values: Any) -> Any:
    """Return a pyarrow array or a tensor as a list of Python values, and other values unchanged."""
    if isinstance(values, torch.Tensor):
        return values.tolist()
    return values.to_pylist() if hasattr(values, "to_pylist") else values


def _require_table(columns: object) -> None:
    """Raise a `ConfigError` unless the feature columns are a mapping or of pandas."""
    if not isinstance(columns, Mapping) and not hasattr(columns, "iloc"):
        raise ConfigError(
            "columns must be a pandas DataFrame or a mapping from names to cells, such as "
            f"{{'pH': table['pH']}}; got a {type(columns).__name__}"
        )


def _with_cells(smiles: Iterable[str], cells: Sequence[Iterable[Any]]) -> Iterator[Row]:
    """Yield each SMILES with its cells."""
    for row in zip_longest(smiles, *cells, fillvalue=_END):
        if any(each is _END for each in row):
            raise ConfigError("smiles and the feature columns have different lengths")
        yield row

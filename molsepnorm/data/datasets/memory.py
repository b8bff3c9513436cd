"""`memory_dataset`: a data set from molecules and labels in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns, configured_kind
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import with_splits
from molsepnorm.data.datasets.table import Rows
from molsepnorm.data.tables.columns import require_column
from molsepnorm.errors import ConfigError, InvalidMolecule, counted, require_several
from molsepnorm.files.tables import free_name
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.further import first_molecule
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.molecules.molecule import MolGraph

_SMILES, _MOL, GRAPH, _DATA = "SMILES", "RDKit molecule", "MolGraph", "PyTorch Geometric Data"
_KINDS = {  # by class; RDKit and PyTorch Geometric are not imported to recognise theirs
    "builtins.str": _SMILES,
    "rdkit.Chem.rdchem.Mol": _MOL,
    "molsepnorm.molecules.molecule.MolGraph": GRAPH,
    "torch_geometric.data.data.Data": _DATA,
}
_TIMES = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period")
"""Types of cells, as pandas calls them."""


def label_table(y: Any, targets: Sequence[str] | None = None) -> pd.DataFrame:
    """Return labels as a table with one column per target; a `ConfigError` if `y` has another
    shape, or the names do not fit it.

    Args:
        y: an array or nested list (G,) or (G, T), or a pandas Series or DataFrame. Masked entries,
            None and NaN are missing labels.
        targets: names of the columns; of a DataFrame, the columns to predict.
    """
    if isinstance(y, pd.DataFrame):
        table = y.set_axis([str(name) for name in y.columns], axis=1)
        for name in targets or ():
            require_column(table.columns, name, "y")
        return (table if targets is None else table[list(targets)]).reset_index(drop=True)
    if isinstance(y, pd.Series):
        targets = targets or (None if y.name is None else [str(y.name)])
        table = y.reset_index(drop=True).to_frame()
    else:
        try:
            array = np.asarray(_unmasked(y))
        except ValueError:
            raise ConfigError("y must have shape (G,) or (G, T); its rows differ") from None
        if array.ndim not in (1, 2):
            raise ConfigError(f"y must have shape (G,) or (G, T); got {array.shape}")
        if array.dtype.kind == "U":  # NumPy writes NaN among words as the word "nan"
            missing = pd.isna(np.asarray(_unmasked(y), dtype=object))
            array = array.astype(object)
            array[missing] = None
        table = pd.DataFrame(array)
    width = table.shape[1]
    if targets is None:
        targets = ["y"] if width == 1 else [f"y{i + 1}" for i in range(width)]
    if isinstance(targets, str) or len(targets) != width:
        raise ConfigError(f"y has {counted(width, 'column')}, and targets names {list(targets)}")
    return table.set_axis(list(targets), axis=1)


def memory_dataset(
    molecules: Iterable[Any],
    labels: pd.DataFrame,
    config: DataConfig,
    encoding: EncodingSpec,
    *,
    weights: Any = None,
    errors: Any = None,
    features: pd.DataFrame | Mapping[str, Any] | None = None,
    splits: Mapping[str, Any] | None = None,
    bond_offset: int | None = None,
) -> Dataset:
    """Encode molecules and combine them with labels of `label_table`; arguments as for
    `molsepnorm.fit`.

    Raises:
        ConfigError: the molecules are of several types, or an argument does not fit another.
        DataError: a molecule cannot be read, or a label does not fit its target.
    """
    arguments = {"splits_column": "splits", "time_column": "splits"}
    arguments |= {"weight_column": "weights", "error_column": "errors"}
    for name, argument in arguments.items():
        if getattr(config, name) is not None:
            raise ConfigError(
                f"data.{name} is a column of a file: pass the argument {argument} for molecules"
            )
    require_several(molecules, "molecules")
    listed = list(molecules)
    kind = kind_of(listed)
    table = pd.DataFrame({name: _cells(labels[name], name, config) for name in labels})
    _require_length("y", table, listed)
    for name in config.features:
        features = features if features is not None else {}
        require_column([*features], name, "the argument feature_columns")
        _require_length(f"feature column '{name}'", features[name], listed)
        table[name] = _texts(_unmasked(features[name]))
    if weights is not None:
        column = pd.Series(np.asarray(_unmasked(weights), dtype=object).ravel())
        _require_length("weights", column, listed)
        name = free_name("weights", table.columns, "_")
        table[name] = _cells(column, name, config)
        config = config.model_copy(update={"weight_column": name})
    if errors is not None:
        of_labels = label_table(errors, [*labels])
        _require_length("errors", of_labels, listed)
        columns = {name: free_name(f"{name}_error", table.columns, "_") for name in labels}
        for name, column in columns.items():
            table[column] = _cells(of_labels[name], column, config)
        config = config.model_copy(update={"error_column": columns})
    roles = Columns.of(table, config)
    rows = Rows.read(roles, np.float32).without_refusals()
    texts: list[str] | None = None
    if kind == _SMILES:
        texts = [*map(first_molecule, map(str, listed), *map(roles.cells, config.molecules))]
    elif kind == _MOL:
        from molsepnorm.molecules.featurize.sdf import mol_to_smiles

        texts = list(map(mol_to_smiles, listed))
    if splits is not None and config.split_type != "random":
        raise ConfigError(
            f"data.split_type: {config.split_type} and the argument splits both define the split: "
            "keep one"
        )
    for what, is_needed in (
        (f"data.split_type: {config.split_type}", splits is None and not config.draws_molecules),
        (f"data.standardize: {config.standardize}", config.standardize != "none"),
    ):
        if texts is None and is_needed:
            raise ConfigError(f"{what} needs SMILES or RDKit molecules; got {kind}")
    standard = None if texts is None else standardized(texts, config.standardize)
    graphs: Iterable[MolGraph | InvalidMolecule] = listed
    if standard is not None:
        graphs = featurize.get(config.featurizer).stream(standard)
    elif kind == _DATA:
        graphs = _from_data(listed, bond_offset, config.featurizer)
    dataset = rows.dataset(graphs, encoding, source_smiles=texts, smiles=standard)
    return with_splits(dataset, roles, splits)


def _unmasked(values: Any) -> Any:
    """Return a masked array with None for its masked entries, and other values unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    cells = values.data.astype(object)
    cells[np.ma.getmaskarray(values)] = None
    return cells


def _texts(cells: Iterable[Any]) -> list[str]:
    return ["" if pd.isna(cell) else str(cell) for cell in cells]


def _require_length(name: str, rows: Sized, molecules: Sized) -> None:
    if (count := len(rows)) != len(molecules):
        raise ConfigError(f"{name} has {count:,} rows, and there are {len(molecules):,} molecules")


def kind_of(molecules: Sequence[Any]) -> str:
    """Return the name of the type of the molecules; a `ConfigError` if there are none, or of
    several types or another type."""
    first = None
    for number, molecule in enumerate(molecules):
        names = (f"{base.__module__}.{base.__qualname__}" for base in type(molecule).__mro__)
        kind = next((_KINDS[name] for name in names if name in _KINDS), None)
        if kind is None:
            raise ConfigError(
                f"molecule {number}: {type(molecule).__name__} is not one of "
                f"{', '.join(_KINDS.values())}"
            )
        first = first or kind
        if kind != first:
            raise ConfigError(
                f"molecule {number} is a {kind}, but molecule 0 is a {first}: pass one type"
            )
    if first is None:
        raise ConfigError("molecules is an empty list")
    return first


def _cells(column: pd.Series, name: str, config: DataConfig) -> pd.Series:
    """Return numbers as they are, and other cells as text. Dates and durations are a
    `ConfigError`."""
    if pd.api.types.infer_dtype(column) in _TIMES:
        raise ConfigError(
            f"'{name}' holds dates or durations: pass numbers, such as days, or names of classes"
        )
    classes = name in config.classes or configured_kind(name, config) == "multiclass"
    if column.dtype.kind in "biuf" and column.notna().any() and not classes:
        return column.astype(np.float64)
    return pd.Series(_texts(column), dtype=object)


def _from_data(
    molecules: Sequence[Any], bond_offset: int | None, featurizer: str
) -> Iterator[MolGraph | InvalidMolecule]:
    from molsepnorm.molecules.featurize.pyg import featurized

    for number, data in enumerate(molecules):
        try:
            yield featurized(data, bond_offset, featurizer)
        except ConfigError as error:
            raise ConfigError(f"molecule {number}: {error}") from None
        except InvalidMolecule as error:
            yield error

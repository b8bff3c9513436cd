"""Rows of SMILES and feature columns, checked and encoded as a model needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from molsepnorm.data.batching import size_sorted_batches
from molsepnorm.errors import ConfigError, InvalidMolecule, require_several
from molsepnorm.model import ExtraArrays, PropertyModel
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import (
    EncodedGraphs,
    EncodingSpec,
    encode,
    require_graphs,
)
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import ExtraInputs, require_same_order, with_text_names

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = tuple[Any, ...]
"""A SMILES, the cells of the model's feature columns, and anything else that belongs to the row."""

Cells: TypeAlias = "pd.DataFrame | Mapping[str, Iterable[Any]]"
"""The cells of feature columns, by name."""

_END = object()  # of a shorter column

_GROUP = {"cpu": 128, "cuda": 1024}
"""Number of molecules of similar size that are encoded and run together. On a CPU it is small, so
that their arrays fit into its cache and their path vocabulary is small."""

Group = tuple[np.ndarray, EncodedGraphs, ExtraArrays]
"""Rows of some molecules, int64 [g], the encoded molecules, and their other inputs."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """R SMILES, the valid ones encoded."""

    errors: list[str | None]
    """For each SMILES the reason why it is invalid, or None."""
    groups: list[Group]
    """The valid ones, sorted by size."""
    nearest: np.ndarray | None = None
    """int64 [R, 1 + T]: index of the most similar training molecule, and of the most similar one
    with a label of each target; None if it is not wanted."""
    similarity: np.ndarray | None = None
    """float64 [R, 1 + T]: Tanimoto similarity to these molecules, NaN for invalid SMILES."""
    outside: np.ndarray | None = None
    """bool [R, columns]: see `ExtraInputs.outside`; None if the model has no feature columns."""
    further: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """See `MoleculeColumns.nearest`, by column of further molecules."""
    alerts: np.ndarray | None = None
    """object [R]: the structural alerts as text, see `alerts_text`; None if they are not wanted."""


def checked_rows(
    smiles: Iterable[Any], columns: Cells | None, names: Sequence[str], ordered: bool = False
) -> Iterator[Row]:
    """Check the arguments of `Predictor.predict`, and return the rows; `ordered` adds the order of
    the atoms to each, see `atoms_in_smiles`."""
    require_several(smiles, "smiles")
    if columns is not None:
        if not isinstance(columns, Mapping) and not hasattr(columns, "iloc"):
            raise ConfigError(
                "columns must be a pandas DataFrame or a mapping from names to cells, such as "
                f"{{'pH': table['pH']}}; got a {type(columns).__name__}"
            )
        columns = with_text_names(columns)
    require_same_order(smiles=smiles, columns=columns)
    require_feature_columns(names, columns, "columns")
    cells = []
    for name in names:
        assert columns is not None
        require_several(columns[name], f"columns['{name}']")
        cells.append(_python_values(columns[name]))
    return _rows(_python_values(smiles), cells, ordered)


def _rows(molecules: Iterable[Any], cells: Sequence[Iterable[Any]], ordered: bool) -> Iterator[Row]:
    from molsepnorm.molecules.featurize.further import first_molecule
    from molsepnorm.molecules.featurize.sdf import atoms_in_smiles, written

    for row in zip_longest(molecules, *cells, fillvalue=_END):
        if any(each is _END for each in row):
            raise ConfigError("smiles and the feature columns have different lengths")
        molecule, *its = row
        if ordered:
            text, order = atoms_in_smiles(molecule)
            yield text, *its, order
        else:
            yield first_molecule(written(molecule), *its), *its


def _python_values(values: Any) -> Any:
    """Return a pyarrow array or a tensor as a list of Python values, and other values unchanged."""
    if isinstance(values, torch.Tensor):
        return values.tolist()
    return values.to_pylist() if hasattr(values, "to_pylist") else values


def require_feature_columns(
    names: Sequence[str], columns: Iterable[str] | None, source: str
) -> None:
    """Raise a `ConfigError` unless the feature columns of a model are among the columns of a
    source, which are None if it has only SMILES."""
    if not names and columns is not None:
        raise ConfigError("the model has no feature columns: predict from the SMILES alone")
    found = [] if columns is None else [*columns]
    if missing := [name for name in names if name not in found]:
        raise ConfigError(
            f"the model reads the feature columns {', '.join(names)}, and {source} has no column "
            f"{', '.join(missing)}: use a table that has all of them"
        )


def require_further(inputs: ExtraInputs, named: Sequence[str]) -> None:
    """Raise a `ConfigError` unless a model reads the columns of further molecules that are named
    beside that of the SMILES."""
    known = [column.name for column in inputs.columns if column.components]
    if unknown := [name for name in named if name not in known]:
        names = f"the further molecules {', '.join(known)}" if known else "one molecule of each row"
        raise ConfigError(
            f"--smiles-column names '{unknown[0]}', and the model reads {names}: name the columns "
            "as in the training table"
        )


class Prepare:
    """Encodes rows as the model needs them, in groups for the device of its network.

    Args:
        smiles_order: encode the atoms in the order of the SMILES, which takes longer. Otherwise the
            featuriser chooses their order.
        molecules: training molecules to compare with.
        alerts: add the structural alerts.

    Raises:
        ConfigError: `smiles_order`, and the model standardises structures.
    """

    def __init__(
        self,
        model: PropertyModel,
        device: torch.device,
        smiles_order: bool = False,
        molecules: TrainingMolecules | None = None,
        alerts: bool = False,
    ) -> None:
        if smiles_order and model.standardize != "none":
            raise ConfigError(
                f"the model standardises structures ({model.standardize}), so its atoms are not "
                "those of the SMILES: embed whole molecules instead"
            )
        self._featurizer = featurize.get(model.featurizer)
        self._standardize = model.standardize
        self._inputs = model.inputs
        self._further = model.molecules
        self._smiles_order = smiles_order
        self._molecules = molecules
        self._alerts = alerts
        self._spec = model.encoding
        self._atom_sizes = model.network.config.atom_sizes
        self._group = _GROUP.get(device.type, _GROUP["cuda"])

    def __call__(self, rows: Sequence[Row]) -> EncodedRows:
        smiles = standardized([row[0] for row in rows], self._standardize)
        made, structures = self._read(smiles)
        cells = [[row[index + 1] for row in rows] for index in range(len(self._inputs.columns))]
        vectors = None if self._further is None else self._further.vectors
        columns, wrong = self._inputs.encode_columns(cells, len(rows), vectors)
        errors = [
            str(each) if isinstance(each, InvalidMolecule) else error
            for each, error in zip(made, wrong, strict=True)
        ]
        nearest = similarity = None
        further: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}
        if self._molecules is not None:
            nearest, similarity, further = self._compare(self._molecules, smiles, cells, errors)
        valid = np.array([row for row, error in enumerate(errors) if error is None], dtype=int)
        graphs = [made[row] for row in valid]
        extra = structures._replace(columns=columns)
        groups = [
            (valid[index], encoded, extra.of(valid[index]))
            for index, encoded in encoded_groups(graphs, self._spec, self._atom_sizes, self._group)
        ]
        outside = self._inputs.outside(columns) if self._inputs.columns else None
        alerts = _alerts([row[0] for row in rows], errors) if self._alerts else None
        return EncodedRows(errors, groups, nearest, similarity, outside, further, alerts)

    def _compare(
        self,
        known: TrainingMolecules,
        smiles: Sequence[str],
        cells: Sequence[Sequence[Any]],
        errors: list[str | None],
    ) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Return the most similar training molecules, and the similarities, see `EncodedRows`, of
        the SMILES and of further molecules. Add the errors of rows without a fingerprint."""
        from molsepnorm.molecules.featurize.fingerprints import nearest_molecules

        arrays = known.smiles, known.fingerprints, self._standardize, known.compared
        nearest, similarity, reasons = nearest_molecules(smiles, *arrays)
        for row, reason in enumerate(reasons):
            if reason is not None and errors[row] is None:
                errors[row] = f"it cannot be compared with the training molecules: {reason}"
        further, by_name = {}, dict(zip(self._inputs.names, cells, strict=True))
        for name, distinct in known.distinct_further.items():
            assert self._further is not None
            further[name] = self._further.nearest(name, by_name[name], *distinct)
        return nearest, similarity, further

    def _read(self, smiles: Sequence[str]) -> tuple[list[MolGraph | InvalidMolecule], ExtraArrays]:
        """Return a graph or an error for each SMILES, and the fingerprint counts and descriptors
        that the model reads; those of errors are 0."""
        from molsepnorm.molecules.featurize.descriptors import structure_inputs
        from molsepnorm.molecules.featurize.smiles import RECENT

        read = self._inputs.morgan > 0, self._inputs.descriptors, self._inputs.pairs > 0
        made: list[MolGraph | InvalidMolecule] = []
        parts = []
        for start in range(0, len(smiles) or 1, RECENT):  # RDKit then reads each SMILES once
            part = smiles[start : start + RECENT]
            graphs = self._graphs(part)
            valid = [not isinstance(graph, InvalidMolecule) for graph in graphs]
            found = structure_inputs(list(compress(part, valid)), *read)
            arrays = [np.zeros((len(part), each.shape[1]), each.dtype) for each in found]
            for array, values in zip(arrays, found, strict=True):
                array[valid] = values
            made += graphs
            parts.append(arrays)
        counts, descriptors, pairs = map(np.concatenate, zip(*parts, strict=True))
        return made, ExtraArrays(counts, descriptors, pairs, np.zeros((len(smiles), 0)))

    def _graphs(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        if not self._smiles_order:
            return self._featurizer.many(smiles)
        from molsepnorm.molecules.featurize.atom_order import in_smiles_order

        return in_smiles_order(self._featurizer, smiles)


def _alerts(smiles: Sequence[str], errors: Sequence[str | None]) -> np.ndarray:  # object (R,)
    """Return the structural alerts of the rows without an error; those of others are empty."""
    from molsepnorm.molecules.alerts import alerts_text

    pairs = zip(smiles, errors, strict=True)
    return np.array([alerts_text(t) if e is None else "" for t, e in pairs], dtype=object)


def encoded_groups(
    graphs: Sequence[MolGraph],
    spec: EncodingSpec,
    atom_sizes: tuple[int, ...],
    group: int = _GROUP["cpu"],
) -> list[tuple[np.ndarray, EncodedGraphs]]:
    """Encode molecules in groups of similar size; groups of large molecules are smaller.

    Raises:
        ConfigError: one is no `MolGraph`, or its features do not fit, as in `encode`.
    """
    require_graphs(graphs)
    sizes = np.array([graph.num_atoms for graph in graphs], dtype=np.int64)
    return [
        (index, encode([graphs[i] for i in index], spec, atom_sizes, index))
        for index in size_sorted_batches(np.arange(len(graphs)), sizes, group)
    ]

"""`MoleculeColumns`: the vectors of further molecules of a row, such as a solvent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.model.parts.network import encoding_of, infer
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, encode
from molsepnorm.molecules.featurize.further import as_one_molecule, components, standard_cells
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import scaling, standardised
from molsepnorm.tasks import FeatureColumn
from molsepnorm.tasks.inputs import cell_text

_MAX_FITTED = 10_000  # molecules whose principal components are computed
_MAX_KNOWN = 100_000  # vectors that are kept
_BLOCK = 256  # molecules that are encoded together
_PARTS = "mean", "scale", "basis"  # of a projection


@dataclass(frozen=True, eq=False)
class MoleculeColumns:
    r"""Maps the molecules of columns of SMILES to vectors, which all parts of a model read.

    .. math:: u = B^T \, (x - \mu) / \sigma

    x are the embedding of the molecule by a network whose weights do not change, and its
    `FAST_DESCRIPTORS`. μ and σ are their mean and standard deviation over the training molecules of
    the column, and B are their principal components, so that the root mean square of the distance
    between two of these molecules is 1. With 2, errors of absorption maxima of dyes in solvents
    were almost the same for new dyes, and larger for new solvents. Embedding and descriptors have
    the same weight.
    """

    network: Graphormer | None
    """It is read out after every layer, and stays on the CPU; None without embeddings."""
    featurizer: str
    standardize: Level
    projections: Mapping[str, tuple[Tensor, Tensor, Tensor]]
    """μ (F,), σ (F,) and B (F, w) of each column, float32. B is 0 for the input that says that
    there is no molecule."""
    known: dict[tuple[str, str], np.ndarray | str] = field(default_factory=dict, repr=False)
    """By column and cell, vectors that were computed before, or why a cell has none."""

    @staticmethod
    def fit(
        columns: Sequence[FeatureColumn],
        cells: Mapping[str, Iterable[object]],
        network: Graphormer | None,
        featurizer: str,
        standardize: Level,
    ) -> MoleculeColumns:
        """Fit the projection of each column to the distinct molecules of its training cells."""
        empty = MoleculeColumns(network, featurizer, standardize, {})
        projections = {}
        for column in columns:
            texts = sorted({*empty.keys(column.name, cells[column.name])} - {""})
            if len(texts) > _MAX_FITTED:
                texts = np.random.default_rng(0).choice(texts, _MAX_FITTED, replace=False).tolist()
            features, errors = empty.features(texts)
            read = np.array([error is None for error in errors])
            if read.sum() < 2:
                raise DataError(
                    f"column '{column.name}' has {read.sum()} different molecules in the training "
                    "rows, and 2 are needed: leave it out"
                )
            projections[column.name] = _projection(
                torch.from_numpy(features[read]), column, empty._widths
            )
        return MoleculeColumns(network, featurizer, standardize, projections)

    def keys(self, name: str, cells: Iterable[object]) -> list[str]:
        """Return the canonical SMILES of each cell; "" for an empty or invalid one."""
        texts = [*map(cell_text, cells)]
        found = standard_cells(name, filter(None, texts), self.standardize)
        return [key if isinstance(key := found.get(text), str) else "" for text in texts]

    def vectors(
        self, name: str, cells: Sequence[str]
    ) -> tuple[np.ndarray, list[str | None]]:  # float32 (n, w)
        """Return the vectors of the cells of a column, and why a cell has none; see
        `ExtraInputs.encode_columns`. Each molecule is encoded once."""
        if len(self.known) > _MAX_KNOWN:
            self.known.clear()
        new = [cell for cell in dict.fromkeys(cells) if (name, cell) not in self.known]
        standard = standard_cells(name, new, self.standardize)
        texts = [*dict.fromkeys(text for text in standard.values() if isinstance(text, str))]
        features, errors = self.features(texts)
        vectors = dict(zip(texts, self.projected(name, features), strict=True))
        wrong = dict(zip(texts, errors, strict=True))
        for cell, text in standard.items():
            if isinstance(text, InvalidMolecule):
                self.known[name, cell] = str(text)
            elif wrong[text] is not None:
                self.known[name, cell] = f"'{cell:.80}' in column '{name}': {wrong[text]}"
            else:
                self.known[name, cell] = vectors[text]
        found = [self.known[name, cell] for cell in cells]
        none = np.zeros(self.widths[name], dtype=np.float32)
        values = [none, *(none if isinstance(each, str) else each for each in found)]
        return np.stack(values)[1:], [each if isinstance(each, str) else None for each in found]

    def nearest(
        self, name: str, cells: Iterable[object], known: Sequence[str], bits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:  # float64 (n,), object (n,)
        """Return the Tanimoto similarity of each cell of a column to the most similar of the known
        molecules, and the SMILES of that molecule; NaN and "" for an empty or invalid cell. `bits`
        are the fingerprints of the known molecules, see `packed_morgan`."""
        from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan

        keys = self.keys(name, cells)
        texts = [*dict.fromkeys(filter(None, keys))]
        index, similarity = nearest(packed_morgan(map(as_one_molecule, texts)), bits)
        itself = {*known}
        near = {
            text: (1.0, text) if text in itself else (float(value), known[place])
            for text, place, value in zip(texts, index, similarity, strict=True)
        }
        pairs = [near.get(key, (np.nan, "")) for key in keys]
        values, nearest_smiles = zip(*pairs, strict=True) if pairs else ((), ())
        return np.array(values, dtype=np.float64), np.array(nearest_smiles, dtype=object)

    @property
    def widths(self) -> dict[str, int]:
        """Number of components of the vectors, by column."""
        return {name: basis.shape[1] for name, (*_, basis) in self.projections.items()}

    @property
    def _widths(self) -> list[int]:
        from molsepnorm.molecules.featurize.descriptors import FAST_DESCRIPTORS

        own = [] if self.network is None else [self.network.layers_width]
        return [*own, len(FAST_DESCRIPTORS)]

    def projected(self, name: str, features: np.ndarray) -> np.ndarray:  # (n, F) -> (n, w)
        """Return the vectors of a column, float32, for embeddings and descriptors; NaN is the mean
        over the training molecules."""
        mean, scale, basis = self.projections[name]
        found = standardised(torch.from_numpy(features), mean, scale).double() @ basis.double()
        return found.float().numpy()

    def features(
        self, cells: Sequence[str]
    ) -> tuple[np.ndarray, list[InvalidMolecule | None]]:  # float32 (n, F)
        """Return the embedding and the descriptors of cells as `standard` returns them: of a
        mixture the mean over its components, weighted by their shares."""
        mixtures = [components(cell) for cell in cells]
        smiles = [*dict.fromkeys(text for mixture in mixtures for _, text in mixture)]
        found, errors = self._of_molecules(smiles)
        place = {text: row for row, text in enumerate(smiles)}
        features = np.zeros((len(cells), found.shape[1]), dtype=np.float32)
        wrong: list[InvalidMolecule | None] = [None] * len(cells)
        for row, mixture in enumerate(mixtures):
            for share, text in mixture:
                features[row] += share * found[place[text]]
                wrong[row] = wrong[row] or errors[place[text]]
        return features, wrong

    def _of_molecules(
        self, smiles: Sequence[str]
    ) -> tuple[np.ndarray, list[InvalidMolecule | None]]:  # float32 (n, F)
        """Return the embedding and the descriptors of molecules, NaN where missing, and errors of
        molecules that the featuriser cannot read."""
        from molsepnorm.molecules.featurize.descriptors import FAST_DESCRIPTORS, structure_inputs

        features = np.zeros((len(smiles), sum(self._widths)), dtype=np.float32)
        errors: list[InvalidMolecule | None] = [None] * len(smiles)
        for row, text in enumerate(smiles):
            try:
                described = structure_inputs([text], False, FAST_DESCRIPTORS, False)[1]
                features[row, -len(FAST_DESCRIPTORS) :] = described[0]
            except InvalidMolecule as error:
                errors[row] = error
        if self.network is None:
            return features, errors
        config = self.network.config
        made = dict[int, MolGraph]()
        for row, graph in enumerate(featurize.get(self.featurizer).many(smiles)):
            if isinstance(graph, InvalidMolecule):
                errors[row] = graph
            else:
                made[row] = graph
        rows = sorted(made, key=lambda row: made[row].num_atoms)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            graphs = encode([made[row] for row in block], encoding_of(config), config.atom_sizes)
            features[block, : self.network.layers_width] = self.embedded(graphs)
        return features, errors

    def embedded(self, graphs: EncodedGraphs) -> np.ndarray:  # float32 (n, R)
        """Return the embeddings of molecules by the network, which must not be None."""
        assert self.network is not None
        tensors, every = GraphTensors.of(graphs), np.arange(len(graphs))
        return infer(self.network, tensors, every, call=self.network.embed_layers).numpy()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a model folder holds beside the network."""
        return {
            f"{name}.{part}": tensor
            for name, tensors in self.projections.items()
            for part, tensor in zip(_PARTS, tensors, strict=True)
        }

    @staticmethod
    def from_state(
        tensors: Mapping[str, Tensor],
        network: Graphormer | None,
        featurizer: str,
        standardize: Level,
    ) -> MoleculeColumns:
        """Return the columns with this state; any error means that the state is damaged."""
        projections = {}
        for name in {key.rpartition(".")[0]: None for key in tensors}:
            mean, scale, basis = (tensors[f"{name}.{part}"] for part in _PARTS)
            if not len(mean) == len(scale) == len(basis):
                raise ValueError(f"the projection of the column '{name}' has several sizes")
            projections[name] = mean, scale, basis
        return MoleculeColumns(network, featurizer, standardize, projections)


def _projection(
    features: Tensor, column: FeatureColumn, widths: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return μ, σ and B for the features of different molecules; `widths` are those of the
    embedding and the descriptors."""
    mean, scale = scaling(features)
    weights = torch.cat([torch.full((width,), width**-0.5) for width in widths]).double()
    x = standardised(features, mean, scale).double() * weights
    _, sizes, directions = torch.linalg.svd(x - x.mean(dim=0), full_matrices=False)
    # the molecules do not differ in the other directions: forests would read rounding errors
    count = min(column.components - (column.fill is not None), int((sizes > 1e-3 * sizes[0]).sum()))
    spread = 2 * sizes[:count].square().sum() / len(x)  # mean square of the distance of two
    basis = torch.zeros(len(weights), column.components, dtype=torch.float64)
    basis[:, :count] = weights[:, None] * directions[:count].T * spread.clamp(min=1e-12).rsqrt()
    return mean, scale, basis.float()

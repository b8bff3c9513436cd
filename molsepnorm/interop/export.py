"""Export trained models as ONNX, which maps tensors to predictions.

`DenseModel` is a whole model as PyTorch operations on padded tensors. `dense_inputs` and
`encode_table` make its inputs from SMILES. `export_onnx` writes it as a file.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm._version import __version__
from molsepnorm.data.tables import read_chunks
from molsepnorm.data.tables.formats import ReadOptions, locate
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.files.writing import replacing, require_empty, write_json
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart, networks_of
from molsepnorm.model.parts.forest import Trees
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, SELF
from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable
from molsepnorm.nn.dropout import Dropout
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.local import GINE
from molsepnorm.nn.molecule_features import KeepsFloat32
from molsepnorm.nn.pairs.bias import AttentionBias, by_head, label_embeddings
from molsepnorm.nn.pairs.neighbours import PairTensors
from molsepnorm.nn.parts import Parts
from molsepnorm.nn.readout import FastReadout
from molsepnorm.optional import require_package
from molsepnorm.predict import Predictor
from molsepnorm.predict.encode import Cells, Prepare, Row, checked_rows
from molsepnorm.predict.tables import TableRows
from molsepnorm.tasks import Task

__all__ = [
    "DenseGraphormer",
    "DenseInputs",
    "DenseModel",
    "ExportReport",
    "dense_inputs",
    "dynamic_shapes",
    "export_onnx",
]

_NO_BOND = -1e30  # its message is 0 after the ReLU


class DenseModel(nn.Module):
    """The parts of a model, their weighted mean, and the scales of its targets.

    The columns of the result are those of `molsepnorm predict`: a value in the unit of the table,
    or an uncalibrated probability of class 1 or of a class; NaN if the output of a network is not
    finite. The networks are copied.

    Raises:
        ConfigError: the model has no targets, or a part of a class that is not in this package.
    """

    def __init__(self, model: PropertyModel) -> None:
        super().__init__()
        model.require_targets()
        if names := ", ".join(model.inputs.predicted):
            raise ConfigError(
                f"auxiliary models compute inputs of this one ({names}), and it cannot be "
                "exported: use molsepnorm predict"
            )
        forms: dict[type, type[nn.Module]]
        forms = {NetworkPart: _DenseHead, KernelPart: _DenseKernel, Forest: DenseForest}
        used = [part for part, w in zip(model.parts, model.weights, strict=True) if w.any()]
        for part in used:
            if type(part) not in forms:
                raise ConfigError(f"a model with the part '{part.kind}' cannot be exported")
        networks = networks_of(used)
        self.networks = nn.ModuleList(map(DenseGraphormer, networks))
        self.channels = [max(p.channels for p in used if p.network is each) for each in networks]
        self.places = [networks.index(part.network) if part.network else None for part in used]
        self.parts = nn.ModuleList(forms[type(part)](part) for part in used)
        weights = model.task.by_output(model.weights[model.weights.any(axis=1)])
        self.mean = _Mean(torch.from_numpy(weights))
        self.reads = [part.reads.widths for part in used]
        self.widths = model.encoding.molecule_features, *model.inputs.widths
        self.task = model.task

    def forward(
        self,
        atoms: Tensor,
        degrees: Tensor,
        mask: Tensor,
        distances: Tensor,
        paths: Tensor,
        neighbours: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:  # float32 (B, O)
        """Return the predictions for the inputs that docs/export.md describes."""
        graphs = atoms, degrees, mask, distances, paths, neighbours
        features = mask[:, :0].float() if features is None else features
        own, *extra = features.split(self.widths, dim=1)
        networks: Iterable[Any] = self.networks
        pairs = zip(networks, self.channels, strict=True)
        read = [each.network.embed_layers(each.batch(*graphs), count) for each, count in pairs]
        found = []
        for part, place, widths in zip(self.parts, self.places, self.reads, strict=True):
            others = [array[:, :width] for array, width in zip(extra, widths, strict=True)]
            found.append(part(self.task, None if place is None else read[place], own, others))
        mean = self.mean(torch.stack(found))  # (B, O)
        columns = []
        for target, its in zip(self.task.targets, self.task.columns(), strict=True):
            values, transform = mean[:, its], target.transformation
            if transform is not None:
                values = torch.pow(10.0, transform.sign * (values - transform.offset))
            columns.append(values)
        return torch.cat(columns, dim=1)


class DenseGraphormer(nn.Module):
    """A copy of a Graphormer for inference, from padded tensors to one row of outputs per molecule.

    The shapes of its operations depend only on the number of molecules B and of atoms N, so it can
    be exported and compiled as a whole. It stays in evaluation mode.
    """

    hops: Tensor

    def __init__(self, network: Graphormer) -> None:
        super().__init__()
        config = network.config
        self.network = empty_network(config, _DENSE).to(network.embedding.atoms)
        self.network.load_state_dict(deepcopy(network.state_dict()), assign=True)
        self.network.pair_encoding.has_local = False  # the input has the neighbours
        self.network.requires_grad_(False)
        hops = torch.arange(-SELF, config.max_distance + 1).clamp(min=0)
        self.register_buffer("hops", hops.to(network.embedding.atoms.device), persistent=False)
        self.eval()

    def train(self, mode: bool = True) -> DenseGraphormer:
        return super().train(False)

    def forward(self, *encoded: Any, **named: Any) -> Tensor:  # (B, O)
        """Return the outputs for the arguments of `batch`, in the precision of the weights."""
        return self.network(self.batch(*encoded, **named))

    def batch(
        self,
        atoms: Tensor,  # int (B, N, A)
        degrees: Tensor,  # int (B, N)
        mask: Tensor,  # bool (B, N)
        distances: Tensor,  # int (B, N, N)
        paths: Tensor,  # int (B, N, N, L)
        neighbours: Tensor | None = None,  # int (B, N, D)
        features: Tensor | None = None,  # float (B, F)
    ) -> GraphBatch:
        """Return the padded tensors that docs/export.md describes as a batch of the network.

        Raises:
            ConfigError: the network reads neighbours or features, and they are missing.
        """
        graphs, slots = mask.shape[0], mask.shape[1] + 1
        keys = F.pad(mask, (1, 0), value=True)  # (B, S)
        # a code for each distance, where the network has one for each path
        codes = F.pad(distances + SELF, (1, 0, 1, 0), value=GRAPH_TOKEN)
        starts = torch.arange(graphs, device=mask.device) * slots
        bonds, hops = None, self.hops
        if neighbours is not None:
            labels = paths[..., 0].gather(2, neighbours.clamp(min=0).long()) * (neighbours >= 0)
            bonded = starts[:, None, None] + 1 + neighbours
            bonds = tuple(F.pad(x, (0, 0, 1, 0)).flatten(0, 1) for x in (bonded, labels))
        return _DenseBatch(
            graph_token=starts,
            atoms=F.pad(atoms, (0, 0, 1, 0)).flatten(0, 1),
            degrees=F.pad(degrees, (1, 0)).flatten(),
            mask=F.pad(mask, (1, 0)).flatten(),
            pairs=codes.masked_fill(~keys[:, None], PADDING).flatten(),
            groups=(PaddedGroup(graphs, slots),),
            paths=PathTable(hops, hops, hops, hops, hops, 0),  # only the distances are read
            max_bonds=0,
            features=features,
            labels=F.pad(paths, (0, 0, 1, 0, 1, 0)).flatten(0, 2),
            bonds=bonds,
        )


@dataclass(eq=False)
class _DenseBatch(GraphBatch):
    """Molecules with bond labels of paths instead of codes of a vocabulary."""

    labels: Tensor | None = None
    """int [P, L]: bond labels of each pair's path, counted from 1, then 0."""
    bonds: tuple[Tensor, ...] | None = None
    """int [M, D] each: the slots of bonded atoms, and bond labels from 1; 0 without a bond."""


class _DenseBias(AttentionBias):
    def forward(self, batch: GraphBatch) -> list[Tensor]:
        assert isinstance(batch, _DenseBatch) and batch.labels is not None
        terms = torch.einsum("lhk,ek->leh", self.positions, label_embeddings(self.bonds))
        terms = F.pad(terms, (0, 0, 1, 0))  # (L, 1 + K, H), label 0 adds nothing
        bias = F.embedding(batch.labels[:, 0], terms[0])  # (P, H)
        for position in range(1, self.max_path_length):
            bias = bias + F.embedding(batch.labels[:, position], terms[position])
        bias = bias / (batch.labels > 0).sum(-1, keepdim=True).clamp(min=1).to(bias.dtype)
        padding = torch.full_like(self.graph_token, -torch.inf)
        special = torch.stack([padding, self.graph_token, self.unreachable])
        table = torch.cat([special, self.spatial])
        return by_head(bias + F.embedding(batch.pairs, table), batch)


class _DenseGINE(GINE):
    def forward(self, y: Tensor, x: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:
        assert isinstance(batch, _DenseBatch)
        if batch.bonds is None:
            raise ConfigError(
                "the network reads neighbours, which are missing: make the inputs by "
                "molsepnorm.interop.export.dense_inputs from the same model"
            )
        slots, labels = batch.bonds
        embeddings = F.pad(label_embeddings(self.bonds), (0, 0, 1, 0), value=_NO_BOND)  # (1 + K, C)
        messages = F.embedding(slots, x) + F.embedding(labels, embeddings)
        sums = torch.relu(messages).sum(dim=1) + (1 + self.epsilon) * x
        return y + self.mlp_out(F.gelu(self.mlp_in(sums))) * batch.mask[:, None]


_DENSE = Parts(BiasedSelfAttention, _DenseGINE, _DenseBias, FastReadout, Dropout)


class _DenseHead(nn.Module):
    def __init__(self, part: NetworkPart) -> None:
        super().__init__()
        own = part.network.molecule_features, part.network.head
        self.features, self.head = (deepcopy(each).requires_grad_(False) for each in own)
        self.channels = part.channels

    def forward(self, task: Task, read: Tensor, own: Tensor, extra: Sequence[Tensor]) -> Tensor:
        last = self.features(read[:, -self.channels :], torch.cat([own, *extra], dim=1))
        return task.predictions(self.head(last))


class _DenseKernel(nn.Module):
    def __init__(self, part: KernelPart) -> None:
        super().__init__()
        self.regression, self.channels = part.regression, part.channels

    def forward(self, task: Task, read: Tensor, own: Tensor, extra: Sequence[Tensor]) -> Tensor:
        return task.predictions(self.regression(read[:, -self.channels :], *extra))


class _Mean(KeepsFloat32):
    """The mean over the parts, with weights (P, O)."""

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, values: Tensor) -> Tensor:  # (P, B, O) -> (B, O)
        return (self.weights[:, None] * values).sum(dim=0)


class DenseForest(KeepsFloat32):
    """A `Forest` without branches that depend on the data."""

    medians: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.targets = nn.ModuleList(map(_DenseTrees, forest.targets))
        self.register_buffer("medians", torch.from_numpy(forest.medians))

    def forward(
        self, task: Task, read: None, own: Tensor, extra: Sequence[Tensor]
    ) -> Tensor:  # float32 (B, O)
        inputs = torch.cat([*extra], dim=1)
        inputs = torch.where(inputs.isnan(), self.medians, inputs)
        return torch.cat([trees(inputs) for trees in self.targets], dim=1)


class _DenseTrees(KeepsFloat32):
    """The trees of one target, evaluated together to the depth of the deepest one. Leaves are
    numbered after the inner nodes; a leaf is its own child."""

    roots: Tensor
    features: Tensor
    thresholds: Tensor
    branches: Tensor
    values: Tensor

    def __init__(self, trees: Trees) -> None:
        super().__init__()
        self.inner, leaves = len(trees.features), len(trees.values)
        leaf = -1 - np.arange(leaves)
        children = np.concatenate([trees.children, np.stack([leaf, leaf], axis=1)])
        roots, children = (
            np.where(nodes < 0, self.inner - 1 - nodes, nodes).astype(np.int64)
            for nodes in (trees.roots, children)
        )
        arrays = {
            "roots": roots,
            "features": np.pad(trees.features, (0, leaves)).astype(np.int64),
            "thresholds": np.pad(trees.thresholds, (0, leaves)),
            "branches": children,
            "values": trees.values,
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array))
        self.levels, nodes = 0, roots
        while len(nodes := nodes[nodes < self.inner]):
            nodes, self.levels = children[nodes].ravel(), self.levels + 1

    def forward(self, inputs: Tensor) -> Tensor:  # (B, F) -> (B, W)
        nodes = self.roots.expand(inputs.shape[0], -1)  # (B, R)
        for _ in range(self.levels):
            larger = inputs.gather(1, self.features[nodes]) > self.thresholds[nodes]
            nodes = torch.where(larger, self.branches[nodes, 1], self.branches[nodes, 0])
        return self.values[nodes - self.inner].mean(dim=1)


# --- inputs ---

_OF_ATOMS, _OF_PAIRS = ("molecules", "atoms"), ("molecules", "atoms", "atoms")
INPUTS = {
    "atoms": ("int32", _OF_ATOMS, "atom features; 0 in padding"),
    "degrees": ("int32", _OF_ATOMS, "number of bonds, at most max_degree; 0 in padding"),
    "mask": ("bool", _OF_ATOMS, "true at atoms, false at padding"),
    "distances": (
        *("int32", _OF_PAIRS),
        "number of bonds between atoms, at most max_distance; -1 in padding and between fragments",
    ),
    "paths": (
        *("int32", _OF_PAIRS),
        "label of each bond on the canonical shortest path, counted from 1; 0 after the last",
    ),
    "neighbours": ("int32", ("molecules", "atoms", "bonds"), "indices of bonded atoms, then -1"),
    "features": ("float32", ("molecules",), "molecule-level features, not standardised"),
}
"""Name -> type, dimensions of any size, and meaning, in the order of the arguments."""

_ROWS = 64  # in a file, which drug-like molecules fill with some megabytes


@dataclass(frozen=True, eq=False)
class DenseInputs:
    """B molecules as padded arrays."""

    arrays: dict[str, np.ndarray]
    """By name: see `DenseGraphormer.forward` and `input_shapes`."""
    rows: np.ndarray
    """int64 [B]: for each molecule the index of its SMILES."""
    errors: list[str | None]
    """For each SMILES the reason why it is left out, or None."""


class Encoded(NamedTuple):
    """The numbers of molecules and files that `encode_table` wrote, and the rejected rows."""

    molecules: int
    files: int
    rejected: list[str]
    """Place of each row without a molecule, and the reason."""


def input_shapes(model: PropertyModel) -> dict[str, tuple[str | int, ...]]:
    """Return the shape of every input by name, in the order of the arguments."""
    config = model.network.config
    features = model.encoding.molecule_features + model.inputs.width
    shapes: dict[str, tuple[str | int, ...]] = {name: each[1] for name, each in INPUTS.items()}
    shapes["atoms"] += (len(config.atom_sizes),)
    shapes["paths"] += (config.max_path_length,)
    shapes["features"] += (features,)
    if not features:
        del shapes["features"]
    if all(network.config.local == "none" for network in networks_of(model.parts)):
        del shapes["neighbours"]
    return shapes


def dynamic_shapes(arrays: Iterable[str]) -> dict[str, dict[int, Any]]:
    """Return the dimensions of any size of the arrays, for `torch.export.export`."""
    sizes = {name: torch.export.Dim(name) for name in ("molecules", "atoms", "bonds")}
    return {name: dict(enumerate(map(sizes.get, INPUTS[name][1]))) for name in arrays}


def dense_inputs(
    model: PropertyModel, smiles: Iterable[str], columns: Cells | None = None
) -> DenseInputs:
    """Encode molecules for `DenseModel` and its exports; arguments as for `Predictor.predict`.

    Memory grows with the square of the largest number of atoms: encode some hundred molecules at a
    time.
    """
    return _encoded(model, [*checked_rows(smiles, columns, model.inputs.names)])


def _encoded(model: PropertyModel, rows: Sequence[Row]) -> DenseInputs:
    prepared = Prepare(model, torch.device("cpu"))(rows)
    valid = np.array([i for i, error in enumerate(prepared.errors) if error is None], np.int64)
    sizes = {
        "molecules": len(valid),
        "atoms": max((int(graphs.sizes.max()) for _, graphs, _ in prepared.groups), default=1),
        "bonds": max((graphs.max_bonds for _, graphs, _ in prepared.groups), default=1) or 1,
    }
    arrays = {
        name: np.full(
            [sizes[size] if isinstance(size, str) else size for size in shape],
            -1 if name in ("distances", "neighbours") else 0,
            INPUTS[name][0],
        )
        for name, shape in input_shapes(model).items()
    }
    for of_group, graphs, extra in prepared.groups:
        places = np.searchsorted(valid, of_group)
        _fill(arrays, places, graphs)
        if "features" in arrays:
            own = [] if graphs.features is None else [graphs.features]
            arrays["features"][places] = np.hstack([*own, extra.stacked()])
    return DenseInputs(arrays, valid, prepared.errors)


def _fill(arrays: dict[str, np.ndarray], rows: np.ndarray, graphs: EncodedGraphs) -> None:
    bonds = graphs.paths.bonds_of_all() + 1  # (V, L'): 0 where there is no bond
    depths = np.where(np.arange(len(bonds)) < SELF, -1, graphs.paths.depths)
    atom = pair = 0
    for row, size in zip(rows, graphs.sizes, strict=True):
        inside = slice(atom, atom + size)
        codes = graphs.pairs[pair : pair + size**2].reshape(size, size)
        arrays["atoms"][row, :size] = graphs.atoms[inside]
        arrays["degrees"][row, :size] = graphs.degrees[inside]
        arrays["mask"][row, :size] = True
        arrays["distances"][row, :size, :size] = depths[codes]
        arrays["paths"][row, :size, :size, : bonds.shape[1]] = bonds[codes]
        if "neighbours" in arrays:
            own, other = np.nonzero(depths[codes] == 1)
            rank = np.arange(len(own)) - np.searchsorted(own, own)
            arrays["neighbours"][row, own, rank] = other
        atom, pair = atom + size, pair + size**2


def encode_table(
    model: PropertyModel,
    source: Path,
    folder: Path | str,
    options: ReadOptions = ReadOptions(),  # noqa: B008
) -> Encoded:
    """Write the inputs of an exported model for the molecules of a table, in batches.

    The folder gets `00001.npz`, `00002.npz`, …, each for up to 64 rows of the table, in its order.
    A file has the arrays of `dense_inputs`, `smiles` [B], and `rows`, int64 [B], the index of each
    molecule's row. Rows with an invalid SMILES are left out.
    """
    require_empty(folder, "the export")
    names = model.inputs.names
    chunks = read_chunks(source, rows=_ROWS, options=options, numbers=names)
    table = TableRows(chunks, options.smiles_column, str(source))
    table.check(names)
    molecules = files = 0
    rejected: list[str] = []
    with replacing(folder, folder=True) as scratch:
        rows, done = iter(table), 0
        while batch := [*islice(rows, _ROWS)]:
            inputs = _encoded(model, batch)
            indices, done = done + inputs.rows, done + len(batch)
            rejected += [
                f"{locate(source, row[-2])}: {error}"
                for row, error in zip(batch, inputs.errors, strict=True)
                if error is not None
            ]
            if not len(inputs.rows):
                continue
            molecules, files = molecules + len(inputs.rows), files + 1
            np.savez_compressed(
                scratch / f"{files:05}.npz",
                smiles=np.array([batch[row][0] for row in inputs.rows]),
                rows=indices,
                **inputs.arrays,  # type: ignore[arg-type]
            )
        if not molecules:
            raise DataError(f"{source} has no molecule that can be encoded. {rejected[0]}")
    return Encoded(molecules, files, rejected)


# --- files ---

_FILE, _ABOUT, _EXAMPLE = "model.onnx", "model.json", "example.npz"
_OPSET = 18  # version of ONNX's operators, which onnxruntime 1.14 and later read
_TOLERANCE = 1e-3  # of the predictions, in `ExportReport.unit`
_TRAINING = 64  # number of training molecules that are compared
_SIZES = ("atom_sizes", "bond_sizes", "max_degree", "max_distance", "max_path_length")
"""Fields of the network's configuration that the encoding depends on."""

Run = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Returns the predictions (B, O) for inputs by name."""

MOLECULES = (
    *("C", "CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "Cn1c(=O)c2c(ncn2C)n(C)c1=O"),
    *("C[C@H](N)C(=O)O", "F/C=C/Cl", "CC(=O)[O-].C[NH3+]", "C1CC2CCC1C2", "N#Cc1ccc(Cl)c(Br)c1"),
    *("CC12CCC3C(CCC4=CC(=O)CCC34C)C1CCC2O", "O=S(=O)(N)c1ccc(F)cc1", "C" * 50),
)
"""Molecules on which an export is traced and checked, with rings, stereo centres, charges and two
fragments. Those that a featuriser cannot read are left out."""


@dataclass(frozen=True)
class ExportReport:
    """The check of an export against `Predictor`."""

    file: Path
    molecules: int
    """Number of molecules that were compared."""
    difference: float
    """Largest difference of a prediction, in `unit`."""
    unit: ClassVar[str] = "standard deviations of the labels, or probability"
    """Values are compared on the learned scale."""


def check_export(folder: Path | str) -> None:
    """Raise a `ConfigError` if a package is missing or `folder` is the name of a file, and a
    `StorageError` if the folder holds files."""
    folder = Path(folder)
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require_package(name, "onnx", "the export to ONNX")
    if folder.suffix in (".onnx", ".json"):
        raise ConfigError(
            f"{folder} is the name of a file, and an export is a folder with {_FILE}, {_ABOUT} and "
            f"{_EXAMPLE}: give the name of a folder"
        )
    require_empty(folder, "the export")


def export_onnx(model: PropertyModel, folder: Path | str) -> ExportReport:
    """Write a model as ONNX into a new or empty folder.

    It gets `model.onnx`, `model.json` with the inputs and outputs, and `example.npz` with encoded
    molecules and their predictions. The exported model is compared with `Predictor` on built-in
    molecules and up to 64 training molecules, which are not written.

    Raises:
        ConfigError: as `check_export`, or the model has no dense form (see `DenseModel`).
        ModelError: the exported file differs from the model.
        StorageError: the folder cannot be written.
    """
    check_export(folder)
    dense = DenseModel(model).cpu()
    predictor = Predictor(model)
    example = dense_inputs(model, MOLECULES, _cells(model, len(MOLECULES)))
    if len(example.rows) < 2:  # a single one would fix the size of a batch
        reason = next(filter(None, example.errors))
        raise ConfigError(
            f"the featuriser '{model.featurizer}' can read {len(example.rows)} of the molecules "
            f"that an export is checked with, and at least 2 are needed: {reason}"
        )
    with replacing(folder, folder=True) as scratch:
        run = write_onnx(dense, example.arrays, scratch / _FILE)
        report = _compared(predictor, run, example, Path(folder) / _FILE)
        np.savez_compressed(
            scratch / _EXAMPLE,
            smiles=np.array([MOLECULES[row] for row in example.rows]),
            predictions=run(example.arrays),
            **example.arrays,  # type: ignore[arg-type]
        )
        write_json(scratch / _ABOUT, _about(model, report))
    return report


def write_onnx(dense: DenseModel, arrays: dict[str, np.ndarray], file: Path) -> Run:
    """Write a model as ONNX, traced with these inputs, and return a function that runs it."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's exporter writes about its own code
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                dense,
                f=file,
                kwargs={name: torch.from_numpy(array) for name, array in arrays.items()},
                dynamo=True,
                opset_version=_OPSET,
                dynamic_shapes=dynamic_shapes(arrays),
                input_names=list(arrays),
                output_names=["predictions"],
                external_data=False,
                verbose=False,
            )
    finally:
        logging.disable(level)
    return onnx_runner(file)


def onnx_runner(file: Path | str) -> Run:
    from onnxruntime import InferenceSession

    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda arrays: session.run(None, {name: arrays[name] for name in names})[0]


def _cells(model: PropertyModel, rows: int) -> dict[str, list[str]] | None:
    """Return cells of the model's feature columns, from the training words or ranges."""
    cells: dict[str, list[str]] = {}
    for column in model.inputs.columns:
        low, high = (1.0 if end is None else end for end in (column.low, column.high))
        numbers = (f"{number:.9g}" for number in np.linspace(low, high, max(rows, 2)))
        words = MOLECULES[:2] if column.components else column.words
        cells[column.name] = [*islice(cycle(words or numbers), rows)]
    return cells or None


def _compared(predictor: Predictor, run: Run, example: DenseInputs, file: Path) -> ExportReport:
    """Compare the exported model with the predictor, in batches and one by one."""
    model = predictor.model
    smiles = [MOLECULES[row] for row in example.rows]
    training = list(model.training_molecules().smiles[:_TRAINING]) if model.structures else []
    columns = [name for target in model.task.targets for name in target.output_columns]
    differences = []
    for batch in filter(None, (smiles, smiles[:1], smiles[-1:], training)):
        cells = _cells(model, len(batch))
        inputs = dense_inputs(model, batch, cells)
        expected = predictor.to_frame(batch, cells)[columns].to_numpy(np.float32)[inputs.rows]
        differences.append(_difference(model, run(inputs.arrays), expected))
    report = ExportReport(file, len(smiles) + len(training), float(np.max(differences)))
    if not report.difference <= _TOLERANCE:
        raise ModelError(
            f"the exported model differs from molsepnorm's predictions by {report.difference:.2g} "
            f"({report.unit}), where at most {_TOLERANCE:g} is expected; nothing was written. "
            "Please report this"
        )
    return report


def _difference(model: PropertyModel, found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of predictions (B, O), NaN if one is NaN. `expected` is on the
    learned scale."""
    largest = [0.0]
    for target, its in zip(model.task.targets, model.task.columns(), strict=True):
        values, learned = found[:, its], expected[:, its]
        if (transform := target.transformation) is None:
            rounding = 2 * np.spacing(np.abs(learned))  # of float32, for 2,000,000 ± 40
            difference = np.maximum(np.abs(values - learned) - rounding, 0)
        else:  # the value in the unit of the table may be 0 or infinity
            with np.errstate(divide="ignore", invalid="ignore"):
                difference = np.abs(transform.forward(values) - learned)
            difference[values == transform.inverse(learned)] = 0
        largest.append(difference.max(initial=0.0) / target.scale)
    return float(np.max(largest))


def _about(model: PropertyModel, report: ExportReport) -> dict[str, Any]:
    config, own = model.network.config, featurize.SIZES[model.featurizer]
    return {
        "molsepnorm": __version__,
        "format": "onnx",
        "opset": _OPSET,
        "inputs": [
            {"name": name, "type": INPUTS[name][0], "shape": shape, "meaning": INPUTS[name][2]}
            for name, shape in input_shapes(model).items()
        ],
        "output": {"name": "predictions", "type": "float32", "columns": _output_columns(model)},
        "encoding": {
            "featurizer": model.featurizer,
            "featurizer_version": own.version,
            "standardize": model.standardize,
            **{name: getattr(config, name) for name in _SIZES},
            "features": {"featurizer": len(own.molecule), **asdict(model.inputs)},
        },
        "check": {
            "molecules": report.molecules,
            "largest_difference": report.difference,
            "unit": report.unit,
        },
    }


def _output_columns(model: PropertyModel) -> list[dict[str, str]]:
    columns = []
    for target in model.task.targets:
        names, meanings = [target.prediction_column], ["value in the unit of the training table"]
        if target.kind == "binary":
            meanings = [f"probability of {target.positive_class}"]
        elif target.kind == "multiclass":
            names = target.output_columns
            meanings = [f"probability of {name}" for name in target.classes]
        columns += [
            {"name": name, "target": target.name, "kind": target.kind, "meaning": meaning}
            for name, meaning in zip(names, meanings, strict=True)
        ]
    return columns

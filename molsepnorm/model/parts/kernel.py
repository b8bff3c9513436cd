"""`KernelPart`: a kernel regression, which compares each molecule with training molecules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.model.parts.part import ExtraArrays, Inputs, Part, Predicted
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.molecule_features import KeepsFloat32, standardised
from molsepnorm.nn.parts import in_head
from molsepnorm.sepnorm.kernels import at_least_float32
from molsepnorm.tasks import ExtraInputs, Task

_GAMMA = 0.1
"""Square of the kernel's inverse length, per channel. Chosen by cross-validation over scaffolds of
ESOL, FreeSolv and BACE; from 0.03 to 0.2 little changes."""

_LEVELS = 4
"""Counts of a fingerprint above this number are compared as this number."""

_NEAREST = 5  # training molecules that the distance of a molecule depends on

_BLOCK = 256  # molecules that are compared at a time


class KernelRegression(KeepsFloat32):
    r"""Kernel ridge regression of standardised embeddings; `training.probe` fits it.

    .. math::

        y_o = b_o + \sum_m w_{om} \, f \, k(z, c_m), \qquad
        k(z, c) = m(z, c) + \tfrac{1}{2} m(x, x_c) + \tfrac{1}{2} t + \tfrac{1}{2} p, \qquad
        m(z, c) = (1 + d) e^{-d}, \quad d = \sqrt{3 \gamma / R} \, |z - c|

    with z the standardised embedding of R channels, c that of a training molecule, x and x_c their
    standardised descriptors (whose number then replaces R), and t and p the Tanimoto similarities
    of their Morgan and atom-pair counts. Terms of inputs that it does not read are left out.

    f is 1 without feature columns. Each column u, such as a temperature, is a factor

    .. math::

        1 - a + a \, (1 + d) e^{-d}, \qquad d = \sqrt{3} \, |u - u_c|

    with the standardised number or one-hot word u. A column of weight a = 0 has no effect, and with
    a = 1 molecules are compared only with those that were measured under similar conditions.

    The numbers are buffers, since they are solved for, not trained. They stay in float32: the
    weights of hundreds of centres cancel each other, so rounding them would shift the outputs.

    Source: the Matérn kernel of smoothness 3/2, Rasmussen and Williams, "Gaussian Processes for
    Machine Learning", 2006, eq. 4.17; the similarity of counts (MinMax kernel), Ralaivola et al.,
    "Graph kernels for chemical informatics", Neural Networks 2005, 18, 1093.

    Args:
        width: number of channels of the embedding (R).
        centers: number of training molecules that are compared (m).
    """

    mean: Tensor
    scale: Tensor
    centers: Tensor
    counts: Tensor
    descriptors: Tensor
    descriptor_mean: Tensor
    descriptor_scale: Tensor
    pairs: Tensor
    columns: Tensor
    column_mean: Tensor
    column_scale: Tensor
    column_weights: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, width: int, centers: int, outputs: int, reads: ExtraInputs) -> None:
        super().__init__()
        self.reads = reads
        counts, described, pairs, cells = reads.widths
        shapes = {
            "mean": (width,),
            "scale": (width,),
            "centers": (centers, width),
            "counts": (centers, counts),
            "descriptors": (centers, described),
            "descriptor_mean": (described,),
            "descriptor_scale": (described,),
            "pairs": (centers, pairs),
            "columns": (centers, cells),
            "column_mean": (cells,),
            "column_scale": (cells,),
            "column_weights": (len(reads.column_widths),),
            "weight": (outputs, centers),
            "bias": (outputs,),
        }
        for name, shape in shapes.items():
            dtype = torch.uint8 if name in ("counts", "pairs") else torch.float32
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
        self._known: dict[str, tuple[Tensor, int, TanimotoTo]] = {}

    def forward(self, embedded: Tensor, *extra: Tensor) -> Tensor:  # (B, outputs)
        """Return the outputs, in float32 or more, for the arguments of `compare`."""
        return self.outputs(self.compare(embedded, *extra))

    def outputs(self, kernel: Tensor) -> Tensor:  # (B, m) -> (B, outputs)
        """Return the outputs for the kernel between molecules and centres."""
        return kernel @ self.weight.T + self.bias

    def distance(self, kernel: Tensor) -> Tensor:  # (B, m) -> (B,)
        """Return how far each molecule is from the training molecules: 1 minus the mean kernel of
        the five nearest, relative to that of a molecule with itself."""
        nearest = kernel.topk(min(_NEAREST, kernel.shape[1]), dim=1).values.mean(1)
        terms = self.counts, self.descriptors, self.pairs
        return 1 - nearest / (1 + sum(each.shape[1] > 0 for each in terms) / 2)

    def compare(
        self, embedded: Tensor, counts: Tensor, descriptors: Tensor, pairs: Tensor, columns: Tensor
    ) -> Tensor:  # (B, m)
        """Return the kernel between molecules and centres.

        Args:
            embedded: (B, R), the embeddings.
            counts, descriptors, pairs, columns: (B, K), (B, D), (B, P) and (B, C), see
                `ExtraArrays`; each without channels if it is not read.
        """
        embedded = (at_least_float32(embedded) - self.mean) / self.scale
        kernel = matern(embedded, self.centers)
        if self.reads.morgan:
            kernel = kernel + self._similarities(counts, "counts") / 2
        if self.reads.descriptors:
            own = standardised(descriptors, self.descriptor_mean, self.descriptor_scale)
            kernel = kernel + matern(own, self.descriptors) / 2
        if self.reads.pairs:
            kernel = kernel + self._similarities(pairs, "pairs") / 2
        if self.reads.column_widths:
            cells = standardised(columns, self.column_mean, self.column_scale)
            widths = self.reads.column_widths
            parts = (each.split(widths, dim=1) for each in (cells, self.columns))
            for weight, own, other in zip(self.column_weights, *parts, strict=True):
                kernel = kernel * of_column(weight, own, other)
        return kernel

    def _similarities(self, counts: Tensor, name: str) -> Tensor:  # (B, m)
        """Return `tanimoto` to the training molecules, on a CPU by a table that is made once."""
        own = getattr(self, name)
        if own.device.type != "cpu" or torch.compiler.is_compiling():
            return tanimoto(counts, own)
        known = self._known.get(name)
        if known is None or known[0] is not own or known[1] != own._version:
            known = self._known[name] = own, own._version, TanimotoTo(own)
        return known[2](counts)


@dataclass(frozen=True, eq=False)
class KernelPart(Part):
    """A kernel regression of what a network reads out after its layers."""

    kind: ClassVar[str] = "kernel regression"
    in_spread: ClassVar[bool] = True
    network: Graphormer = field()
    regression: KernelRegression = field()

    @property
    def reads(self) -> ExtraInputs:  # type: ignore[override]
        """The inputs that the regression compares beside the embeddings."""
        return self.regression.reads

    @property
    def channels(self) -> int:  # type: ignore[override]
        return len(self.regression.mean)

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, rows: np.ndarray, task: Task, read: Tensor | None = None
    ) -> Predicted:
        """Return predictions, and the distances from the training molecules."""
        assert read is not None
        device = self.regression.weight.device
        outputs, distances = [], []
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            extra = compared(inputs.extra.of(rows[block]).read_by(self.reads))
            own = read[block, -self.channels :].to(device)
            kernel = self.regression.compare(own, *(each.to(device) for each in extra))
            outputs.append(self.regression.outputs(kernel).cpu())
            distances.append(self.regression.distance(kernel).cpu())
        values = task.predictions(torch.cat(outputs)).numpy()
        return Predicted(values, distance=torch.cat(distances).numpy())

    @property
    def modules(self) -> tuple[Graphormer, KernelRegression]:
        return self.network, self.regression

    @property
    def outputs(self) -> int:
        return len(self.regression.bias)

    def rescale(self, old: Task, new: Task) -> None:
        old.rescale_outputs(new, [self.regression.weight], self.regression.bias)

    def state(self) -> dict[str, Tensor]:
        tensors = self.regression.state_dict()
        for name in _COUNTS:
            tensors |= _sparse(name, tensors.pop(name))
        return tensors

    @staticmethod
    def from_state(
        tensors: Mapping[str, Tensor], reads: ExtraInputs, network: Graphormer | None = None
    ) -> KernelPart:
        own = dict(tensors)
        centers, width = own["centers"].shape
        regression = KernelRegression(width, centers, len(own["bias"]), reads)
        dense = {name: _dense(name, own, regression.get_buffer(name)) for name in _COUNTS}
        regression.load_state_dict(own | dense)
        if network is None or network.layers_width < width:
            raise ValueError(f"a regression reads {width} channels, and its network has fewer")
        return KernelPart(network, regression.eval())


def body_of(network: Graphormer, own: int) -> Graphormer:
    """Return a copy of a network without outputs, which reads the `own` first molecule-level
    features, those of the featuriser."""
    body = empty_network(replace(network.config, columns=0, molecule_features=own, outputs=0))
    state = {name: each for name, each in network.state_dict().items() if not in_head(name)}
    state = {n: e[:own] if n.startswith("molecule_features.") else e for n, e in state.items()}
    body.load_state_dict(state, strict=False)  # features are left out, too
    return body.to(network.embedding.graph_token.device).eval()


_COUNTS = "counts", "pairs"  # most of them are zero, so files have the others only
_PARTS = "numbers", "columns", "values"


def _sparse(name: str, counts: Tensor) -> dict[str, Tensor]:
    rows, columns = counts.nonzero(as_tuple=True)
    numbers = rows.bincount(minlength=len(counts)).int()
    parts = numbers, columns.short(), counts[rows, columns]
    return {f"{name}.{part}": each for part, each in zip(_PARTS, parts, strict=True)}


def _dense(name: str, tensors: dict[str, Tensor], empty: Tensor) -> Tensor:
    """Return the counts of `_sparse`, of the shape of `empty`, and remove their tensors."""
    numbers, columns, values = map(tensors.pop, (f"{name}.{part}" for part in _PARTS))
    rows = torch.arange(len(empty)).repeat_interleave(numbers)
    return torch.zeros_like(empty).index_put((rows, columns.long()), values)


def compared(extra: ExtraArrays) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return arrays as the tensors of a `KernelRegression`. Counts above 255 become 255; it
    compares smaller ones only."""
    counts, descriptors, pairs, columns = extra
    return (
        torch.from_numpy(np.minimum(counts, 255).astype(np.uint8)),
        torch.from_numpy(descriptors),
        torch.from_numpy(np.minimum(pairs, 255).astype(np.uint8)),
        torch.from_numpy(columns),
    )


def matern(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the kernel between standardised embeddings (n, R) and (m, R)."""
    return _matern_at(math.sqrt(_GAMMA / one.shape[1]) * _distances(one, other))


def of_column(weight: Tensor | float, one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the factor of a feature column for standardised cells (n, C) and (m, C)."""
    return 1 - weight + weight * _matern_at(_distances(one, other))


def _distances(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    if not torch.compiler.is_compiling():
        return torch.cdist(one, other)
    # ONNX has no cdist
    squares = one.square().sum(1, keepdim=True) + other.square().sum(1) - 2 * one @ other.T
    return squares.clamp(min=0).sqrt()


def _matern_at(distances: Tensor) -> Tensor:
    distances = math.sqrt(3) * distances
    return (1 + distances) * torch.exp(-distances)


def tanimoto(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the similarity Σ min(a, b) / Σ max(a, b) between counts (n, F) and (m, F)."""
    dtype = one.dtype if one.is_floating_point() else torch.float32
    levels = range(1, _LEVELS + 1)
    smaller = sum((one >= i).to(dtype) @ (other >= i).to(dtype).T for i in levels)
    total = one.clamp(max=_LEVELS).sum(1, dtype=dtype)[:, None]
    total = total + other.clamp(max=_LEVELS).sum(1, dtype=dtype)
    return smaller / (total - smaller).clamp(min=1)


class TanimotoTo:
    """Computes Tanimoto similarities of counts to those of fixed molecules.

    A molecule has few of thousands of counts, so the rows of a table are summed that belong to its
    counts, instead of multiplying matrices of zeros. All sums are of small integers and therefore
    exact, so the result is equal to that of `tanimoto`, bit by bit.
    """

    def __init__(self, counts: Tensor) -> None:
        reached = torch.cat([counts >= level for level in range(1, _LEVELS + 1)], dim=1)  # (m, L F)
        used = reached.any(0)
        self._table = F.pad(reached[:, used].T.float(), (0, 0, 0, 1))  # (rows + 1, m); last is zero
        rows = torch.where(used, used.cumsum(0) - 1, len(self._table) - 1)
        self._rows = rows.view(_LEVELS, -1)  # of level and count
        self._total = counts.clamp(max=_LEVELS).sum(1, dtype=torch.float32)

    def __call__(self, counts: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:  # (n, m)
        """Return the similarities of n molecules (n, F) to all fixed ones."""
        limited = counts.clamp(max=_LEVELS)
        molecules, columns = limited.nonzero(as_tuple=True)
        values = limited[molecules, columns]
        reached = [values >= level for level in range(1, _LEVELS + 1)]
        rows = torch.cat([each[columns[at]] for each, at in zip(self._rows, reached, strict=True)])
        order = torch.cat([molecules[at] for at in reached]).sort(stable=True)
        first = torch.searchsorted(order.values, torch.arange(len(counts)))
        smaller = F.embedding_bag(rows[order.indices], self._table, first, mode="sum").to(dtype)
        total = limited.sum(1, dtype=dtype)[:, None] + self._total
        return smaller / (total - smaller).clamp(min=1)

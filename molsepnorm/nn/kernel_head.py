"""An output head that compares each molecule with training molecules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.nn.molecule_features import KeepsFloat32
from molsepnorm.sepnorm.kernels import at_least_float32

_GAMMA = 0.1
"""Square of the kernel's inverse length, per channel. Chosen by cross-validation over scaffolds of
ESOL, FreeSolv and BACE; from 0.03 to 0.2 little changes."""


_LEVELS = 4
"""Counts of a fingerprint above this number are compared as this number."""


_NEAREST = 5
"""Number of training molecules that the distance of a molecule depends on."""


class KernelHead(KeepsFloat32):
    r"""Kernel ridge regression of standardised embeddings; `training.probe` fits it.

    .. math::

        y_o = b_o + \sum_m w_{om} \, f \, k(z, c_m), \qquad
        k(z, c) = m(z, c) + \tfrac{1}{2} m(x, x_c) + \tfrac{1}{2} t + \tfrac{1}{2} p, \qquad
        m(z, c) = (1 + d) e^{-d}, \quad d = \sqrt{3 \gamma / R} \, |z - c|

    with z the standardised embedding of R channels, c that of a training molecule, x and x_c their
    standardised descriptors (whose number then replaces R), and t and p the Tanimoto similarities
    of their Morgan and atom-pair counts. Without descriptors or counts, their terms are left out.

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
        width: number of channels of the input, columns, counts, descriptors and pairs included.
        centers: number of training molecules that are compared.
        outputs: number of outputs.
        columns: number of channels of each feature column; they follow the embedding in the input.
        counts: number of Morgan counts, which follow them.
        descriptors: number of standardised descriptors, which follow them.
        pairs: number of atom-pair counts, the last channels of the input.
        compares_counts: False to leave the Morgan counts out of the kernel.
    """

    mean: Tensor
    scale: Tensor
    centers: Tensor
    columns: Tensor
    column_weights: Tensor
    counts: Tensor
    descriptors: Tensor
    pairs: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        width: int,
        centers: int,
        outputs: int,
        columns: Sequence[int] = (),
        counts: int = 0,
        descriptors: int = 0,
        pairs: int = 0,
        compares_counts: bool = True,
    ) -> None:
        super().__init__()
        embedded = width - sum(columns) - counts - descriptors - pairs
        self.register_buffer("mean", torch.zeros(embedded))
        self.register_buffer("scale", torch.ones(embedded))
        self.register_buffer("centers", torch.zeros(centers, embedded))
        self.column_widths = tuple(columns)
        if columns:
            self.register_buffer("columns", torch.zeros(centers, sum(columns)))
            self.register_buffer("column_weights", torch.zeros(len(columns)))
        self.compares_counts = compares_counts and counts > 0
        if self.compares_counts:
            self.register_buffer("counts", torch.zeros(centers, counts, dtype=torch.uint8))
        self.compares_descriptors = descriptors > 0
        if self.compares_descriptors:
            self.register_buffer("descriptors", torch.zeros(centers, descriptors))
        self.compares_pairs = pairs > 0
        if self.compares_pairs:
            self.register_buffer("pairs", torch.zeros(centers, pairs, dtype=torch.uint8))
        self.sizes = embedded, sum(columns), counts, descriptors, pairs
        self._known: dict[str, tuple[Tensor, int, TanimotoTo]] = {}
        self.register_buffer("weight", torch.zeros(outputs, centers))
        self.register_buffer("bias", torch.zeros(outputs))

    def forward(self, read: Tensor) -> Tensor:  # (B, outputs)
        """Return the outputs for the input (B, width), in float32 or more, also under autocast."""
        with torch.autocast(read.device.type, enabled=False):
            return self._outputs(self._compare(read))

    def with_distance(self, read: Tensor) -> Tensor:  # (B, outputs + 1)
        """Return the outputs, and how far each molecule is from the training molecules.

        The distance is 1 minus the mean kernel of the five nearest, relative to that of a molecule
        with itself: 0 to 1.
        """
        with torch.autocast(read.device.type, enabled=False):
            kernel = self._compare(read)
            count = min(_NEAREST, kernel.shape[1])
            nearest = kernel.topk(count, dim=1).values.mean(1, keepdim=True)
            own = 1 + (self.compares_counts + self.compares_descriptors + self.compares_pairs) / 2
            return torch.cat([self._outputs(kernel), 1 - nearest / own], dim=1)

    def _outputs(self, kernel: Tensor) -> Tensor:  # (B, centers) -> (B, outputs)
        return kernel @ self.weight.T + self.bias

    def _compare(self, read: Tensor) -> Tensor:  # (B, centers)
        parts = at_least_float32(read).split(self.sizes, dim=1)
        embedded, columns, counts, descriptors, pairs = parts
        kernel = matern((embedded - self.mean) / self.scale, self.centers)
        if self.compares_counts:
            kernel = kernel + self._similarities(counts, "counts") / 2
        if self.compares_descriptors:
            kernel = kernel + matern(descriptors, self.descriptors) / 2
        if self.compares_pairs:
            kernel = kernel + self._similarities(pairs, "pairs") / 2
        if self.column_widths:
            parts = (each.split(self.column_widths, dim=1) for each in (columns, self.columns))
            for weight, own, other in zip(self.column_weights, *parts, strict=True):
                kernel = kernel * of_column(weight, own, other)
        return kernel

    def _similarities(self, counts: Tensor, name: str) -> Tensor:  # (B, centers)
        """Return `tanimoto` to the training molecules, on a CPU by a table that is made once."""
        own = getattr(self, name)
        if own.device.type != "cpu" or torch.compiler.is_compiling():
            return tanimoto(counts, own)
        known = self._known.get(name)
        if known is None or known[0] is not own or known[1] != own._version:
            known = self._known[name] = own, own._version, TanimotoTo(own)
        return known[2](counts)


def matern(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the kernel between standardised embeddings (n, R) and (m, R)."""
    return _matern_at(math.sqrt(_GAMMA / one.shape[1]) * _distances(one, other))


def of_column(weight: Tensor | float, one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the factor of a feature column for standardised cells (n, C) and (m, C)."""
    return 1 - weight + weight * _matern_at(_distances(one, other))


def _distances(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the distances between rows (n, R) and (m, R)."""
    if not torch.compiler.is_compiling():
        return torch.cdist(one, other)
    # ONNX has no cdist
    squares = one.square().sum(1, keepdim=True) + other.square().sum(1) - 2 * one @ other.T
    return squares.clamp(min=0).sqrt()


def _matern_at(distances: Tensor) -> Tensor:
    """Return the Matérn kernel at distances (…) relative to its length."""
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

    def __init__(self, counts: Tensor, levels: int = _LEVELS) -> None:
        reached = torch.cat([counts >= level for level in range(1, levels + 1)], dim=1)  # (m, L F)
        used = reached.any(0)
        self._levels = levels
        self._table = F.pad(reached[:, used].T.float(), (0, 0, 0, 1))  # (rows + 1, m); last is zero
        rows = torch.where(used, used.cumsum(0) - 1, len(self._table) - 1)
        self._rows = rows.view(levels, -1)  # of level and count
        self._total = counts.clamp(max=levels).sum(1, dtype=torch.float32)

    def __call__(self, counts: Tensor) -> Tensor:  # (n, F) -> (n, m)
        """Return the similarities of n molecules to all fixed ones, float64 for such counts, else
        float32."""
        dtype = torch.float64 if counts.dtype == torch.float64 else torch.float32
        limited = counts.clamp(max=self._levels)
        molecules, columns = limited.nonzero(as_tuple=True)
        values = limited[molecules, columns]
        reached = [values >= level for level in range(1, self._levels + 1)]
        rows = torch.cat([each[columns[at]] for each, at in zip(self._rows, reached, strict=True)])
        order = torch.cat([molecules[at] for at in reached]).sort(stable=True)
        first = torch.searchsorted(order.values, torch.arange(len(counts)))
        smaller = F.embedding_bag(rows[order.indices], self._table, first, mode="sum").to(dtype)
        total = limited.sum(1, dtype=dtype)[:, None] + self._total
        return smaller / (total - smaller).clamp(min=1)

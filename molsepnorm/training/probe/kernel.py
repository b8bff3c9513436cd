"""Kernel regression of all targets: an approximation chooses the kernel and the penalties, and the
exact solution follows unless the targets are too many for it. The weights of feature columns are
chosen before, on some hundred molecules.

`KernelRegression` defines the kernel. The approximation is the best regression among
combinations of the kernels of some molecules, the centres, which are drawn at random.

Source of the approximation: Rudi et al., "Less is More: Nyström Computational Regularization",
NeurIPS 2015, arXiv 1507.04717.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from molsepnorm.model import ExtraArrays, PropertyModel
from molsepnorm.model.parts import KernelPart
from molsepnorm.model.parts.kernel import (
    KernelRegression,
    TanimotoTo,
    body_of,
    compared,
    matern,
    of_column,
)
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import scaling, standardised
from molsepnorm.tasks import ExtraInputs, Target, Task
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.ridge import (
    SMALL,
    Embedded,
    LinearModel,
    invert,
    ridge_of_targets,
    solve_targets,
)

_MAX_CENTERS = 1500
"""Number of training molecules that an approximate kernel regression compares. With at most as many
molecules it is exact."""
_MAX_OPERATIONS = 1e13
"""Maximum of the cubed numbers of labelled molecules, over the targets, in an exact kernel
regression: four minutes of a core. Regression targets with labels for the same molecules and the
same penalty count once."""
_MAX_DECOMPOSED = 2e11
"""Maximum of the cubed numbers of compared molecules, over the targets with labels for different
molecules, in an approximate kernel regression: with 59 or more of them it compares fewer than
`_MAX_CENTERS` molecules."""
_BLOCK, _CENTERS = 128, 2000
"""Number of molecules whose kernel with a number of centres is computed at a time."""
_COLUMN_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MOLECULE_WEIGHTS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Weights of columns of molecules. A solvent may change a quantity by a tenth of its spread, so a
hundredth of its variance depends on the column."""
_MAX_WEIGHED = 800
"""Maximum number of molecules with which the weights of feature columns are chosen."""
_MAX_WEIGHING = 4e9
"""Maximum of their cubed number, times that of the columns, over the targets with labels for
different molecules: tens of seconds of a core."""


class Compared(NamedTuple):
    """The features of n molecules that a kernel compares beside their embeddings; those that it
    does not compare have no columns."""

    counts: Tensor
    """uint8 (n, K): Morgan counts."""
    descriptors: Tensor
    """(n, D): standardised descriptors."""
    pairs: Tensor
    """uint8 (n, P): atom-pair counts."""
    columns: Tensor
    """(n, C): the standardised cells of the feature columns."""
    reads: ExtraInputs
    """The inputs, which say what the columns are."""
    column_weights: Sequence[float] | None = None
    """Weight of each column; None if the weights are still to be chosen."""

    def of(self, molecules: np.ndarray) -> Compared:
        """Return the features of some of the molecules, given by their indices."""
        counts, descriptors, pairs, columns = (each[molecules] for each in self[:4])
        return Compared(counts, descriptors, pairs, columns, *self[4:])

    @property
    def each_column(self) -> tuple[Tensor, ...]:
        """The cells of each feature column, in double precision."""
        return self.columns.double().split(self.reads.column_widths, dim=1)


class Regression(NamedTuple):
    """A kernel regression of all targets."""

    centers: np.ndarray
    """int64 (m,): which of the embedded molecules are compared."""
    compared: Compared
    """The features of all embedded molecules that are compared, too."""
    weight: np.ndarray
    """float64 (O, m)."""
    bias: np.ndarray
    """float64 (O,)."""
    penalties: list[float]
    """Penalty of each target."""
    error: float
    """Mean over the targets of the leave-one-out error, relative to the labels' variance."""
    left_out: np.ndarray
    """float64 (n, O): see `LinearModel.left_out`; NaN where it has none."""


def kernel_regression(
    embedded: Embedded, task: Task, compared: Compared, needs_counts: bool
) -> Regression:
    """Return the kernel regression of all targets; unless it needs counts, the one without them if
    its leave-one-out error is smaller.

    With more than `_MAX_CENTERS` molecules, the choice of the kernel and of the penalties uses the
    approximation. The result is then the exact solution with this kernel and these penalties, or
    the approximation if the targets are too many. The weights of feature columns are chosen with
    all features; see `_column_weights`.
    """
    if compared.column_weights is None:
        weights = _column_weights(embedded, task, compared)
        compared = compared._replace(column_weights=weights)
    choices = [compared]
    if not needs_counts:
        counts, pairs = compared.counts[:, :0], compared.pairs[:, :0]
        choices.insert(0, compared._replace(counts=counts, pairs=pairs))
    found = min((_approximate(embedded, task, each) for each in choices), key=lambda r: r.error)
    return _exact(found, embedded, task) if len(found.centers) < len(embedded.inputs) else found


def _approximate(embedded: Embedded, task: Task, compared: Compared) -> Regression:
    """Return the regression by one kernel on at most `_MAX_CENTERS` molecules, or fewer if many
    kernels are decomposed. The penalties are chosen."""
    chosen = np.arange(len(embedded.inputs))
    most = min(_MAX_CENTERS, int(np.cbrt(_MAX_DECOMPOSED / _num_decomposed(embedded, task))))
    if len(chosen) > most:
        chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
    models, basis = _solve(_kernel(embedded, compared, chosen), chosen, task, embedded)
    return Regression(
        chosen,
        compared,
        np.concatenate([model.slopes for model in models]) @ basis.T,
        np.concatenate([model.offsets for model in models]),
        [model.penalty for model in models],
        _error(models),
        np.hstack([model.left_out for model in models]),
    )


def _solve(
    kernel: np.ndarray, chosen: np.ndarray, task: Task, embedded: Embedded
) -> tuple[list[LinearModel], np.ndarray]:
    """Return a regression of each target on p combinations of the kernels of chosen molecules (m,),
    and the combinations (m, p). The kernel (n, m) is that of all molecules with the chosen ones."""
    values, vectors = np.linalg.eigh(kernel[chosen])
    large = values > SMALL * values[-1]
    basis = vectors[:, large] / np.sqrt(values[large])
    return ridge_of_targets(kernel @ basis, task, embedded), basis


def _error(models: Sequence[LinearModel]) -> float:
    return float(np.mean([model.error for model in models]))


def _num_decomposed(embedded: Embedded, task: Task) -> int:
    """Return how many kernels are decomposed: regression targets with labels for the same molecules
    and equal weights share one. The weights of classes depend on the labels."""
    numbers = zip(task.targets, embedded.weights_of_labels, strict=True)
    return len({_shares_kernel(target, row) for target, row in numbers})


def _shares_kernel(target: Target, weights: np.ndarray) -> tuple[bytes, str]:
    """Return what two targets have in common if they share a weighted kernel; `weights` (n,) are
    those of the labels, 0 where missing."""
    return weights.tobytes(), "" if target.kind == "regression" else target.name


def _column_weights(embedded: Embedded, task: Task, compared: Compared) -> Sequence[float]:
    """Return the weight of each feature column, 0 for one that does not help.

    One weight after the other is set to the value with the smallest leave-one-out error, twice for
    each column, on at most `_MAX_WEIGHED` molecules. Rows of a molecule under other conditions are
    left out together, so the error is the one for a new molecule.
    """
    count = len(compared.reads.column_widths)
    if not count:
        return ()
    most = np.cbrt(_MAX_WEIGHING / (count * _num_decomposed(embedded, task)))
    size = min(_MAX_WEIGHED, int(most), len(embedded.inputs))
    rng = np.random.default_rng(0)
    rows = rng.choice(len(embedded.inputs), size, replace=False)
    if compared.reads.of_molecules.any():  # rows of one molecule show what another solvent changes
        numbers = np.unique(embedded.molecule_ids, return_inverse=True)[1]
        rows = np.argsort(rng.permutation(numbers.max() + 1)[numbers], kind="stable")[:size]
    every, part, compared = np.arange(size), embedded.some(rows), compared.of(rows)
    plain = _kernel(part, compared._replace(column_weights=(0.0,) * count), every)
    alike = [of_column(1.0, cells, cells).numpy() for cells in compared.each_column]

    @cache
    def error(weights: tuple[float, ...]) -> float:
        kernel = plain.copy()
        for weight, factor in zip(weights, alike, strict=True):
            kernel *= 1 - weight + weight * factor
        return _error(_solve(kernel, every, task, part)[0])

    widths = compared.reads.column_widths
    are_molecules = compared.reads.of_molecules[np.cumsum(widths) - widths]
    choices = [_MOLECULE_WEIGHTS if each else _COLUMN_WEIGHTS for each in are_molecules]
    weights = (0.0,) * count
    for column in [*range(count)] * 2:
        before, after = weights[:column], weights[column + 1 :]
        weights = min(((*before, each, *after) for each in choices[column]), key=error)
    return weights


def _exact(found: Regression, embedded: Embedded, task: Task) -> Regression:
    """Return the regression on all molecules, with the kernel and the penalties of `found`.

    It is `found` itself where the targets are so many that this would take many minutes.
    """
    weights = embedded.weights_of_labels
    solved = {
        (*_shares_kernel(target, row), penalty): float(np.count_nonzero(row))
        for row, penalty, target in zip(weights, found.penalties, task.targets, strict=True)
    }
    if sum(number**3 for number in solved.values()) > _MAX_OPERATIONS:
        return found
    every = np.arange(len(embedded.inputs))
    kernel = _kernel(embedded, found.compared, every)
    decompose = partial(invert, kernel, once=len(solved) == 1)
    models = solve_targets(task, embedded, len(every), decompose, found.penalties)
    return found._replace(
        centers=every,
        weight=np.concatenate([model.slopes for model in models]),
        bias=np.concatenate([model.offsets for model in models]),
        left_out=np.hstack([model.left_out for model in models]),
    )


def _kernel(embedded: Embedded, compared: Compared, centers: np.ndarray) -> np.ndarray:
    """Return the kernel between all molecules and the centres, float64 (n, m); see
    `KernelRegression`.

    It is computed in blocks, since it fills the memory by itself.
    """
    whole = torch.zeros(len(embedded.inputs), len(centers), dtype=torch.float64)
    parts = np.split(centers, range(_CENTERS, len(centers), _CENTERS))
    for kernel, part in zip(whole.split(_CENTERS, dim=1), parts, strict=True):
        _fill(kernel, embedded, compared, part)
    return whole.numpy()


def _fill(kernel: Tensor, embedded: Embedded, compared: Compared, centers: np.ndarray) -> None:
    inputs, of_centers = torch.from_numpy(embedded.inputs), compared.of(centers)

    def add(part: Tensor, similarity: Callable[[Tensor], Tensor], share: float) -> None:
        for rows, values in zip(kernel.split(_BLOCK), part.split(_BLOCK), strict=True):
            rows += similarity(values) * share

    add(inputs, partial(matern, other=inputs[centers]), 1.0)
    for part, other in ((compared.counts, of_centers.counts), (compared.pairs, of_centers.pairs)):
        if part.shape[1]:
            add(part, partial(TanimotoTo(other), dtype=torch.float64), 0.5)
    if compared.descriptors.shape[1]:
        own = compared.descriptors.double()
        add(own, partial(matern, other=own[centers]), 0.5)
    columns = zip(compared.each_column, of_centers.each_column, strict=True)
    for weight, (cells, other) in zip(compared.column_weights or (), columns, strict=True):
        for rows, values in zip(kernel.split(_BLOCK), cells.split(_BLOCK), strict=True):
            rows *= of_column(weight, values, other)


def fit_linear(
    model: PropertyModel, examples: Examples, train: np.ndarray, names: Collection[str]
) -> None:
    """Replace the output weights of some targets by those of a linear model of the embeddings.

    Source: Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution", ICLR 2022, arXiv 2202.10054: fine-tuning should start from such a head.

    Args:
        model: a model with a linear head, on the device of the examples.
        train: int64 [n], the training molecules.
        names: targets whose weights are replaced.
    """
    head, task = model.network.head, model.task
    embedded = Embedded.of(model.network, model.network.embed, examples, train, task)
    fits = ridge_of_targets(embedded.inputs, task, embedded)
    for name, rows, fit in zip(task.names, task.columns(), fits, strict=True):
        if name in names:
            slopes = fit.slopes / embedded.scale
            offsets = fit.offsets - slopes @ embedded.mean
            with torch.no_grad():
                head.weight[rows] = torch.from_numpy(slopes).to(head.weight)
                head.bias[rows] = torch.from_numpy(offsets).to(head.bias)


def fit_kernel(
    model: PropertyModel, examples: Examples, train: np.ndarray, inputs: ExtraInputs
) -> PropertyModel:
    """Return a model whose only part is a kernel regression.

    It compares the embeddings of the network, read out after every layer, and the feature columns,
    descriptors and fingerprint counts in `inputs`. Counts that the network does not read (Morgan
    and atom pairs together) are left out if the leave-one-out error is smaller without. With many
    molecules or targets it compares a sample of the molecules; see `Embedded.of` and
    `kernel_regression`.
    """
    part = model.network_part
    assert part is not None
    network = body_of(part.network, model.encoding.molecule_features)
    needs_counts = inputs.morgan <= part.reads.morgan
    fitted, *_ = _fitted(network, model.task, examples, train, inputs, needs_counts)
    return model.with_parts([fitted], [1.0])


def fit_out_of_fold(
    model: PropertyModel,
    examples: Examples,
    train: np.ndarray,
    inputs: ExtraInputs,
    groups: np.ndarray,
) -> tuple[PropertyModel, np.ndarray]:
    """Return the model of `fit_kernel`, and the predictions for molecules by regressions without
    their group, float32 (G, O): NaN for molecules that the model is not fitted to.

    Args:
        model: a network of which the embeddings are compared, and regression and binary targets.
        groups: (G,); molecules with the same number are left out together.
    """
    network, task = body_of(model.network, model.encoding.molecule_features), model.task
    known = network, task, examples, train, inputs, False
    fitted, molecules, outputs = _fitted(*known, groups=groups)
    left_out = np.full((len(groups), task.outputs), np.nan, dtype=np.float32)
    left_out[molecules] = task.predictions(torch.from_numpy(outputs).float()).numpy()
    return model.with_parts([fitted], [1.0]), left_out


def left_out_by_structure(
    task: Task, labels: np.ndarray, extra: ExtraArrays, reads: ExtraInputs, groups: np.ndarray
) -> np.ndarray:  # float64 (n, O)
    """Return the outputs for n molecules by kernel regressions without their group, which compare
    descriptors, fingerprint counts and feature columns, but no embeddings.

    Args:
        labels: (n, T).
        extra: the inputs `reads` of these molecules.
        groups: (n,); molecules with the same number are left out together.
    """
    counts, descriptors, pairs, columns = compared(extra)
    described = standardised(descriptors, *_percentile_scaling(extra.descriptors))
    cells = standardised(columns, *scaling(columns, torch.from_numpy(reads.of_molecules)))
    every, none = np.arange(len(labels)), np.empty(0)
    inputs, weights = described.double().numpy(), np.ones(labels.shape)
    embedded = Embedded(inputs, none, none, labels, weights, every, groups)
    features = Compared(counts, described[:, :0], pairs, cells, reads)
    return kernel_regression(embedded, task, features, needs_counts=True).left_out


def refit_kernels(
    model: PropertyModel, examples: Examples, train: np.ndarray, trained: dict[Any, Graphormer]
) -> PropertyModel:
    """Return the model with its kernel regressions fitted to the molecules `train`; `trained` has
    the network that each of them then reads, by the one that it read before.

    Standardisation and penalties are chosen again. Inputs, and the weights and scales of feature
    columns, stay the same.
    """

    def fitted(part: KernelPart) -> KernelPart:
        known = trained.get(part.network, part.network), model.task, examples, train, part.reads
        return _fitted(*known, needs_counts=True, before=part.regression)[0]

    parts = [fitted(part) if isinstance(part, KernelPart) else part for part in model.parts]
    return model.with_parts(parts, model.weights)


def _fitted(
    network: Graphormer,
    task: Task,
    examples: Examples,
    train: np.ndarray,
    reads: ExtraInputs,
    needs_counts: bool,
    before: KernelRegression | None = None,
    groups: np.ndarray | None = None,
) -> tuple[KernelPart, np.ndarray, np.ndarray]:
    """Return the best kernel regression, which treats feature columns as the one before, if any,
    and reads as many channels, its molecules, int64 (n,), and its outputs for them without their
    groups (G,), float64 (n, O)."""
    channels = network.layers_width if before is None else len(before.mean)
    call = partial(network.embed_layers, channels=channels)
    embedded = Embedded.of(network, call, examples, train, task, groups)
    extra = examples.inputs.extra.read_by(reads)
    own = extra.of(embedded.molecules)
    center, scale = _percentile_scaling(own.descriptors)
    if before is None:
        as_is, values = torch.from_numpy(reads.of_molecules), torch.from_numpy(extra.columns[train])
        column_mean, column_scale = scaling(values, as_is)
        weights = None
    else:
        column_mean, column_scale = before.column_mean.cpu(), before.column_scale.cpu()
        weights = before.column_weights.tolist()
    counts, descriptors, pairs, columns = compared(own)
    described = standardised(descriptors, center, scale)
    cells = standardised(columns, column_mean, column_scale)
    every = Compared(counts, described, pairs, cells, reads, weights)
    found = kernel_regression(embedded, task, every, needs_counts)
    kept = found.compared.of(found.centers)
    if not kept.counts.shape[1]:
        reads = replace(reads, morgan=0, pairs=0)
    regression = KernelRegression(len(embedded.mean), len(found.centers), task.outputs, reads)
    content = {
        "mean": embedded.mean,
        "scale": embedded.scale,
        "centers": embedded.inputs[found.centers],
        "counts": kept.counts,
        "descriptors": kept.descriptors,
        "descriptor_mean": center,
        "descriptor_scale": scale,
        "pairs": kept.pairs,
        "columns": kept.columns,
        "column_mean": column_mean,
        "column_scale": column_scale,
        "column_weights": kept.column_weights,
        "weight": found.weight,
        "bias": found.bias,
    }
    with torch.no_grad():
        for name, values in content.items():
            regression.get_buffer(name).copy_(torch.as_tensor(values))
    part = KernelPart(network, regression.to(network.embedding.graph_token.device).eval())
    return part, embedded.molecules, found.left_out


def _percentile_scaling(values: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return centre and scale of descriptors (n, D): the median, and the standard deviation of a
    normal distribution with the same 5th and 95th percentile.

    It is the standard deviation of the values where these are equal, and 1 for a constant. Missing
    values do not count.
    """
    if not values.shape[1]:
        return torch.zeros(0), torch.zeros(0)
    numbers = values.astype(np.float64)
    numbers = np.where(np.isnan(numbers).all(axis=0), 0.0, numbers)
    low, median, high = np.nanpercentile(numbers, [5, 50, 95], axis=0)
    sd = np.nanstd(numbers, axis=0)
    sd[sd <= 1e-6 * np.abs(median)] = 1.0
    scale = np.where(high > low, (high - low) / 3.29, sd)
    return torch.from_numpy(median).float(), torch.from_numpy(scale).float()

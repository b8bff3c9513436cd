"""Models with solved outputs: a linear head, or a kernel regression."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart
from molsepnorm.model.parts.kernel import KernelRegression, compared
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.molecule_features import scaling, standardised
from molsepnorm.nn.parts import in_head
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.kernel import Compared, kernel_regression
from molsepnorm.training.probe.ridge import Embedded, ridge_of_targets


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
    embedded = Embedded.of(model.network, examples.graphs, examples, train, task)
    assert isinstance(head, nn.Linear)
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
    """Return the model with a kernel regression in place of its network.

    It compares the embeddings of the network, read out after every layer, and the feature columns,
    descriptors and fingerprint counts in `inputs`. Counts that the network does not read (Morgan
    and atom pairs together) are left out if the leave-one-out error is smaller without. With many
    molecules or targets it compares a sample of the molecules; see `Embedded.of` and
    `kernel_regression`.
    """
    part = model.network_part
    assert part is not None
    encoder = _encoder(part.network, model.encoding.molecule_features)
    needs_counts = inputs.morgan <= part.reads.morgan
    fitted = _fitted(encoder, model.task, examples, train, inputs, needs_counts)
    return model.with_parts([fitted], [1.0])


def refit_kernels(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return the model with its kernel regressions fitted to other molecules.

    Standardisation and penalties are chosen anew. A regression compares the same inputs as before,
    and feature columns with the same weights and scales.
    """
    parts = [
        _fitted(each.encoder, model.task, examples, train, each.reads, True, each.regression)
        if isinstance(each, KernelPart)
        else each
        for each in model.parts
    ]
    return model.with_parts(parts, model.weights)


def _fitted(
    encoder: Graphormer,
    task: Task,
    examples: Examples,
    train: np.ndarray,
    reads: ExtraInputs,
    needs_counts: bool,
    before: KernelRegression | None = None,
) -> KernelPart:
    """Return the best kernel regression; it treats feature columns as the one before, if any."""
    embedded = Embedded.of(encoder, examples.inputs.graphs, examples, train, task)
    extra = examples.inputs.extra.read_by(reads)
    own = extra.of(embedded.molecules)
    center, scale = _percentile_scaling(own.descriptors)
    if before is None:
        column_mean, column_scale = scaling(torch.from_numpy(extra.columns[train]))
        weights = None
    else:
        column_mean, column_scale = before.column_mean.cpu(), before.column_scale.cpu()
        weights = before.column_weights.tolist()
    counts, descriptors, pairs, columns = compared(own)
    described = standardised(descriptors, center, scale)
    cells = standardised(columns, column_mean, column_scale)
    every = Compared(counts, described, pairs, cells, reads.column_widths, weights)
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
    return KernelPart(encoder, regression.to(encoder.embedding.graph_token.device).eval())


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


def _encoder(network: Graphormer, own: int) -> Graphormer:
    """Return a copy of a network that reads out every layer, has no outputs, and reads the `own`
    first molecule-level features, those of the featuriser."""
    config = replace(
        network.config, readout="layers", head="linear", columns=0, molecule_features=own, outputs=0
    )
    encoder = empty_network(config)
    state = {name: each for name, each in network.state_dict().items() if not in_head(name)}
    state = {n: e[:own] if n.startswith("molecule_features.") else e for n, e in state.items()}
    wanted = encoder.state_dict()
    encoder.load_state_dict(wanted | {name: each for name, each in state.items() if name in wanted})
    return encoder.to(network.embedding.graph_token.device).eval()

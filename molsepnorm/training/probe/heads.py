"""Models with fitted heads: linear, or a kernel regression."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.embedded import Embedded
from molsepnorm.training.probe.kernel import Compared, kernel_regression
from molsepnorm.training.probe.targets import ridge_of_targets

__all__ = ["fit_kernel", "fit_linear", "refit_kernels"]


def fit_linear(
    model: PropertyModel, examples: Examples, train: np.ndarray, names: Collection[str]
) -> None:
    """Replace the output weights of some targets by those of a linear model of the embeddings.

    Source: Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution", ICLR 2022, arXiv 2202.10054: fine-tuning should start from such a head.

    Args:
        model: a model with a linear head, on the device of the examples.
        examples: all molecules and labels.
        train: int64 [n], indices of the training molecules.
        names: targets whose weights are replaced.
    """
    head, task = model.network.head, model.task
    embedded = Embedded.of(model.network, examples, train, task)
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
    model: PropertyModel,
    examples: Examples,
    train: np.ndarray,
    inputs: ExtraInputs | None = None,
) -> PropertyModel:
    """Return a model with the same body, read out after every layer, and a fitted `KernelHead`.

    If the molecules have descriptors that the model's network does not read, the head compares
    them; likewise fingerprint counts (Morgan and atom pairs together), unless the leave-one-out
    error is smaller without.

    With many molecules or targets it compares a sample of the molecules; see `Embedded.of` and
    `kernel_regression`.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
        inputs: the features of the molecules: those of the model (None), or counts, descriptors and
            pairs beside a network that reads no features.
    """
    read = NO_INPUTS if inputs is None or inputs == model.inputs else inputs
    sizes = read.morgan, len(read.descriptors), read.pairs
    choices = [False, True] if read.morgan else [False]
    network = _with_kernel(model.network, model.task, examples, train, sizes, choices)
    if read.width:
        counts, pairs = network.config.counts, network.config.pairs
        model = replace(model, inputs=replace(read, morgan=counts, pairs=pairs))
    return replace(model, network=network)


def refit_kernels(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return the model with its kernel regressions fitted to other molecules.

    Embeddings are standardised and penalties chosen anew. A head still compares fingerprint counts
    if it did before. Networks with other heads stay as they are.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
    """
    network, *partners = (
        _fitted_again(each, model.task, examples, train) if each.config.head == "kernel" else each
        for each in model.networks
    )
    return replace(model, network=network, partners=tuple(partners))


def _fitted_again(
    network: Graphormer, task: Task, examples: Examples, train: np.ndarray
) -> Graphormer:
    own = network.config
    sizes = own.counts, own.descriptors, own.pairs
    choices = [own.compares_counts and own.counts > 0]
    return _with_kernel(network, task, examples, train, sizes, choices)


def _with_kernel(
    network: Graphormer,
    task: Task,
    examples: Examples,
    train: np.ndarray,
    sizes: tuple[int, int, int],
    choices: Sequence[bool],
) -> Graphormer:
    """Return a network with the same body and the best kernel regression.

    Args:
        network: the network, whose head is replaced.
        task: the targets.
        examples, train: as in `fit_linear`.
        sizes: numbers of Morgan counts, descriptors and atom-pair counts, which are the features of
            the examples in this order.
        choices: whether the head compares the counts; both may be tried.
    """
    counts, descriptors, _ = sizes
    embedded = Embedded.of(_read_by_layer(network), examples, train, task)
    scaled, every = MoleculeFeatures(sum(sizes)), Compared()
    if len(scaled.mean):
        assert examples.graphs.features is not None
        rows = torch.from_numpy(embedded.molecules).to(examples.labels.device)
        values = examples.graphs.features[rows, : len(scaled.mean)].cpu()
        if descriptors:
            columns = slice(counts, counts + descriptors)
            scaled.mean[columns], scaled.sd[columns] = _robust_scaling(values[:, columns])
        of_counts, _, of_pairs = values.split(sizes, dim=1)
        described = scaled.standardised(values).split(sizes, dim=1)[1]
        parts = of_counts, described, of_pairs
        every = Compared(*(each if each.shape[1] else None for each in parts))
    found = kernel_regression(
        *(embedded, task),
        [every if compares else every._replace(counts=None, pairs=None) for compares in choices],
    )
    compares_counts = found.compared.counts is not None
    if not compares_counts:  # they need not be read, but descriptors follow them
        sizes = counts * (descriptors > 0), descriptors, 0
    body = _read_by_layer(network, sizes)
    if read := sum(sizes):
        kept = {name: each[:read] for name, each in scaled.state_dict().items()}
        body.molecule_features.load_state_dict(kept)
    shape = len(embedded.mean) + read, len(found.centers), task.outputs
    head = KernelHead(*shape, *sizes, compares_counts)
    content: dict[str, np.ndarray | Tensor] = {
        "mean": embedded.mean,
        "scale": embedded.scale,
        "centers": embedded.inputs[found.centers],
        "weight": found.weight,
        "bias": found.bias,
    }
    for name, compared in found.compared._asdict().items():
        if compared is not None:
            content[name] = compared
    head.load_state_dict({name: torch.as_tensor(each) for name, each in content.items()})
    body.config = replace(
        body.config, head="kernel", centers=len(found.centers), compares_counts=compares_counts
    )
    body.head = head.to(body.embedding.graph_token.device)
    return body


def _robust_scaling(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return centre and scale of descriptors (n, D): the median, and the standard deviation of a
    normal distribution with the same 5th and 95th percentile.

    It is the standard deviation of the values where these are equal, and 1 for a constant. Values
    that are missing do not count.
    """
    numbers = values.double().numpy()
    numbers = np.where(np.isnan(numbers).all(axis=0), 0.0, numbers)
    low, median, high = np.nanpercentile(numbers, [5, 50, 95], axis=0)
    sd = np.nanstd(numbers, axis=0)
    sd[sd <= 1e-6 * np.abs(median)] = 1.0
    scale = np.where(high > low, (high - low) / 3.29, sd)
    return torch.from_numpy(median).float(), torch.from_numpy(scale).float()


def _read_by_layer(network: Graphormer, sizes: tuple[int, int, int] = (0, 0, 0)) -> Graphormer:
    """Return a copy of a network that reads out every layer, and features of the given `sizes` (see
    `_with_kernel`); its head is still to be replaced."""
    device, own = network.embedding.graph_token.device, network.config
    plain = own.with_linear_head()
    config = replace(
        plain,
        readout="layers",
        counts=sizes[0],
        descriptors=sizes[1],
        pairs=sizes[2],
        molecule_features=plain.molecule_features + sum(sizes),
    )
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        copied = Graphormer(config)
    replaced = ("head.", "molecule_features.") if own.compared_features else ("head.",)
    kept = {n: each for n, each in network.state_dict().items() if not n.startswith(replaced)}
    copied.load_state_dict({**copied.state_dict(), **kept})
    return copied.to(device).eval()

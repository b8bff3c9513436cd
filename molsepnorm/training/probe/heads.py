"""Models with fitted heads: linear, or a kernel regression."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.kernel import Compared, Regression, kernel_regression
from molsepnorm.training.probe.ridge import Embedded, ridge_of_targets


class _Sizes(NamedTuple):
    """Numbers of molecule-level features that a kernel head compares, in their order."""

    columns: tuple[int, ...] = ()
    """Channels of each feature column."""
    counts: int = 0
    descriptors: int = 0
    pairs: int = 0

    @property
    def parts(self) -> list[int]:
        """The four numbers."""
        return [sum(self.columns), *self[1:]]


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

    The head compares the feature columns, descriptors and fingerprint counts that the molecules
    have. Counts that the model's network does not read (Morgan and atom pairs together) are left
    out if the leave-one-out error is smaller without.

    With many molecules or targets it compares a sample of the molecules; see `Embedded.of` and
    `kernel_regression`.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
        inputs: the features of the molecules: those of the model, and others that follow them.
            None if there are no others.
    """
    own = model.inputs
    inputs = own if inputs is None else inputs
    sizes = _Sizes(inputs.column_widths, inputs.morgan, len(inputs.descriptors), inputs.pairs)
    choices = [False, True] if inputs.morgan > own.morgan else [inputs.morgan > 0]
    of_featurizer = model.encoding.molecule_features
    given = model.network, model.task, examples, train
    network = _with_kernel(*given, own=of_featurizer, sizes=sizes, choices=choices)
    counts, pairs = network.config.counts, network.config.pairs
    return replace(model, network=network, inputs=replace(inputs, morgan=counts, pairs=pairs))


def refit_kernels(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return the model with its kernel regressions fitted to other molecules.

    Embeddings are standardised and penalties chosen anew. A head still compares fingerprint counts
    if it did before, and feature columns with the same weights. Networks with other heads stay as
    they are.
    """

    def fitted_again(network: Graphormer) -> Graphormer:
        own, head = network.config, network.head
        if not isinstance(head, KernelHead):
            return network
        return _with_kernel(
            *(network, model.task, examples, train),
            own=own.molecule_features - own.compared_features,
            sizes=_Sizes(own.columns, own.counts, own.descriptors, own.pairs),
            choices=[head.compares_counts],
            column_weights=tuple(head.column_weights.tolist()) if own.columns else (),
        )

    network, *partners = map(fitted_again, model.networks)
    return replace(model, network=network, partners=tuple(partners))


def _with_kernel(
    network: Graphormer,
    task: Task,
    examples: Examples,
    train: np.ndarray,
    own: int,
    sizes: _Sizes,
    choices: Sequence[bool],
    column_weights: tuple[float, ...] | None = None,
) -> Graphormer:
    """Return a network with the same body and the best kernel regression.

    Args:
        examples, train: as in `fit_linear`.
        own: number of molecule-level features of its featuriser, which are part of the embedding.
        sizes: the features that the kernel compares, which follow them.
        choices: whether the head compares the counts; both may be tried.
        column_weights: weights of the feature columns; None to choose them.
    """
    scaled = MoleculeFeatures(own + sum(sizes.parts))
    if as_before := own + sum(sizes.columns):
        for name, each in network.molecule_features.state_dict().items():
            scaled.get_buffer(name)[:as_before] = each[:as_before]
    embedded = Embedded.of(_read_by_layer(network, scaled, own), examples, train, task)
    every = Compared()
    if sum(sizes.parts):
        assert examples.graphs.features is not None
        rows = torch.from_numpy(embedded.molecules).to(examples.labels.device)
        values = examples.graphs.features[rows, : len(scaled.mean)].cpu()
        every = _compared(values, scaled, own, sizes)
    every = every._replace(column_weights=column_weights)
    found = kernel_regression(
        embedded,
        task,
        [every if compares else every._replace(counts=None, pairs=None) for compares in choices],
    )
    compares_counts = found.compared.counts is not None
    if not compares_counts:  # they need not be read, but descriptors follow them
        sizes = sizes._replace(counts=sizes.counts * (sizes.descriptors > 0), pairs=0)
    body = _read_by_layer(network, scaled, own, sizes)
    width = len(embedded.mean) + sum(sizes.parts)
    head = KernelHead(width, len(found.centers), task.outputs, *sizes, compares_counts)
    head.load_state_dict(_numbers(embedded, found))
    body.config = replace(
        body.config,
        head="kernel",
        centers=len(found.centers),
        **sizes._asdict(),
        compares_counts=compares_counts,
    )
    body.head = head.to(body.embedding.graph_token.device)
    return body


def _compared(values: Tensor, scaled: MoleculeFeatures, own: int, sizes: _Sizes) -> Compared:
    """Return the features that a kernel compares; the scaling of the descriptors is set."""
    if sizes.descriptors:
        first = own + sum(sizes.columns) + sizes.counts
        where = slice(first, first + sizes.descriptors)
        scaled.mean[where], scaled.sd[where] = _percentile_scaling(values[:, where])
    parts = [own, *sizes.parts]
    _, _, counts, _, pairs = values.split(parts, dim=1)
    _, cells, _, descriptors, _ = scaled.standardised(values).split(parts, dim=1)
    return Compared(
        counts if sizes.counts else None,
        descriptors if sizes.descriptors else None,
        pairs if sizes.pairs else None,
        cells.split(sizes.columns, dim=1) if sizes.columns else (),
    )


def _numbers(embedded: Embedded, found: Regression) -> dict[str, Tensor]:
    """Return the buffers of a `KernelHead` with a fitted regression."""
    compared = found.compared
    content: dict[str, Any] = {
        "mean": embedded.mean,
        "scale": embedded.scale,
        "centers": embedded.inputs[found.centers],
        "counts": compared.counts,
        "descriptors": compared.descriptors,
        "pairs": compared.pairs,
        "weight": found.weight,
        "bias": found.bias,
    }
    if compared.columns:
        content["columns"] = torch.cat(compared.columns, dim=1)
        content["column_weights"] = compared.column_weights
    return {name: torch.as_tensor(each) for name, each in content.items() if each is not None}


def _percentile_scaling(values: Tensor) -> tuple[Tensor, Tensor]:
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


def _read_by_layer(
    network: Graphormer,
    scaled: MoleculeFeatures,
    own: int,
    sizes: _Sizes = _Sizes(),  # noqa: B008
) -> Graphormer:
    """Return a copy of a network that reads out every layer; its head is still to be replaced."""
    device = network.embedding.graph_token.device
    read = own + sum(sizes.parts)
    plain = network.config.with_linear_head()
    config = replace(plain, readout="layers", molecule_features=read)
    copied = empty_network(config)
    replaced = "head.", "molecule_features."
    kept = {n: each for n, each in network.state_dict().items() if not n.startswith(replaced)}
    scaling = {f"molecule_features.{n}": each[:read] for n, each in scaled.state_dict().items()}
    copied.load_state_dict({**copied.state_dict(), **kept, **(scaling if read else {})})
    return copied.to(device).eval()

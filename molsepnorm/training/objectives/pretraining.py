"""Pre-training on structures: a weighted sum of losses that need no labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.sepnorm.kernels import at_least_float32
from molsepnorm.tasks import Task
from molsepnorm.training.config import PretrainingConfig, TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import Examples, Objective, refuse_metric
from molsepnorm.training.structures import structure_features
from molsepnorm.training.teacher import teacher_vectors

_LIMIT = 6.0  # of standardised values, so that rare extreme ones do not dominate
_SAMPLE = 50_000  # training molecules from which the scaling is estimated
_TAILS = (0.1, 99.9)  # percentiles to which values are limited


class Regression(nn.Module):
    """The squared error of standardised values, over a random share of them per molecule.

    The values are RDKit's 2D descriptors, or the embeddings of another model (distillation). In
    training a share of the descriptors counts (`objective.descriptor_share`), and all embeddings.
    Values are standardised by `clipped_scaling` and limited to ±6. NaN values are left out.

    Source: the CheMeleon model (arXiv 2506.15792) regresses Mordred descriptors, limited to ±6, on
    a random share of them. RDKit's descriptors and a share of 70 % are ours.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig, *, name: str
    ) -> None:
        super().__init__()
        self.examples, self.name = examples, name
        self.share = settings.descriptor_share if name == "descriptors" else 1.0
        mean, scale = examples.arrays[f"{name}_scaling"]
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("scale", scale.clone(), persistent=False)
        self.head = nn.Linear(network.embedding_width, len(mean))

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        values = self.examples.arrays[self.name][graphs].float()  # (B, D)
        used = ~values.isnan()
        if self.training and self.share < 1:
            used &= torch.rand_like(values) < self.share
        targets = ((values - self.mean) / self.scale).clamp(-_LIMIT, _LIMIT).nan_to_num()
        errors = (self.head(read).float() - targets).square()
        return (errors * used).sum() / used.sum().clamp(min=1)


class Contrastive(nn.Module):
    """The contrastive loss of two embeddings per molecule, computed with two dropout masks.

    Each view is a forward pass of its own, so that a batch norm in training sees one view at a time
    and its statistics do not reveal the pairs. The first view is the pass that all losses share. In
    evaluation both views are computed anew, with dropout. With several processes, negatives come
    from the process's own molecules.

    Source: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings", EMNLP 2021,
    arXiv 2104.08821, section 3. What differs: there both views are in one batch, which is the same
    without a batch norm.

    Raises:
        ConfigError: the network has no dropout, so both views would be equal.
    """

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__()
        if not draws_at_random(network):
            raise ConfigError(
                "contrastive learning needs a network with dropout, such as model.dropout: 0.1; "
                "without it both views of a molecule are the same"
            )
        self.temperature = settings.temperature

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        if self.training:
            return info_nce(read, network.embed(batch), self.temperature)
        with dropout_alone(network):
            return info_nce(network.embed(batch), network.embed(batch), self.temperature)


PRETEXTS: dict[str, Callable[..., nn.Module]] = {
    "teacher": partial(Regression, name="teacher"),
    "descriptors": partial(Regression, name="descriptors"),
    "contrastive": Contrastive,
}
"""The losses, by the name of the setting that holds their weight.

Each returns the mean loss of a batch of molecules `graphs`, int64 [B], whose embeddings are `read`
(B, R), and may call the network again.
"""


def clipped_scaling(values: np.ndarray, train: np.ndarray) -> np.ndarray:  # (2, D)
    """Return the mean and the standard deviation of each column, without its extreme values.

    Values below the 0.1st and above the 99.9th percentile are replaced by these percentiles. The
    standard deviation of a constant column is 1.
    """
    sample = train
    if len(train) > _SAMPLE:
        sample = np.random.default_rng(0).choice(train, _SAMPLE, replace=False)
    chosen = values[np.sort(sample)].astype(np.float64)
    empty = np.isnan(chosen).all(axis=0)
    chosen[:, empty] = 0.0
    low, high = np.nanpercentile(chosen, _TAILS, axis=0)
    chosen = np.clip(chosen, low, high)
    scale = np.nanstd(chosen, axis=0)
    constant = scale <= 1e-6 * np.maximum(np.nanmax(np.abs(chosen), axis=0), 1)
    return np.stack([np.nanmean(chosen, axis=0), np.where(constant, 1.0, scale)]).astype(np.float32)


def info_nce(first: Tensor, second: Tensor, temperature: float = 0.05) -> Tensor:  # ()
    r"""Return the contrastive loss, which identifies the other view of each molecule in the batch.

    .. math::

        -\frac1{2B} \sum_i \Bigl[ \log\frac{e_{ii}}{\sum_j e_{ij}}
            + \log\frac{e_{ii}}{\sum_j e_{ji}} \Bigr], \qquad e_{ij} = e^{u_i \cdot v_j / \tau}

    with u and v the views (B, d), scaled to length one, in float32 or more. If all views are equal,
    the loss is log B. It is 0 for a single molecule, which has no negatives.

    Source: van den Oord et al., "Representation Learning with Contrastive Predictive Coding",
    arXiv 1807.03748, eq. 4; the cosine and the temperature τ of SimCSE, arXiv 2104.08821, eq. 1.
    What differs: the loss is symmetric in the two views, as in Radford et al., ICML 2021,
    arXiv 2103.00020.

    >>> alike = torch.ones(4, 3)
    >>> info_nce(alike, alike).exp()
    tensor(4.)

    Args:
        first: (B, d), one view of each molecule.
        second: (B, d), the other views in the same order.
        temperature: τ, above 0.
    """
    with torch.autocast(first.device.type, enabled=False):
        u, v = (F.normalize(at_least_float32(view), dim=1) for view in (first, second))
        logits = u @ v.T / temperature  # (B, B)
        partner = torch.arange(len(first), device=first.device)
        return (F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2


class Pretraining(Objective):
    """The weighted sum of the losses whose weight is not 0, over one forward pass.

    The head of the model has no outputs; each loss has a head that is not part of the model.

    Raises:
        ConfigError: all weights are 0, or a loss cannot be used with this network or data set.
    """

    def __init__(self, model: PropertyModel, examples: Examples, config: TrainConfig) -> None:
        super().__init__(model, examples, config)
        settings = _settings(config)
        self.weights = _weights(settings)
        losses = {name: PRETEXTS[name] for name in self.weights}
        self.losses = torch.nn.ModuleDict(
            {name: loss(self.network, examples, settings) for name, loss in losses.items()}
        )

    @staticmethod
    def prepare(
        config: TrainConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        settings = _settings(config)
        weights, arrays, warnings = _weights(settings), {**dataset.arrays}, dataset.warnings
        if settings.teacher_vectors is not None:
            arrays["teacher"], more = teacher_vectors(settings.teacher_vectors, dataset)
            warnings += more
        if "descriptors" in weights:
            if dataset.smiles is None:
                raise ConfigError(
                    f"{dataset.name} has no SMILES to compute descriptors from: use "
                    "objective.contrastive, or a table of SMILES"
                )
            smiles = dataset.smiles_of(slice(None))
            arrays |= structure_features(smiles, ["descriptors"], progress)
        for name in ("teacher", "descriptors"):
            if name in weights:
                arrays[f"{name}_scaling"] = clipped_scaling(arrays[name], dataset.splits["train"])
        return replace(dataset, arrays=arrays, warnings=warnings)

    @staticmethod
    def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
        """Return a task without targets. The model is chosen by the validation loss."""
        refuse_metric(config)
        return Task((), "loss"), dataset

    def forward(self, batch: GraphBatch, graphs: Tensor) -> tuple[Tensor, Tensor]:
        losses = zip(self.weights.values(), self._means(batch, graphs), strict=True)
        loss = torch.stack([weight * mean for weight, mean in losses]).sum()
        return loss * len(graphs), loss.new_full((), len(graphs))

    def _means(self, batch: GraphBatch, graphs: Tensor) -> list[Tensor]:
        """Return the mean of each loss over a batch."""
        read = self.network.embed(batch)  # (B, R)
        return [self.losses[name](self.network, read, batch, graphs) for name in self.weights]

    def validate(
        self, graphs: np.ndarray, world: DistributedContext
    ) -> tuple[float, dict[str, float]]:
        """Return the loss, and each loss without its weight, with the same random numbers every
        time."""

        def sums(batch: GraphBatch, indices: Tensor) -> Tensor:
            means = torch.stack(self._means(batch, indices))
            return len(indices) * torch.cat([means, means.new_ones(1)])

        device = self.examples.labels.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self.config.run.seed)
            *totals, count = self.totals(sums, len(self.weights) + 1, graphs, world)
        scores = {name: total / count for name, total in zip(self.weights, totals, strict=True)}
        return sum(self.weights[name] * score for name, score in scores.items()), scores


def _settings(config: TrainConfig) -> PretrainingConfig:
    assert isinstance(config.objective, PretrainingConfig)
    return config.objective


def _weights(settings: PretrainingConfig) -> dict[str, float]:
    weights = {name: getattr(settings, name) for name in PRETEXTS}
    if not any(weights.values()):
        raise ConfigError(
            "all weights of the objective pretraining are 0, so there is nothing to learn: set one "
            f"of {', '.join(f'objective.{name}' for name in PRETEXTS)} above 0"
        )
    return {name: weight for name, weight in weights.items() if weight}

"""`PropertyModel`: a trained model with everything that prediction needs, and `join`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm.data.batching import GraphTensors
from molsepnorm.devices import Precision
from molsepnorm.errors import ConfigError, ModelError, counted, prefixed
from molsepnorm.model.folder import SUPERVISED, read_folder, write_folder
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.model.parts import (
    Inputs,
    KernelPart,
    NetworkPart,
    Part,
    Predicted,
    are_equal,
    encoding_of,
    networks_of,
    read_out,
)
from molsepnorm.model.training_molecules import (
    TRAINING_FILE,
    TrainingFile,
    TrainingMolecules,
)
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Target, Task
from molsepnorm.tasks.calibration import Calibration
from molsepnorm.tasks.domain import Domain
from molsepnorm.tasks.transforms import NO_TRANSFORM


@dataclass(eq=False)
class PropertyModel:
    """Learners, the featuriser of their molecules, and the task of their predictions.

    The prediction is the weighted mean over the parts, with weights for each target. Embeddings,
    analyses and fine-tuning use `network` alone.

    >>> import tempfile
    >>> from molsepnorm.nn import Graphormer, GraphormerConfig
    >>> from molsepnorm.tasks import Target, Task
    >>> task = Task((Target("logS", "regression", mean=-3.1, scale=2.0),), metric="mae")
    >>> model = PropertyModel.of(Graphormer(GraphormerConfig(layers=1)), "zinc", task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     PropertyModel.from_pretrained(folder).task.names
    ('logS',)
    """

    parts: tuple[Part, ...]
    """Networks, kernel regressions and random forests."""
    featurizer: str
    """Name of the featuriser in `molsepnorm.molecules.featurize`."""
    task: Task
    objective: str = SUPERVISED
    """Training objective; others than supervised learning leave the head untrained."""
    excludes: dict[str, str] = field(default_factory=dict)
    """Data sets that the model must not be evaluated on, by name, each with the reason, from its
    card and those of the models that it was fine-tuned from."""
    weights: np.ndarray = field(default_factory=lambda: np.ones(1))
    """float64 (P, T): weight of each part in the prediction of each target; those of a target sum
    to 1. Weights (P,) are those of every target."""
    standardize: Level = "none"
    """See `molsepnorm.molecules.featurize.standardize.standard_smiles`."""
    calibration: tuple[Calibration, ...] = ()
    """Size of the errors of each target; empty if the model was not calibrated."""
    domain: Domain | None = None
    """Similarity above which predictions can be trusted; None if it was not fitted."""
    structures: tuple[TrainingMolecules | TrainingFile, ...] = ()
    """The training molecules, in one or more parts; empty if they are not known."""
    auxiliary: tuple[PropertyModel, ...] = ()
    """Models of auxiliary tables, with one output for each target. Their predictions are inputs of
    the parts: `inputs.predicted` has their names."""
    molecules: MoleculeColumns | None = None
    """Computes the vectors of columns of further molecules; None if there are none."""

    inputs: ExtraInputs = field(init=False)
    """The inputs beside graphs that the parts and the auxiliary models read."""

    def __post_init__(self) -> None:
        weights, count = np.asarray(self.weights, dtype=float), len(self.parts)
        if weights.ndim == 1:
            weights = np.repeat(weights[:, None], len(self.task.targets), axis=1)
        is_mean = (weights >= 0).all() and np.allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-6)
        if weights.shape != (count, len(self.task.targets)) or not is_mean:
            raise ConfigError(
                f"the mean over {counted(count, 'part')} needs as many weights, which sum to 1 for "
                f"each target; got {self.weights!r:.80}"
            )
        self.weights = weights
        reads = ExtraInputs.joined([part.reads for part in self.parts])
        structures = [
            replace(each.inputs, columns=reads.columns, predicted=reads.predicted)
            for each in self.auxiliary
        ]
        self.inputs = ExtraInputs.joined([reads, *structures])
        if sum(each.task.outputs for each in self.auxiliary) != len(reads.predicted):
            raise ConfigError(
                f"{counted(len(reads.predicted), 'auxiliary prediction')} cannot be computed: the "
                "auxiliary models have other targets"
            )
        read = {column.name: column.width for column in reads.columns if column.components}
        known = {} if self.molecules is None else self.molecules.widths
        if not read.items() <= known.items():
            raise ConfigError(f"the vectors of {', '.join(read)} cannot be computed")

    @staticmethod
    def of(
        network: Graphormer,
        featurizer: str,
        task: Task,
        *,
        inputs: ExtraInputs = NO_INPUTS,
        **others: Any,
    ) -> PropertyModel:
        """Return a model of one network."""
        return PropertyModel((NetworkPart(network, inputs),), featurizer, task, **others)

    @property
    def compares(self) -> bool:
        """True if a part compares molecules with training molecules."""
        return any(isinstance(part, KernelPart) for part in self.parts)

    @property
    def has_spread(self) -> bool:
        """True if several parts count in the spread of the predictions."""
        return sum(part.in_spread for part in self.parts) > 1

    @property
    def network_part(self) -> NetworkPart | None:
        """The first part that is a network; None if there is none."""
        return next((part for part in self.parts if isinstance(part, NetworkPart)), None)

    @property
    def network(self) -> Graphormer:
        """The network of the first `NetworkPart`, or else of the first `KernelPart`."""
        for network in networks_of(part for part in (self.network_part, *self.parts) if part):
            return network
        raise ConfigError("this model has no network: train one with --blend none, or pick another")

    def graphs(self, inputs: Inputs) -> GraphTensors:
        """Return graphs with the molecule-level features that `network` reads."""
        part = self.network_part
        return inputs.graphs if part is None else part.graphs(inputs)

    @property
    def parameters(self) -> int:
        """Number of trained parameters of all parts."""
        modules = {module for part in self.parts for module in part.modules}
        return sum(each.numel() for module in modules for each in module.parameters())

    def to(self, device: torch.device | str) -> PropertyModel:
        for model in (self, *self.auxiliary):
            for part in model.parts:
                part.to(device)
        return self

    def share(self, kind: type[Part]) -> np.ndarray:  # (T,)
        """Return the weight of all parts of a class together, for each target."""
        return self.weights[[isinstance(part, kind) for part in self.parts]].sum(axis=0)

    def with_network(self, network: Graphormer) -> PropertyModel:
        """Return the model with another network of the same architecture in its `network_part`."""
        old = self.network_part
        parts = [replace(old, network=network) if part is old else part for part in self.parts]
        return self.with_parts(parts, self.weights)

    def with_parts(
        self, parts: Sequence[Part], weights: Sequence[float] | np.ndarray
    ) -> PropertyModel:
        """Return the model with other parts, without intervals, which belong to the old parts."""
        return replace(self, parts=tuple(parts), weights=np.asarray(weights), calibration=())

    @property
    def encoding(self) -> EncodingSpec:
        """The encoding of molecules by the featuriser, without the extra inputs."""
        own = len(featurize.SIZES[self.featurizer].molecule)
        return replace(encoding_of(self.network.config), molecule_features=own)

    def require_targets(self) -> None:
        """Raise a `ConfigError` if the model was pre-trained without targets."""
        if not self.task.targets:
            raise ConfigError(
                "this model was pre-trained without targets, so it predicts nothing: fine-tune it "
                "on your table (molsepnorm train --from MODEL), or use its embeddings (molsepnorm "
                "embed)"
            )

    def training_molecules(self) -> TrainingMolecules:
        """Return the molecules that the model was trained on, or raise a `ConfigError` if they are
        not known, and a `ModelError` if their file is damaged."""
        if not self.structures:
            why = (
                "they were left out when it was trained (--no-training-structures) or shared"
                if self.domain is not None
                else "it was trained on data without SMILES, joined or converted, or its run is "
                "not finished"
            )
            raise ConfigError(
                f"this model does not have its training molecules, so similarities to them are "
                f"unknown: {why}. Train it again, or leave the domain out"
            )
        parts = [structures.read() for structures in self.structures]
        found = TrainingMolecules.joined(parts, self.standardize)
        if found.labels.shape[1] != len(self.task.targets):
            raise ModelError(
                f"{TRAINING_FILE} belongs to another model: it has labels of "
                f"{counted(found.labels.shape[1], 'target')}, and the model has "
                f"{len(self.task.targets)}. Copy the folder from its source again"
            )
        return found

    def completed(self, inputs: Inputs, precision: Precision = "fp32") -> Inputs:
        """Return the inputs with the predictions of the auxiliary models after the columns."""
        if not self.auxiliary:
            return inputs
        rows, extra = np.arange(len(inputs.graphs.sizes)), inputs.extra
        added = (each.predict(inputs, rows, precision).values for each in self.auxiliary)
        columns = np.hstack([extra.columns, *added]).astype(np.float32)
        return inputs._replace(extra=extra._replace(columns=columns))

    def predict(self, inputs: Inputs, rows: np.ndarray, precision: Precision = "fp32") -> Predicted:
        """Return predictions for the molecules `rows`, int (n,), on the learned scale. The inputs
        are `completed`. Parts whose weights are all 0 are not evaluated."""
        if not len(rows):
            return Predicted(np.empty((0, self.task.outputs), np.float32))
        used = [pair for pair in zip(self.parts, self.weights, strict=True) if pair[1].any()]
        read = read_out([part for part, _ in used], inputs, rows, precision)
        found = [p.predict(inputs, rows, self.task, read.get(p.network)) for p, _ in used]
        weights = np.stack([weight for _, weight in used])
        spread = distance = None
        if self.has_spread:
            shares = weights * np.array([[part.in_spread] for part, _ in used])
            total = np.asarray(sum(shares))
            shares = self.task.by_output(shares / np.where(total > 0, total, 1.0))
            center = sum(each.values * share for each, share in zip(found, shares, strict=True))
            pairs = zip(found, shares, strict=True)
            spread = np.sqrt(sum((each.values - center) ** 2 * share for each, share in pairs))
        means = zip(found, weights.mean(axis=1), strict=True)
        distances = [(each.distance, w) for each, w in means if each.distance is not None]
        if distances:
            far, of_far = zip(*distances, strict=True)
            distance = np.average(far, axis=0, weights=of_far)
        pairs = zip(found, self.task.by_output(weights), strict=True)
        values = np.sum([each.values * weight for each, weight in pairs], axis=0)
        return Predicted(values, spread, distance)

    def leak(self, dataset: str | None, allow: bool) -> str | None:
        """Return why scores on a named data set would be too optimistic, or raise a `ConfigError`
        about it unless `allow`. None for other data sets and for tables, which have no name."""
        reason = None if dataset is None else self.excludes.get(dataset)
        if reason is None or allow:
            return reason
        raise ConfigError(
            f"this model, or one that it was fine-tuned from, must not be evaluated on {dataset}: "
            f"{reason}. Choose another model or data set. With --allow-leak it is used "
            "nevertheless, and the results say so"
        )

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the model folder; an existing model folder is replaced.

        Raises:
            ModelError: a number of the model is not finite.
            StorageError: the folder holds other files, or cannot be written.
        """
        write_folder(self, folder)

    @staticmethod
    def from_pretrained(folder: Path | str) -> PropertyModel:
        """Read a model folder, or that of a run, or a shipped model by name. Networks are in
        evaluation mode.

        Raises:
            ModelError: the folder is missing, incomplete, damaged or of another version.
        """
        return read_folder(folder)


def join(models: Sequence[PropertyModel], weights: Sequence[float] | None = None) -> PropertyModel:
    """Return a model that predicts the mean of several models.

    The parts are copied; equal ones become one with the sum of their weights. They standardise
    labels as the first model does, which changes their predictions by rounding only. The training
    molecules are those of all models, with the mean of their expected errors (`Domain.mean`),
    unless a model lacks either.

    >>> from molsepnorm.nn import Graphormer, GraphormerConfig
    >>> from molsepnorm.tasks import Target, Task
    >>> task = Task((Target("logS", "regression"),), metric="mae")
    >>> network = Graphormer(GraphormerConfig(layers=1))
    >>> both = join([PropertyModel.of(network, "zinc", task)] * 2)
    >>> len(both.parts), both.weights
    (1, array([[1.]]))

    Args:
        models: one or more models with the same targets, featuriser and inputs.
        weights: weight of each model, 0 or more; by default all are equal.
    """
    weights = [1.0] * len(models) if weights is None else list(weights)
    if not models or len(weights) != len(models) or min(weights) < 0 or not sum(weights) > 0:
        raise ConfigError(
            f"one model or more is needed, each with a weight of 0 or more; got "
            f"{counted(len(models), 'model')} and the weights {weights}"
        )
    first = models[0]
    for number, model in enumerate(models, start=1):
        model.require_targets()
        _require_same(first, model, number)
    with prefixed("only models with the same inputs can be joined"):
        ExtraInputs.joined([model.inputs for model in models])
        if any(not _have_equal_parts(first.auxiliary, each.auxiliary) for each in models):
            raise ConfigError("the auxiliary models differ, so predict with each model by itself")
        if any(not _are_equal(first.molecules, each.molecules) for each in models):
            raise ConfigError(
                "the vectors of further molecules differ, since they were fitted to other training "
                "rows, so predict with each model by itself"
            )
    parts, shares = list[Part](), list[np.ndarray]()
    for model, of_model in zip(models, weights, strict=True):
        for copied, weight in zip(deepcopy(model.parts), model.weights, strict=True):
            copied.rescale(model.task, first.task)
            copied.to("cpu")
            share = weight * of_model / sum(weights)
            same = (place for place, other in enumerate(parts) if _are_equal(copied, other))
            if (place := next(same, None)) is not None:
                shares[place] = shares[place] + share
            else:
                parts.append(copied)
                shares.append(share)
    domains = [each.domain for each in models if each.domain is not None]
    structures = tuple(part for each in models for part in each.structures)
    return replace(
        first,
        parts=tuple(parts),
        weights=np.stack(shares) / sum(shares),
        excludes={name: reason for model in models for name, reason in model.excludes.items()},
        calibration=(),
        domain=Domain.mean(domains) if len(domains) == len(models) else None,
        structures=structures if all(each.structures for each in models) else (),
    )


def _require_same(first: PropertyModel, model: PropertyModel, number: int) -> None:
    def described(each: PropertyModel) -> dict[str, Any]:
        return {
            "targets": ", ".join(map(_described, each.task.targets)),
            "featuriser": each.featurizer,
            "standardisation": each.standardize,
            "encoding": each.encoding,
        }

    other = described(model)
    for what, value in described(first).items():
        if value != other[what]:
            raise ConfigError(
                f"only models with the same {what} can be joined: model 1 has {value}, and model "
                f"{number} has {other[what]}"
            )


def _described(target: Target) -> str:
    transform = [] if target.transform == NO_TRANSFORM else [target.transform]
    return f"{target.name} ({', '.join([target.kind, *target.classes, *transform])})"


def _have_equal_parts(ones: Sequence[PropertyModel], others: Sequence[PropertyModel]) -> bool:
    one, other = ([part for model in each for part in model.parts] for each in (ones, others))
    return len(one) == len(other) and all(map(_are_equal, one, other))


def _are_equal(one: Part | MoleculeColumns | None, other: Part | MoleculeColumns | None) -> bool:
    """Return whether two learners have the same numbers and read the same inputs."""
    if one is None or other is None or getattr(one, "reads", 0) != getattr(other, "reads", 0):
        return one is other
    tensors, others = one.state(), other.state()
    same = tensors.keys() == others.keys() and are_equal(one.network, other.network)
    return same and all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())

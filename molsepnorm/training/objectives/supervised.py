"""Supervised learning: predict the labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.datasets.dataset import BOUNDS, Dataset
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import NetworkPart, infer
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.tasks import Loss, Task
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import TINY, Examples, Objective, diverged

_MANY_TARGETS = 20  # with more targets, only the selection metric is computed at a validation


class Supervised(Objective):
    """The loss of the task, see `molsepnorm.tasks.Loss`."""

    uses_all_outputs = True

    def __init__(self, model: PropertyModel, examples: Examples, config: TrainConfig) -> None:
        super().__init__(model, examples, config)
        self.model = model
        self._fixed: dict[bytes, Tensor] = {}  # predictions of the part that is not trained
        weights = config.optim.task_weights
        self.loss, self._loss_on_cpu = (
            Loss(model.task, device, weights) for device in (examples.labels.device, "cpu")
        )

    @staticmethod
    def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
        """Return the task fitted to the training labels, and the data set with a warning if any."""
        labels, weights = dataset.exact_labels, dataset.weights
        _require_exact_labels(dataset)
        for split, what in (("train", "training"), ("val", "validation")):
            if weights is not None and not weights[dataset.splits[split]].any():
                raise DataError(
                    f"all {len(dataset.splits[split])} {what} molecules have the weight 0: set "
                    "some weights above 0, or choose another split"
                )
        optim, train = config.optim, labels[dataset.splits["train"]]
        weighted, names = optim.task_weights, dataset.target_names
        if wrong := next((name for name in weighted if name not in names), None):
            raise ConfigError(
                f"optim.task_weights names '{wrong}', which is no target. "
                f"{did_you_mean(wrong, names)}"
            )
        if weighted and not any(weighted.get(name, 1.0) for name in names):
            raise ConfigError("optim.task_weights has no weight above 0")
        task = Task.fit(
            dataset.targets,
            train,
            config.run.metric or dataset.metric,
            class_weight=optim.class_weight,
            regression_loss=optim.regression_loss,
            strict=config.data.dataset is None,
        )
        chosen = task.choosing_by(labels[dataset.splits["val"]])
        if chosen is task:
            return task, dataset
        warning = (
            f"{task.chosen_by.label} is undefined on the validation molecules (too few labels, or "
            "all of one class), so the loss takes its place."
        )
        return chosen, replace(dataset, warnings=(*dataset.warnings, warning))

    def forward(self, batch: GraphBatch, graphs: Tensor) -> tuple[Tensor, Tensor]:
        return self.loss(self.network(batch), *self._labelled(graphs))

    def _labelled(self, graphs: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return labels, weights and bounds of molecules (B, T); None where all are equal."""
        weights, bounds = self.examples.weights, self.examples.arrays.get(BOUNDS)
        return (
            self.examples.labels[graphs],
            None if weights is None else weights[graphs],
            None if bounds is None else bounds[graphs],
        )

    def validate(
        self, graphs: np.ndarray, world: DistributedContext
    ) -> tuple[float, dict[str, float]]:
        """Return the loss, and the metrics of the mean of all parts, without bounds."""
        outputs = self._outputs(graphs, world)
        labels, weights, bounds = (
            tensor if tensor is None else tensor.cpu()
            for tensor in self._labelled(torch.from_numpy(graphs))
        )
        assert labels is not None
        loss_sum, count = self._loss_on_cpu(outputs, labels, weights, bounds)
        if bounds is not None:
            labels = labels.masked_fill(bounds != 0, torch.nan)
        only = METRICS if len(self.task.targets) <= _MANY_TARGETS else [self.task.metric]
        scores = self.task.scores(self.task.predictions(outputs).numpy(), labels.numpy(), only)
        return float(loss_sum / count.clamp(min=TINY)), scores

    def _outputs(self, graphs: np.ndarray, world: DistributedContext) -> Tensor:  # (n, O)
        shares = []
        weights = torch.from_numpy(self.task.by_output(self.model.weights))
        for part, weight in zip(self.model.parts, weights, strict=True):
            if isinstance(part, NetworkPart):
                outputs = infer(self.network, self.examples.graphs, world.share(graphs))
                outputs = world.gather(outputs)
                if not outputs.isfinite().all():
                    raise diverged("an output on a validation molecule is not finite", self.config)
                if (weight == 1).all():
                    return outputs
                shares.append(weight * self.task.predictions(outputs))
                continue
            if (key := graphs.tobytes()) not in self._fixed:
                alone = self.model.with_parts([part], [1.0])
                share = alone.predict(self.examples.inputs, world.share(graphs))
                self._fixed[key] = world.gather(torch.from_numpy(share.values))
            shares.append(weight * self._fixed[key])
        return self.task.outputs_of(torch.stack(shares).sum(0))


def _require_exact_labels(dataset: Dataset) -> None:
    train = dataset.splits["train"]
    bounds, exact = dataset.bound_signs[train], dataset.exact_labels[train]
    for i, name in enumerate(dataset.target_names):
        if bounds[:, i].any() and np.isnan(exact[:, i]).all():
            raise DataError(
                f"target '{name}': all {np.count_nonzero(bounds[:, i]):,} training labels are "
                "bounds, such as >10: turn them into yes/no, or choose another split"
            )

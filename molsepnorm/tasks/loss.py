"""`Loss`: what a task's outputs cost, with all its constants on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from molsepnorm.tasks.task import Task

__all__ = ["Loss"]


class Loss:
    """The loss of a task, as a function that never waits for the device.

    Called with outputs (B, O), labels (B, T) and weights (B,) or None, it gives what `Task.loss`
    gives.

    Args:
        task: whose loss.
        device: where outputs and labels will be.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        targets, columns = task.targets, task.columns()
        single = [i for i, target in enumerate(targets) if target.kind != "multiclass"]

        def constant(values: list, dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        self._squared = task.regression_loss == "mse"
        self._single = constant(single, torch.long)  # targets of one output: numbers and yes/no
        self._outputs = constant([columns[i].start for i in single], torch.long)
        self._mean = constant([targets[i].mean for i in single], torch.float)
        self._scale = constant([targets[i].scale for i in single], torch.float)
        self._regression = constant([targets[i].kind == "regression" for i in single], torch.bool)
        self._multiclass = [(i, columns[i]) for i in range(len(targets)) if i not in single]
        self._class_weights = [
            (i, constant(list(target.class_weights), torch.float))
            for i, target in enumerate(targets)
            if target.class_weights
        ]

    def __call__(
        self, outputs: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        outputs = outputs.float()
        present = ~labels.isnan()
        labels = torch.where(present, labels, 0.0)
        weight = present.float() if weights is None else present * weights[:, None]
        if self._class_weights:
            weight = weight * self._weights_of_classes(labels)
        losses = torch.where(present, self._losses(outputs, labels), 0.0)
        return (losses * weight).sum(), weight.sum()

    def _losses(self, outputs: Tensor, labels: Tensor) -> Tensor:  # (B, T)
        """The loss of each label, whatever stands for those that are missing."""
        if not self._multiclass:
            return self._single_losses(outputs, labels)
        losses = self._single_losses(outputs[:, self._outputs], labels[:, self._single])
        every = losses.new_zeros(labels.shape).index_copy(1, self._single, losses)
        for i, columns in self._multiclass:
            logits, classes = outputs[:, columns], labels[:, i].long()
            every[:, i] = F.cross_entropy(logits, classes, reduction="none")
        return every

    def _single_losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        errors = outputs - (labels - self._mean) / self._scale
        return torch.where(
            self._regression,
            errors.square() if self._squared else errors.abs(),
            F.binary_cross_entropy_with_logits(outputs, labels.clamp(0, 1), reduction="none"),
        )

    def _weights_of_classes(self, labels: Tensor) -> Tensor:  # (B, T)
        weights = torch.ones_like(labels)
        for i, of_class in self._class_weights:
            weights[:, i] = of_class[labels[:, i].long()]
        return weights

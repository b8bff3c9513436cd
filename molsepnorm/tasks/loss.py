"""`Loss`: the training loss of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.tasks.task import Task


class Loss:
    """L1 or squared error in standardised units for regression, cross-entropy for classes. Missing
    labels contribute neither to the loss nor to its gradient.

    A label may be a bound, such as ">10" (Tobin, "Estimation of Relationships for Limited Dependent
    Variables", Econometrica 26, 1958, calls it censored). Its loss is 0 where the output is on the
    right side of the bound. A target has the weight 1 unless `task_weights` has another. Constants
    are on the device, so that a call never synchronises with it.

    >>> from molsepnorm.tasks import Target
    >>> loss = Loss(Task((Target("logS", "regression", mean=1.0, scale=2.0),), "mae"))
    >>> loss(torch.tensor([[0.5], [0.0]]), torch.tensor([[3.0], [torch.nan]]))
    (tensor(0.5000), tensor(1.))
    """

    def __init__(
        self,
        task: Task,
        device: torch.device | str = "cpu",
        task_weights: Mapping[str, float] | None = None,
    ) -> None:
        targets, columns = task.targets, task.columns()
        single = [i for i, target in enumerate(targets) if target.kind != "multiclass"]

        def constant(values: list, dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        self._squared = task.regression_loss == "mse"
        self._single = constant(single, torch.long)  # targets with one output
        self._outputs = constant([columns[i].start for i in single], torch.long)
        self._mean = constant([targets[i].mean for i in single], torch.float)
        self._scale = constant([targets[i].scale for i in single], torch.float)
        self._regression = constant([targets[i].kind == "regression" for i in single], torch.bool)
        self._multiclass = [(i, columns[i]) for i in range(len(targets)) if i not in single]
        weights = [(task_weights or {}).get(name, 1.0) for name in task.names]
        self._task_weights = constant(weights, torch.float) if task_weights else None
        self._class_weights = [
            (i, constant(list(target.class_weights), torch.float))
            for i, target in enumerate(targets)
            if target.class_weights
        ]

    def __call__(self, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """Return the sums of what `of_labels` returns for the same arguments."""
        losses, weight = self.of_labels(*arguments, **named)
        return losses.sum(), weight.sum()

    def of_labels(
        self,
        outputs: Tensor,
        labels: Tensor,
        weights: Tensor | None = None,
        bounds: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted loss of each label, 0 where it is missing, and its weight, (B, T).

        Args:
            outputs: (B, O), outputs of the network.
            labels: (B, T) on the scale that is learned, NaN where missing.
            weights: (B, T), weights of the labels; None if all are equal.
            bounds: (B, T), 1 where the value is at least the label, -1 where it is at most the
                label, 0 where it equals the label; None if there are no bounds.
        """
        outputs = outputs.float()
        present = ~labels.isnan()
        labels = torch.where(present, labels, 0.0)
        weight = present.float() if weights is None else present * weights
        if self._task_weights is not None:
            weight = weight * self._task_weights
        for i, class_weights in self._class_weights:
            weight[:, i] *= class_weights[labels[:, i].long()]
        losses = torch.where(present, self._losses(outputs, labels, bounds), 0.0)
        return losses * weight, weight

    def _losses(self, outputs: Tensor, labels: Tensor, bounds: Tensor | None) -> Tensor:  # (B, T)
        logits, single = outputs[:, self._outputs], labels[:, self._single]
        errors = logits - (single - self._mean) / self._scale
        if bounds is not None:
            errors = torch.where(bounds[:, self._single] * errors > 0, 0.0, errors)
        of_single = torch.where(
            self._regression,
            errors.square() if self._squared else errors.abs(),
            F.binary_cross_entropy_with_logits(logits, single.clamp(0, 1), reduction="none"),
        )
        losses = of_single.new_zeros(labels.shape).index_copy(1, self._single, of_single)
        for i, columns in self._multiclass:
            classes = labels[:, i].long()
            losses[:, i] = F.cross_entropy(outputs[:, columns], classes, reduction="none")
        return losses

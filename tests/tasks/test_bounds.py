"""The loss of bounds, against a plain loop."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.tasks import Loss, Target, Task

TARGETS = (
    Target("odour", "multiclass", classes=("none", "mild", "strong")),
    Target("logP", "regression", mean=2.5, scale=0.5),
    Target("toxic", "binary"),
    Target("dose", "regression", mean=-1.0, scale=3.0),
)


def _batch(task: Task, seed: int):
    """Return random outputs, labels with gaps, and bounds of the regression targets."""
    rng = torch.Generator().manual_seed(seed)
    outputs = torch.randn(40, task.outputs, generator=rng)
    labels, bounds = torch.zeros(40, len(task.targets)), torch.zeros(40, len(task.targets)).char()
    for i, target in enumerate(task.targets):
        if target.kind == "regression":
            labels[:, i] = target.mean + target.scale * torch.randn(40, generator=rng)
            bounds[:, i] = torch.randint(-1, 2, (40,), generator=rng)
        else:
            labels[:, i] = torch.randint(0, max(target.width, 2), (40,), generator=rng).float()
    labels[torch.rand(labels.shape, generator=rng) < 0.2] = torch.nan
    return outputs, labels, bounds


@pytest.mark.parametrize("loss", ["l1", "mse"])
@pytest.mark.parametrize("targets", [TARGETS, TARGETS[1:2], TARGETS[1::2], TARGETS[:2]])
def test_a_bound_counts_on_the_wrong_side_only(targets, loss):
    task = Task(targets, "loss", loss)
    outputs, labels, bounds = _batch(task, seed=len(targets))
    outputs.requires_grad_()
    found, weight = Loss(task)(outputs, labels, bounds=bounds)
    of_all, same_weight = Loss(task)(outputs, labels)
    expected = of_all.item()
    (gradient,) = torch.autograd.grad(found, outputs, retain_graph=True)
    (without,) = torch.autograd.grad(of_all, outputs)
    right = 0
    for i, (target, columns) in enumerate(zip(task.targets, task.columns(), strict=True)):
        for row in range(len(labels)):
            label, bound = labels[row, i].item(), bounds[row, i].item()
            output = outputs[row, columns.start].item()
            error = output - (label - target.mean) / target.scale
            if label == label and ((bound == 1 and error > 0) or (bound == -1 and error < 0)):
                expected -= abs(error) if loss == "l1" else error**2
                without[row, columns] = 0.0  # on the right side there is no gradient
                right += 1
    assert right > 5
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert weight == same_weight
    assert torch.equal(gradient, without)

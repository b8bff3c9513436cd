"""Targets, loss, predictions and scores, against plain loops and scikit-learn."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks import METRICS, Target, Task

NAN = float("nan")
MIXED = Task(
    (Target("logP", "regression", mean=2.5, scale=0.5), Target("toxic", "binary")), metric="loss"
)
LABELS = [[3.0, 1.0], [NAN, 0.0], [1.5, NAN], [NAN, NAN], [2.5, 0.0]]


def test_fit_standardises_by_the_training_labels() -> None:
    """Mean and deviation of the labels present, computed in float64; yes/no is left alone."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.normal(1000, 0.1, 10_001), rng.integers(0, 2, 10_001)], axis=1)
    labels[::7] = np.nan
    labels = labels.astype(np.float32)
    task = Task.fit(["energy", "active"], ["regression", "binary"], labels)
    energies = [float(value) for value in labels[:, 0] if not math.isnan(value)]
    mean = math.fsum(energies) / len(energies)
    scale = math.sqrt(math.fsum((value - mean) ** 2 for value in energies) / len(energies))
    energy, active = task.targets
    assert energy.mean == pytest.approx(mean, rel=1e-12)
    assert energy.scale == pytest.approx(scale, rel=1e-9)
    assert (active.mean, active.scale) == (0.0, 1.0)
    assert task.names == ("energy", "active")


@pytest.mark.parametrize(
    ("kinds", "metric"),
    [(["regression"] * 2, "mae"), (["binary"] * 2, "roc_auc"), (["regression", "binary"], "loss")],
)
def test_fit_chooses_the_usual_metric(kinds: list, metric: str) -> None:
    """MAE for regression, ROC-AUC for yes/no, the loss for a mixture, unless one is given."""
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert Task.fit(["a", "b"], kinds, labels).metric == metric
    assert Task.fit(["a", "b"], kinds, labels).chosen_by is METRICS[metric]
    if "regression" in kinds:
        assert Task.fit(["a", "b"], kinds, labels, "rmse").metric == "rmse"


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_fit_refuses_a_constant_target(kind: str) -> None:
    """The message names the target, the value and the number of labels."""
    labels = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, NAN]])
    with pytest.raises(DataError, match=r"target 'b' is constant .* all 2 labels are 1, so"):
        Task.fit(["a", "b"], [kind, kind], labels)


def test_fit_refuses_a_target_without_labels() -> None:
    """The message names the target."""
    labels = np.array([[0.0, NAN], [1.0, NAN]])
    with pytest.raises(DataError, match="target 'b' has no label among the training molecules"):
        Task.fit(["a", "b"], ["regression", "regression"], labels)


def test_unknown_metric() -> None:
    """The nearest name is offered."""
    with pytest.raises(ConfigError, match=r"unknown metric 'roc-auc'\. Did you mean 'roc_auc'"):
        Task((Target("a", "binary"),), "roc-auc")


@pytest.mark.parametrize(
    ("kind", "metric"), [("binary", "mae"), ("binary", "rmse"), ("regression", "roc_auc")]
)
def test_a_metric_of_another_kind(kind: str, metric: str) -> None:
    """A metric must be for at least one of the targets."""
    with pytest.raises(ConfigError, match=f"metric '{metric}' is for .* none among a"):
        Task((Target("a", kind),), metric)  # type: ignore[arg-type]
    mixed = (Target("a", "binary"), Target("b", "regression"))
    assert Task(mixed, metric).metric == metric


def plain_loss(task: Task, outputs: Tensor, labels: Tensor) -> tuple[Tensor, int]:
    total, count = torch.zeros(()), 0
    for output_row, label_row in zip(outputs, labels, strict=True):
        for target, output, label in zip(task.targets, output_row, label_row, strict=True):
            if math.isnan(label):
                continue
            if target.kind == "regression":
                total = total + (output - (label - target.mean) / target.scale).abs()
            elif label == 1:
                total = total - F.logsigmoid(output)
            else:
                total = total - F.logsigmoid(-output)
            count += 1
    return total, count


def test_loss_equals_a_plain_loop() -> None:
    """Sum and number of labels present, and the gradient, for a mixed task."""
    torch.manual_seed(0)
    labels = torch.tensor(LABELS)
    outputs = torch.randn(5, 2, requires_grad=True)
    total, count = MIXED.loss(outputs, labels)
    expected, number = plain_loss(MIXED, outputs, labels)
    torch.testing.assert_close(total, expected)
    assert int(count) == number == 6
    (gradient,) = torch.autograd.grad(total, outputs)
    (expected_gradient,) = torch.autograd.grad(expected, outputs)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e30])
def test_missing_labels_have_no_gradient(size: float) -> None:
    """Exactly zero where a label is missing and finite everywhere, however large the outputs."""
    torch.manual_seed(1)
    labels = torch.tensor(LABELS)
    outputs = (size * torch.randn(5, 2)).requires_grad_()
    total, _ = MIXED.loss(outputs, labels)
    total.backward()
    assert total.isfinite()
    assert outputs.grad.isfinite().all()
    assert not outputs.grad[labels.isnan()].any()
    assert outputs.grad[~labels.isnan()].any()


def test_loss_without_any_label() -> None:
    """Zero of zero labels, with a zero gradient."""
    outputs = torch.randn(3, 2, requires_grad=True)
    total, count = MIXED.loss(outputs, torch.full((3, 2), NAN))
    total.backward()
    assert (total.item(), int(count)) == (0.0, 0)
    assert not outputs.grad.any()


def test_loss_of_half_precision_outputs_is_computed_in_float32() -> None:
    """With bfloat16 outputs, as autocast gives them, neither scaling nor sum is in bfloat16."""
    outputs = torch.ones(3000, 1, dtype=torch.bfloat16)
    task = Task((Target("a", "regression", mean=100.3, scale=0.7),), "mae")
    total, _ = task.loss(outputs, torch.full((3000, 1), 100.1))
    assert total.dtype == torch.float32
    assert total.item() == pytest.approx(3000 * (1 + 0.2 / 0.7), rel=1e-5)


def test_predictions_undo_the_standardisation() -> None:
    """Regression in the target's own units, yes/no as a probability."""
    outputs = torch.tensor([[0.0, 0.0], [2.0, 3.0], [-1.0, -800.0]])
    expected = [[2.5, 0.5], [3.5, 1 / (1 + math.exp(-3))], [2.0, 0.0]]
    torch.testing.assert_close(MIXED.predictions(outputs), torch.tensor(expected))
    assert MIXED.predictions(outputs).dtype == torch.float32
    # the loss is zero where the prediction is the label
    task = Task((Target("a", "regression", mean=-7.0, scale=3.0),), "mae")
    outputs = torch.randn(9, 1)
    total, _ = task.loss(outputs, task.predictions(outputs))
    assert float(total) == pytest.approx(0, abs=1e-5)


def test_scores_equal_scikit_learns() -> None:
    """Each metric per target over the labels present, and their mean under the metric's name."""
    rng = np.random.default_rng(2)
    kinds = ("regression", "binary", "regression", "binary")
    task = Task(tuple(Target(name, kind) for name, kind in zip("abcd", kinds, strict=True)), "loss")
    labels = rng.normal(size=(200, 4)).astype(np.float32)
    labels[:, 1::2] = labels[:, 1::2] > 0.5
    labels[rng.random((200, 4)) < 0.2] = np.nan
    predictions = rng.random((200, 4)).astype(np.float32)
    scores = task.scores(predictions, labels)

    expected = {}
    for column, name in enumerate("abcd"):
        here = ~np.isnan(labels[:, column])
        both = labels[here, column], predictions[here, column]
        if kinds[column] == "regression":
            expected[f"mae/{name}"] = metrics.mean_absolute_error(*both)
            expected[f"rmse/{name}"] = metrics.root_mean_squared_error(*both)
        else:
            expected[f"roc_auc/{name}"] = metrics.roc_auc_score(*both)
    expected["mae"] = (expected["mae/a"] + expected["mae/c"]) / 2
    expected["rmse"] = (expected["rmse/a"] + expected["rmse/c"]) / 2
    expected["roc_auc"] = (expected["roc_auc/b"] + expected["roc_auc/d"]) / 2
    assert scores == pytest.approx(expected, rel=1e-6)
    assert all(type(value) is float for value in scores.values())


def test_a_single_target_of_a_kind_has_no_score_of_its_own() -> None:
    """With one target of a kind "mae" says it all."""
    task = Task((Target("a", "regression"),), "mae")
    scores = task.scores(np.array([[1.0], [3.0]]), np.array([[0.0], [0.0]]))
    assert scores == pytest.approx({"mae": 2.0, "rmse": math.sqrt(5)})
    scores = MIXED.scores(np.array([[1.0, 0.2], [3.0, 0.1]]), np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert scores == pytest.approx({"mae": 2.0, "rmse": math.sqrt(5), "roc_auc": 1.0})


@pytest.mark.parametrize("column", [[1.0, 1.0, NAN], [0.0, 0.0, 0.0], [NAN, NAN, NAN]])
def test_an_undefined_roc_auc_is_nan(column: list[float]) -> None:
    """One class alone, or no label: NaN, never 0.5, and left out of the mean."""
    predictions = np.array([[0.2, 0.1], [0.6, 0.9], [0.4, 0.3]])
    labels = np.array([column, [0.0, 1.0, 0.0]]).T
    alone = Task((Target("a", "binary"),), "roc_auc")
    assert math.isnan(alone.scores(predictions[:, :1], labels[:, :1])["roc_auc"])
    both = Task((Target("a", "binary"), Target("b", "binary")), "roc_auc")
    scores = both.scores(predictions, labels)
    assert math.isnan(scores["roc_auc/a"])
    assert scores["roc_auc/b"] == scores["roc_auc"] == 1.0


def test_regression_without_labels_scores_nan() -> None:
    """No label, no score."""
    task = Task((Target("a", "regression"),), "mae")
    scores = task.scores(np.zeros((2, 1)), np.full((2, 1), np.nan))
    assert math.isnan(scores["mae"])
    assert math.isnan(scores["rmse"])


def test_better() -> None:
    """Anything beats nothing and NaN; NaN beats no number; ties are no gain."""
    low, high = METRICS["mae"], METRICS["roc_auc"]
    assert low.better(0.1, 0.2)
    assert not low.better(0.2, 0.1)
    assert high.better(0.2, 0.1)
    assert not high.better(0.1, 0.2)
    for metric in (low, high, METRICS["loss"]):
        assert metric.better(0.5, None)
        assert metric.better(0.5, NAN)
        assert metric.better(NAN, None)
        assert not metric.better(NAN, 0.5)
        assert not metric.better(0.5, 0.5)
    assert not METRICS["loss"].higher_is_better


def test_json_round_trip() -> None:
    """A task survives JSON text exactly."""
    third = Target("a b/ü", "regression", mean=1 / 3, scale=1e-17)
    task = Task((*MIXED.targets, third), "loss")
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, NAN]), st.integers(0, 6)), min_size=1, max_size=60
    ),
    spread=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_roc_auc_equals_a_count_over_pairs(rows: list[tuple[float, int]], spread: float) -> None:
    """The share of (yes, no) pairs that are in the right order, a tie counting as half."""
    labels = np.array([[label] for label, _ in rows])
    predictions = np.array([[spread * value] for _, value in rows])
    yes = [value for label, value in rows if label == 1]
    no = [value for label, value in rows if label == 0]
    right = sum((a > b) + (a == b) / 2 for a in yes for b in no)
    score = Task((Target("a", "binary"),), "roc_auc").scores(predictions, labels)["roc_auc"]
    if yes and no:
        assert score == pytest.approx(right / (len(yes) * len(no)), rel=1e-12)
    else:
        assert math.isnan(score)


def test_the_constant_is_the_median_or_the_share_of_yes() -> None:
    """Blanks count for nothing, and no other constant has a lower MAE."""
    labels = np.array([[3.0, 1.0], [NAN, 0.0], [9.0, NAN], [1.0, 1.0]])
    assert MIXED.constant(labels).tolist() == [3.0, pytest.approx(2 / 3)]
    column = np.random.default_rng(3).exponential(size=(101, 1))
    task = Task((Target("a", "regression"),), "mae")
    best = np.abs(column - task.constant(column)).mean()
    assert all(np.abs(column - other).mean() >= best for other in np.linspace(0, 3, 301))

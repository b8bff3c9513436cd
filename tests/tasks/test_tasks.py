"""Targets, loss, predictions and scores, against plain loops and scikit-learn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks import Loss, Target, Task
from molsepnorm.tasks.metrics import METRICS, draw_resamples, resampled_scores
from support import score

NAN = float("nan")
LOGP = Target("logP", "regression", mean=2.5, scale=0.5)
TOXIC = Target("toxic", "binary")
ODOUR = Target("odour", "multiclass", classes=("none", "mild", "strong"))
TASTE = Target("taste", "multiclass", classes=("bitter", "sweet"))
NUMBERS = [Target("a", "regression"), Target("b", "regression")]
MIXED = Task((ODOUR, LOGP, TASTE, TOXIC), metric="loss")  # 3 + 1 + 2 + 1 outputs
LABELS = [
    [0.0, 3.0, 1.0, 1.0],
    [2.0, NAN, 0.0, 0.0],
    [NAN, 1.5, 1.0, NAN],
    [NAN, NAN, NAN, NAN],
    [1.0, 2.5, NAN, 0.0],
    [0.0, -4.0, 0.0, 1.0],
]


def weighted(task: Task) -> Task:
    """Return the task with a different weight for each class."""
    weights = {1: (), 2: (0.25, 4.0), 3: (3.0, 0.5, 0.125)}
    return replace(
        task,
        targets=tuple(
            t if t.kind == "regression" else replace(t, class_weights=weights[max(t.width, 2)])
            for t in task.targets
        ),
    )


@pytest.mark.parametrize("metric", ["mae", "rmse"])
def test_the_mean_over_targets_does_not_depend_on_their_units(metric):
    """Each error is divided by the standard deviation of the target's training labels."""
    rng = np.random.default_rng(0)
    labels, predictions, train = rng.normal(size=(3, 40, 2))
    train[:, 1] *= 3
    found = {}
    for unit in (1.0, 1e5):
        units = np.array([1.0, unit])
        task = Task.fit(NUMBERS, train * units)
        scores = task.scores(predictions * units, labels * units)
        ends = task.intervals(predictions * units, labels * units)[metric]
        minus = task.intervals(predictions * units, labels * units, minus=0 * labels)[metric]
        found[unit] = [scores[metric], *ends, *minus]
        relative = [
            scores[f"{metric}/{n}"] / (train * units)[:, i].std() for i, n in ((0, "a"), (1, "b"))
        ]
        assert scores[metric] == pytest.approx(np.mean(relative))
    assert found[1.0] == pytest.approx(found[1e5])
    alone = Task.fit(NUMBERS[1:], train[:, 1:]).scores(predictions[:, 1:], labels[:, 1:])
    assert alone[metric] == score(metric, labels[:, 1], predictions[:, 1])


def test_the_macro_rae_is_the_plain_mean_over_targets():
    """It has no unit, so the spread of the training labels does not matter."""
    labels, predictions = np.random.default_rng(0).normal(size=(2, 40, 2)) * [1.0, 1e3]
    scores = Task.fit(NUMBERS, labels * 7, "rae").scores(predictions, labels)
    ratios = np.abs(predictions - labels).sum(0) / np.abs(labels - labels.mean(0)).sum(0)
    assert [scores["rae/a"], scores["rae/b"]] == pytest.approx(ratios)
    assert scores["rae"] == pytest.approx(ratios.mean())


def loss_of(
    task: Task, outputs: Tensor, labels: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return Loss(task)(outputs, labels, weights)


def test_task_weights_multiply_the_losses_of_their_targets():
    labels, outputs = torch.tensor([[1.0, 2.0], [torch.nan, 3.0]]), torch.zeros(2, 2)
    task = Task(tuple(Target(name, "regression") for name in "ab"), "mae")
    found = Loss(task, task_weights={"b": 0.25})(outputs, labels)
    assert [float(each) for each in found] == [1 + 0.25 * (2 + 3), 1.5]
    assert Loss(task, task_weights={"a": 0.0})(outputs, labels)[1] == 2


SUBSETS = {
    "all kinds": MIXED,
    "class weights": weighted(MIXED),
    "one multi-class target": Task((ODOUR,), "accuracy"),
    "multi-class targets alone": weighted(Task((ODOUR, TASTE), "accuracy")),
    "single outputs alone": Task((LOGP, TOXIC), "loss"),
    "yes/no alone": weighted(Task((TOXIC,), "roc_auc")),
    "regression last": Task((TASTE, TOXIC, LOGP), "loss"),
    "squared errors": replace(MIXED, regression_loss="mse"),
}


def labels_of(task: Task) -> Tensor:
    order = [MIXED.names.index(name) for name in task.names]
    return torch.tensor(LABELS)[:, order]


# Fitting


def test_fit_standardises_by_the_training_labels() -> None:
    """Mean and standard deviation of the labels present, in float64; classes are not scaled."""
    rng = np.random.default_rng(0)
    labels = np.stack(
        [rng.normal(1000, 0.1, 10_001), rng.integers(0, 2, 10_001), rng.integers(0, 3, 10_001)],
        axis=1,
    )
    labels[::7] = np.nan
    labels = labels.astype(np.float32)
    task = Task.fit([Target("energy", "regression"), Target("active", "binary"), ODOUR], labels)
    energies = [float(value) for value in labels[:, 0] if not math.isnan(value)]
    mean = math.fsum(energies) / len(energies)
    scale = math.sqrt(math.fsum((value - mean) ** 2 for value in energies) / len(energies))
    energy, active, odour = task.targets
    assert energy.mean == pytest.approx(mean, rel=1e-12)
    assert energy.scale == pytest.approx(scale, rel=1e-9)
    assert active == Target("active", "binary")
    assert odour == ODOUR
    assert task.names == ("energy", "active", "odour")
    assert task.outputs == 5


@pytest.mark.parametrize(
    ("kinds", "metric"),
    [
        (["regression"] * 2, "loss"),
        (["binary"] * 2, "roc_auc"),
        (["multiclass"] * 2, "accuracy"),
        (["binary", "multiclass"], "loss"),
    ],
)
def test_fit_chooses_the_usual_metric(kinds: list, metric: str) -> None:
    """Several kinds, and numbers whose units may differ, are compared by the loss, unless a metric
    is given."""
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    targets = [
        Target(name, kind, classes=("x", "y") if kind == "multiclass" else ())
        for name, kind in zip("ab", kinds, strict=True)
    ]
    task = Task.fit(targets, labels)
    assert task.metric == metric
    assert task.chosen_by is METRICS[metric]
    if "regression" in kinds:
        assert Task.fit(targets, labels, "rmse").metric == "rmse"


def test_fit_refuses_what_cannot_be_learned_or_chosen() -> None:
    """A target without labels, weights of no class, and a metric that does not exist."""
    labels = np.array([[0.0, 1.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="target 'b' has no label among the training molecules"):
        Task.fit(NUMBERS, labels * [1, NAN])
    with pytest.raises(ConfigError, match="class_weight is for binary and multi-class .* a, b are"):
        Task.fit(NUMBERS, labels, class_weight="balanced")
    with pytest.raises(ConfigError, match=r"unknown metric 'roc-auc'\. Did you mean 'roc_auc'"):
        Task((TOXIC,), "roc-auc")


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_published_set_may_have_constant_or_unlabelled_targets(class_weight: None) -> None:
    """Targets without labels, or with a single value, are accepted, and their loss is finite."""
    targets = [
        *NUMBERS,
        *(Target(name, "binary") for name in "cd"),
        Target("e", "multiclass", classes=ODOUR.classes),
    ]
    labels = np.array([[0.1, NAN, 1, NAN, 2]] * 7, dtype=np.float32)
    task = Task.fit(targets, labels, class_weight=class_weight, strict=False)
    assert task.targets[0].mean == pytest.approx(0.1)
    assert task.targets[0].scale == 1
    assert task.targets[1] == Target("b", "regression")
    later = torch.tensor([[5.0, 3.0, 0.0, 1.0, 1.0]])
    total, weight = loss_of(task, torch.zeros(1, 7), later)
    assert total.isfinite()
    assert weight.isfinite()
    assert np.isfinite(task.baseline_prediction(labels)).all()


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=6), blanks=st.integers(0, 5))
def test_balanced_weights_equal_scikit_learns(counts: list[int], blanks: int) -> None:
    """The mean weight of a training label is 1, and all classes have the same total weight."""
    column = np.repeat(np.arange(len(counts), dtype=float), counts)
    labels = np.append(column, np.full(blanks, np.nan))[:, None]
    expected = compute_class_weight("balanced", classes=np.arange(len(counts)), y=column)
    classes = tuple(f"class {i}" for i in range(len(counts)))
    targets = [Target("a", "multiclass", classes=classes)]
    if len(counts) == 2:
        targets.append(Target("a", "binary"))
    for each in targets:
        task = Task.fit([each], labels, class_weight="balanced")
        (target,) = task.targets
        assert target.class_weights == pytest.approx(expected.tolist())
        total, weight = loss_of(task, torch.zeros(len(labels), task.outputs), torch.tensor(labels))
        assert float(weight) == pytest.approx(len(column))
        assert float(total / weight) == pytest.approx(math.log(len(counts)))


# The loss


def plain_loss(
    task: Task, outputs: Tensor, labels: Tensor, weights: Tensor
) -> tuple[Tensor, float]:
    """Compute the loss label by label."""
    total, weight = torch.zeros((), dtype=outputs.dtype), 0.0
    for output_row, label_row, row in zip(outputs, labels.tolist(), weights.tolist(), strict=True):
        start = 0
        for target, label, factor in zip(task.targets, label_row, row, strict=True):
            own = output_row[start : start + target.width]
            start += target.width
            if math.isnan(label):
                continue
            if target.kind == "regression":
                error = own[0] - (label - target.mean) / target.scale
                loss = error.abs() if task.regression_loss == "l1" else error * error
            else:
                factor *= target.class_weights[int(label)] if target.class_weights else 1
                if target.kind == "binary":
                    loss = -F.logsigmoid(own[0] if label else -own[0])
                else:
                    loss = torch.logsumexp(own, 0) - own[int(label)]
            total = total + factor * loss
            weight += factor
    return total, weight


@pytest.mark.claim(
    "The loss with missing labels, weights and classes equals a plain loop; a weight of 2 "
    "equals two copies."
)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("task", SUBSETS.values(), ids=SUBSETS)
def test_loss_equals_a_plain_loop(task: Task, is_weighted: bool) -> None:
    """The sum, the sum of weights and the gradient agree for every mixture of kinds."""
    torch.manual_seed(0)
    labels = labels_of(task)
    outputs = (3 * torch.randn(6, task.outputs)).requires_grad_()
    of_rows = torch.tensor([1.0, 0.5, 7.0, 3.0, 0.0, 1e-3])
    weights = torch.rand(labels.shape) * of_rows[:, None] if is_weighted else None
    total, weight = loss_of(task, outputs, labels, weights)
    every = torch.ones(labels.shape) if weights is None else weights
    expected, expected_weight = plain_loss(task, outputs, labels, every)
    torch.testing.assert_close(total, expected)
    assert float(weight) == pytest.approx(expected_weight)
    (gradient,) = torch.autograd.grad(total, outputs)
    (expected_gradient,) = torch.autograd.grad(expected, outputs)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e30])
@pytest.mark.parametrize("task", SUBSETS.values(), ids=SUBSETS)
def test_missing_labels_have_no_gradient(task: Task, size: float) -> None:
    """The gradient is exactly zero where a label is missing and finite everywhere, for outputs of
    any size, even if the squared error overflows."""
    torch.manual_seed(1)
    labels = labels_of(task)
    outputs = (size * torch.randn(6, task.outputs)).requires_grad_()
    total, _ = loss_of(task, outputs, labels, torch.rand(labels.shape))
    total.backward()
    assert total.isfinite() or (task.regression_loss == "mse" and size > 1e19)
    assert outputs.grad.isfinite().all()
    width = torch.tensor([target.width for target in task.targets])
    present = ~labels.isnan().repeat_interleave(width, dim=1)
    assert not outputs.grad[~present].any()
    assert outputs.grad[present].any()


@given(copies=st.lists(st.integers(0, 4), min_size=6, max_size=6))
@pytest.mark.parametrize("task", SUBSETS.values(), ids=SUBSETS)
def test_a_weight_counts_as_copies_of_the_molecule(task: Task, copies: list[int]) -> None:
    """A molecule of weight 2 counts as two copies, one of weight 0 as none."""
    torch.manual_seed(2)
    outputs, labels = torch.randn(6, task.outputs), labels_of(task)
    times = torch.tensor(copies)
    one = loss_of(task, outputs, labels, times.float()[:, None].expand_as(labels))
    other = loss_of(task, outputs.repeat_interleave(times, 0), labels.repeat_interleave(times, 0))
    torch.testing.assert_close(one, other)


# Predictions


def test_predictions_undo_the_standardisation() -> None:
    """Regression predictions are in the target's own units, the others are probabilities."""
    outputs = torch.tensor(
        [
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [1.0, 2.0, 3.0, 2.0, -800.0, 800.0, 3.0],
            [-800.0, 0.0, 0.0, -1.0, 0.0, 1.0, -800.0],
        ]
    )
    exps = [math.exp(value) for value in (1, 2, 3)]
    expected = [
        [1 / 3, 1 / 3, 1 / 3, 2.5, 0.5, 0.5, 0.5],
        [*(e / sum(exps) for e in exps), 3.5, 0.0, 1.0, 1 / (1 + math.exp(-3))],
        [0.0, 0.5, 0.5, 2.0, 1 / (1 + math.e), 1 / (1 + math.exp(-1)), 0.0],
    ]
    torch.testing.assert_close(MIXED.predictions(outputs), torch.tensor(expected))
    assert MIXED.predictions(outputs).dtype == torch.float32


def test_tables_name_the_columns() -> None:
    """The prediction comes first, then the probabilities; ties go to the first class."""
    predictions = np.array(
        [[0.2, 0.5, 0.3, -1.5, 0.5, 0.5, 0.75], [0.4, 0.2, 0.4, 1e6, 0.0, 1.0, 0.0]],
        dtype=np.float32,
    )
    tables = MIXED.tables(predictions)
    assert [list(table) for table in tables] == [
        ["odour_pred", "odour_prob_none", "odour_prob_mild", "odour_prob_strong"],
        ["logP_pred"],
        ["taste_pred", "taste_prob_bitter", "taste_prob_sweet"],
        ["toxic_pred"],
    ]
    columns = [values.tolist() for table in tables for values in table.values()]
    assert columns == [
        ["mild", "none"],
        *predictions[:, :3].T.tolist(),
        [-1.5, 1e6],
        ["bitter", "sweet"],
        *predictions[:, 4:6].T.tolist(),
        [0.75, 0.0],
    ]
    assert all(type(name) is str for name in tables[0]["odour_pred"])
    empty = MIXED.tables(np.empty((0, 7)))
    assert [list(table) for table in empty] == [list(table) for table in tables]
    assert {len(values) for table in empty for values in table.values()} == {0}


def test_the_baseline_is_the_median_or_the_frequencies() -> None:
    """Missing labels do not count, and no other constant has a lower MAE or log loss."""
    expected = [2 / 4, 1 / 4, 1 / 4, 2.0, 0.5, 0.5, 0.5]
    assert MIXED.baseline_prediction(np.array(LABELS)).tolist() == pytest.approx(expected)
    rng = np.random.default_rng(3)
    column = rng.exponential(size=(101, 1))
    task = Task((LOGP,), "mae")
    best = np.abs(column - task.baseline_prediction(column)).mean()
    assert all(np.abs(column - other).mean() >= best for other in np.linspace(0, 3, 301))
    classes = rng.choice(3, size=(101, 1), p=[0.6, 0.3, 0.1]).astype(float)
    task = Task((ODOUR,), "log_loss")

    def log_loss(shares: np.ndarray) -> float:
        return task.scores(np.tile(shares, (101, 1)), classes)["log_loss"]

    best = log_loss(task.baseline_prediction(classes))
    assert all(log_loss(shares) > best for shares in rng.dirichlet([1, 1, 1], 50))


# Scores


def random_scored(seed: int, molecules: int = 120) -> tuple[Task, np.ndarray, np.ndarray]:
    """Return two targets of each kind, predictions better than chance, and incomplete labels."""
    rng = np.random.default_rng(seed)
    targets = (
        *(Target("u", "regression"), ODOUR, Target("v", "binary"), TASTE),
        *(Target("w", "regression"), Target("x", "binary")),
    )
    task = Task(targets, "loss")
    labels = np.stack(
        [
            rng.normal(size=molecules)
            if t.kind == "regression"
            else rng.integers(0, max(t.width, 2), molecules)
            for t in targets
        ],
        axis=1,
    )
    parts = []
    for target, column in zip(targets, labels.T, strict=True):
        noise = rng.normal(size=(molecules, target.width))
        if target.kind == "regression":
            parts.append(column[:, None] + noise)
        elif target.kind == "binary":
            parts.append(1 / (1 + np.exp(-2 * (column[:, None] - 0.5) - noise)))
        else:
            odds = np.exp(noise + np.eye(target.width)[column.astype(int)])
            parts.append(odds / odds.sum(axis=1, keepdims=True))
    labels[rng.random(labels.shape) < 0.2] = np.nan
    return task, np.concatenate(parts, axis=1), labels


COLUMNS = {"u": 0, "odour": slice(1, 4), "v": 4, "taste": slice(5, 7), "w": 7, "x": 8}


def test_scores_cover_every_target_and_their_means() -> None:
    """Every metric is computed on every target that it is for."""
    task, predictions, labels = random_scored(0)
    expected = {}
    for name, metric in METRICS.items():
        each = {
            f"{name}/{target.name}": score(name, labels[:, i], predictions[:, COLUMNS[target.name]])
            for i, target in enumerate(task.targets)
            if target.kind in metric.kinds
        }
        if each:
            expected |= each | {name: sum(each.values()) / len(each)}
    scores = task.scores(predictions, labels)
    assert scores == pytest.approx(expected, rel=1e-12)
    assert len(scores) == 6 * 3 + 2 * 3 + 5 * 5
    assert all(type(value) is float for value in scores.values())
    assert next(iter(scores)) == "mae"


def test_rows_of_a_molecule_are_drawn_together() -> None:
    """Otherwise measurements of few molecules would give the interval of many."""
    task, predictions, labels = random_scored(0, molecules=8)
    molecules = np.array([7, 3, 9, 5, 2, 8, 6, 4], dtype=np.uint64)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(8), 5))
    plain = task.intervals(predictions, labels, 100)
    assert task.intervals(predictions, labels, 100, molecules=molecules) == plain
    numbers = [[*dict.fromkeys(rows.tolist())].index(row) for row in rows.tolist()]
    drawn = [np.repeat(np.arange(8), counts) for counts in draw_resamples(8, 100, 0)]
    places = [
        np.concatenate([np.flatnonzero(np.array(numbers) == each) for each in d]) for d in drawn
    ]
    maes = [task.scores(predictions[rows[p]], labels[rows[p]])["mae"] for p in places]
    found = task.intervals(predictions[rows], labels[rows], 100, molecules=molecules[rows])
    np.testing.assert_allclose(found["mae"], np.quantile(maes, [0.025, 0.975]))


def test_intervals_leave_out_what_is_undefined() -> None:
    """Targets with one class have no ROC-AUC and are left out of the mean. A score of fewer than
    five molecules of a class has no interval: it would not contain other draws."""
    rng = np.random.default_rng(0)
    names = ("both", "five_yes", "four_yes", "all_no", "none")
    task = Task(tuple(Target(name, "binary") for name in names), "roc_auc")
    labels = np.zeros((40, 5))
    labels[::2, 0] = labels[:5, 1] = labels[:4, 2] = 1
    labels[:, 4] = np.nan
    predictions = rng.random((40, 5))
    for minus in (None, np.full_like(predictions, 0.5)):
        found = task.intervals(predictions, labels, 400, minus=minus)
        for metric in ("roc_auc", "accuracy"):
            assert {name for name in found if name.startswith(metric)} == {
                *(metric, f"{metric}/both", f"{metric}/five_yes")
            }
    rows = np.repeat(np.arange(10), 4)  # one molecule of the class, four times
    few = task.intervals(predictions, labels, 400, molecules=rows)
    assert {"roc_auc/both"} == {name for name in few if name.startswith("roc_auc/")}
    alone = Task(task.targets[:1], "roc_auc")
    without = replace(task, targets=(task.targets[0], task.targets[3]))
    intervals = without.intervals(predictions[:, [0, 3]], labels[:, [0, 3]], 400)
    own = alone.intervals(predictions[:, :1], labels[:, :1], 400)["roc_auc"]
    assert intervals["roc_auc"] == intervals["roc_auc/both"] == own


@pytest.mark.parametrize("others", [False, True])
def test_the_interval_of_a_mean_is_over_the_same_targets(others: bool) -> None:
    """One resample in seven has no label of the target with two labels, whose errors are 1,000
    times as large. Its score on all molecules takes its place."""
    rng = np.random.default_rng(0)
    task = Task(tuple(Target(name, "regression") for name in ("rare", "common")), "mae")
    labels = rng.normal(size=(60, 2))
    labels[2:, 0] = np.nan
    predictions = labels + rng.uniform(0.9, 1.1, labels.shape) * [1000, 1]
    minus = np.nan_to_num(labels) if others else None
    drawn = draw_resamples(60, 300, 0)
    columns = zip(labels.T, predictions.T, strict=True)
    rare, common = (resampled_scores("mae", *each, drawn) for each in columns)
    assert 0.1 < np.isnan(rare).mean() < 0.2
    rare = np.where(np.isnan(rare), task.scores(predictions, labels)["mae/rare"], rare)
    expected = np.quantile((rare + common) / 2, [0.025, 0.975])
    found = task.intervals(predictions, labels, 300, minus=minus)["mae"]
    np.testing.assert_allclose(found, expected)
    assert found[0] > 450


def test_a_perfect_ranking_has_no_interval() -> None:
    """Its ROC-AUC is 1 in all resamples; its log loss varies. Differences are kept."""
    task = Task((Target("active", "binary"),), "roc_auc")
    labels = np.tile([[0.0], [1.0]], (20, 1))
    predictions = labels * 0.5 + np.linspace(0.1, 0.4, 40)[:, None]
    found = task.intervals(predictions, labels, 100)
    assert "roc_auc" not in found
    assert found["log_loss"][0] < found["log_loss"][1]
    constant = np.full_like(predictions, 0.5)
    assert task.intervals(predictions, labels, 100, minus=constant)["roc_auc"] == (0.5, 0.5)


# Files


THREE = Task(
    (
        Target("y", "regression", 1.0, 2.0),
        Target("z", "regression"),
        Target("c", "multiclass", classes=("p", "q")),
    ),
    "mae",
)


def test_a_target_whose_predictions_are_not_finite_does_not_leave_the_mean() -> None:
    """The mean of the other targets would look better. Unlabelled molecules do not count."""
    labels = np.array([[0.0, 1.0, 0.0], [1.0, 3.0, 1.0], [np.nan, 4.0, 1.0]] * 9)
    predictions = np.array([[0.0, 1.5, 1.0, 0.0], [1.0, 3.0, 0.0, 1.0], [5.0, 4.0, 0.5, 0.5]] * 9)
    good = THREE.scores(predictions, labels)
    assert good["mae"] == pytest.approx((0 + 0.5 / 3) / 2)
    for bad in (np.nan, np.inf):
        unlabelled, labelled = predictions.copy(), predictions.copy()
        unlabelled[2, 0] = bad
        assert THREE.scores(unlabelled, labels) == good
        labelled[1, 0] = bad
        scores = THREE.scores(labelled, labels)
        assert np.isnan(scores["mae"])
        assert np.isnan(scores["mae/y"])
        assert scores["mae/z"] == good["mae/z"]
        assert scores["accuracy"] == good["accuracy"]
        intervals = THREE.intervals(labelled, labels, resamples=100)
        assert "mae" not in intervals
        assert "mae/z" in intervals
        assert "mae" in THREE.intervals(unlabelled, labels, resamples=100)

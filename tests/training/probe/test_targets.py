"""Logits of classes, against logistic regression; classes and labels that are missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from molsepnorm.tasks import NO_INPUTS, Target
from molsepnorm.training.probe import ridge as embeddings
from molsepnorm.training.probe.kernel import fit_kernel, fit_linear
from molsepnorm.training.probe.ridge import Embedded, _logits, principal_axes, ridge_of_targets
from probed import (
    SMILES,
    TRAIN,
    examples,
    outputs,
    regression,
    ridge_of,
    some_labels,
    standardised,
    start,
)


def test_a_weak_signal_keeps_its_sign(random):
    """Leave-one-out predictions of classes do not anticorrelate with the labels."""
    correlations = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        features = random.normal(size=(60, 20))
        signal = features[:, :3].sum(1)
        classes = (0.3 * signal + random.normal(size=60) > 0.8).astype(int)

        def solve(outputs, weights, features=features):
            return ridge_of(features, outputs, weights, np.arange(60))

        fit = _logits(solve, classes, np.ones(60))
        correlations.append(np.corrcoef(signal, fit.slopes[0] @ features.T)[0, 1])
    assert np.mean(correlations) > 0.4


def one_class_weights(kind: str, balanced: bool, labels: np.ndarray, count: int) -> Target:
    classes = tuple("xyzuv"[:count]) if kind == "multiclass" else ()
    return Target("t", kind, classes=classes).fitted(labels, "balanced" if balanced else None)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("kind", "count"), [("binary", 2), ("multiclass", 2), ("multiclass", 3)])
def test_logits_are_those_of_a_logistic_regression(random, kind, count, balanced):
    """It is fitted to leave-one-out predictions, with the class weights. The ridge regression has
    weights of 1 / √frequency as well."""
    labels = (np.digitize(some_labels(random), [3.0, 5.5]) % count).astype(float)
    target = one_class_weights(kind, balanced, labels[TRAIN], count)
    model = start(target)
    given = examples(model, labels)
    features, classes = standardised(model, given)[TRAIN], labels[TRAIN].astype(int)
    weights = np.ones(40)
    if balanced:
        weights = (40 / count / np.bincount(classes))[classes]
    shown = np.eye(count)[classes]
    shown = shown[:, 1:] if count == 2 else shown
    rooted = weights / np.sqrt(np.bincount(classes, weights))[classes]
    slopes, offsets, *_, left_out = ridge_of(features, shown, rooted, np.arange(40))
    plain = LogisticRegression(max_iter=1000)
    plain.fit(left_out / left_out.std(), classes, weights)
    expected = plain.predict_proba((features @ slopes.T + offsets) / left_out.std())
    calibrated = plain.predict_proba(left_out / left_out.std())
    np.testing.assert_allclose(  # mean probability and frequency of each class, weighted
        weights @ calibrated, np.bincount(classes, weights), rtol=1e-2
    )
    fit_linear(model, given, TRAIN, ["t"])
    found = model.task.predictions(torch.from_numpy(outputs(model, given))).numpy()[TRAIN]
    found = found if kind == "multiclass" else np.concatenate([1 - found, found], 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_class_without_molecules_is_improbable(random):
    """The other classes keep their probabilities."""
    labels = 2.0 * (some_labels(random) > 4)  # classes 0 and 2 of four
    model = start(Target("t", "multiclass", classes=("w", "x", "y", "z")))
    fit_linear(model, examples(model, labels), TRAIN, ["t"])
    found = model.task.predictions(torch.from_numpy(outputs(model, examples(model, labels))))
    assert (found[:, [1, 3]] < 0.03).all()
    other = start(Target("t", "binary"))
    body = {k: v for k, v in model.network.state_dict().items() if k[:5] != "head."}
    other.network.load_state_dict(body, strict=False)
    fit_linear(other, examples(other, labels / 2), TRAIN, ["t"])
    expected = outputs(other, examples(other, labels))[:, 0]
    np.testing.assert_allclose(found[:, 2].log() - found[:, 0].log(), expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("known", [0, 1, 5])
def test_labels_without_difference_give_a_constant(kind, known):
    """The mean, or equal probabilities."""
    labels = np.full(len(SMILES), np.nan)
    labels[:known] = 1.0
    classes = ("x", "y", "z") if kind == "multiclass" else ()
    model = start(Target("t", kind, mean=float(kind == "regression"), classes=classes))
    given = examples(model, labels)
    fit_linear(model, given, TRAIN, ["t"])
    kernel = fit_kernel(model, given, TRAIN, NO_INPUTS)
    for each in (model, kernel):
        predicted = each.task.predictions(torch.from_numpy(outputs(each, given))).numpy()
        expected = {"regression": 1.0, "binary": 0.5, "multiclass": 1 / 3}[kind]
        np.testing.assert_allclose(predicted, expected, rtol=1e-6)


def test_targets_with_the_same_molecules_share_a_decomposition(random, monkeypatch):
    """Also if two patterns of missing labels alternate; models keep the order of the targets."""
    decompositions = []

    def counted(features, weights):
        decompositions.append(len(features))
        return principal_axes(features, weights)

    monkeypatch.setattr("molsepnorm.training.probe.ridge.principal_axes", counted)
    labels = np.stack([some_labels(random) * (1 + number) for number in range(6)], axis=1)
    labels[5:9, ::2] = np.nan
    names = [f"t{number}" for number in range(6)]
    model = start(*map(regression, names, labels.T))
    embedded = embedded_of_model(model, examples(model, labels))
    found = ridge_of_targets(embedded.inputs, model.task, embedded)
    assert sorted(decompositions) == [36, 40]
    for number, each in enumerate(found):
        target, rows = model.task.targets[number], ~np.isnan(labels[TRAIN, number])
        own = (labels[TRAIN][rows, number] - target.mean) / target.scale
        expected = ridge_of(embedded.inputs[rows], own[:, None], np.ones(rows.sum()), TRAIN[rows])
        np.testing.assert_allclose(each.slopes, expected.slopes, rtol=1e-4, atol=1e-6)


def test_labels_have_their_own_weights(random):
    """Each target equals a regression of it alone, with its weights."""
    labels = np.stack([some_labels(random), some_labels(random)], axis=1)
    weights = random.uniform(0.2, 3, labels.shape).astype(np.float32)
    model = start(regression("a", labels[:, 0]), regression("b", labels[:, 1]))
    embedded = embedded_of_model(model, examples(model, labels, weights))
    found = ridge_of_targets(embedded.inputs, model.task, embedded)
    for i, target in enumerate(model.task.targets):
        own = ((labels[TRAIN, i] - target.mean) / target.scale)[:, None]
        expected = ridge_of(embedded.inputs, own, weights[TRAIN, i].astype(float), TRAIN)
        np.testing.assert_allclose(found[i].slopes, expected.slopes, rtol=1e-4, atol=1e-6)
        even = ridge_of(embedded.inputs, own, np.ones(len(TRAIN)), TRAIN)
        assert np.abs(found[i].slopes - even.slopes).max() > 1e-3


def embedded_of_model(model, given) -> Embedded:
    return Embedded.of(model.network, model.network.embed, given, TRAIN, model.task)


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(embeddings, "MAX_MOLECULES", 16)


def embedded_of(labels: np.ndarray, *targets: Target, weights: np.ndarray | None = None):
    model = start(*targets)
    return embedded_of_model(model, examples(model, labels, weights))


def test_many_molecules_are_a_sample(random, limit):
    labels, weights = some_labels(random), random.uniform(0.5, 2, len(SMILES))
    embedded = embedded_of(labels, regression("t", labels), weights=weights)
    assert len(embedded.inputs) == len(set(embedded.molecules)) == 16
    assert set(embedded.molecules) <= set(TRAIN)
    np.testing.assert_array_equal(embedded.labels[:, 0], np.float32(labels[embedded.molecules]))
    expected = 40 / 16 * weights[embedded.molecules, None]
    np.testing.assert_allclose(embedded.weights, expected, rtol=1e-6)


@pytest.mark.parametrize(("actives", "kept"), [(0, 0), (5, 5), (12, 8), (20, 8)])
def test_molecules_of_a_rare_class_are_kept_up_to_half_of_the_sample(random, actives, kept, limit):
    """The weights add up to the number of molecules of each class."""
    labels = np.zeros(len(SMILES))
    labels[random.permutation(TRAIN)[:actives]] = 1
    embedded = embedded_of(labels, Target("t", "binary"))
    classes = embedded.labels[:, 0]
    assert (len(classes), classes.sum()) == (16, kept)
    for label, number in (0, 40 - actives), (1, actives):
        np.testing.assert_allclose(embedded.weights[classes == label].sum(), number)

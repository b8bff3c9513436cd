"""Heads that are solved for, against scikit-learn, closed forms and plain loops; and epoch 0."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from support import CONTRASTIVE

from molsepnorm.data import datasets
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Target, Task
from molsepnorm.training import Callback, load_config, train, train_on
from molsepnorm.training import probe as probes
from molsepnorm.training.inputs import with_inputs
from molsepnorm.training.objectives import Examples
from molsepnorm.training.objectives.supervised import Supervised
from molsepnorm.training.probe import fit_kernel, fit_linear

ENDS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1", "Cl", "F")
SMILES = [f"{'C' * length}{end}" for length in range(1, 7) for end in ENDS]
TRAIN = np.arange(40)
SMALL = {"layers": 2, "width": 8, "ffn_width": 8, "heads": 2, "max_path_length": 2}


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def regression(name: str, labels: np.ndarray) -> Target:
    return Target.fit(name, "regression", labels[TRAIN])


def start(*targets: Target, **config) -> PropertyModel:
    """A random network whose embeddings differ between molecules."""
    task = Task(targets, "loss")
    torch.manual_seed(0)
    network = Graphormer(
        GraphormerConfig(**{**SMALL, "init": "xavier", **config}, outputs=task.outputs)
    )
    return PropertyModel(network.eval(), "zinc", task)


def examples(
    model: PropertyModel, labels: np.ndarray, weights: np.ndarray | None = None
) -> Examples:
    encoded = encode(
        [featurize.get("zinc")(each) for each in SMILES], encoding_of(model.network.config)
    )
    given = None if weights is None else torch.from_numpy(weights.astype(np.float32))
    columns = torch.from_numpy(labels.astype(np.float32).reshape(len(SMILES), -1))
    return Examples(GraphTensors.of(encoded), columns, given, {})


def outputs(model: PropertyModel, given: Examples) -> np.ndarray:
    return infer(model.network, given.graphs, np.arange(len(SMILES))).double().numpy()


def standardised(model: PropertyModel, given: Examples) -> np.ndarray:
    """The embeddings of all molecules, by mean and deviation of the training molecules."""
    read = infer(model.network, given.graphs, np.arange(len(SMILES)), call=model.network.embed)
    read = read.double().numpy()
    scale = read[TRAIN].std(0)
    scale[scale < 1e-6] = 1
    return (read - read[TRAIN].mean(0)) / scale


def some_labels(random: np.random.Generator) -> np.ndarray:
    return np.array([text.count("C") for text in SMILES]) + random.normal(size=len(SMILES)) / 4


# Ridge regression


def _ridge(features, labels, weights, molecules):
    return probes._ridge(probes._axes(features, weights), labels, weights, molecules)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_predictions_equal_refits(random, monkeypatch, weighted):
    """Labels and features are centred once, with all molecules: a mean without molecule i would be
    lower, the higher the label of i is."""
    features, labels = random.normal(size=(20, 6)) + 3, random.normal(size=(20, 2))
    weights = random.uniform(0.2, 3, 20) if weighted else np.ones(20)
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.7]))
    (slopes, offsets, *_), left_out = _ridge(features, labels, weights, np.arange(20))
    weights = weights / weights.mean()
    whole = Ridge(0.7).fit(features, labels, weights)
    np.testing.assert_allclose(slopes, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(offsets, whole.intercept_, rtol=1e-9)
    means = np.average(features, 0, weights), np.average(labels, 0, weights)
    for i in range(20):
        kept = np.arange(20) != i
        one = Ridge(0.7, fit_intercept=False)
        one.fit(features[kept] - means[0], labels[kept] - means[1], weights[kept])
        expected = one.predict(features[[i]] - means[0])[0] + means[1]
        np.testing.assert_allclose(left_out[i], expected, rtol=1e-8)


@pytest.mark.parametrize("width", [25, 40])
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_penalty_has_the_smallest_leave_one_out_error(random, noise, width):
    """The refits have an offset of their own, and there may be more features than molecules."""
    features = random.normal(size=(30, width))
    labels = features[:, :1] + noise * random.normal(size=(30, 1))
    weights = random.uniform(0.2, 3, 30)
    weights /= weights.mean()
    (slopes, *_), _ = _ridge(features, labels, weights, np.arange(30))
    errors = []
    for penalty in probes._PENALTIES:
        error = 0.0
        for i in range(30):
            kept = np.arange(30) != i
            one = Ridge(penalty).fit(features[kept], labels[kept, 0], weights[kept])
            error += weights[i] * (labels[i, 0] - one.predict(features[[i]])[0]) ** 2
        errors.append(error)
    best = probes._PENALTIES[int(np.argmin(errors))]
    expected = Ridge(best).fit(features, labels[:, 0], weights).coef_
    np.testing.assert_allclose(slopes, [expected], rtol=1e-6)


def test_weight_two_equals_two_molecules(random, monkeypatch):
    """In the fit, if the penalty per molecule is the same, since weights are scaled to the mean 1.
    Leave-one-out predictions differ, because the second of two equal molecules remains."""
    features, labels = random.normal(size=(10, 3)), random.normal(size=(10, 1))
    twice = np.repeat(np.arange(10), [2, *[1] * 9])
    weights = np.array([2.0, *[1.0] * 9])
    monkeypatch.setattr(probes, "_PENALTIES", np.array([1.0]))
    one, left_out = _ridge(features, labels, weights, np.arange(10))
    monkeypatch.setattr(probes, "_PENALTIES", np.array([1.1]))  # 11 molecules, not 10
    other, others_left_out = _ridge(features[twice], labels[twice], np.ones(11), np.arange(11))
    np.testing.assert_allclose(one.slopes, other.slopes)
    np.testing.assert_allclose(one.offsets, other.offsets)
    assert abs(left_out[0] - others_left_out[0]) > 1e-3


@pytest.mark.parametrize("width", [6, 40])
def test_the_rows_of_a_molecule_are_left_out_together(random, monkeypatch, width):
    """Compared with refits; one to four rows each, in any order, with weights."""
    molecules = random.permutation(np.repeat(np.arange(12) * 7, [1, 2, 3, 4] * 3))
    features, labels = random.normal(size=(30, width)), random.normal(size=(30, 2))
    weights = random.uniform(0.2, 3, 30)
    weights /= weights.mean()
    errors = []
    for penalty in probes._PENALTIES:
        error = 0.0
        for molecule in set(molecules):
            kept = molecules != molecule
            one = Ridge(penalty).fit(features[kept], labels[kept], weights[kept])
            missed = labels[~kept] - one.predict(features[~kept])
            error += (weights[~kept, None] * missed**2).sum()
        errors.append(error)
    best = probes._PENALTIES[int(np.argmin(errors))]
    (slopes, *_), left_out = _ridge(features, labels, weights, molecules)
    np.testing.assert_allclose(slopes, Ridge(best).fit(features, labels, weights).coef_, rtol=1e-6)
    means = np.average(features, 0, weights), np.average(labels, 0, weights)
    for molecule in set(molecules):
        kept = molecules != molecule
        one = Ridge(best, fit_intercept=False)
        one.fit(features[kept] - means[0], labels[kept] - means[1], weights[kept])
        expected = one.predict(features[~kept] - means[0]) + means[1]
        np.testing.assert_allclose(left_out[~kept], expected, rtol=1e-4, atol=1e-4)


def test_a_weak_signal_keeps_its_sign(random):
    """Leave-one-out predictions of classes do not anticorrelate with the labels."""
    correlations = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        features = random.normal(size=(60, 20))
        signal = features[:, :3].sum(1)
        classes = (0.3 * signal + random.normal(size=60) > 0.8).astype(int)
        fit = probes._logits(partial(_ridge, features), classes, np.ones(60), np.arange(60))
        correlations.append(np.corrcoef(signal, fit.slopes[0] @ features.T)[0, 1])
    assert np.mean(correlations) > 0.4


# The linear head


def test_the_linear_head_is_ridge_regression_of_standardised_embeddings(random, monkeypatch):
    """With missing labels and weights; the network's predictions are those of scikit-learn."""
    monkeypatch.setattr(probes, "_PENALTIES", np.array([2.0]))
    labels = np.stack([some_labels(random), 50 + 7 * random.normal(size=len(SMILES))], 1)
    labels[3:9, 1] = np.nan
    weights = random.uniform(0.5, 2, len(SMILES))
    weights[5] = 0
    model = start(*(regression(name, column) for name, column in zip("ab", labels.T, strict=True)))
    given = examples(model, labels, weights)
    features = standardised(model, given)
    fit_linear(model, given, TRAIN, ["a", "b"])
    predicted = model.task.predictions(torch.from_numpy(outputs(model, given))).numpy()
    for column, target in enumerate(model.task.targets):
        used = TRAIN[~np.isnan(labels[TRAIN, column]) & (weights[TRAIN] > 0)]
        own = weights[used] / weights[used].mean()
        plain = Ridge(2.0).fit(features[used], labels[used, column].astype(np.float32), own)
        expected = plain.predict(features)
        np.testing.assert_allclose(predicted[:, column], expected, atol=1e-4 * target.scale)


def test_only_the_named_targets_get_new_outputs(random):
    labels = random.normal(size=(len(SMILES), 2))
    model = start(regression("a", labels[:, 0]), regression("b", labels[:, 1]))
    before = model.network.head.weight.detach().clone()
    fit_linear(model, examples(model, labels), TRAIN, ["b"])
    assert torch.equal(model.network.head.weight[0], before[0])
    assert not torch.equal(model.network.head.weight[1], before[1])


def one_class_weights(kind: str, balanced: bool, labels: np.ndarray, count: int) -> Target:
    classes = tuple("xyzuv"[:count]) if kind == "multiclass" else ()
    return Target.fit("t", kind, labels, classes, "balanced" if balanced else None)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("kind", "count"), [("binary", 2), ("multiclass", 2), ("multiclass", 3)])
def test_logits_are_those_of_a_logistic_regression(random, kind, count, balanced):
    """It is fitted to leave-one-out predictions, with the class weights."""
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
    (slopes, offsets, *_), left_out = _ridge(features, shown, weights, np.arange(40))
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
def test_labels_without_difference_give_a_constant(random, kind, known):
    """The mean, or equal probabilities."""
    labels = np.full(len(SMILES), np.nan)
    labels[:known] = 1.0
    classes = ("x", "y", "z") if kind == "multiclass" else ()
    model = start(Target("t", kind, mean=float(kind == "regression"), classes=classes))
    given = examples(model, labels)
    fit_linear(model, given, TRAIN, ["t"])
    kernel = fit_kernel(model, given, TRAIN)
    for each in (model, kernel):
        predicted = each.task.predictions(torch.from_numpy(outputs(each, given))).numpy()
        expected = {"regression": 1.0, "binary": 0.5, "multiclass": 1 / 3}[kind]
        np.testing.assert_allclose(predicted, expected, rtol=1e-6)


def test_many_molecules_are_a_sample(random, monkeypatch):
    monkeypatch.setattr(probes, "_MAX_MOLECULES", 15)
    labels = some_labels(random)
    model = start(regression("t", labels))
    embedded = probes._Embedded.of(model.network, examples(model, labels), TRAIN)
    assert len(embedded.inputs) == len(set(embedded.labels[:, 0].tolist())) == 15
    assert set(embedded.labels[:, 0]) <= set(labels[TRAIN].astype(np.float32))


# The kernel head


def kernel_of(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """With γ = 0.1: the length is the square root of channels / γ."""
    return Matern(length_scale=np.sqrt(one.shape[1] / 0.1), nu=1.5)(one, other)


@pytest.mark.parametrize("readout", ["token", "mean", "token+sum", "layers"])
def test_the_kernel_head_is_kernel_ridge_regression(random, monkeypatch, readout):
    """The offset is not penalised: kernel and labels are centred, as in kernel PCA."""
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.01]))
    labels = some_labels(random)
    model = start(regression("t", labels), readout=readout)
    given = examples(model, labels)
    kernel = fit_kernel(model, given, TRAIN)
    assert (kernel.network.config.readout, kernel.network.config.centers) == ("layers", 40)
    assert model.network.config.head == "linear"
    features = standardised(kernel, given)
    assert features.shape[1] == 2 * 2 * 8
    known, asked = kernel_of(features[TRAIN], features[TRAIN]), kernel_of(features, features[TRAIN])
    centre = np.eye(40) - 1 / 40
    plain = KernelRidge(alpha=0.01, kernel="precomputed")
    plain.fit(centre @ known @ centre, labels[TRAIN] - labels[TRAIN].mean())
    expected = plain.predict((asked - known.mean(0)) @ centre) + labels[TRAIN].mean()
    found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
    np.testing.assert_allclose(found[:, 0], expected, atol=2e-3)


@pytest.mark.parametrize("limit", ["_MAX_EXACT", "_MAX_OPERATIONS"])
def test_with_many_molecules_the_kernel_head_is_the_nystrom_solution(random, monkeypatch, limit):
    """Minimise |y - b - K w|² + α wᵀ M w, with the kernel M of the centres; weighted. With many
    targets, too."""
    monkeypatch.setattr(probes, "_MAX_CENTERS", 12)
    monkeypatch.setattr(probes, limit, 39)
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.05]))
    labels, weights = some_labels(random), random.uniform(0.5, 2, len(SMILES))
    model = start(regression("t", labels))
    given = examples(model, labels, weights)
    kernel = fit_kernel(model, given, TRAIN)
    features, centers = standardised(kernel, given), kernel.network.head.centers.double().numpy()
    assert len(centers) == 12
    near = np.abs(features[TRAIN][:, None] - centers).max(2).min(0)
    assert near.max() < 1e-5
    asked, among = kernel_of(features, centers), kernel_of(centers, centers)
    own = weights[TRAIN] / weights[TRAIN].mean()
    design = np.concatenate([asked[TRAIN], np.ones((40, 1))], 1)
    penalty = np.zeros((13, 13))
    penalty[:12, :12] = 0.05 * among
    solved = np.linalg.solve(
        design.T @ (own[:, None] * design) + penalty, design.T @ (own * labels[TRAIN])
    )
    expected = asked @ solved[:12] + solved[12]
    found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
    np.testing.assert_allclose(found[:, 0], expected, atol=2e-3)


def _many_targets(random: np.random.Generator, missing: bool) -> tuple[PropertyModel, Examples]:
    labels = random.normal(size=(len(SMILES), 60))
    if missing:
        labels[np.arange(30), np.arange(30)] = np.nan
    model = start(*(regression(f"y{number}", each) for number, each in enumerate(labels.T)))
    return model, examples(model, labels)


def test_targets_with_labels_for_the_same_molecules_share_one_decomposition(random, monkeypatch):
    decompose, sizes = probes._principal_axes, []

    def counted(centred):
        sizes.append(centred.shape)
        return decompose(centred)

    monkeypatch.setattr(probes, "_principal_axes", counted)
    for missing, expected in (False, 1), (True, 31):
        sizes.clear()
        fit_kernel(*_many_targets(random, missing), TRAIN)
        assert len(sizes) == expected


def test_targets_with_labels_for_different_molecules_compare_fewer(random, monkeypatch):
    monkeypatch.setattr(probes, "_MAX_DECOMPOSED", 31 * 20.1**3)
    monkeypatch.setattr(probes, "_MAX_EXACT", 0)
    assert fit_kernel(*_many_targets(random, True), TRAIN).network.config.centers == 20
    assert fit_kernel(*_many_targets(random, False), TRAIN).network.config.centers == 40


@pytest.mark.parametrize("width", [1, 2])
def test_kernel_ridge_regression_equals_that_of_the_features(random, monkeypatch, width):
    """Also its leave-one-out predictions, where molecules have several rows, weights, and no
    label."""
    features, rows = random.normal(size=(30, 50)), np.sort(random.permutation(30)[:25])
    labels, weights = random.normal(size=(25, width)), random.uniform(0.2, 3, 25)
    molecules = np.arange(25) // 2
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.7]))
    plain, expected = _ridge(features[rows], labels, weights, molecules)
    kernel = features @ features.T
    found, left_out = probes._kernel_ridge(kernel, rows, 0.7, labels, weights, molecules)
    predictions = kernel @ found.slopes.T + found.offsets
    np.testing.assert_allclose(predictions, features @ plain.slopes.T + plain.offsets, rtol=1e-7)
    np.testing.assert_allclose(left_out, expected, atol=1e-3)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_with_some_thousand_molecules_the_kernel_head_is_exact(random, monkeypatch, kind):
    """The kernel and the penalty of each target are those of the approximation."""
    labels = np.stack([some_labels(random), 4 + random.normal(size=len(SMILES))], 1)
    labels[::5, 1] = np.nan
    if kind == "binary":
        labels = np.where(np.isnan(labels), np.nan, labels > 4)
        targets = [Target(name, "binary") for name in "ab"]
    else:
        targets = [regression(name, labels[:, i]) for i, name in enumerate("ab")]
    monkeypatch.setattr(probes, "_MAX_CENTERS", 39)
    wanted, chosen = [], []
    approximate, kernel_ridge = probes._approximate, probes._kernel_ridge

    def first(*given):
        wanted.append(approximate(*given))
        return wanted[-1]

    def noted(kernel, rows, penalty, *others):
        chosen.append((len(rows), penalty))
        return kernel_ridge(kernel, rows, 0.05, *others)

    monkeypatch.setattr(probes, "_approximate", first)
    monkeypatch.setattr(probes, "_kernel_ridge", noted)
    model = start(*targets)
    given = examples(model, labels)
    found = fit_kernel(model, given, TRAIN)
    assert found.network.config.centers == 40
    assert chosen == list(zip([40, 32], wanted[0].penalties, strict=True))
    if kind == "regression":  # the second labels are noise
        assert wanted[0].penalties[0] < wanted[0].penalties[1]
    monkeypatch.setattr(probes, "_MAX_CENTERS", 40)
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.05]))
    expected = outputs(fit_kernel(model, given, TRAIN), given)
    np.testing.assert_allclose(outputs(found, given), expected, atol=2e-3)


def with_counts(given: Examples, counts: np.ndarray) -> Examples:
    features = torch.from_numpy(counts.astype(np.float32))
    return replace(given, graphs=replace(given.graphs, features=features))


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Return the similarity of two lists of counts; a count above 4 is a 4."""
    one, other = one.clip(max=4), other.clip(max=4)
    return np.minimum(one, other).sum() / np.maximum(one, other).sum()


@pytest.mark.parametrize(("centers", "exact"), [(40, True), (12, True), (12, False)])
def test_fingerprint_counts_are_compared_where_they_help(random, monkeypatch, centers, exact):
    """The kernel is the sum of both; labels of two groups of counts have a smaller error with them,
    labels that the embeddings determine do not."""
    monkeypatch.setattr(probes, "_PENALTIES", np.array([0.01]))
    monkeypatch.setattr(probes, "_MAX_CENTERS", centers)
    monkeypatch.setattr(probes, "_MAX_EXACT", 40 if exact else 39)
    group = random.integers(2, size=len(SMILES))
    counts = random.poisson(2, size=(len(SMILES), 30))
    counts[:, :12] *= 1 - group[:, None]
    counts[:, 12:24] *= group[:, None]
    labels = group + 0.1 * random.normal(size=len(SMILES))
    model = start(regression("t", labels))
    given = with_counts(examples(model, labels), counts)
    kernel = fit_kernel(model, given, TRAIN)
    config, head = kernel.network.config, kernel.network.head
    assert (config.molecule_features, config.counts, config.centers) == (
        *(30, 30),
        40 if exact else 12,
    )
    read = infer(kernel.network, given.graphs, np.arange(len(SMILES)), call=kernel.network.embed)
    assert read.shape[1] == 2 * 2 * 8 + 30
    embedded = ((read[:, :-30] - head.mean) / head.scale).double().numpy()
    known = head.counts.numpy()
    tanimoto = np.array([[similarity(one, other) for other in known] for one in counts])
    asked = kernel_of(embedded, head.centers.double().numpy()) + tanimoto / 2
    expected = asked @ head.weight[0].double().numpy() + head.bias.item()
    np.testing.assert_allclose(outputs(kernel, given)[:, 0], expected, atol=1e-3)
    if exact:
        among, centre = asked[TRAIN], np.eye(40) - 1 / 40
        plain = KernelRidge(alpha=0.01, kernel="precomputed")
        plain.fit(centre @ among @ centre, labels[TRAIN] - labels[TRAIN].mean())
        fitted = plain.predict((asked - among.mean(0)) @ centre) + labels[TRAIN].mean()
        found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
        np.testing.assert_allclose(found[:, 0], fitted, atol=2e-3)
    labels = np.array([text.count("C") for text in SMILES]) + 0.0
    model = start(regression("t", labels))
    kernel = fit_kernel(model, with_counts(examples(model, labels), counts), TRAIN)
    assert kernel.network.config.counts == kernel.network.config.molecule_features == 0


def test_a_model_with_a_kernel_head_is_saved_and_loaded(random, tmp_path):
    labels = np.stack([some_labels(random), np.arange(len(SMILES)) % 3], 1)
    targets = regression("t", labels[:, 0]), Target("c", "multiclass", classes=("x", "y", "z"))
    given = examples(model := start(*targets), labels)
    kernel = fit_kernel(model, given, TRAIN)
    kernel.save_pretrained(tmp_path / "model")
    loaded = PropertyModel.from_pretrained(tmp_path / "model")
    assert loaded.network.config == kernel.network.config
    np.testing.assert_array_equal(outputs(loaded, given), outputs(kernel, given))


# Training


@pytest.fixture
def pretrained(configure, tmp_path) -> str:
    """Folder of a run on another target."""
    settings = {"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}
    return str(train(configure(settings), tmp_path / "pretrained").folder)


NO_CHANGE = {"optim.lr": 1e-30, "optim.weight_decay": 0.0}


def test_epoch_zero_is_kept_until_an_epoch_is_better(
    configure, pretrained, tmp_path, rows_of, monkeypatch
):
    """The history has a row of it, without a loss of training; the scores are of the kept model."""
    from molsepnorm.predict import Predictor
    from molsepnorm.training.loop import Trainer

    plain = Trainer.validate
    for name, score, best in (("worse", 99.0, 0), ("better", 1e-9, 1)):

        def validate(self, score=score):
            loss, scores = plain(self)
            return loss, {**scores, "rmse": score}

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "validate", validate)
            settings = {"finetune.start": pretrained, "run.metric": "rmse", "run.epochs": 2}
            result = train(configure(settings), tmp_path / name)
        history = rows_of(tmp_path / name / "history.csv")
        assert [row["epoch"] for row in history] == ["0", "1", "2"]
        assert [row["train_loss"] == "" for row in history] == [True, False, False]
        assert [row["best"] for row in history] == (
            ["1", "0", "0"] if best == 0 else ["1", "1", "0"]
        )
        assert result.metrics["best_epoch"] == best
        model = PropertyModel.from_pretrained(tmp_path / name)
        assert model.network.config.head == ("kernel" if best == 0 else "linear")
        if best == 0:
            assert result.metrics["val"]["rmse"] == pytest.approx(float(history[0]["val_rmse"]))
        rows = rows_of(tmp_path / name / "predictions_test.csv")
        predicted = Predictor(model).predict([row["smiles"] for row in rows])
        found = [each.values["y"] for each in predicted]
        assert found == pytest.approx([float(row["y_pred"]) for row in rows], rel=1e-5)


def test_the_model_is_the_mean_of_probe_and_network(
    configure, pretrained, tmp_path, rows_of, monkeypatch
):
    """From epoch 1 on: its predictions, and the scores and the loss in the history."""
    plain, calls = Supervised.validate, []

    def validate(self, *arguments):
        calls.append(self)
        loss, scores = plain(self, *arguments)
        return loss + 99 * (len(calls) == 1), scores  # so that epoch 0 is not the best

    monkeypatch.setattr(Supervised, "validate", validate)
    settings = {"finetune.start": pretrained, "data.targets": ["y", "active"], "run.metric": "loss"}
    result = train(configure({**settings, "optim.lr": 1e-3}), tmp_path / "run")
    assert result.metrics["best_epoch"] >= 1
    model = PropertyModel.from_pretrained(tmp_path / "run")
    assert [each.config.head for each in model.networks] == ["linear", "kernel"]
    assert model.weights == (0.5, 0.5)
    alone = train(configure({**settings, "run.epochs": 0}), tmp_path / "alone")
    ours, theirs = model.partners[0].state_dict(), alone.model.network.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    config = load_config(config=tmp_path / "run" / "config.yaml")
    dataset = with_inputs(datasets.load(config.data, model.encoding), model.inputs)
    graphs, val = GraphTensors.of(dataset.store), dataset.splits["val"]
    each = [model.task.predictions(infer(one, graphs, val)) for one in model.networks]
    value, chance = (sum(each) / 2)[:, 0].double(), (sum(each) / 2)[:, 1].double()
    labels = torch.from_numpy(dataset.labels[val]).double()
    target = model.task.targets[0]
    errors = (value - labels[:, 0]) / target.scale
    squares = errors[~errors.isnan()] ** 2
    cross = -(labels[:, 1] * chance.log() + (1 - labels[:, 1]) * (1 - chance).log())
    loss = torch.cat([squares, cross[~cross.isnan()]]).mean()
    best = rows_of(tmp_path / "run" / "history.csv")[result.metrics["best_epoch"]]
    assert float(best["val_loss"]) == pytest.approx(float(loss), rel=1e-4)
    rmse = ((value - labels[:, 0])[~labels[:, 0].isnan()] ** 2).mean() ** 0.5
    assert float(best["val_rmse"]) == pytest.approx(float(rmse), rel=1e-4)
    assert result.metrics["val"]["rmse"] == pytest.approx(float(rmse), rel=1e-4)


def test_training_begins_with_the_linear_head(configure, pretrained, tmp_path):
    """With a learning rate of 0 the last epoch has its scores."""
    settings = {"finetune.start": pretrained, "finetune.freeze_epochs": 3, **NO_CHANGE}
    seen = []

    class Spy(Callback):
        def on_epoch(self, record, epochs):
            seen.append(record.scores)

    train(configure(settings), tmp_path / "run", callback=Spy())
    settings["finetune.probe"] = False
    other = train(configure(settings), tmp_path / "other", callback=Spy())
    probed, without = seen[:4], seen[4:]
    assert len(without) == 3 and other.metrics["best_epoch"] >= 1
    assert probed[1] == probed[3] != probed[0]
    assert probed[1]["rmse"] < without[0]["rmse"]


@pytest.mark.parametrize("freeze", [0, 1])
@pytest.mark.parametrize("steps", [2, 4])
def test_a_stopped_run_resumes_exactly_after_the_probe(
    configure, pretrained, tmp_path, outcome, stop_at, steps, freeze, rows_of
):
    """In epoch 1, while epoch 0 is the best, and later."""
    config = configure({"finetune.start": pretrained, "finetune.freeze_epochs": freeze})
    train(config, tmp_path / "whole")
    stopped = train(config, tmp_path / "parts", callback=stop_at(steps))
    assert not stopped.finished and stopped.model is not None
    assert train(None, tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert [row["epoch"] for row in rows_of(tmp_path / "parts" / "history.csv")] == list("0123")


def test_a_run_that_stops_at_epoch_zero_resumes_exactly(configure, pretrained, tmp_path, outcome):
    class Stop(Callback):
        def on_epoch(self, record, epochs):
            return record.epoch == 0

    config = configure({"finetune.start": pretrained, "run.epochs": 1})
    train(config, tmp_path / "whole")
    assert not train(config, tmp_path / "parts", callback=Stop()).finished
    assert train(None, tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_no_epochs_give_the_probe_alone(configure, pretrained, tmp_path, rows_of):
    config = configure({"finetune.start": pretrained, "run.epochs": 0})
    result = train(config, tmp_path / "run")
    assert result.finished and result.metrics["best_epoch"] == 0 == result.metrics["steps"]
    assert [row["epoch"] for row in rows_of(tmp_path / "run" / "history.csv")] == ["0"]
    assert result.model.network.config.head == "kernel"
    assert train(None, tmp_path / "run", resume=True).metrics == result.metrics


def test_no_epochs_give_the_probe_alone_in_memory(configure, pretrained):
    from molsepnorm.data import datasets
    from molsepnorm.training.architecture import architecture

    config = configure({"finetune.start": pretrained, "run.epochs": 0})
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    result = train_on(config, dataset)
    assert result.model.network.config.head == "kernel"
    assert result.metrics["best_epoch"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"finetune.start": "START", "finetune.probe": False},
        {"finetune.start": "START", "data.targets": ["active"]},
    ],
)
def test_no_epochs_need_a_probe(configure, pretrained, tmp_path, settings):
    """There is none without a start, if it is switched off, or if no target is new."""
    settings = {name: pretrained if v == "START" else v for name, v in settings.items()}
    with pytest.raises(ConfigError, match="run.epochs: 0 is for the probe of fine-tuning"):
        train(configure({**settings, "run.epochs": 0}), tmp_path / "run")


def test_heads_and_objectives_without_a_probe(configure, tmp_path, rows_of):
    """A head of two layers, and pre-training."""
    mlp = train(
        configure({"data.targets": ["active"], "model.head": "mlp"}), tmp_path / "mlp"
    ).folder
    for name, settings in (("two", {"finetune.start": str(mlp)}), ("views", CONTRASTIVE)):
        settings = {"finetune.start": str(mlp), "run.epochs": 1, **settings}
        train(configure(settings), tmp_path / name)
        assert [row["epoch"] for row in rows_of(tmp_path / name / "history.csv")] == ["1"]


def test_same_targets_keep_their_outputs_beside_new_ones(configure, pretrained, tmp_path):
    """Only new targets are fitted to the linear head."""
    settings = {"finetune.start": pretrained, "data.targets": ["y", "active"], "run.epochs": 1}
    seen = {}

    class Spy(Callback):
        def on_start(self, config, dataset, model, folder):
            seen["weight"] = model.network.head.weight.detach().clone()

    train(configure(settings), tmp_path / "run", callback=Spy())
    first = PropertyModel.from_pretrained(pretrained).network.head.weight
    assert torch.equal(seen["weight"][1], first[0])


@pytest.mark.parametrize("targets", [["y"], ["active"]])
def test_a_model_with_a_kernel_head_is_a_start(configure, pretrained, tmp_path, targets, rows_of):
    """Its outputs are new, also for its own targets, and every layer stays read out."""
    first = configure({"finetune.start": pretrained, "run.epochs": 0})
    start = train(first, tmp_path / "first").folder
    config = configure({"finetune.start": str(start), "data.targets": targets, "run.epochs": 1})
    assert (config.model.readout, config.model.head) == ("layers", "linear")
    train(config, tmp_path / "second")
    assert len(rows_of(tmp_path / "second" / "history.csv")) == 2

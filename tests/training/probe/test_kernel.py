"""Kernel regression, approximate and exact, against scikit-learn and the equations it solves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import infer
from molsepnorm.model.parts.kernel import KernelRegression, compared
from molsepnorm.nn import Graphormer
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn, Target
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe import kernel as kernels
from molsepnorm.training.probe import ridge as ridges
from molsepnorm.training.probe.kernel import fit_kernel, refit_kernels
from probed import SMILES, TRAIN, examples, outputs, regression, some_labels, standardised, start


def fitted(model: PropertyModel, given: Examples, inputs: ExtraInputs = NO_INPUTS) -> PropertyModel:
    return fit_kernel(model, given, TRAIN, inputs)


def regression_of(model: PropertyModel) -> KernelRegression:
    (part,) = model.parts
    return part.regression


def kernel_of(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """With γ = 0.1: the length is the square root of channels / γ."""
    return Matern(length_scale=np.sqrt(one.shape[1] / 0.1), nu=1.5)(one, other)


def ridge_regression(kernel: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return scikit-learn's predictions from the kernel between all and the training molecules.

    The offset is not penalised: kernel and labels are centred, as in kernel PCA.
    """
    known, centre = kernel[TRAIN], np.eye(len(TRAIN)) - 1 / len(TRAIN)
    plain = KernelRidge(alpha=0.01, kernel="precomputed")
    plain.fit(centre @ known @ centre, labels[TRAIN] - labels[TRAIN].mean())
    return plain.predict((kernel - known.mean(0)) @ centre) + labels[TRAIN].mean()


@pytest.mark.parametrize("readout", ["token", "mean", "token+sum"])
def test_the_kernel_head_is_kernel_ridge_regression(random, monkeypatch, readout):
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.01]))
    labels = some_labels(random)
    model = start(regression("t", labels), readout=readout)
    given = examples(model, labels)
    kernel = fitted(model, given)
    assert len(regression_of(kernel).centers) == 40
    features = standardised(kernel, given)
    assert features.shape[1] == (2 + 1 + (readout == "token+sum")) * 8
    expected = ridge_regression(kernel_of(features, features[TRAIN]), labels)
    found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
    np.testing.assert_allclose(found[:, 0], expected, atol=2e-3)


def test_with_many_targets_the_kernel_head_is_the_nystrom_solution(random, monkeypatch):
    """Minimise |y - b - K w|² + α wᵀ M w, with the kernel M of the centres; weighted."""
    monkeypatch.setattr(kernels, "_MAX_CENTERS", 12)
    monkeypatch.setattr(kernels, "_MAX_OPERATIONS", 40**3 - 1)
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.05]))
    labels, weights = some_labels(random), random.uniform(0.5, 2, len(SMILES))
    model = start(regression("t", labels))
    given = examples(model, labels, weights)
    kernel = fitted(model, given)
    features, centers = standardised(kernel, given), regression_of(kernel).centers.double().numpy()
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
    monkeypatch.setattr(kernels, "_MAX_CENTERS", 39)
    wanted, chosen = [], []
    approximate, solve = kernels._approximate, kernels.invert

    def first(*given):
        wanted.append(approximate(*given))
        return wanted[-1]

    def noted(kernel, rows, weights, penalty, once):
        chosen.append((len(rows), penalty))
        return solve(kernel, rows, weights, 0.05)

    monkeypatch.setattr(kernels, "_approximate", first)
    monkeypatch.setattr(kernels, "invert", noted)
    model = start(*targets)
    given = examples(model, labels)
    found = fitted(model, given)
    assert len(regression_of(found).centers) == 40
    assert sorted(chosen) == sorted(zip([40, 32], wanted[0].penalties, strict=True))
    if kind == "regression":  # the second labels are noise
        assert wanted[0].penalties[0] < wanted[0].penalties[1]
    monkeypatch.setattr(kernels, "_MAX_CENTERS", 40)
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.05]))
    expected = outputs(fitted(model, given), given)
    np.testing.assert_allclose(outputs(found, given), expected, atol=2e-3)


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Return the similarity of two lists of counts; a count above 4 is a 4."""
    one, other = one.clip(max=4), other.clip(max=4)
    return np.minimum(one, other).sum() / np.maximum(one, other).sum()


INPUTS = ExtraInputs((), 30, ("MolWt", "TPSA", "NumHDonors", "RingCount"), pairs=6)


def some_descriptors(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return four descriptors of each molecule, and the same standardised on the training rows."""
    values = random.normal(size=(len(SMILES), 4)) * [1, 30, 1, 1] + [0, 300, 0, 2]
    values[TRAIN[1], 0] = 1e6  # is limited to 10
    values[:, 2] = 7  # all the same, like the number of rings of alkanes
    values[TRAIN[2:6], 3] = np.nan
    own = values[TRAIN]
    low, median, high = np.nanpercentile(own, [5, 50, 95], axis=0)
    scale = (high - low) / 3.29  # that of a normal distribution
    scale[2] = 1
    standardised = ((values - median) / scale).clip(-10, 10)
    standardised[TRAIN[2:6], 3] = 0
    return values, standardised


@pytest.mark.parametrize(("centers", "exact"), [(40, True), (12, True), (12, False)])
def test_descriptors_are_compared_and_fingerprint_counts_where_they_help(
    random, monkeypatch, centers, exact
):
    """The kernel is the sum of the parts; labels of two groups of counts have a smaller error with
    counts, labels that the descriptors determine do not."""
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.01]))
    monkeypatch.setattr(kernels, "_MAX_CENTERS", centers)
    monkeypatch.setattr(kernels, "_MAX_OPERATIONS", 40**3 - (not exact))
    group = random.integers(2, size=len(SMILES))
    counts = random.poisson(2, size=(len(SMILES), 30))
    counts[:, :12] *= 1 - group[:, None]
    counts[:, 12:24] *= group[:, None]
    counts[TRAIN[0], 24:26] = 256, 300  # as in a long chain
    pairs = 4 * random.integers(2, size=(len(SMILES), 6))
    pairs[TRAIN[3], :2] = 256, 700
    descriptors, described = some_descriptors(random)
    in_groups = group + 0.1 * random.normal(size=len(SMILES))
    for labels, compares in ((in_groups, True), (described.sum(axis=1), False)):
        model = start(regression("t", labels))
        given = examples(
            model, labels, counts=counts, descriptors=descriptors.astype(np.float32), pairs=pairs
        )
        kernel = fitted(model, given, INPUTS)
        (part,), head = kernel.parts, regression_of(kernel)
        assert part.reads == (INPUTS if compares else replace(INPUTS, morgan=0, pairs=0))
        assert len(head.centers) == (40 if exact else 12)
        every = np.arange(len(SMILES))
        read = infer(part.network, given.inputs.graphs, every, call=part.network.embed_layers)
        assert read.shape[1] == (2 + 1) * 8
        embedded = ((read - head.mean) / head.scale).double().numpy()
        if exact:
            np.testing.assert_allclose(head.descriptors, described[TRAIN], rtol=1e-4, atol=1e-4)
        asked = kernel_of(embedded, head.centers.double().numpy())
        asked += kernel_of(described, head.descriptors.double().numpy()) / 2
        if compares:
            for known, given_counts in ((head.counts, counts), (head.pairs, pairs)):
                known = known.numpy()
                assert not exact or (known == given_counts[TRAIN].clip(max=255)).all()
                tanimoto = [[similarity(one, other) for other in known] for one in given_counts]
                asked += np.array(tanimoto) / 2
        expected = asked @ head.weight[0].double().numpy() + head.bias.item()
        np.testing.assert_allclose(outputs(kernel, given)[:, 0], expected, atol=1e-3)
        if exact:
            solved = ridge_regression(asked, labels)
            found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
            np.testing.assert_allclose(found[:, 0], solved, atol=2e-3)


def test_counts_that_the_network_reads_are_compared_too(random):
    """Also where the error is smaller without, since they were asked for."""
    labels, inputs = some_labels(random), ExtraInputs(morgan=3, descriptors=("MolWt", "TPSA"))
    model = start(regression("t", labels))
    counts = random.poisson(2, size=(len(SMILES), 3))
    descriptors = random.normal(size=(len(SMILES), 2)).astype(np.float32)
    network = Graphormer(replace(model.network.config, molecule_features=5))
    model = PropertyModel.of(network, "zinc", model.task, inputs=inputs)
    given = examples(model, labels, counts=counts, descriptors=descriptors)
    kernel = fitted(model, given, inputs)
    assert kernel.inputs == inputs and regression_of(kernel).centers.shape[1] == (2 + 1) * 8


TEMPERATURE_AND_SOLVENT = ExtraInputs((FeatureColumn("t"), FeatureColumn("s", ("a", "b", "c"))))


def with_columns(
    random: np.random.Generator, inputs: ExtraInputs
) -> tuple[PropertyModel, Examples, np.ndarray]:
    """Return a model that reads a number and a word of three, its examples, and the cells (G, 4).
    The word decides the labels, the number is noise."""
    word = random.integers(3, size=len(SMILES))
    cells = np.concatenate([random.normal(300, 10, (len(SMILES), 1)), np.eye(3)[word]], axis=1)
    labels = some_labels(random) * (word - 1) + 3 * word
    model = start(regression("t", labels))
    network = Graphormer(replace(model.network.config, molecule_features=4, columns=4))
    model = PropertyModel.of(network, "zinc", model.task, inputs=TEMPERATURE_AND_SOLVENT)
    counts = random.poisson(2, (len(SMILES), inputs.morgan))
    described = random.poisson(2, (len(SMILES), len(inputs.descriptors))).astype(np.float32)
    columns = cells.astype(np.float32)
    given = examples(model, labels, counts=counts, descriptors=described, columns=columns)
    return model, given, cells


@pytest.mark.parametrize("others", [{}, {"morgan": 5, "descriptors": ("MolWt", "TPSA")}])
def test_columns_are_factors_of_the_kernel(random, monkeypatch, others):
    """A column of noise has no weight. Rows that differ in a word of weight 1 are not compared."""
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.01]))
    inputs = replace(TEMPERATURE_AND_SOLVENT, **others)
    model, given, cells = with_columns(random, inputs)
    kernel = fitted(model, given, inputs)
    (part,), head = kernel.parts, regression_of(kernel)
    noise, word = head.column_weights.tolist()
    assert noise == 0 and word >= 0.5
    scaled = (cells - cells[TRAIN].mean(0)) / cells[TRAIN].std(0)
    np.testing.assert_allclose(head.columns.numpy(), scaled[TRAIN], rtol=1e-3, atol=1e-4)
    every = np.arange(len(SMILES))
    read = infer(part.network, given.inputs.graphs, every, call=part.network.embed_layers)
    extra = compared(given.inputs.extra.read_by(part.reads))
    head.column_weights.zero_()
    asked = head.compare(read, *extra).numpy()
    head.column_weights[1] = word
    gap = np.linalg.norm(scaled[:, None, 1:] - scaled[None, TRAIN, 1:], axis=2) * np.sqrt(3)
    asked *= 1 - word + word * (1 + gap) * np.exp(-gap)
    expected = ridge_regression(asked, given.labels.numpy()[:, 0])
    found = kernel.task.predictions(torch.from_numpy(outputs(kernel, given))).numpy()
    np.testing.assert_allclose(found[:, 0], expected, atol=5e-3)


def test_a_second_fit_keeps_the_weights_of_columns(random):
    model, given, _ = with_columns(random, TEMPERATURE_AND_SOLVENT)
    first = fitted(model, given, TEMPERATURE_AND_SOLVENT)
    again = refit_kernels(first, given, np.arange(len(SMILES)), {})
    weights = (regression_of(each).column_weights for each in (again, first))
    assert torch.equal(*weights)


def test_a_second_fit_reads_the_trained_network(random):
    """In an ensemble each kernel regression then reads the one that follows its own network."""
    labels = some_labels(random)
    model = start(regression("t", labels))
    given = examples(model, labels)
    kernels = [part for _ in range(2) for part in fitted(model, given).parts]
    both = model.with_parts([*model.parts, *kernels], [0.2, 0.4, 0.4])
    again = refit_kernels(both, given, TRAIN, {kernels[0].network: model.network})
    assert [part.network for part in again.parts] == [model.network] * 2 + [kernels[1].network]

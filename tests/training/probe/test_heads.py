"""The linear head, against scikit-learn; models with a kernel head as files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from molsepnorm.model import PropertyModel
from molsepnorm.tasks import NO_INPUTS, Target
from molsepnorm.training.probe import ridge as ridges
from molsepnorm.training.probe.kernel import fit_kernel, fit_linear
from probed import SMILES, TRAIN, examples, outputs, regression, some_labels, standardised, start


@pytest.mark.claim(
    "The linear head of the probe predicts what ridge or logistic regression of the "
    "standardised embeddings predicts, with missing labels, weights and class weights."
)
def test_the_linear_head_is_ridge_regression_of_standardised_embeddings(random, monkeypatch):
    """With missing labels and weights; the network's predictions are those of scikit-learn."""
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([2.0]))
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


def test_a_model_with_a_kernel_head_is_saved_and_loaded(random, tmp_path):
    labels = np.stack([some_labels(random), np.arange(len(SMILES)) % 3], 1)
    targets = regression("t", labels[:, 0]), Target("c", "multiclass", classes=("x", "y", "z"))
    given = examples(model := start(*targets), labels)
    kernel = fit_kernel(model, given, TRAIN, NO_INPUTS)
    kernel.save_pretrained(tmp_path / "model")
    loaded = PropertyModel.from_pretrained(tmp_path / "model")
    assert loaded.network.config == kernel.network.config
    np.testing.assert_array_equal(outputs(loaded, given), outputs(kernel, given))

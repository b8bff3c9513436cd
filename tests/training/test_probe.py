"""Runs that begin with a probe: it is a part of the model, or without epochs the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Inputs, KernelPart, NetworkPart, infer
from molsepnorm.molecules.featurize.descriptors import COUNTS, FAST_DESCRIPTORS
from molsepnorm.tasks import Loss
from molsepnorm.training import load_config, train
from molsepnorm.training.completing import baseline
from molsepnorm.training.inputs import with_inputs
from molsepnorm.training.probe.kernel import kernel_regression
from runs import outcome, rows_of, stop_at


@pytest.fixture
def pretrained(trained) -> str:
    """Folder of a run on another target."""
    settings = {"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}
    return str(trained(settings).folder)


@pytest.fixture
def none_is_worse(monkeypatch):
    """No part counts as worse than the trivial baseline."""
    monkeypatch.setattr(baseline, "_errors", lambda task, *_: np.zeros(len(task.targets)))


def predictions_of_parts(model, config):
    """The configured data set, and the predictions of each part for the validation molecules."""
    dataset, extra = with_inputs(datasets.load(config.data, model.encoding), model.inputs)
    inputs, val = Inputs.of(dataset.store, extra), dataset.splits["val"]
    alone = [model.with_parts([part], [1.0]) for part in model.parts]
    found = [each.predict(inputs, val).values for each in alone]
    return dataset, list(map(torch.from_numpy, found))


def test_the_model_is_the_mean_of_probe_and_network(
    configure, trained, pretrained, tmp_path, none_is_worse
):
    """From epoch 1 on: the scores and the loss in the history are those of the mean. At the end the
    kernel regression compares what the trained network reads out."""
    settings = {"finetune.start": pretrained, "data.targets": ["y", "active"], "run.metric": "loss"}
    result = train(configure({**settings, "optim.lr": 1e-3}), tmp_path / "run")
    assert result.metrics["kept_epoch"] >= 1
    model = PropertyModel.from_pretrained(tmp_path / "run")
    assert [type(each) for each in model.parts] == [NetworkPart, KernelPart]
    assert model.weights.tolist() == [[0.25, 0.25], [0.75, 0.75]]
    assert model.parts[1].network is model.network
    alone = trained({**settings, "run.epochs": 0})
    config = load_config(config=tmp_path / "run" / "config.yaml")
    dataset, (network, tuned) = predictions_of_parts(model, config)
    _, (frozen,) = predictions_of_parts(alone.model, config)
    val, train_rows = dataset.splits["val"], dataset.splits["train"]
    graphs = Inputs.of(dataset.store).graphs
    read = infer(model.network, graphs, train_rows, call=model.network.embed_layers)
    torch.testing.assert_close(model.parts[1].regression.mean, read.mean(0), rtol=1e-3, atol=1e-4)
    value, chance = ((network + frozen) / 2).double().T
    labels = torch.from_numpy(dataset.labels[val]).double()
    target = model.task.targets[0]
    errors = (value - labels[:, 0]) / target.scale
    squares = errors[~errors.isnan()] ** 2
    cross = -(labels[:, 1] * chance.log() + (1 - labels[:, 1]) * (1 - chance).log())
    loss = torch.cat([squares, cross[~cross.isnan()]]).mean()
    best = rows_of(tmp_path / "run" / "history.csv")[result.metrics["kept_epoch"] - 1]
    assert float(best["val_loss"]) == pytest.approx(float(loss), rel=1e-4)
    rmse = ((value - labels[:, 0])[~labels[:, 0].isnan()] ** 2).mean() ** 0.5
    assert float(best["val_rmse"]) == pytest.approx(float(rmse), rel=1e-4)
    errors = (network / 4 + 3 / 4 * tuned)[:, 0].double() - labels[:, 0]
    rmse = (errors[~errors.isnan()] ** 2).mean() ** 0.5
    assert result.metrics["val"]["rmse"] == pytest.approx(float(rmse), rel=1e-4)
    assert float(best["val_rmse"]) != pytest.approx(float(rmse), rel=1e-4)


def test_validation_chooses_the_share_of_the_network(
    configure, pretrained, tmp_path, monkeypatch, none_is_worse
):
    """For each target the share with the smallest loss, drawn to that of the other target by as
    many molecules as `prior`, as this is to 1/4."""
    prior = 2
    monkeypatch.setattr(baseline, "_OF_NETWORK", (prior, 0.25))
    settings = {"finetune.start": pretrained, "data.targets": ["y", "active"], "run.metric": "loss"}
    result = train(configure({**settings, "optim.lr": 1e-3}), tmp_path / "run")
    model = PropertyModel.from_pretrained(tmp_path / "run")
    dataset, (network, kernel) = predictions_of_parts(model, configure(settings))
    val = dataset.splits["val"]
    labels, shares = torch.from_numpy(dataset.labels[val]), []

    def drawn(number: int, before: float) -> float:
        own, losses = torch.full_like(labels, torch.nan), {}
        own[:, number] = labels[:, number]
        for step in range(21):
            mean = step / 20 * network + (1 - step / 20) * kernel
            losses[step / 20] = float(Loss(model.task)(model.task.outputs_of(mean), own)[0])
        best, count = min(losses, key=losses.get), int(own.isfinite().sum())
        return (best * count + prior * before) / (count + prior)

    for number in (0, 1):
        shares.append(round(20 * drawn(number, drawn(1 - number, 0.25))) / 20)
    assert shares != [0.25, 0.25]
    assert model.weights.tolist() == [pytest.approx(shares), pytest.approx(1 - np.array(shares))]
    assert result.metrics["network_share"] == np.mean(shares)


@pytest.mark.claim("A stopped run with a probe resumes bit for bit.")
def test_a_stopped_run_resumes_exactly_after_the_probe(configure, trained, pretrained, tmp_path):
    """In epoch 1 and later."""
    settings = {"finetune.start": pretrained}
    whole = outcome(trained(settings).folder)
    for number, stop in enumerate((stop_at(2), stop_at(4))):
        parts = tmp_path / f"{number}"
        stopped = train(configure(settings), parts, callback=stop)
        assert not stopped.finished and (stopped.model is not None) == (number == 1)
        assert train(None, parts, resume=True).finished
        assert outcome(parts) == whole
    assert [row["epoch"] for row in rows_of(parts / "history.csv")] == list("123")


def test_no_epochs_give_the_probe_alone(trained, pretrained):
    result = trained({"finetune.start": pretrained, "run.epochs": 0})
    assert result.finished and result.metrics["kept_epoch"] == 0 == result.metrics["steps"]
    assert [row["epoch"] for row in rows_of(result.folder / "history.csv")] == ["0"]
    assert isinstance(result.model.parts[0], KernelPart)
    assert train(None, result.folder, resume=True).metrics == result.metrics


@pytest.mark.parametrize(
    "settings",
    [
        {"finetune.probe": False},
        {"data.targets": ["active"]},
    ],
)
def test_no_epochs_need_a_probe(configure, pretrained, tmp_path, settings):
    """There is none if it is switched off, or if no target is new."""
    settings = {"finetune.start": pretrained, **settings}
    with pytest.raises(ConfigError, match="run.epochs: 0 fits the probe of fine-tuning alone"):
        train(configure({**settings, "run.epochs": 0}), tmp_path / "run")


@pytest.mark.parametrize("compared", ["embeddings", "embeddings and counts"])
def test_a_model_with_a_kernel_head_is_a_start(
    configure, pretrained, tmp_path, monkeypatch, compared
):
    """Its outputs are new, also for its own targets."""
    with monkeypatch.context() as patch:
        if compared == "embeddings and counts":
            patch.setattr(
                "molsepnorm.training.probe.kernel.kernel_regression",
                lambda embedded, task, compared, _: kernel_regression(
                    embedded, task, compared, True
                ),
            )
        first = configure({"finetune.start": pretrained, "run.epochs": 0})
        start = train(first, tmp_path / "first")
    found = start.model.inputs
    assert (found.morgan, found.descriptors) == (COUNTS * ("counts" in compared), FAST_DESCRIPTORS)
    for target in ("y", "active"):
        settings = {"finetune.start": str(start.folder), "data.targets": [target]}
        config = configure({**settings, "run.epochs": 1})
        train(config, tmp_path / target)
        assert len(rows_of(tmp_path / target / "history.csv")) == 1


@pytest.mark.parametrize(
    ("settings", "descriptors"),
    [({}, FAST_DESCRIPTORS), ({"run.blend": "none"}, ()), ({"run.baseline": False}, ())],
)
def test_descriptors_are_compared_if_the_model_may_have_a_forest(
    trained, pretrained, settings, descriptors
):
    """They would make the predictions of other models slower."""
    settings = {"finetune.start": pretrained, "run.epochs": 0, **settings}
    assert trained(settings).model.inputs.descriptors == descriptors

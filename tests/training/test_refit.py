"""The second fit at the end of a run, to the training and validation molecules."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart
from molsepnorm.molecules.featurize.descriptors import COUNTS, PAIRS
from molsepnorm.tasks.calibration import Intervals
from molsepnorm.training import evaluate, load_config, train
from molsepnorm.training.completing import baseline, complete, networks
from molsepnorm.training.evaluation import select
from molsepnorm.training.probe import kernel as probe
from molsepnorm.training.probe.kernel import kernel_regression
from molsepnorm.training.scoring import refit_rows
from molsepnorm.training.start import trained_on_before
from runs import LABELS, forest_arrays, outcome, rows_of, split_rows, stop_at
from support import predicted

CONSTANT = {"optim.warmup": 0, "optim.decay": "constant"}


@pytest.fixture(autouse=True)
def small(monkeypatch, baselines, settings, scripted):
    """Forests of 5 trees choose their weight. The last epoch is the best one."""
    scripted("rmse", [0.0] * 3)
    monkeypatch.setattr(baseline, "_MIN_BLENDED", 5)


@pytest.fixture(scope="module")
def settings(other_target):
    """Settings of a run that starts from a model of another target, with the second fit."""
    return {
        "data.targets": ["y"],
        "finetune.start": str(other_target),
        "run.epochs": 1,
        "run.blend": "none",
        "run.refit": True,
        **CONSTANT,
    }


def predictions(model: PropertyModel, rows: list[dict[str, str]]) -> np.ndarray:
    return predicted(model, [row["smiles"] for row in rows])[:, 0]


def kernels(model: PropertyModel) -> list[KernelPart]:
    return [each for each in model.parts if isinstance(each, KernelPart)]


@pytest.mark.parametrize(("epochs", "blend"), [(0, "none"), (1, "none"), (1, "forest")])
def test_only_test_predictions_are_those_of_the_second_fit(
    with_columns, settings, tmp_path, monkeypatch, epochs, blend
):
    """Validation scores and the share of the forest do not change, and intervals are fitted to the
    errors and signals of the first fit: the final model has seen the labels. A forest that is left
    out was fitted again, too."""
    runs, intervals, fit = {}, [], Intervals.fit

    def spy(residuals, signals, spread):
        intervals.append({"residuals": residuals, **signals})
        return fit(residuals, signals, spread)

    monkeypatch.setattr(Intervals, "fit", spy)
    for is_refit in (False, True):
        more = {"run.refit": is_refit, "run.epochs": epochs, "run.blend": blend}
        runs[is_refit] = tmp_path / f"{is_refit}"
        train(with_columns(LABELS, {**settings, **more}), runs[is_refit])
    once, twice = (json.loads((run / "metrics.json").read_text()) for run in runs.values())
    parts = ["network"] * epochs + ["kernel regression"] + ["random forest"] * ("blend" in twice)
    assert twice["refit"] == parts and "refit" not in once
    if blend == "none":  # a forest of fewer trees chooses otherwise
        assert twice["val"] == once["val"]
        first, second = (rows_of(run / "predictions_val.csv")[0] for run in runs.values())
        assert first["y_pred"] == second["y_pred"]
        first, second = intervals
        assert first.keys() == second.keys() > {"residuals"}
        assert all(np.array_equal(values, second[name]) for name, values in first.items())
    assert twice["test"] != once["test"]
    assert twice["baseline"]["test"] != once["baseline"]["test"]
    model = PropertyModel.from_pretrained(runs[True])
    for split, same in (("test", True), ("train", True), ("val", False)):
        rows = rows_of(runs[True] / f"predictions_{split}.csv")
        written = np.array([float(row["y_pred"]) for row in rows])
        assert np.allclose(predictions(model, rows), written, rtol=1e-4, atol=1e-5) == same
    require_known_validation(runs)


def require_known_validation(runs) -> None:
    """Scores of validation molecules have a warning, also in a run that starts from this one."""
    own = load_config(config=runs[True] / "config.yaml").data
    found = evaluate(runs[True], own, "val")
    assert found.leak.startswith("the model is fitted to these molecules, too")
    assert evaluate(runs[True], own, "test").leak is None
    assert evaluate(runs[False], own, "val").leak is None
    dataset = found.dataset
    assert trained_on_before(dataset, runs[False], "none") == []
    known = trained_on_before(dataset, runs[True], "none")
    assert len(known) == len(dataset.splits["val"])
    exchanged = {**dataset.splits, "train": dataset.splits["val"], "val": dataset.splits["train"]}
    known = trained_on_before(replace(dataset, splits=exchanged), runs[True], "none")
    assert len(known) == len(dataset.splits["train"])


@pytest.mark.claim(
    "The second fit, to the training and validation molecules, equals a fit to a training "
    "split of all of them. It changes no validation score and no interval, and an interrupted"
    " run equals an uninterrupted one."
)
def test_the_kernel_regression_is_that_of_all_these_molecules(with_columns, settings, tmp_path):
    """As of a run whose training split they are."""
    first = with_columns(LABELS, {**settings, "run.epochs": 0})
    train(first, tmp_path / "first")
    rows = split_rows(tmp_path / "first")
    splits = {
        "train": rows["train"] + rows["val"][1:],
        "val": rows["val"][:1],
        "test": rows["test"],
    }
    (tmp_path / "splits.json").write_text(json.dumps([splits]))
    other = {"run.refit": True, "data.splits_file": str(tmp_path / "splits.json")}
    train(with_columns(LABELS, {**settings, **other, "run.epochs": 0}), tmp_path / "second")
    one, two = (PropertyModel.from_pretrained(tmp_path / name) for name in ("first", "second"))
    assert len(kernels(one)[0].regression.centers) == len(rows["train"]) + len(rows["val"])
    smiles = ["CCO", "CCCCN", "Oc1ccccc1", "CCCC(=O)O"]
    found, expected = (predicted(model, smiles) for model in (one, two))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_a_second_fit_to_the_same_molecules_gives_the_same_networks(
    with_columns, settings, tmp_path, monkeypatch, scripted
):
    """From the same start, with the same batches and learning rates, up to the same epoch."""
    monkeypatch.setattr(networks, "refit_rows", lambda splits: splits["train"])
    scripted("rmse", [0.1, 0.0, 0.1])
    settings = {
        **settings,
        "model.dropout": 0.0,
        "model.attention_dropout": 0.0,
        "optim.warmup": 0.1,
        "optim.decay": "linear",
        "run.epochs": 3,
        "run.ensemble": 2,
    }
    once, twice = (
        train(with_columns(LABELS, {**settings, "run.refit": again}), tmp_path / f"{again}")
        for again in (False, True)
    )
    assert "network" in twice.metrics["refit"]
    pairs = [
        (one.network.state_dict(), other.network.state_dict())
        for one, other in zip(once.model.parts, twice.model.parts, strict=True)
        if isinstance(one, NetworkPart)
    ]
    assert len(pairs) == 2
    for one, other in pairs:
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_stopped_second_fit_is_done_when_the_run_is_resumed(with_columns, settings, tmp_path):
    config = with_columns(LABELS, settings)
    expected = outcome(train(config, tmp_path / "whole").folder)
    steps = -(-len(select(tmp_path / "whole", config.data, "train").dataset.store) // 8)
    result = train(config, tmp_path / "run", callback=stop_at(steps + 1))
    assert not result.finished and not (tmp_path / "run" / "metrics.json").exists()
    assert train(folder=tmp_path / "run", resume=True).finished
    assert outcome(tmp_path / "run") == expected


def test_the_forest_is_that_of_all_these_molecules(with_columns, tmp_path):
    """Without a kernel regression, too; the first forest has fewer trees."""
    settings = {"data.targets": ["y"], "run.epochs": 1, "run.blend": "forest", "run.refit": True}
    metrics = train(with_columns(LABELS, settings), tmp_path / "run").metrics
    assert metrics["refit"] == ["random forest"]
    assert metrics["baseline"]["trees"] == 3 + 24
    model = PropertyModel.from_pretrained(tmp_path / "run")
    table = load_config(config=tmp_path / "run" / "config.yaml").data
    dataset = select(model, table, "all").dataset
    rows = split_rows(tmp_path / "run")
    graphs = refit_rows({name: np.array(each) for name, each in rows.items()})
    (forest,) = (each for each in model.parts if isinstance(each, Forest))
    extra = forest_arrays([dataset.smiles[row] for row in graphs])
    labels = dataset.labels[graphs]
    expected = Forest.fit(forest.reads, extra.stacked(), labels, model.task, seed=0, trees=12)
    for name, tensor in expected.state().items():
        assert np.array_equal(forest.state()[name].numpy(), tensor.numpy()), name


def test_a_forest_is_blended_beside_a_kernel_regression_of_fingerprints(
    with_columns, settings, tmp_path, monkeypatch
):
    """The forest does not read the atom pairs."""
    monkeypatch.setattr(
        probe,
        "kernel_regression",
        lambda *given: kernel_regression(*given[:3], True),
    )
    metrics = train(
        with_columns(LABELS, {**settings, "run.blend": "auto"}), tmp_path / "run"
    ).metrics
    model = PropertyModel.from_pretrained(tmp_path / "run")
    share = metrics["blend"]["forest_share"]
    assert model.weights[-1] == share > 0
    *others, forest = model.parts
    (kernel,) = kernels(model)
    assert (kernel.reads.morgan, kernel.reads.pairs, forest.reads.pairs) == (COUNTS, PAIRS, 0)
    rows = [{"smiles": text} for text in ("CCO", "CCCCN", "Oc1ccccc1", "CCCC(=O)O")]
    weights = [weight / (1 - share) for weight in model.weights[:-1]]
    alone = predictions(model.with_parts(others, weights), rows)
    of_forest = forest.values(forest_arrays([row["smiles"] for row in rows]))[:, 0]
    expected = (1 - share) * alone + share * of_forest
    np.testing.assert_allclose(predictions(model, rows), expected, rtol=1e-4, atol=1e-5)


def test_a_stopped_run_equals_an_uninterrupted_one(with_columns, settings, tmp_path):
    """Also if it was killed between the second fit and the scores."""
    settings = {**settings, "run.blend": "forest"}
    config = with_columns(LABELS, {**settings, "run.epochs": 2})
    train(config, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    train(config, tmp_path / "stopped", callback=stop_at(2))
    train(folder=tmp_path / "stopped", resume=True)
    assert outcome(tmp_path / "stopped") == expected
    (tmp_path / "whole" / "metrics.json").unlink()  # after the model was kept
    train(folder=tmp_path / "whole", resume=True)
    assert outcome(tmp_path / "whole") == expected


def test_large_tables_keep_their_kernel_regression(with_columns, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(complete, "MAX_MOLECULES", 26)
    metrics = train(with_columns(LABELS, settings), tmp_path / "large").metrics
    assert metrics["refit"] == ["network"]
    model = PropertyModel.from_pretrained(tmp_path / "large")
    assert len(kernels(model)[0].regression.centers) == 24

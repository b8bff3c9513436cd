"""Auxiliary tables: their predictions are inputs, computed from SMILES, which reveal no label."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest

from molsepnorm import Predictor, fit
from molsepnorm.analysis.explanations import explain
from molsepnorm.cli.options import configuration, training_options
from molsepnorm.errors import ConfigError, DataError, MolsepnormError
from molsepnorm.interop.export import DenseModel
from molsepnorm.model import PropertyModel, join
from molsepnorm.molecules.featurize.standardize import molecule_key
from molsepnorm.training import auxiliary, evaluate, load_config, train
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.preparing import prepare
from molsepnorm.training.probe import kernel
from molsepnorm.training.recipes import load_dataset
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.start import starting_model
from runs import ENDS, require_exact_resume, rows_in, rows_of, write_rows
from support import Recorder

LENGTHS = range(1, 9)


def write_screen(path: Path, changed: frozenset[str] = frozenset()) -> Path:
    """A number and a yes/no that the structure determines, and noise, of 48 molecules. Those with a
    key in `changed` have other labels."""
    random, rows = np.random.default_rng(0), []
    for length in LENGTHS:
        for end, value in ENDS.items():
            smiles, noise = f"{end}{'C' * length}", random.normal()
            smiles = smiles if end != "C(=O)O" else f"OC(=O){'C' * length}"
            fold = 0.4 * length + value + 9 * (molecule_key(smiles, "none") in changed)
            rows.append([smiles, round(fold, 3), "yes" if fold > 1 else "no", noise])
    return write_rows(path, ["smiles", "fold", "hit", "noise"], *rows)


@pytest.fixture
def settings(trained, tmp_path):
    """Settings of a run that starts from a trained network and reads screen.csv."""
    start = trained({"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"})
    screen = write_screen(tmp_path / "screen.csv")
    return {
        "finetune.start": str(start.folder),
        "data.auxiliary": [f"{screen}:fold,hit"],
        "run.epochs": 2,
        "run.blend": "none",
        "run.baseline": False,
    }


def prepared(config):
    """The run before its first step."""
    start = starting_model(config)
    dataset = load_dataset(config)
    return prepare(config, dataset, start, None, DistributedContext(), Recorder())


def test_such_a_model_needs_smiles_only(configure, settings, tmp_path, table):
    """Prediction, evaluation and explanation compute the predictions of the auxiliary model."""
    settings |= {"run.blend": "auto", "run.baseline": True, "run.refit": True}
    result = train(configure(settings), tmp_path / "run")
    model = PropertyModel.from_pretrained(tmp_path / "run")
    assert model.inputs.predicted == ("screen_fold", "screen_hit")
    assert all(part.reads.predicted == model.inputs.predicted for part in model.parts)
    assert result.metrics["auxiliary"] == [*model.inputs.predicted]
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "screen.csv" in card and "42 training molecules" in card
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    predictor = Predictor(model)
    found = predictor.to_frame([row["smiles"] for row in rows])
    expected = [float(row["y_pred"]) for row in rows]
    assert found["y_pred"].to_numpy() == pytest.approx(expected, abs=1e-4)
    scores = evaluate(tmp_path / "run", load_config(table).data).scores
    assert scores["rmse"] == pytest.approx(result.metrics["test"]["rmse"], abs=1e-5)
    (explained,) = explain(model, ["CCCc1ccccc1"])
    inputs = explained.targets["y"].inputs
    assert {*model.inputs.predicted} <= {*inputs}
    assert np.abs([inputs[name] for name in model.inputs.predicted]).max() > 1e-6
    with pytest.raises(ConfigError, match="screen_fold"):
        DenseModel(model)


def test_a_resumed_run_and_an_ensemble_need_the_table_once(configure, settings, tmp_path):
    config = configure(settings)
    train(config, tmp_path / "whole")
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", 4)
    joined = train(configure({**settings, "run.ensemble": 2}), tmp_path / "both").model
    assert joined is not None
    (one,) = PropertyModel.from_pretrained(tmp_path / "whole").auxiliary
    smiles = ["CCCO", "CCc1ccccc1"]
    alone = [Predictor(RunFolder(tmp_path / "both" / "members" / n).kept()) for n in "12"]
    mean = np.mean([each.to_frame(smiles)["y_pred"] for each in alone], axis=0)
    assert Predictor(joined).to_frame(smiles)["y_pred"].to_numpy() == pytest.approx(mean, abs=1e-4)
    write_screen(tmp_path / "screen.csv", frozenset({"CCCCCCCO"}))
    other = train(config, tmp_path / "other").model
    assert other is not None and one.task != other.auxiliary[0].task
    with pytest.raises(ConfigError, match="auxiliary models differ"):
        join([PropertyModel.from_pretrained(tmp_path / "whole"), other])


@pytest.mark.claim("Labels of validation and test molecules in an auxiliary table have no effect.")
def test_labels_of_scored_molecules_have_no_effect(configure, settings, tmp_path):
    before = train(configure(settings), tmp_path / "run").metrics
    scored = [row for split in ("val", "test") for row in rows_in(tmp_path / "run", split)]
    keys = frozenset(molecule_key(row["smiles"], "none") for row in scored)
    assert len(keys) == 6
    write_screen(tmp_path / "screen.csv", keys)
    after = train(configure(settings), tmp_path / "again").metrics
    assert before["test"] == after["test"] and before["val"] == after["val"]
    write_screen(tmp_path / "screen.csv", frozenset({"CCCCCCCO"}))
    assert train(configure(settings), tmp_path / "other").metrics["test"] != before["test"]


def test_targets_that_structures_do_not_determine_are_left_out(configure, settings, tmp_path):
    settings["data.auxiliary"] = {str(tmp_path / "screen.csv"): ["noise", "fold"]}
    found = prepared(configure(settings))
    assert found.model.inputs.predicted == ("screen_fold",)
    assert found.model.auxiliary[0].task.names == ("fold",)
    settings["data.auxiliary"] = {str(tmp_path / "screen.csv"): ["noise"]}
    assert prepared(configure(settings)).model.inputs.predicted == ()


@pytest.mark.claim(
    "Predictions of an auxiliary model do not reveal labels of training molecules, even if both "
    "labels are the same noise; leave-one-out predictions would."
)
def test_predictions_of_noise_do_not_reveal_it(tmp_path, monkeypatch):
    """The errors that the kernel regression expects are not smaller with the predictions, and those
    of the test molecules are not larger than those of the mean."""
    random = np.random.default_rng(1)
    smiles = [f"{'C' * n}{end}{'C' * m}" for n in range(1, 9) for m in range(8) for end in "ONS"]
    rows = [*zip(smiles, random.normal(size=len(smiles)), strict=True)]
    main = write_rows(tmp_path / "main.csv", ["smiles", "y"], *rows)
    noise = {"data.auxiliary": f"{main}:y"}
    fixed = {"data.targets": ["y"], "run.epochs": 0, "run.blend": "none", "run.baseline": False}
    regress, expected = kernel.kernel_regression, []

    def spy(*arguments):
        expected.append(regress(*arguments).error)
        return regress(*arguments)

    monkeypatch.setattr(kernel, "kernel_regression", spy)

    def errors(settings, folds=5):
        """The expected error, and that of the test molecules, in variances of the labels."""
        monkeypatch.setattr(auxiliary, "_FOLDS", folds)
        config = load_config(main, overrides={**fixed, **settings, "run.refit": False})
        return train(config, tmp_path / f"{len(expected)}").metrics["test"]["r2"], expected[-1]

    without = errors({})
    assert errors(noise) == without  # the target is left out
    plain = auxiliary._fit
    monkeypatch.setattr(auxiliary, "_fit", lambda *a: plain(*a)._replace(chance=np.array([-9.0])))
    r2, error = errors(noise)
    assert r2 < 0.1 and error > 0.93 * without[1]
    assert errors(noise, folds=1000)[1] < 0.8 * without[1]


def test_bad_tables_are_refused(configure, settings, tmp_path, table):
    screen = tmp_path / "screen.csv"
    few = write_rows(tmp_path / "few.csv", ["smiles", "fold"], ["CCCCCCCCC", 1], ["CCCCCCCCCCN", 2])
    words = [["C" * n, "abc"[n % 3]] for n in range(1, 40)]
    classes = write_rows(tmp_path / "classes.csv", ["smiles", "word"], *words)
    both = [[*row.values(), ("nM", "uM")[n % 2]] for n, row in enumerate(rows_of(screen))]
    units = write_rows(tmp_path / "units.csv", ["smiles", "fold", "hit", "noise", "unit"], *both)
    cases: list[tuple[object, type[MolsepnormError], str]] = [
        ([f"{few}:fold"], DataError, "few.csv"),
        ([f"{classes}:word"], ConfigError, "several classes"),
        ([f"{screen}:fold", f"{screen}:hit"], ConfigError, "once"),
        (["screen"], ConfigError, "FILE:TARGETS"),
        ([f"{units}:fold"], DataError, "--unit-column none"),
    ]
    for value, kind, words_of in cases:
        with pytest.raises(kind, match=words_of):
            prepared(configure({**settings, "data.auxiliary": value}))
    prepared(configure({**settings, "data.auxiliary": value, "data.unit_column": "none"}))
    with pytest.raises(ConfigError, match="pre-trained"):
        prepared(configure({"data.auxiliary": settings["data.auxiliary"]}))


def test_the_option_may_be_repeated(settings, tmp_path):

    found = []
    other = write_rows(tmp_path / "other, b.csv", ["smiles", "fold"], ["C", 1])
    command = click.command()(training_options()(lambda **options: found.append(options)))
    main = write_rows(tmp_path / "main.csv", ["smiles", "y"], ["C", 1])
    given = ["--data", str(main), "--auxiliary", *settings["data.auxiliary"]]
    command.main([*given, "--auxiliary", f"{other}:fold"], standalone_mode=False)
    config = configuration(found[0])
    expected = {tmp_path / "screen.csv": ["fold", "hit"], other: ["fold"]}
    assert config.data.auxiliary == expected
    config.save(tmp_path / "config.yaml")
    assert load_config(config=tmp_path / "config.yaml").data.auxiliary == expected


def test_training_may_start_from_such_a_model(configure, settings, tmp_path):
    """With or without auxiliary tables, also if only its kernel regression is in the mean."""
    run = tmp_path / "run"
    train(configure({**settings, "run.epochs": 0}), run)
    again = configure({**settings, "finetune.start": str(run)})
    assert train(again, run / "again").model.inputs.predicted == ("screen_fold", "screen_hit")
    without = configure({**settings, "finetune.start": str(run), "data.auxiliary": {}})
    assert train(without, run / "without").model.inputs.predicted == ()


def test_molecules_in_memory(settings, tmp_path):
    screen = rows_of(tmp_path / "screen.csv")
    smiles, y = zip(*((row["smiles"], float(row["fold"])) for row in screen), strict=True)
    given = {"data.auxiliary": settings["data.auxiliary"], "finetune.start": "molsepnorm-taught"}
    result = fit(smiles, y, overrides={**given, "run.epochs": 0, "run.baseline": False})
    assert result.model is not None
    assert result.model.inputs.predicted == ("screen_fold", "screen_hit")
    assert Predictor(result.model).to_frame(["CCO"])["y_pred"].notna().all()

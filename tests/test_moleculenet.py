"""benchmarks/moleculenet/: scoring, the methods' commands, features, fits, and the tables."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")
METHODS = (
    *("scratch", "scratch-gine", "finetuned", "probe", "no-forest", "no-refit"),
    *("default", "ensemble", "chemprop", "chemprop-refit", "forest", "forest-third"),
    *("lightgbm", "forest-refit", "lightgbm-refit"),
)


def module(name: str) -> ModuleType:
    return importlib.import_module(f"moleculenet.{name}")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def job(method: str, name: str = "esol") -> Any:
    """Return a job whose files are in the folder `f`."""
    names = ("molecules.csv", "more_training.csv", "held_out.csv", f"{method}-3")
    files = [Path("f") / each for each in names]
    return module("methods").Job(name, method, 3, *files, model="start", peers=Path("bin"))


def test_rmse_is_the_mean_over_targets(random: np.random.Generator) -> None:
    """Missing labels are left out."""
    labels, predictions = random.normal(size=(2, 9, 2))
    labels[:4, 1] = np.nan
    squares = [(labels[0:, 0] - predictions[0:, 0]) ** 2, (labels[4:, 1] - predictions[4:, 1]) ** 2]
    expected = np.mean([np.sqrt(np.mean(each)) for each in squares])
    assert module("sets").score("RMSE", labels, predictions) == pytest.approx(expected)


def test_roc_auc_is_the_share_of_pairs_in_the_right_order(random: np.random.Generator) -> None:
    """Ties count as half; a target with one class is left out."""
    labels = random.integers(0, 2, size=(12, 2)).astype(float)
    labels[:3, 0], labels[:, 1] = np.nan, 1
    predictions = random.integers(0, 4, size=(12, 2)) / 4
    scored = predictions[3:, 0]
    active, inactive = scored[labels[3:, 0] == 1], scored[labels[3:, 0] == 0]
    pairs = [(a > b) + (a == b) / 2 for a in active for b in inactive]
    found = module("sets").score("ROC-AUC", labels, predictions)
    assert found == pytest.approx(np.mean(pairs))


def test_rows_that_rdkit_cannot_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Molhiv has OGB's split, whose `valid` is written `val`."""
    sets = module("sets")
    monkeypatch.setenv("MOLSEPNORM_DATA", str(tmp_path))
    (tmp_path / "moleculenet").mkdir()
    text = "smiles,expt,scaffold_split\nC ,1,train\nno,2,test\nCC,3,test\n"
    (tmp_path / "moleculenet" / "freesolv.csv").write_text(text)
    rows = sets.readable_rows(sets.SETS["freesolv"])
    assert rows.to_numpy().tolist() == [["C", 1, "train"], ["CC", 3, "test"]]
    folder = tmp_path / "ogbg_molhiv"
    (folder / "mapping").mkdir(parents=True)
    (folder / "split" / "scaffold").mkdir(parents=True)
    molecules = pd.DataFrame({"HIV_active": [0, 1, 1], "smiles": ["C", "N", "O"], "mol_id": "x"})
    molecules.to_csv(folder / "mapping" / "mol.csv.gz", index=False)
    for part, number in (("train", 2), ("valid", 0), ("test", 1)):
        numbers = pd.DataFrame([number])
        path = folder / "split" / "scaffold" / f"{part}.csv.gz"
        numbers.to_csv(path, index=False, header=False)
    rows = sets.readable_rows(sets.SETS["molhiv"])
    assert rows.to_numpy().tolist() == [["C", 0, "val"], ["N", 1, "test"], ["O", 1, "train"]]


def test_every_method_has_its_options_seed_and_split() -> None:
    methods = module("methods")
    assert methods.METHODS == METHODS
    for method in METHODS:
        todo = methods.commands(job(method, "tox21"))
        text = " ".join(todo.train)
        data = "more_training.csv" if method == "chemprop-refit" else "molecules.csv"
        assert f"f/{data}" in text and "NR-AhR" in text and " 3 " in f"{text} ", text
        assert " scaffold_split" in text
        written = todo.predict or todo.train
        assert any(argument.endswith(f"{method}-3/predictions.csv") for argument in written)
    networks = ["--from", "start", "--no-baseline", "--no-refit"]
    assert methods.commands(job("finetuned")).train[-4:] == networks
    assert methods.commands(job("default")).train[-2:] == ["--from", "start"]
    assert methods.commands(job("no-forest")).train[-3:] == networks[:3]
    assert "--set=model.local=gine" in methods.commands(job("scratch-gine", "molhiv")).train
    assert methods.commands(job("chemprop", "molhiv")).train[-2:] == ["--epochs", "3"]
    assert "--epochs" not in methods.commands(job("chemprop")).train
    for name in ("esol", "molhiv"):
        probe = methods.commands(job("probe", name)).train
        assert probe[-6:] == [*networks, "--epochs", "0"]
    assert methods.commands(job("forest")).prepare[-1] == "f/features.npy"
    assert methods.commands(job("lightgbm")).train[0] == "bin/python"


def test_features_are_morgan_counts_and_rdkits_descriptors() -> None:
    """Ethane has two equal atoms and one bond; NaN stands for the BCUT charges of a salt."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    texts = ["CC", "[Na+].[Cl-]"]
    found = module("features").morgan_and_descriptors(texts)
    names = [name for name, _ in Descriptors.descList]
    assert found.dtype == np.float32 and found.shape == (2, 2048 + len(names))
    assert sorted(found[0, :2048])[-3:] == [0, 1, 2]
    weights = [Descriptors.MolWt(Chem.MolFromSmiles(text)) for text in texts]
    np.testing.assert_allclose(found[:, 2048 + names.index("MolWt")], weights, rtol=1e-6)
    assert np.isnan(found[1, 2048 + names.index("BCUT2D_CHGHI")])
    assert not np.isinf(found).any()


SPLIT = np.repeat(["train", "val", "test"], [60, 20, 20])


@pytest.mark.parametrize("classify", [False, True])
def test_a_fit_uses_the_labelled_training_rows(classify: bool, random: np.random.Generator) -> None:
    """Predictions do not depend on the labels of other rows; rows without a label are equal to rows
    that are absent."""
    predictions = module("fit").predictions
    features = random.normal(size=(100, 8))
    labels = features[:, 0] - features[:, 1] + random.normal(size=100) / 4
    labels = (labels > 0).astype(float) if classify else labels
    found = predictions("forest", features, labels, SPLIT, classify, 0)
    assert found.shape == (40,)
    metric, ahead = ("ROC-AUC", 0.8) if classify else ("RMSE", -1.1)
    score = module("sets").score(metric, labels[60:, None], found[:, None])
    assert (score if classify else -score) > ahead
    hidden = labels.copy()
    hidden[60:] = 1 - hidden[60:]
    np.testing.assert_array_equal(
        found, predictions("forest", features, hidden, SPLIT, classify, 0)
    )
    labels[:5] = np.nan
    fewer = predictions("forest", features[5:], labels[5:], SPLIT[5:], classify, 0)
    np.testing.assert_array_equal(
        fewer, predictions("forest", features, labels, SPLIT, classify, 0)
    )


def test_a_second_fit_uses_the_validation_rows(random: np.random.Generator) -> None:
    """Predictions are those of a training split of all these rows."""
    predictions = module("fit").predictions
    features, labels = random.normal(size=(100, 8)), random.normal(size=100)
    found = predictions("forest-refit", features, labels, SPLIT, False, 0)
    all_rows = np.where(SPLIT == "val", "train", SPLIT)
    expected = predictions("forest", features, labels, all_rows, False, 0)
    assert found.shape == (40,)
    np.testing.assert_array_equal(found[20:], expected)


def test_fit_writes_the_predictions_of_the_held_out_rows(tmp_path: Path) -> None:
    """Missing features get the median of the training rows."""
    rows = pd.DataFrame({"smiles": ["A", "B", "C", "D", "E"], "y": [1.0, 1.0, 5.0, 0.0, 0.0]})
    rows["split"] = ["train", "train", "train", "val", "test"]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    features = np.array([[0, np.nan], [0, np.nan], [9, np.nan], [9, 1], [np.nan, 2]])
    np.save(tmp_path / "features.npy", features)
    files = [str(tmp_path / name) for name in ("rows.csv", "features.npy", "out.csv")]
    program, rest = BENCHMARKS / "moleculenet" / "fit.py", ["regression", "0", "split", "y"]
    subprocess.run([sys.executable, str(program), "forest", *files, *rest], check=True)
    written = pd.read_csv(tmp_path / "out.csv")
    assert written["smiles"].tolist() == ["D", "E"]
    assert written["y_pred"][0] > 2.5 > written["y_pred"][1]


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command that compares on a set of five molecules, with commands that only pretend."""
    run, usage = module("run"), importlib.import_module("commands").Usage
    rows = pd.DataFrame({"smiles": ["C", "N", "O", "F", "Cl"], "a": [0, 0, 1, 0, 1]})
    rows["scaffold_split"] = ["train", "val", "val", "test", "test"]
    one = module("sets").Set("t.csv", "classification", ("a",))
    monkeypatch.setitem(run.SETS, "t", one)
    monkeypatch.setattr(run, "readable_rows", lambda chosen: rows)
    run.ran = []

    def measured(command: list[str], folder: Path, **environment: str) -> Any:
        run.ran.append((folder.name, Path(command[0]).name, environment["OMP_NUM_THREADS"]))
        predicted = pd.DataFrame({"smiles": run.smiles, "a_pred": [0.1, 0.2, 0.3, 0.2]})
        predicted.to_csv(folder / "predictions.csv", index=False)
        return usage(2.0, 3.0, 0.5)

    monkeypatch.setattr(run, "measured", measured)
    run.smiles = ["N", "O", "F", "Cl"]
    run.options = argparse.Namespace(
        results=tmp_path / "results.jsonl",
        run=["forest", "chemprop"],
        seeds=[0, 1],
        threads=1,
        model="",
        peers=Path("bin"),
    )
    return run


def test_runs_are_appended_and_not_repeated(compared: Any, tmp_path: Path) -> None:
    """The features are computed once, and their time is part of each run's."""
    results, python = compared.options.results, Path(sys.executable).name
    results.write_text(json.dumps({"set": "t", "method": "chemprop", "seed": 0}) + "\n")
    compared.compare("t", compared.options, tmp_path)
    expected = [("forest-0", python, "1")] * 2 + [("forest-1", python, "1")]
    assert compared.ran == [*expected, *[("chemprop-1", "chemprop", "1")] * 2]
    lines = compared.read(results)
    assert [(run["method"], run["seed"]) for run in lines[1:]] == [
        *(("forest", 0), ("forest", 1), ("chemprop", 1)),
    ]
    assert (lines[1]["validation"], lines[1]["test"]) == (1, 0)
    assert [run["seconds"] for run in lines[1:]] == [4, 4, 2]
    assert lines[1]["command"].startswith(f"{python} benchmarks/moleculenet/fit.py forest DIR/")


def test_a_model_of_the_validation_rows_has_no_validation_score(
    compared: Any, tmp_path: Path
) -> None:
    compared.options.run = ["forest", "forest-refit"]
    compared.compare("t", compared.options, tmp_path)
    more = pd.read_csv(tmp_path / "more_training.csv")
    splits = ["train", "val", "val", "test", "test", "train", "train"]
    assert more["scaffold_split"].tolist() == splits
    assert more["smiles"].tolist() == ["C", "N", "O", "F", "Cl", "N", "O"]
    lines = compared.read(compared.options.results)
    assert ["validation" in run for run in lines] == [True, False, True, False]
    text = compared.report([{**run, "set": "esol"} for run in lines], "forest", "validation")
    assert text.splitlines()[2].startswith("| esol, RMSE | 1.000 ± 0.000 (2) |  |")


def test_predictions_of_other_rows_are_refused(compared: Any, tmp_path: Path) -> None:
    compared.smiles = ["O", "N", "F", "Cl"]
    with pytest.raises(SystemExit, match="not those of the validation and test rows"):
        compared.compare("t", compared.options, tmp_path)


def test_the_tables_have_means_and_paired_differences() -> None:
    """The interval is mean ± t · sd / √n of the differences over common seeds, t = 4.303 for
    three of them."""
    scores = {"chemprop": [0.9, 0.8, 1.0, 5.0], "forest": [0.7, 0.8, 0.9]}
    runs = [
        {"set": "esol", "method": method, "seed": seed, "test": score, "cpu_seconds": 7}
        for method, values in scores.items()
        for seed, score in enumerate(values)
    ]
    text = module("run").report(runs, "chemprop", "test")
    first, second, third = (table.splitlines() for table in text.split("\n\n"))
    assert first[0] == "| test score | chemprop | forest |"
    assert first[2] == "| esol, RMSE | 1.925 ± 2.052 (4) | 0.800 ± 0.100 (3) |"
    error = 4.303 * np.std([-0.2, 0, -0.1], ddof=1) / np.sqrt(3)
    low, high = -0.1 - error, -0.1 + error
    assert second[0] == "| minus chemprop | chemprop | forest |"
    assert second[2] == f"| esol, RMSE |  | -0.100 ({low:+.3f} to {high:+.3f}) |"
    assert third[2] == "| esol, RMSE | 7 ± 0 (4) | 7 ± 0 (3) |"

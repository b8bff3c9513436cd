"""Training on molecules and labels in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import molsepnorm
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.pyg import to_data
from molsepnorm.predict import Predictor
from molsepnorm.training import fit, load_config, train

SMILES = [start + "C" * n + end for n in range(6) for start in "CNO" for end in ("O", "F", "Cl")]
Y = [round(0.3 * len(text) - 0.5 * text.count("O"), 2) for text in SMILES]
SMALL = {
    "data.featurizer": "zinc",
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "run.epochs": 2,
    "run.batch_size": 16,
}


def scores(result) -> dict:
    return {split: result.metrics[split] for split in ("val", "test")}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Return a folder that is the working folder, with the cache in it."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_is_trained_and_used_in_three_lines_without_a_file(empty):
    result = molsepnorm.fit(SMILES, Y, overrides=SMALL)
    predictor = molsepnorm.Predictor(result.model)
    (prediction,) = predictor.predict(["CCO"])
    assert isinstance(prediction.values["y"], float)
    assert result.metrics["test"]["mae"] > 0
    assert (result.finished, result.folder) == (True, None)
    assert list(empty.iterdir()) == []


def test_fit_equals_training_on_a_table(empty):
    """Splits, steps and scores are equal to the last bit."""
    rows = "\n".join(f"{text},{y}" for text, y in zip(SMILES, Y, strict=True))
    (empty / "data.csv").write_text(f"smiles,y\n{rows}\n")
    settings = {**SMALL, "data.targets": ["y"]}
    expected = train(load_config(empty / "data.csv", overrides=settings), empty / "run")
    assert scores(fit(SMILES, Y, overrides=SMALL)) == scores(expected)


def test_molecules_may_be_of_any_type(empty):
    """RDKit molecules, graphs and PyTorch Geometric's data train the same model as SMILES."""
    mols = [Chem.AddHs(Chem.MolFromSmiles(text)) for text in SMILES]
    graphs = [featurize.get("zinc")(text) for text in SMILES]
    data = [to_data(graph) for graph in graphs]
    expected = fit(SMILES, Y, overrides=SMALL)
    for molecules, more in ((mols, {}), (graphs, {}), (data, {"bond_offset": 0})):
        assert scores(fit(molecules, Y, overrides=SMALL, **more)) == scores(expected)
    again = fit(pd.Series(SMILES, index=range(7, 7 + len(SMILES))), Y, overrides=SMALL)
    assert scores(again) == scores(expected)


YES = [n % 2 for n in range(len(SMILES))]
WORDS = [("red", "green", "blue")[n % 3] for n in range(len(SMILES))]


@pytest.mark.parametrize(
    ("y", "targets", "expected"),
    [
        (np.array(Y), None, {"y": "regression"}),
        (pd.Series(Y, name="logS", index=SMILES), None, {"logS": "regression"}),
        (pd.Series(Y, name="logS"), ["other"], {"other": "regression"}),
        ([None, *Y[1:]], None, {"y": "regression"}),
        (np.array([Y, Y[::-1]]).T, None, {"y1": "regression", "y2": "regression"}),
        (
            [[a, b] for a, b in zip(Y, YES, strict=True)],
            ["a", "b"],
            {"a": "regression", "b": "binary"},
        ),
        ([bool(each) for each in YES], None, {"y": "binary"}),
        (WORDS, ["colour"], {"colour": "multiclass"}),
        (
            pd.DataFrame({"n": Y, "colour": pd.Categorical(WORDS), "yes": YES}, index=SMILES),
            ["colour", "yes"],
            {"colour": "multiclass", "yes": "binary"},
        ),
        (pd.DataFrame({1: pd.array([None, *YES[1:]], dtype="Int64")}), None, {"1": "binary"}),
    ],
)
def test_labels_may_be_of_any_form(y, targets, expected):
    task = fit(SMILES, y, targets=targets, overrides={**SMALL, "run.epochs": 1}).model.task
    assert {target.name: target.kind for target in task.targets} == expected


def test_missing_labels_are_not_zero():
    """The mean of the target is that of the labels present."""
    y = np.array(Y)
    y[::2] = np.nan
    splits = {"train": range(30), "val": range(30, 40), "test": range(40, 54)}
    task = fit(SMILES, y, splits=splits, overrides=SMALL).model.task
    assert task.targets[0].mean == pytest.approx(np.nanmean(y[:30]), rel=1e-5)


def test_integers_are_classes_if_the_settings_say_so():
    settings = {**SMALL, "data.task_type": "multiclass"}
    task = fit(SMILES, np.arange(len(SMILES)) % 3, overrides=settings).model.task
    assert task.targets[0].classes == ("0", "1", "2")


def test_without_a_test_split_nothing_is_scored():
    """The model is the same as with one."""
    parts = {"train": range(40), "val": range(40, 48)}
    result = fit(SMILES, Y, splits=parts, overrides=SMALL)
    scored = fit(SMILES, Y, splits={**parts, "test": range(48, 54)}, overrides=SMALL)
    assert result.metrics == {}
    for name, weight in scored.model.network.state_dict().items():
        assert weight.equal(result.model.network.state_dict()[name])


@pytest.mark.parametrize("settings", [SMALL, {"run.epochs": 1, "run.blend": "forest"}])
def test_a_model_without_a_test_split_has_intervals_and_a_domain(empty, settings):
    """They are those of a run with one, from random weights and fine-tuned."""
    parts = {"train": range(30), "val": range(30, 48)}
    result = fit(SMILES, Y, splits=parts, overrides=settings, folder="run")
    scored = fit(SMILES, Y, splits={**parts, "test": range(48, 54)}, overrides=settings)
    assert len(result.model.calibration[0].scores) == 18
    models = result.model, scored.model, PropertyModel.from_pretrained("run")
    first, *others = (Predictor(each, level=0.8, domain=True) for each in models)
    expected = first.predict(SMILES)
    assert [*first.columns][-2:] == ["nearest_smiles", "y_nearest"]
    for each in others:
        assert each.predict(SMILES) == expected
    card = Path("run/model/README.md").read_text(encoding="utf-8")
    assert "no test split" in card and "no intervals" not in card
    assert f"is {scored.model.domain.threshold:.2f} or more" in card


class Seen(molsepnorm.training.Callback):
    def on_start(self, config, dataset, model, folder):
        self.dataset = dataset


def test_splits_and_weights_are_used():
    seen, half = Seen(), [2.0, np.nan] * 27
    splits = {"train": list(range(20)), "valid": np.arange(20, 30), "test": [53, 31]}
    fit(SMILES, Y, splits=splits, weights=half, overrides=SMALL, callback=seen)
    found = {name: part.tolist() for name, part in seen.dataset.splits.items()}
    assert found == {"train": [*range(20)], "val": [*range(20, 30)], "test": [31, 53]}
    assert seen.dataset.weights.tolist() == [2.0, 1.0] * 27


def test_names_of_feature_columns_may_be_numbers():
    columns = pd.DataFrame({0: np.arange(54.0), 1: ["water", "ethanol"] * 27})
    model = fit(SMILES, Y, feature_columns=columns, overrides=SMALL).model
    assert model.inputs.names == ("0", "1")
    predictor = molsepnorm.Predictor(model)
    one, other = (
        predictor.predict(SMILES, each) for each in (columns, columns.rename(columns=str))
    )
    assert [each.values for each in one] == [each.values for each in other]


def test_scaffolds_are_kept_together():
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "C1CCC1", "c1ccsc1"]
    smiles = ["C" * n + ring for ring in rings for n in range(5)]
    seen = Seen()
    settings = {**SMALL, "data.split_type": "scaffold", "data.split": [0.6, 0.2, 0.2]}
    fit(smiles, range(len(smiles)), overrides=settings, callback=seen)
    scaffolds = {name: {row // 5 for row in part} for name, part in seen.dataset.splits.items()}
    assert sum(map(len, scaffolds.values())) == len(rings)


def test_unreadable_molecules_can_be_left_out():
    seen = Seen()
    smiles = [*SMILES[:3], "C1CC", *SMILES[3:]]
    y = [*Y[:3], 100.0, *Y[3:]]
    fit(smiles, y, overrides={**SMALL, "data.on_invalid": "skip"}, callback=seen)
    assert [(each.row, each.smiles) for each in seen.dataset.rejected] == [(3, "C1CC")]
    assert seen.dataset.labels[:, 0].tolist() == np.float32(Y).tolist()


def test_a_run_with_a_folder_is_resumed(empty):
    class Stop(molsepnorm.training.Callback):
        def on_epoch(self, record, epochs):
            raise KeyboardInterrupt

    settings = {**SMALL, "run.epochs": 3}
    expected = fit(SMILES, Y, overrides=settings)
    with pytest.raises(KeyboardInterrupt):
        fit(SMILES, Y, overrides=settings, folder="run", callback=Stop())
    with pytest.raises(ConfigError, match=r"call molsepnorm.fit with the same .* resume=True"):
        train(folder="run", resume=True)
    with pytest.raises(DataError, match="the data are no longer those"):
        fit(SMILES, [0.0, *Y[1:]], overrides=settings, folder="run", resume=True)
    with pytest.raises(ConfigError, match=r"other settings, .*: optim\.lr \(.*, now 0\.02\)"):
        fit(SMILES, Y, overrides={**settings, "optim.lr": 0.02}, folder="run", resume=True)
    result = fit(SMILES, Y, overrides=settings, folder="run", resume=True)
    assert scores(result) == scores(expected)
    predicted = pd.read_csv(empty / "run" / "predictions_test.csv")
    assert set(predicted["smiles"]) <= set(SMILES)
    model = PropertyModel.from_pretrained("run")
    values = [each.values["y"] for each in Predictor(model).predict(predicted["smiles"])]
    assert values == pytest.approx(predicted["y_pred"].tolist(), abs=1e-4)


GRAPHS = [featurize.get("zinc")(text) for text in SMILES]


@pytest.mark.parametrize(
    ("molecules", "y", "more", "error", "message"),
    [
        ("CCO", Y, {}, ConfigError, "molecules must be a list, and is one text"),
        ([], [], {}, ConfigError, "molecules is an empty list"),
        ([*SMILES[:-1], 7], Y, {}, ConfigError, "molecule 53: int is not one of SMILES, RDKit mol"),
        ([*SMILES[:-1], None], Y, {}, ConfigError, "molecule 53: NoneType is not one of"),
        (
            [*SMILES[:-1], GRAPHS[0]],
            *(Y, {}, ConfigError, "molecule 53 is a MolGraph, but molecule 0 is a SMILES"),
        ),
        (["C", "C1CC", *SMILES], [1, 1, *Y], {}, DataError, "molecule 1: RDKit cannot read 'C1CC'"),
        (SMILES, Y[:-1], {}, ConfigError, "y has 53 rows, and there are 54 molecules"),
        (SMILES, [[1], [1, 2]], {}, ConfigError, r"y must .* \(G,\) or \(G, T\); its rows differ"),
        (SMILES, np.zeros((54, 1, 1)), {}, ConfigError, r"y must have shape .*; got \(54, 1, 1\)"),
        (SMILES, [*Y[:-1], "high"], {}, DataError, "molecule 53, column 'y': 'high' is not a num"),
        (SMILES, [*Y[:-1], np.inf], {}, DataError, "molecule 53, column 'y': 'inf' is not a num"),
        (
            SMILES,
            Y,
            {"targets": ["a", "b"]},
            ConfigError,
            r"y has 1 column, and targets names",
        ),
        (SMILES, pd.DataFrame({"a": Y}), {"targets": ["b"]}, ConfigError, "y has no column 'b'"),
        (SMILES, [np.nan] * 54, {}, DataError, "y"),
        (SMILES, Y, {"weights": [1.0] * 53}, ConfigError, "weights has 53 rows"),
        (SMILES, Y, {"weights": [1.0, -1] * 27}, DataError, "molecule 1, .*the weight -1 is neg"),
        (SMILES, Y, {"splits": {"train": [0, 99]}}, DataError, "'train': there is no row 99"),
        (SMILES, Y, {"splits": {"train": [0, 1, 1]}}, DataError, "row 1 is in 'train' already"),
        (SMILES, Y, {"splits": [0, 1]}, ConfigError, "splits must be a dictionary"),
        (SMILES, Y, {"splits": {"train": [0, 1], "test": [2]}}, DataError, "2 train molecules"),
        (SMILES, Y, {"splits": {"train": [0], "val": [2], "test": []}}, DataError, "1 train mol"),
        (
            *(SMILES, Y, {"splits": {"train": range(3)}, "overrides": {"data.split": None}}),
            *(ConfigError, "no validation molecules are named, and data.split: null"),
        ),
        (SMILES, Y, {"overrides": {"run.epoch": 1}}, ConfigError, "unknown setting 'run.epoch'"),
        (SMILES, Y, {"overrides": {"data.featurizer": "rdkit"}}, ConfigError, "data.featurizer"),
        (GRAPHS, Y, {}, ConfigError, "molecule 0: atom features do not fit the sizes"),
        (
            GRAPHS,
            Y,
            {"overrides": {"data.split_type": "scaffold", "data.featurizer": "zinc"}},
            *(ConfigError, "split_type: scaffold needs SMILES or RDKit molecules; got MolGraph"),
        ),
        ([to_data(GRAPHS[0])], [1.0], {}, ConfigError, "bond_offset is missing"),
    ],
)
def test_bad_input_is_refused_with_the_index_of_the_molecule(molecules, y, more, error, message):
    with pytest.raises(error, match=message):
        fit(molecules, y, **more)

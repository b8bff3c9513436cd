"""Training on molecules and labels in memory."""

from __future__ import annotations

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
from molsepnorm.training import fit, train
from support import Recorder

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


def test_molecules_may_be_of_any_type(empty):
    """RDKit molecules, graphs and PyTorch Geometric's data train the same model as SMILES. Explicit
    hydrogens change the order of the other atoms, and with it the dropout masks, if any."""
    overrides = {**SMALL, "model.attention_dropout": 0.0}
    mols = [Chem.MolFromSmiles(text) for text in SMILES]
    graphs = [featurize.get("zinc")(text) for text in SMILES]
    data = [to_data(graph) for graph in graphs]
    expected = scores(fit(SMILES, Y, overrides=overrides))
    series = pd.Series(SMILES, index=range(7, 7 + len(SMILES)))
    for molecules, more in ((mols, {}), (graphs, {}), (data, {"bond_offset": 0}), (series, {})):
        assert scores(fit(molecules, Y, overrides=overrides, **more)) == expected
    explicit = scores(fit([Chem.AddHs(mol) for mol in mols], Y, overrides=overrides))
    for split in ("val", "test"):
        assert explicit[split] == pytest.approx(expected[split], rel=1e-3)


YES = [n % 2 for n in range(len(SMILES))]
WORDS = [("red", "green", "blue")[n % 3] for n in range(len(SMILES))]


@pytest.mark.parametrize(
    ("y", "targets", "expected"),
    [
        (pd.Series(Y, name="logS", index=SMILES), None, {"logS": "regression"}),
        (np.array([Y, Y[::-1]]).T, None, {"y1": "regression", "y2": "regression"}),
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


def test_splits_and_weights_are_used():
    seen, half = Recorder(), [2.0, np.nan] * 27
    splits = {"train": list(range(20)), "valid": np.arange(20, 30), "test": [53, 31]}
    fit(SMILES, Y, splits=splits, weights=half, overrides=SMALL, callback=seen)
    found = {name: part.tolist() for name, part in seen.dataset.splits.items()}
    assert found == {"train": [*range(20)], "val": [*range(20, 30)], "test": [31, 53]}
    assert seen.dataset.weights.tolist() == [2.0, 1.0] * 27


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
    with pytest.raises(ConfigError, match=r"optim\.lr .*, run\.epochs \(3, now 4\)"):
        changed = {**settings, "optim.lr": 0.02, "run.epochs": 4}
        fit(SMILES, Y, overrides=changed, folder="run", resume=True)
    result = fit(SMILES, Y, overrides=settings, folder="run", resume=True)
    assert scores(result) == scores(expected)
    predicted = pd.read_csv(empty / "run" / "predictions_test.csv")
    assert set(predicted["smiles"]) <= set(SMILES)
    model = PropertyModel.from_pretrained("run")
    values = [each.values["y"] for each in Predictor(model).predict(predicted["smiles"])]
    assert values == pytest.approx(predicted["y_pred"].tolist(), abs=1e-4)


GRAPHS = [featurize.get("zinc")(text) for text in SMILES]


@pytest.mark.parametrize(
    ("molecules", "y", "more", "message"),
    [
        ("CCO", Y, {}, "molecules must be a list, and is one text"),
        ([*SMILES[:-1], 7], Y, {}, "molecule 53: int is not one of SMILES, RDKit mol"),
        (["C", "C1CC", *SMILES], [1, 1, *Y], {}, "molecule 1: RDKit cannot read 'C1CC'"),
        (SMILES, Y[:-1], {}, "y has 53 rows, and there are 54 molecules"),
        (SMILES, [*Y[:-1], "high"], {}, "molecule 53, column 'y': 'high' is not a num"),
        (SMILES, Y, {"weights": [1.0, -1] * 27}, "molecule 1, .*'-1' is not a number of 0"),
        (SMILES, Y, {"splits": {"train": [0, 1, 1]}}, "row 1 is in 'train' already"),
        (GRAPHS, Y, {}, "molecule 0: atom features do not fit the sizes"),
        ([to_data(GRAPHS[0])], [1.0], {}, "bond_offset is missing"),
    ],
)
def test_bad_input_is_refused_with_the_index_of_the_molecule(molecules, y, more, message):
    with pytest.raises((ConfigError, DataError), match=message):
        fit(molecules, y, **more)

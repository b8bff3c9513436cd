"""The models that come with the package, and the names that stand for their folders."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from molsepnorm.data.datasets import NAMES
from molsepnorm.errors import ConfigError, ModelError, StorageError
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.predict import Predictor
from molsepnorm.pretrained import recorded_path, resolve, shipped_models
from molsepnorm.pretrained.card import read_card

MODELS = shipped_models()


def test_a_name_stands_for_its_folder(shipped, tmp_path):
    folder = tmp_path / "shipped" / shipped.name
    assert shipped_models() == {shipped.name: folder}
    for name in (shipped.name, Path(shipped.name)):
        assert resolve(name) == folder
        assert recorded_path(name) == Path(shipped.name)
        model = PropertyModel.from_pretrained(name)
        assert (model.objective, model.task.targets) == ("pretraining", ())
        assert model.excludes == shipped.excludes
        assert weights_digest(name) == shipped.weights_sha256
    for path in (tmp_path, Path("a") / shipped.name):
        assert resolve(path) == path
        assert recorded_path(path) == path.resolve()
    with pytest.raises(ModelError, match="Did you mean 'molsepnorm-tiny'"):
        PropertyModel.from_pretrained("molsepnorm-tny")


def test_a_folder_takes_precedence_over_a_name(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = PropertyModel.from_pretrained(shipped.name)
    other.excludes = {"ogbg-molhiv": "it is another model"}
    other.save_pretrained(shipped.name)
    assert resolve(shipped.name) == Path(shipped.name)
    assert recorded_path(shipped.name) == tmp_path / shipped.name
    assert PropertyModel.from_pretrained(shipped.name).excludes == other.excludes


def test_a_model_with_a_card_is_not_overwritten(shipped):
    """Another model would keep the card."""
    model = PropertyModel.from_pretrained(shipped.name)
    with pytest.raises(StorageError, match="it holds card.json, which a model folder would"):
        model.save_pretrained(resolve(shipped.name))


def test_exclusions_are_saved_with_a_model(shipped, tmp_path):
    """Those in config.json and those of a card beside it are merged."""
    model = PropertyModel.from_pretrained(shipped.name)
    model.excludes = {"ogbg-molhiv": "its labels were used"}
    model.save_pretrained(tmp_path / "model")
    assert PropertyModel.from_pretrained(tmp_path / "model").excludes == model.excludes
    card = resolve(shipped.name) / "card.json"
    (tmp_path / "model" / "card.json").write_bytes(card.read_bytes())
    both = PropertyModel.from_pretrained(tmp_path / "model").excludes
    assert both == {**model.excludes, **shipped.excludes}


def test_only_named_data_sets_are_excluded(shipped):
    model = PropertyModel.from_pretrained(shipped.name)
    assert model.leak(None, allow=False) is None
    assert model.leak("ogbg-molesol", allow=False) is None
    assert model.leak("zinc", allow=True) == shipped.excludes["zinc"]
    with pytest.raises(
        ConfigError, match="must not be evaluated on zinc: its labels are computed .*--allow-leak"
    ):
        model.leak("zinc", allow=False)


# The models of this version

LOAD = """
import sys
from molsepnorm.model import PropertyModel

def refuse(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.")):
        raise RuntimeError(f"the network is used: {event}")

sys.addaudithook(refuse)
print(PropertyModel.from_pretrained(sys.argv[1]).objective)
"""


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_loads_without_network(name, tmp_path):
    """In a fresh process, from any folder."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, name],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"pretraining", "supervised"}


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_has_a_card_that_fits(name):
    card, model = read_card(MODELS[name]), PropertyModel.from_pretrained(name)
    files = sorted(MODELS[name].iterdir())
    known = [TRAINING_FILE] if model.structures else []
    names = ["card.json", "config.json", "model.safetensors", *known]
    assert [path.name for path in files] == names
    in_wheel = sum(len(zlib.compress(path.read_bytes())) for path in files)
    assert in_wheel <= (8_000_000 if card.end_points else 4_000_000)
    assert card.name == name
    assert card.weights_sha256 == weights_digest(name)
    assert card.parameters == model.parameters
    assert card.end_points == {} or (*card.end_points,) == model.task.names
    assert set(card.excludes) <= set(NAMES)
    assert not any(reason.endswith(".") for reason in card.excludes.values())
    assert bool(model.task.targets) == (card.objectives == {"supervised": 1.0})


def test_the_model_of_zinc_has_the_error_of_its_card(datasets):
    """From the SMILES of test molecules to the label that the benchmark computes."""
    with gzip.open(datasets / "zinc" / "test.csv.gz", "rt") as file:
        rows = [*csv.DictReader(file)]
    predictor = Predictor.from_pretrained("molsepnorm-zinc")
    found = predictor.predict([row["smiles"] for row in rows])
    labels = np.array([float(row["y"]) for row in rows])
    (score,) = read_card(MODELS["molsepnorm-zinc"]).scores
    errors = np.array([row.values["penalised_logp"] for row in found]) - labels
    assert np.abs(errors).mean() == pytest.approx(score.mean, abs=1e-3)


def test_the_model_of_molhiv_has_the_score_of_its_card(datasets):
    """From the SMILES of OGB's test molecules to the score of OGB's evaluator, ROC-AUC."""
    folder = datasets / "ogbg_molhiv"
    rows = pd.read_csv(folder / "mapping" / "mol.csv.gz")
    numbers = pd.read_csv(folder / "split" / "scaffold" / "test.csv.gz", header=None)[0]
    tested = rows.loc[numbers]
    found = Predictor.from_pretrained("molsepnorm-molhiv").predict(tested["smiles"].tolist())
    read = np.array([row.error is None for row in found])
    probabilities = [row.values["HIV_active"] for row in found if row.error is None]
    (score,) = read_card(MODELS["molsepnorm-molhiv"]).scores
    # RDKit cannot read 7 of the test molecules, whose graphs are in OGB's file.
    assert (~read).sum() == 7
    assert roc_auc_score(tested["HIV_active"][read], probabilities) == pytest.approx(
        score.mean, abs=2e-3
    )


def test_the_model_of_admet_predicts_what_its_card_says():
    """Properties of known drugs, with intervals, and molecules that were measured for each."""
    card = read_card(MODELS["molsepnorm-admet"])
    predictor = Predictor.from_pretrained("molsepnorm-admet", level=0.9, domain=True)
    aspirin, salt, paracetamol, terfenadine, unknown = predictor.predict(
        [
            "CC(=O)Oc1ccccc1C(=O)O",
            "CC(=O)Oc1ccccc1C(=O)[O-].[Na+]",
            "CC(=O)Nc1ccc(O)cc1",
            "CC(C)(C)c1ccc(cc1)C(O)CCCN1CCC(CC1)C(O)(c1ccccc1)c1ccccc1",
            "C1CC",
        ]
    )
    assert {*aspirin.values} == {*card.end_points} and unknown.error is not None
    assert aspirin.values["logS"] == pytest.approx(-1.7, abs=1)
    assert aspirin.domain["logS_nearest"] == pytest.approx(-1.6, abs=0.3)
    assert salt.domain["nearest_smiles"] != ""
    assert terfenadine.values["hERG"] > 0.8 > 0.5 > paracetamol.values["hERG"]
    for name in ("logS", "logD", "HLM_clearance"):
        low, high = (terfenadine.uncertainty[f"{name}_{end}"] for end in ("low", "high"))
        assert low < terfenadine.values[name] < high

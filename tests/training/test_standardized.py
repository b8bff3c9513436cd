"""Structures standardised in a table, in the model that is trained on it, and in what it reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

from molsepnorm.data.checking.check import check_table, scan_table
from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import standardize
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.predict import Predictor
from molsepnorm.training import evaluate, fit, train
from runs import rows_of, write_rows

OGB = EncodingSpec(bond_sizes=featurize.SIZES["ogb"].bonds, max_path_length=3)
ACIDS = ["C" * n + "C(=O)O" for n in range(1, 21)]
SALTS = [text[:-1] + "[O-].[Na+]" for text in ACIDS]


@pytest.fixture
def salts(tmp_path):
    """salts.csv: 20 acids and the sodium salts of the same acids, with a date."""
    rows = (
        [text, row % 20 / 10, f"{1990 + row % 20}-0{1 + row // 20}"]
        for row, text in enumerate([*ACIDS, *SALTS])
    )
    return write_rows(tmp_path / "salts.csv", ["smiles", "y", "date"], *rows)


@pytest.fixture
def of_salts(configure, salts):
    """`of_salts(settings)`: a tiny run on salts.csv."""
    base = {"data.table": salts, "data.featurizer": "ogb", "data.standardize": "parent"}
    return lambda settings=None: configure({**base, "run.epochs": 1, **(settings or {})})


def same_graphs(one, other) -> bool:
    arrays = ("sizes", "atoms", "degrees")
    return all((getattr(one, name) == getattr(other, name)).all() for name in arrays)


def test_a_table_is_encoded_in_standard_form_and_keeps_its_smiles(salts):
    config = DataConfig(table=salts, targets=["y"])
    plain, found = (
        load(config.model_copy(update={"standardize": level}), OGB) for level in ("none", "parent")
    )
    assert found.source_smiles == plain.source_smiles == plain.smiles == [*ACIDS, *SALTS]
    assert found.smiles == standardized([*ACIDS, *SALTS], "parent")
    graphs = (store.sizes for store in (plain.store, found.store))
    assert [sizes[20] for sizes in graphs] == [5, 4]
    assert found.digest != plain.digest


def test_a_salt_and_its_parent_are_one_molecule(salts):
    """They are in one split, and for `data check` they are a duplicate."""
    config = DataConfig(table=salts, targets=["y"], standardize="parent")
    in_one_split = []
    for level in ("parent", "none"):
        splits = load(config.model_copy(update={"standardize": level}), OGB).splits
        of_row = {row: name for name, rows in splits.items() for row in rows.tolist()}
        in_one_split.append(sum(of_row[row] == of_row[row + 20] for row in range(20)))
    assert in_one_split[0] == 20 > in_one_split[1]
    report = check_table(scan_table(config, OGB))
    counts = {finding.kind: finding.count for finding in report.findings}
    assert report.molecules == 20
    assert counts["duplicates"] == 20
    assert not {"leak", "mixtures"} & counts.keys()


@pytest.mark.parametrize("split_type", ["scaffold", "butina"])
def test_whole_groups_are_those_of_standardised_molecules(tmp_path, split_type):
    """Each ring occurs as a salt of a large counter-ion that would decide its group."""
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "c1ccoc1", "C1CCC1", "c1ccsc1", "C1CCNC1"]
    other = ".[O-]C(=O)C1CCCCC1c1ccccc1"
    smiles = [f"C{ring}{end}" for ring in rings for end in ("", other.replace("[O-]", "O"))] * 2
    path = tmp_path / "rings.csv"
    path.write_text("smiles,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(smiles)))
    settings = {"table": path, "targets": ["y"], "split_type": split_type, "split": (0.5, 0.3, 0.2)}
    found = load(DataConfig(**settings, standardize="salts"), OGB)
    path.write_text(
        "smiles,y\n"
        + "".join(f"{text},{i}\n" for i, text in enumerate(standardized(smiles, "salts")))
    )
    expected = load(DataConfig(**settings), OGB)
    assert same_graphs(found.store, expected.store)
    for split, indices in expected.splits.items():
        assert found.splits[split].tolist() == indices.tolist()


def test_a_damaged_file_of_standard_forms_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    smiles = ["CCO", "C1CC", "Oc1ccccn1"]
    first = standardize.cached_standard(smiles, "tautomer")
    assert first == ["CCO", "", "O=c1cccc[nH]1"]
    (path,) = (tmp_path / "cache").glob("*-tautomer-rdkit*.standard")
    for damage in ("{", path.read_text().replace("CCO", "CCN")):
        path.write_text(damage)
        assert standardize.cached_standard(smiles, "tautomer") == first


def test_a_model_reads_a_salt_like_its_parent(of_salts, tmp_path):
    """After it was saved and loaded, in one process and in two, predicted, embedded and scored."""
    result = train(of_salts(), tmp_path / "run")
    about = json.loads((result.folder / "model" / "config.json").read_text())
    assert about["standardize"] == "parent"
    predictor = Predictor.from_pretrained(result.folder)
    assert predictor.model.standardize == "parent"
    several = ACIDS * 8, SALTS * 8
    for predict in (
        predictor.predict,
        Predictor.from_pretrained(result.folder, processes=2).predict,
    ):
        acids, salts = ([each.values["y"] for each in predict(texts)] for texts in several)
        assert acids == salts
        assert len(set(acids)) > 1
    embedded = [predictor.embed(texts).molecules for texts in (ACIDS, SALTS)]
    assert (embedded[0] == embedded[1]).all()
    first, bad = predictor.predict([SALTS[0], "C1CC"])
    assert (first.smiles, bad.error) == (SALTS[0], "RDKit cannot read 'C1CC': unclosed ring")
    written = {row["smiles"] for row in rows_of(result.folder / "predictions_test.csv")}
    assert written <= {*ACIDS, *SALTS}
    assert written & {*SALTS}
    scores = []
    for name, smiles in (("acids", ACIDS), ("salts", SALTS)):
        path = tmp_path / f"other-{name}.csv"
        path.write_text("smiles,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(smiles)))
        scores.append(evaluate(result.folder, DataConfig(table=path)).scores)
    assert scores[0] == scores[1]
    with pytest.raises(ConfigError, match=r"\(parent\)"):
        evaluate(result.folder, DataConfig(dataset="ogbg-molesol"))


def test_molecules_in_memory():
    settings = {"data.standardize": "parent", "model.layers": 1, "run.epochs": 1}
    overrides = {**settings, "model.width": 16, "model.ffn_width": 16, "model.heads": 2}
    y = np.arange(20) / 10
    model = fit(SALTS, y, overrides=overrides).model
    acids, salts = (Predictor(model).predict(texts) for texts in (ACIDS, SALTS))
    assert [each.values for each in acids] == [each.values for each in salts]
    graphs = [featurize.get("ogb")(text) for text in ACIDS]
    with pytest.raises(ConfigError, match="data.standardize: parent needs SMILES or RDKit molec"):
        fit(graphs, y, overrides=overrides)

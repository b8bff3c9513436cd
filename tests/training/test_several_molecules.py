"""Rows with several molecules: a solute, and a solvent in a column of SMILES."""

from __future__ import annotations

import json
import random

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from molsepnorm import Predictor, fit
from molsepnorm.analysis.explanations import contributions, explain
from molsepnorm.analysis.explanations.masked import OtherInput, with_atoms
from molsepnorm.cli.main import main
from molsepnorm.data.checking.check import check_table, scan_table
from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.interop.export import DenseModel, dense_inputs
from molsepnorm.model import PropertyModel, join
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.model.parts.kernel import body_of
from molsepnorm.predict import TableRows
from molsepnorm.predict.suggest import parse_goals, suggest
from molsepnorm.tasks import FeatureColumn
from molsepnorm.training import evaluate, load_config, train
from molsepnorm.training.recipes import encoding, load_dataset
from runs import ENDS, TINY, require_exact_resume, rows_of, write_rows

SOLVENTS = ["CO", "OC", "CCO", "CC#N", "ClCCl", "c1ccccc1", "CS(C)=O", "O"]
POLARITY = [0.8, 0.8, 0.6, 0.5, 0.3, 0.1, 0.4, 1.0]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """pairs.csv: 90 pairs of 30 solutes and 8 solvents, two of them the same molecule. The label
    depends on both."""
    draw, rows = random.Random(0), []
    for length in range(1, 6):
        for end, value in ENDS.items():
            for place in draw.sample(range(8), 3):
                y = 0.3 * length + value * POLARITY[place]
                rows.append(["C" * length + end, SOLVENTS[place], round(y, 3)])
    folder = tmp_path_factory.mktemp("pairs")
    return write_rows(folder / "pairs.csv", ["solute", "solvent", "y"], *rows)


SETTINGS = {**TINY, "data.targets": ["y"], "data.smiles_column": "solute,solvent"}


@pytest.fixture(scope="module")
def run(pairs, trained):
    """A run that starts from a trained network."""
    start = trained({"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"})
    settings = {**SETTINGS, "finetune.start": str(start.folder), "run.epochs": 2}
    config = load_config(pairs, overrides=settings)
    train(config, pairs.parent / "run")
    return pairs.parent / "run"


@pytest.fixture(scope="module")
def model(run):
    return PropertyModel.from_pretrained(run)


def test_prediction_needs_smiles_only(run, model):
    """The model folder has what maps solvents to vectors; every part reads them."""
    assert [column.components for column in model.inputs.columns] == [7]
    assert all(part.reads.columns for part in model.parts)
    rows = rows_of(run / "predictions_test.csv")
    predictor, table = Predictor(model), rows_of(run.parent / "pairs.csv")
    cells = [table[int(row["line"]) - 2]["solvent"] for row in rows]
    found = predictor.to_frame([row["smiles"] for row in rows], {"solvent": cells})
    assert found["y_pred"].to_numpy() == pytest.approx(
        [float(row["y_pred"]) for row in rows], abs=1e-4
    )
    scores = evaluate(run, load_config(run.parent / "pairs.csv").data).scores
    metrics = json.loads((run / "metrics.json").read_text())
    assert scores["mae"] == pytest.approx(metrics["test"]["mae"], abs=1e-4)


def test_spellings_and_the_order_of_rows_change_nothing(model):
    solvents = ["CO", "OC", "[CH3][OH]", "CCC#N", "CCO"]
    predictor = Predictor(model)
    found = predictor.to_frame(["CCCO"] * 5, {"solvent": solvents})["y_pred"].to_numpy()
    assert found[:3] == pytest.approx(found[0], abs=2e-4) and abs(found[4] - found[0]) > 1e-3
    again = Predictor(PropertyModel.from_pretrained(model_folder(model)))
    turned = again.to_frame(["CCCO"] * 5, {"solvent": solvents[::-1]})["y_pred"].to_numpy()
    assert turned[::-1] == pytest.approx(found, abs=2e-4)


def model_folder(model):
    return model.structures[0].path.parent


def test_a_row_that_cannot_be_read_stays_with_the_reason(model):
    cells = ["CO", "C1CC", "CC>>CO", None, "C.O"]
    found = Predictor(model).to_frame(["CCO"] * 5, {"solvent": cells})
    assert found["y_pred"].notna().tolist() == [True, False, False, False, True]
    for row, words in ((1, ["C1CC", "solvent"]), (2, ["reaction", "columns"]), (3, ["solvent"])):
        assert all(word in found["error"][row] for word in words)


def test_a_mixture_is_between_its_components_in_any_order(model):
    """Its vector is linear in the shares; equal components are one, and amounts are relative."""
    cells = ["1 CO + 3 O", "3 O + 1 OC", "25 CO + 75 O", "0.1 OC + 0.75 O + 0.15 CO", "O", "CO"]
    vectors, errors = model.molecules.vectors("solvent", [*cells, "0.3 CO + O", "0 O + 0 CO"])
    assert [error is None for error in errors] == [True] * 6 + [False] * 2
    assert (vectors[:4] == vectors[0]).all()
    assert vectors[0] == pytest.approx((vectors[5] + 3 * vectors[4]) / 4, abs=1e-5)
    found = Predictor(model, domain=True).to_frame(["CCCCCCN"] * 6, {"solvent": cells})
    assert np.ptp(found["y_pred"][:4]) < 1e-6 < abs(found["y_pred"][0] - found["y_pred"][4])
    assert found["solvent_similarity"][0] < 1


def test_a_model_learns_from_mixtures(pairs, tmp_path):
    rows = rows_of(pairs)
    for row in rows[::2]:
        row["solvent"] = f"0.5 {row['solvent']} + 0.5 O"
    table = write_rows(tmp_path / "m.csv", [*rows[0]], *(list(row.values()) for row in rows))
    config = load_config(table, overrides={**SETTINGS, "finetune.start": "none"})
    result = train(config, tmp_path / "run")
    known = result.model.training_molecules().further["solvent"]
    assert "0.5 CCO + 0.5 O" in known and "O" in known and "0.5 O + 0.5 O" not in known


def test_the_domain_compares_the_solvents_too(model):
    predictor = Predictor(model, domain=True)
    found = predictor.to_frame(["CCO"] * 3, {"solvent": ["OC", "CCC#N", "FC(F)(F)F"]})
    assert found["solvent_nearest_smiles"].tolist()[:2] == ["CO", "CC#N"]
    assert found["solvent_similarity"][0] == 1 > found["solvent_similarity"][1] > 0
    assert found["in_domain"].tolist() == [True, False, False]
    assert predictor.predict(["CCO"], {"solvent": ["CO"]})[0].domain["solvent_similarity"] == 1


def test_pairs_of_the_training_rows_are_not_suggested(model, pairs, tmp_path):
    """Another solvent of a training molecule is, once for all of its spellings."""
    rows = [*zip(*model.training_molecules().further.values(), strict=True)]
    known = dict(zip(model.training_molecules().smiles, rows, strict=True))
    solute, (solvent,) = next(iter(known.items()))
    new = [(solute, "CCCCO"), (solute, "OCCCC"), ("C#CC#C", solvent)]
    table = pd.DataFrame([(solute, solvent), *new], columns=["solute", "solvent"])
    predictor = Predictor(model, level=0.5, domain=True)
    goals = parse_goals(model.task, {"y": "max"}, {}, {}, over=-9)
    rows = TableRows([table], "solute", "x")
    done = suggest(predictor, rows, tmp_path / "s.csv", goals=goals)
    found = pd.read_csv(tmp_path / "s.csv")[["solute", "solvent"]]
    assert done.measured == 1 and {*found.itertuples(index=False, name=None)} == {new[0], new[2]}


def test_a_stopped_run_continues_exactly(run, tmp_path):
    require_exact_resume(load_config(config=run / "config.yaml"), run, tmp_path / "parts", 4)


def test_the_report_draws_the_solvents(run):
    drawings = (run / "report.html").read_text().count('<div class="further"><svg')
    assert drawings == len((run / "predictions_test.csv").read_text().splitlines()) - 1


def test_explanations_give_the_atoms_of_the_solvent_its_share(model, monkeypatch):
    """Its atoms and descriptors add up to what it contributes as one player, and do not change what
    others contribute. The components of a mixture have their own, in any order."""
    cells = ["CC#N", "c1ccccc1", "0.25 CO + 0.75 O", "3 O + 1 CO"]
    found = explain(model, ["CCO"] * 4, {"solvent": cells}, pairs=2)
    monkeypatch.setattr(contributions, "with_atoms", lambda whole, *_: whole)
    for each, one in zip(found, explain(model, ["CCO"] * 4, {"solvent": cells}, 2), strict=True):
        target, whole = each.targets["y"], one.targets["y"]
        total = target.atoms.sum() + sum(target.inputs.values())
        assert total == pytest.approx(target.value - target.base, abs=1e-5)
        assert target.inputs == pytest.approx(whole.inputs, abs=1e-4) and not one.further
        assert target.atoms == pytest.approx(whole.atoms, abs=1e-4)
        parts = [part.targets["y"] for part in each.further["solvent"]]
        sums = [part.atoms.sum() + part.inputs["all descriptors"] for part in parts]
        assert [part.value for part in parts] == pytest.approx(sums, abs=1e-5)
        assert sum(sums) == pytest.approx(target.inputs["solvent"], abs=1e-5)
    names = [[part.structure for part in each.further["solvent"]] for each in found]
    assert names == [["CC#N"], ["c1ccccc1"], ["CO", "O"], ["CO", "O"]]
    atoms = [each.further["solvent"][0].targets["y"].atoms for each in found]
    assert [*map(len, atoms)] == [3, 6, 2, 2]
    assert np.ptp(atoms[1]) < 1e-6 < 1e-3 < np.ptp(atoms[0])
    assert atoms[2] == pytest.approx(atoms[3], abs=1e-6)


def test_a_solvent_with_all_of_its_atoms_has_its_vector(model):
    whole = OtherInput("solvent", np.arange(7))
    for cell in ("CC#N", "0.25 CO + 0.75 O"):
        found = with_atoms(whole, model.molecules, cell)
        every = np.ones((1, found.players), dtype=bool)
        expected, _ = model.molecules.vectors("solvent", [cell])
        assert found.partial(every) == pytest.approx(expected, abs=1e-4)
        assert abs(found.partial(every ^ (np.arange(found.players) == 0)) - expected).max() > 1e-2
    assert with_atoms(whole, model.molecules, "") is whole


def test_an_exported_model_reads_encoded_vectors(model):
    smiles, cells = ["CCO", "CCCN"], {"solvent": ["0.3 CO + 0.7 O", "CCO"]}
    inputs = dense_inputs(model, smiles, cells).arrays
    found = DenseModel(model)(**{name: torch.from_numpy(each) for name, each in inputs.items()})
    expected = Predictor(model).to_frame(smiles, cells)["y_pred"].to_numpy(np.float32)
    np.testing.assert_allclose(found[:, 0], expected, atol=2e-4)


def test_such_a_model_is_joined_with_the_same_vectors_only(model):
    assert join([model, model]).molecules is model.molecules
    mean, scale, basis = model.molecules.projections["solvent"]
    other = MoleculeColumns(None, "zinc", "none", {"solvent": (mean, scale, basis + 1)})
    with pytest.raises(ConfigError, match="differ"):
        join([model, PropertyModel(model.parts, "zinc", model.task, weights=model.weights,
                                   molecules=other)])  # fmt: skip


def test_the_command_names_the_columns(run, tmp_path):
    new = write_rows(tmp_path / "new.csv", ["solvent", "solute"], ["OC", "CCO"], ["CO", "CCO"])

    def predict(columns):
        arguments = ["predict", "--model", str(run), "-i", str(new), "--smiles-column", columns]
        return CliRunner().invoke(main, arguments)

    lines = predict("solute,solvent").stdout.splitlines()
    first, other = (float(line.split(",")[2]) for line in lines[1:])
    assert lines[0].startswith("solvent,solute,y_pred") and first == pytest.approx(other, abs=1e-3)
    assert "'base'" in predict("solute,base").output


def read(path, **settings):
    config = load_config(path, overrides={**SETTINGS, **settings})
    return config, load_dataset(config)


def test_rows_with_an_invalid_solvent_are_rejected(pairs, tmp_path):
    header, *rows = pairs.read_text().splitlines()
    rows[2] = ",".join([rows[2].split(",")[0], "C1CC", "1"])
    path = tmp_path / "odd.csv"
    path.write_text("\n".join([header, *rows]))
    dataset = read(path)[1]
    (entry,) = dataset.rejected
    assert entry.row == 2 and "C1CC" in entry.reason and "solvent" in entry.reason
    with pytest.raises(DataError, match="line 4.*C1CC"):
        read(path, **{"data.on_invalid": "fail"})


def test_smiles_must_be_declared_as_molecules_or_words(pairs):
    both = {"data.smiles_column": "solute", "data.feature_columns": ["solvent"]}
    with pytest.raises(DataError, match="solvent:molecule.*solvent:category"):
        read(pairs, **both)
    config, _ = read(pairs, **{**both, "data.feature_columns": ["solvent:category"]})
    assert config.data.molecules == []
    assert DataConfig(table=pairs, smiles_column='"a,b"').smiles_column == "a,b"


@pytest.mark.parametrize("folds", [None, 4])
def test_all_rows_of_a_solvent_are_in_one_split(pairs, folds):
    settings = {"data.split_by": "solvent", "data.split": (0.5, 0.25, 0.25), "data.folds": folds}
    config, dataset = read(pairs, **settings)
    solvents = np.array(dataset.columns["solvent"], dtype=object)
    solvents[solvents == "OC"] = "CO"
    parts = [{*solvents[rows]} for rows in dataset.splits.values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 7
    assert len(np.unique(dataset.together)) == 7
    scan = scan_table(config.data, encoding(config))
    kinds = [finding.kind for finding in check_table(scan).findings]
    assert "leak" not in kinds
    rows = zip(*(scan.rows.table.cells(name) for name in ("solute", "solvent")), strict=True)
    same = [(solute, "CO" if solvent == "OC" else solvent) for solute, solvent in rows]
    assert sum(map(len, scan.repeated)) - len(scan.repeated) == len(same) - len({*same})


@pytest.mark.parametrize("kept", ["solute", "solvent", "row"])
def test_rows_that_a_named_split_keeps_together_are_left_out_together(pairs, tmp_path, kept):
    """By the kernel regression, to choose its penalty for rows such as those of the test."""
    rows = rows_of(pairs)
    keys = [
        number if kept == "row" else row[kept].replace("OC", "CO")
        for number, row in enumerate(rows)
    ]
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    words = [("test", "val", "train", "train")[number[key] % 4] for key in keys]
    cells = ([*row.values(), word] for row, word in zip(rows, words, strict=True))
    table = write_rows(tmp_path / "s.csv", [*rows[0], "split"], *cells)
    _, dataset = read(table, **{"data.splits_column": "split"})
    assert len(np.unique(dataset.together)) == {"solute": 30, "solvent": 8, "row": 90}[kept]


def test_rows_may_be_drawn_one_by_one(pairs, tmp_path):
    """Rows of the same molecules stay together, whatever the spelling."""
    path = tmp_path / "twice.csv"
    path.write_text(pairs.read_text() + "OCC,CO,1\nCCO,OC,2\n")
    _, dataset = read(path, **{"data.split_by": "none", "data.split": (0.5, 0.25, 0.25)})
    rows = [dataset.splits[name] for name in ("train", "test")]
    for numbers, shared in ((dataset.together, False), (dataset.molecule_ids, True)):
        assert bool(np.intersect1d(*(numbers[part] for part in rows)).size) is shared
    assert dataset.together[-1] == dataset.together[-2]


def test_test_rows_may_be_new_in_both_columns(pairs):
    by = {"data.split_by": "solute,solvent", "data.split": (0.4, 0.3, 0.3)}
    _, dataset = read(pairs, **by)
    solvents = np.array(["CO" if each == "OC" else each for each in dataset.columns["solvent"]])
    for known in (dataset.molecule_ids, solvents):
        parts = [{*known[rows].tolist()} for rows in dataset.splits.values()]
        assert all(parts) and sum(map(len, parts)) == len(set.union(*parts))
    left = len(dataset.store) - sum(map(len, dataset.splits.values()))
    assert left > 0 and f"{left} rows" in dataset.warnings[-1]


@pytest.mark.parametrize(
    "other", [{"data.split_type": "scaffold"}, {"data.split_by": "solute,solvent", "data.folds": 3}]
)
def test_splits_by_columns_are_random(pairs, other):
    with pytest.raises(ConfigError, match="split_by"):
        read(pairs, **{"data.split_by": "solvent", **other})


def test_molecules_in_memory(pairs):
    """Without a pre-trained network the vectors are made of descriptors. An empty cell is read as
    no molecule if training rows have some."""
    rows = rows_of(pairs)
    cells = [row["solvent"] if number % 9 else None for number, row in enumerate(rows)]
    settings = {**TINY, "run.epochs": 1, "run.baseline": False, "run.blend": "none"}
    model = fit(
        [row["solute"] for row in rows],
        [float(row["y"]) for row in rows],
        feature_columns={"solvent:molecule": cells},
        overrides=settings,
    ).model
    assert model.inputs.names == ("solvent",) and model.molecules.network is None
    found = Predictor(model).predict(["CCO"] * 2, {"solvent": [None, "CCO"]})
    assert all(each.error is None for each in found)


def test_vectors(trained):
    """The root mean square of the distance between two training molecules is 1, and a vector does
    not depend on the other molecules, on the spelling, or on being stored."""
    model = trained({"run.epochs": 1}).model
    network = body_of(model.network, 0)
    column = FeatureColumn.fit("solvent", SOLVENTS, str, "molecule")
    assert (column.components, str(column)) == (7, "molecules")
    columns = MoleculeColumns.fit([column], {"solvent": SOLVENTS}, network, "zinc", "none")
    vectors, errors = columns.vectors("solvent", SOLVENTS)
    assert errors == [None] * 8 and (vectors[0] == vectors[1]).all()
    assert (vectors[:, 6] == 0).all()  # no rounding errors: seven molecules differ in 6 directions
    distances = torch.cdist(*[torch.from_numpy(vectors[1:]).double()] * 2)
    assert float(distances.square().mean()) == pytest.approx(1, abs=1e-4)
    again = MoleculeColumns.from_state(columns.state(), network, "zinc", "none")
    found = np.concatenate([again.vectors("solvent", [text])[0] for text in SOLVENTS])
    assert found == pytest.approx(vectors, abs=1e-6)
    assert again.vectors("solvent", SOLVENTS)[0] == pytest.approx(vectors, abs=1e-6)
    with pytest.raises(DataError):
        FeatureColumn.fit("solvent", ["CO", "CO"], str, "molecule")
    with pytest.raises(DataError, match="2 are needed"):
        pair = FeatureColumn.fit("solvent", ["CO", "OC"], str, "molecule")
        MoleculeColumns.fit([pair], {"solvent": ["CO", "OC"]}, None, "zinc", "none")

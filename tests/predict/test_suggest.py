"""The choice of molecules to measure next: values, goals, diversity and the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import morgan_matrix, packed_morgan, tanimoto
from molsepnorm.predict import Predictor, TableRows
from molsepnorm.predict.suggest import (
    Acquisition,
    Goal,
    choose,
    expected_improvement,
    parse_goals,
    suggest,
)
from molsepnorm.tasks import Target
from molsepnorm.tasks.calibration import ClassSets, Intervals
from molsepnorm.tasks.domain import GRID, Domain
from support import tiny_model

KNOWN = ("CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "C[C@H](N)C(=O)O")
TARGETS = (
    Target("y", "regression"),
    Target("ic50_nM", "regression", transform="pic50:nM"),
    Target("z", "binary"),
    Target("k", "multiclass", classes=("low", "high")),
)
LABELS = np.array([[1.25, 10, 0, 1], [np.nan, 1000, 1, 0], [-3, 1, 1, np.nan], [7.5, 100, 0, 1]])
BOUNDS = np.zeros((4, 4), np.int8)
BOUNDS[2, 1] = 1  # more than 1 nM: at most a pIC50 of 9
SCORES = tuple(np.linspace(0.1, 2, 20).tolist())
CALIBRATION = (
    Intervals(SCORES, -0.5),
    Intervals(SCORES, 0.2),
    ClassSets((SCORES, SCORES), 1.5, 0.3),
    ClassSets((SCORES, SCORES), 0.7),
)


@pytest.fixture(scope="module")
def model():
    known = TrainingMolecules(KNOWN, packed_morgan(KNOWN), LABELS, BOUNDS)
    curves = (tuple(2.0 - GRID),) * 4
    more = {"domain": Domain(0.5, curves), "structures": (known,), "calibration": CALIBRATION}
    return tiny_model(*TARGETS, **more)


@pytest.fixture(scope="module")
def predictor(model):
    return Predictor(model, level=0.9, domain=True)


def goals_of(model, goals=(), minimum=(), maximum=(), over=None):
    return parse_goals(model.task, dict(goals), dict(minimum), dict(maximum), over)


@pytest.mark.parametrize(("gain", "sd"), [(0.3, 0.8), (-2.0, 0.5), (4.0, 1.0), (-9.0, 1.0)])
def test_expected_improvement_is_the_integral(gain, sd):
    density = stats.norm(gain, sd).pdf
    expected = quad(lambda x: x * density(x), 0, max(gain, 0) + 12 * sd, epsabs=0)[0]
    assert expected_improvement(np.array([gain]), np.array([sd]))[0] == pytest.approx(expected)


def test_the_value_is_the_product_over_the_goals(model, predictor):
    """Numbers have normal errors on the scale that is learned; classes are calibrated."""
    table = predictor.to_frame(["CCCO", "c1ccccc1N", "CCCCCC"])
    mean, sd = (table[f"ic50_nM_pic50_{name}"].to_numpy(float) for name in ("pred", "std"))
    near, near_sd = (table[f"y_{name}"].to_numpy(float) for name in ("pred", "std"))
    value = Acquisition.of(model, goals_of(model, {"ic50_nM": "min"}))
    assert value.goals[0] == Goal(1, sign=1, best=8.0)  # 1 nM is a bound on the wrong side
    assert value(table) == pytest.approx(expected_improvement(mean - 8, sd))
    rest = goals_of(model, {"z": "max", "k": "low"}, {"y": "-0.5"}, {"y": "0.25"})
    normal = stats.norm(near, near_sd)
    expected = normal.cdf(0.25) - normal.cdf(-0.5)
    expected *= table["z_calibrated"].to_numpy(float)
    own = table["k_calibrated"].to_numpy(float)
    expected *= np.where(table["k_pred"] == "low", own, 1 - own)
    assert Acquisition.of(model, rest)(table) == pytest.approx(expected)


def test_the_best_label_is_that_of_molecules_that_fulfil_the_other_goals(model):
    def best(*goals):
        return next(g.best for g in Acquisition.of(model, goals).goals if g.sign)

    (largest,) = goals_of(model, {"y": "max"})
    assert best(largest) == 7.5
    assert best(*goals_of(model, {"y": "max", "z": "1"})) == -3
    assert best(*goals_of(model, {"y": "max"}, maximum={"ic50_nM": "50"})) == 1.25
    assert best(*goals_of(model, {"y": "max"}, over=3.5)) == 3.5
    alone = Acquisition.of(model, goals_of(model, {"y": "min", "z": "0"}, {"ic50_nM": "1e6"}))
    assert not any(goal.sign for goal in alone.goals)  # the probability of the others


def test_thresholds_are_in_the_unit_of_their_name(model):
    (table,) = goals_of(model, minimum={"ic50_nM": "100"})
    (learned,) = goals_of(model, maximum={"ic50_nM_pic50": "7"})
    assert table == learned == Goal(1, high=7.0)


WRONG = [
    {"goals": {"y": "more"}},
    {"goals": {"q": "max"}},
    {"goals": {"k": "max"}},
    {"goals": {"y": "max", "ic50_nM": "min"}},
    {"minimum": {"y": "1"}, "maximum": {"y": "1"}},
    {},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_goals_are_refused(model, wrong):
    with pytest.raises(ConfigError):
        goals_of(model, **wrong)


SMILES = [f"{'C' * n}{end}" for n in range(2, 8) for end in ("O", "N", "c1ccccc1", "C#N", "Cl")]


def closest(rows):
    prints = morgan_matrix([SMILES[row] for row in rows])
    return np.tril(tanimoto(prints, prints), -1).max()


def test_exploit_balances_value_and_diversity():
    value = np.random.default_rng(0).random(len(SMILES))
    known = np.zeros(len(SMILES))
    rows = {share: choose(value, known, SMILES, 6, share)["row"].tolist() for share in (0, 0.5, 1)}
    assert rows[1] == np.argsort(-value)[:6].tolist()
    assert closest(rows[0]) < closest(rows[0.5]) < closest(rows[1])
    assert value[rows[0]].sum() < value[rows[0.5]].sum() < value[rows[1]].sum()
    choices = choose(value, known, SMILES, 100, 0.5)
    assert sorted(choices["row"]) == [*range(len(SMILES))]
    prints = morgan_matrix([SMILES[row] for row in choices["row"]])
    similarity = choices["batch_similarity"].to_numpy()
    assert np.isnan(similarity[0])
    expected = [tanimoto(prints[i], prints[:i]).max() for i in range(1, len(SMILES))]
    assert similarity[1:] == pytest.approx(expected)


def test_molecules_like_the_training_molecules_count_less():
    value, known = np.ones(len(SMILES)), np.linspace(1, 0, len(SMILES))
    assert choose(value, known, SMILES, 1, 0.5)["row"][0] == len(SMILES) - 1


def chosen(predictor, path, table, on_invalid="keep", **options):
    """The result, the chosen rows, and the rejected rows."""
    options = {"goals": goals_of(predictor.model, {"y": "max"}, over=0.0), "count": 4, **options}
    rows = TableRows([table.iloc[:5], table.iloc[5:]], "smiles", "x", on_invalid)
    done = suggest(predictor, rows, path, **options)
    return done, pd.read_csv(path), pd.read_csv(done.rejected)


def candidates():
    smiles = [
        *SMILES[:20],
        "C1CC",
        "OCC",
        "C[C@@H](N)C(=O)O",
        "OCCC",
        "N[C@@H](C)C(=O)O",
        "Oc1ccccc1",
    ]
    return pd.DataFrame({"id": range(len(smiles)), "smiles": smiles}, dtype=str)


def test_the_table_has_new_molecules_once_in_order_of_choice(predictor, tmp_path):
    """Training molecules in any spelling, repeats and invalid SMILES are left out; an enantiomer of
    a training molecule, and one without a label of the goal, are not."""
    table = candidates()
    done, found, rejected = chosen(predictor, tmp_path / "batch.csv", table, count=100)
    assert (done.rows, done.measured, done.failed, done.chosen) == (26, 3, 1, 21)
    assert rejected["smiles"].tolist() == ["C1CC"]
    assert rejected["error"].notna().all()
    assert found["rank"].tolist() == [*range(1, 22)]
    assert {"C[C@@H](N)C(=O)O", "Oc1ccccc1"} < {*found["smiles"]}
    assert not {"CCO", "OCC", "OCCC", "N[C@@H](C)C(=O)O"} & {*found["smiles"]}
    own = predictor.to_frame(found["smiles"])
    for name in ("y_pred", "y_low", "y_high", "similarity"):
        assert found[name].to_numpy() == pytest.approx(own[name].to_numpy(float), rel=1e-4)
    value = expected_improvement(own["y_pred"].to_numpy(float), own["y_std"].to_numpy(float))
    assert found["acquisition"].to_numpy() == pytest.approx(value, rel=1e-4)
    done, found, _ = chosen(predictor, tmp_path / "batch.csv", table, exploit=1.0)
    assert found["acquisition"].to_numpy() == pytest.approx(np.sort(value)[::-1][:4], rel=1e-4)


def test_labels_of_several_rows_belong_to_one_molecule(model, tmp_path):
    smiles, nan = ("CCO", KNOWN[1], "CCO", KNOWN[3]), np.nan
    labels = np.array([[5, nan, 1, 1], [9, 1000, 1, 0], [nan, 50, 1, 0], [1, nan, 1, 0]])
    known = TrainingMolecules(smiles, packed_morgan(smiles), labels, 0 * BOUNDS)
    several = Predictor(replace(model, structures=(known,)), level=0.9, domain=True)
    goals = goals_of(model, {"y": "max"}, maximum={"ic50_nM": "60"})
    assert Acquisition.of(several.model, goals).goals[0].best == 5
    done, found, _ = chosen(several, tmp_path / "batch.csv", candidates(), goals=goals)
    assert done.measured == 3  # CCO, OCC and phenol
    assert "OCC" not in {*found["smiles"]}


def test_only_the_best_candidates_are_kept(predictor, tmp_path, monkeypatch):
    whole = chosen(predictor, tmp_path / "a.csv", candidates(), exploit=1.0)[1]
    monkeypatch.setattr("molsepnorm.predict.suggest._POOL", 4)
    assert chosen(predictor, tmp_path / "b.csv", candidates(), exploit=1.0)[1].equals(whole)


def test_what_cannot_be_chosen_from_is_refused(predictor, model, tmp_path):
    """No intervals, a column that would be added, an invalid row, or a goal out of reach."""
    path, table = tmp_path / "batch.csv", candidates()
    with pytest.raises(ConfigError, match="level"):
        chosen(Predictor(model, domain=True), path, table)
    with pytest.raises(ConfigError, match="'rank'"):
        chosen(predictor, path, table.assign(rank=1))
    with pytest.raises(DataError, match="ring"):
        chosen(predictor, path, table, on_invalid="fail")
    done, found, rejected = chosen(predictor, tmp_path / "none.csv", table.assign(smiles="C1CC"))
    assert (done.chosen, len(found), len(rejected)) == (0, 0, 26)
    with pytest.raises(DataError, match="--over"):
        chosen(predictor, path, table, goals=goals_of(model, {"y": "max"}, over=1e6))
    assert not path.exists()

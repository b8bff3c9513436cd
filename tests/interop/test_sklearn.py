"""`GraphormerRegressor` and `GraphormerClassifier`, used as scikit-learn's tools use them."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import molsepnorm
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.interop.sklearn import GraphormerClassifier, GraphormerRegressor
from molsepnorm.model.parts import Forest
from molsepnorm.molecules.featurize.smiles import read_smiles
from molsepnorm.predict import Predictor

ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
SMILES = [f"{'C' * n}{end}" for n in range(1, 7) for end in ENDS]
Y = [n / 2 + value for n in range(1, 7) for value in ENDS.values()]
CLASSES = ["amine" if "N" in text else "other" for text in SMILES]
THREE = ["N" if "N" in text else "ring" if "c1" in text else "chain" for text in SMILES]
TINY = {
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "run.batch_size": 8,
    "run.blend": "none",
}
regressor = partial(GraphormerRegressor, epochs=2, overrides=TINY)
classifier = partial(GraphormerClassifier, epochs=2, overrides=TINY)


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """End joblib's processes, which would stay for later tests."""
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.fixture(scope="module")
def fitted() -> GraphormerRegressor:
    return regressor().fit(SMILES, Y)


def test_predictions_are_those_of_the_predictor(fitted):
    rows = molsepnorm.Predictor(fitted.model_).predict(SMILES)
    expected = [row.values["y"] for row in rows]
    assert fitted.predict(SMILES) == pytest.approx(expected, abs=1e-6)
    assert fitted.score(SMILES, Y) == pytest.approx(
        1 - np.square(np.subtract(expected, Y)).mean() / np.var(Y), abs=1e-4
    )


@pytest.fixture
def splits(monkeypatch) -> dict[str, np.ndarray]:
    """The rows of each split of the last `fit`, and the weights."""
    seen = {}
    module = importlib.import_module("molsepnorm.interop.sklearn")
    plain = module.train_on

    def train_on(config, dataset, *args, **kwargs):
        seen.update(dataset.splits, weights=dataset.weights)
        return plain(config, dataset, *args, **kwargs)

    monkeypatch.setattr(module, "train_on", train_on)
    return seen


def test_all_training_rows_are_used_and_none_is_held_out_for_a_test(splits):
    regressor().fit(SMILES, Y)
    assert [len(splits[name]) for name in ("train", "val", "test")] == [32, 4, 0]
    assert sorted([*splits["train"], *splits["val"]]) == list(range(36))
    regressor().fit(SMILES, Y, X_val=["CCO", "CCN"], y_val=[1.0, 2.0])
    assert [splits["train"].tolist(), splits["val"].tolist()] == [list(range(36)), [36, 37]]


def test_classes_have_equal_shares_in_validation(splits):
    """Unless the validation molecules are passed."""
    classifier(validation_fraction=0.5).fit(SMILES, CLASSES)
    halves = [sum(CLASSES[row] == "amine" for row in splits[part]) for part in ("train", "val")]
    assert halves == [3, 3]
    regressor().fit(SMILES[:4], Y[:4])  # one molecule, although a tenth is less
    assert [len(splits["train"]), len(splits["val"])] == [3, 1]
    classifier().fit(SMILES, CLASSES, X_val=["CCO", "CCN"], y_val=["other", "amine"])
    assert splits["val"].tolist() == [36, 37]


@pytest.mark.parametrize("duplicates", ["keep", "mean"])
def test_rows_of_a_molecule_stay_together(splits, duplicates):
    """Otherwise the validation molecules would choose what memorises them."""
    overrides = {**TINY, "data.duplicates": duplicates}
    regressor(overrides=overrides, validation_fraction=0.3).fit(SMILES * 3, Y * 3)
    molecules = [{SMILES[row % 36] for row in splits[part]} for part in ("train", "val")]
    assert molecules[1] and not molecules[0] & molecules[1]


def test_a_forest_is_blended_by_default(baselines, fitted):
    """Its predictions need SMILES or RDKit's molecules; graphs have an error that says so."""
    plain = {name: value for name, value in TINY.items() if name != "run.blend"}
    blended = GraphormerRegressor(epochs=2, overrides=plain).fit(SMILES, Y)
    assert 0 < blended.model_.share(Forest) <= 1 and not fitted.model_.share(Forest)
    assert blended.predict(list(map(read_smiles, SMILES))) == pytest.approx(blended.predict(SMILES))
    graphs = list(map(molsepnorm.featurize.get(blended.model_.featurizer), SMILES))
    with pytest.raises(ConfigError, match="which a graph does not have: predict from SMILES"):
        blended.predict(graphs)


def test_molecules_of_every_kind_give_equal_predictions(fitted):
    column = np.array(SMILES, dtype=object)[:, None]
    for molecules in (
        np.array(SMILES),
        column,
        pd.Series(SMILES, index=range(100, 136)),
        pd.DataFrame({"smiles": SMILES}),
        list(map(read_smiles, SMILES)),
        list(map(molsepnorm.featurize.get(fitted.model_.featurizer), SMILES)),
    ):
        assert fitted.predict(molecules) == pytest.approx(fitted.predict(SMILES), abs=1e-5)
    again = regressor().fit(column, Y).predict(SMILES)
    assert again == pytest.approx(fitted.predict(SMILES), abs=1e-3)


def test_tools_of_scikit_learn(fitted):
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(regressor(), np.array(SMILES), Y, cv=folds, n_jobs=2)
    train, test = next(folds.split(SMILES))
    own = regressor().fit(np.array(SMILES)[train], np.array(Y)[train])
    assert scores[0] == pytest.approx(
        own.score(np.array(SMILES)[test], np.array(Y)[test]), abs=1e-4
    )
    search = GridSearchCV(regressor(), {"epochs": [0, 2]}, cv=2, error_score="raise")
    with pytest.raises(ConfigError, match="epochs"):  # the probe needs a start
        search.fit(SMILES, Y)
    search = GridSearchCV(regressor(), {"epochs": [1, 3]}, cv=2, error_score="raise")
    assert search.fit(SMILES, Y).best_params_["epochs"] in (1, 3)
    trimmed = make_pipeline(
        FunctionTransformer(lambda X: [each.strip() for each in X]), regressor()
    )
    spaced = [f" {each} " for each in SMILES]
    assert trimmed.fit(spaced, Y).predict(spaced) == pytest.approx(fitted.predict(SMILES), abs=1e-5)
    probabilities = cross_val_predict(classifier(), SMILES, CLASSES, cv=2, method="predict_proba")
    assert probabilities.shape == (36, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1)


def test_columns_of_a_table_are_inputs():
    table = pd.DataFrame({"solute": SMILES, "solvent": ["O", "CCO", "CC#N"] * 12})
    model = regressor(feature_columns=["solvent:molecule"])
    model.fit(table[:30], Y[:30], X_val=table[30:], y_val=Y[30:])
    rows = Predictor(model.model_).to_frame(SMILES, {"solvent": table["solvent"]})
    assert model.predict(table) == pytest.approx(rows["y_pred"].to_numpy(), abs=1e-6)
    assert model.predict(table.assign(solvent="O")) != pytest.approx(rows["y_pred"], abs=1e-3)
    for wrong in (SMILES, table[["solute"]]):
        with pytest.raises(ConfigError, match="solvent"):
            model.predict(wrong)


def test_clones_and_pickles(fitted):
    other = clone(fitted)
    assert other.get_params() == fitted.get_params()
    assert not hasattr(other, "model_")
    with pytest.raises(NotFittedError):
        other.predict(SMILES)
    restored = pickle.loads(pickle.dumps(fitted))
    assert restored.predict(SMILES).tolist() == fitted.predict(SMILES).tolist()


def test_invalid_molecules(fitted):
    row = ["CCO", "C1CC", "CCN"]
    with pytest.raises(DataError, match=r"^molecule 1: .*on_invalid='nan'"):
        fitted.predict(row)
    with pytest.raises(DataError, match="molecule 1"):
        regressor().fit(["CCO", "C1CC", *SMILES], [0.0, 0.0, *Y])
    lenient = regressor(on_invalid="nan", random_state=3).fit(
        [*SMILES, "C1CC", None], [*Y, 0.0, 1.0]
    )
    found = lenient.predict([*row, None, float("nan")])
    assert np.isnan(found).tolist() == [False, True, False, True, True]
    named = classifier(on_invalid="nan").fit(SMILES, CLASSES)
    assert [type(each) for each in named.predict(row)] == [str, float, str]
    assert np.isnan(named.predict_proba(row)).all(axis=1).tolist() == [False, True, False]


def test_several_targets_with_missing_labels():
    labels = np.array([Y, Y, Y]).T.copy()
    labels[::3, 1] = np.nan
    model = regressor().fit(SMILES, labels)
    assert model.predict(SMILES).shape == (36, 3)
    named = pd.DataFrame({"logP": Y, "logS": Y})
    assert regressor().fit(SMILES, named).model_.task.names == ("logP", "logS")
    yes = np.array([[text == "amine" for text in CLASSES]] * 2, dtype=float).T
    yes[0, 0] = np.nan
    both = classifier().fit(SMILES, yes)
    assert [each.tolist() for each in both.classes_] == [[0, 1], [0, 1]]
    assert [each.shape for each in both.predict_proba(SMILES)] == [(36, 2)] * 2
    assert both.predict(SMILES).shape == (36, 2)


@pytest.mark.parametrize("labels", [THREE, ["N" in text for text in SMILES]])
def test_classes_keep_their_order_and_type(labels):
    """Training on the labels of all molecules tells them apart by the right column."""
    model = GraphormerClassifier(epochs=0).fit(SMILES, labels)
    assert model.classes_.tolist() == sorted(set(labels))
    found = model.predict(SMILES)
    assert type(found.tolist()[0]) is type(labels[0])
    columns = model.predict_proba(SMILES)
    own = columns[np.arange(36), np.searchsorted(model.classes_, labels)]
    assert own.mean() > 1 / len(model.classes_) + 0.15
    assert found.tolist() == model.classes_[columns.argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1 + len(text) % 3 for text in SMILES], ["1", "2", "3"]),
        ([("NA", "low", "high")[len(text) % 3] for text in SMILES], ["0", "1", "2"]),
    ],
)
def test_the_model_has_the_names_of_the_classes(labels, names):
    """Other programs predict with `model_`. A class that would be read as blank makes all of them
    numbers."""
    fitted = classifier().fit(SMILES, labels)
    assert fitted.model_.task.targets[0].classes == tuple(names)
    rows = Predictor(fitted.model_).predict(SMILES)
    expected = np.searchsorted(fitted.classes_, fitted.predict(SMILES))
    assert [row.values["y"] for row in rows] == [names[number] for number in expected]


def test_weights_of_molecules_count():
    """Molecules without weight do not change the model."""
    lied = [value + 100 for value in Y[:12]] + Y[12:]
    weights = np.array([0.0] * 12 + [1.0] * 24)
    others = {"X_val": SMILES[12:16], "y_val": Y[12:16]}
    found = regressor().fit(SMILES, lied, weights, **others).predict(SMILES[12:])
    assert np.abs(found - np.mean(Y[12:])).mean() < 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SMILES, Y[:-1]), "36 molecules, and y has 35 rows"),
        ((np.zeros((4, 2)), [1.0] * 4), r"one molecule for each row.*\(4, 2\)"),
        ((SMILES, CLASSES), "GraphormerClassifier is for classes"),
        (([1, 2, 3, 4], [1.0] * 4), "molecule 0: int"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises((ConfigError, DataError), match=message):
        regressor().fit(*arguments)


@pytest.mark.parametrize("estimator", [GraphormerRegressor(), GraphormerClassifier()])
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_parameters_default_constructible",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_repr",
        "check_mixin_order",
    ],
)
def test_scikit_learns_checks_of_estimators(estimator, check):
    """All of its checks that need no data; the others train on numbers, not on molecules."""
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)

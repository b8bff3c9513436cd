"""Predictions in notebooks: pictures and tables with escaped texts, and pandas."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import packed_morgan
from molsepnorm.predict import Predictor, TableRows, predict_rows
from molsepnorm.tasks import Target
from molsepnorm.tasks.calibration import ClassSets, Intervals
from molsepnorm.tasks.domain import GRID, Domain
from support import tiny_model

SMILES = ["CCO", "C1CC", "c1ccccc1", "CC(=O)O"]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    """A number with a transform, classes, intervals, a domain, and two networks."""
    targets = (
        Target("y", "regression", transform="log10"),
        Target("<i>k</i>", "multiclass", classes=("<b>a</b>", "b", "c")),
    )
    known = TrainingMolecules(
        ("CCO",), packed_morgan(["CCO"]), np.array([[2.0, 0.0]]), np.zeros((1, 2), np.int8)
    )
    scores = tuple(np.linspace(0.1, 1, 20).tolist())
    one, two = (tiny_model(*targets, seed=seed) for seed in (0, 1))
    model = replace(
        one.with_parts((*one.parts, *two.parts), (0.5, 0.5)),
        calibration=(Intervals(scores, 0.0), ClassSets((scores,) * 3)),
        domain=Domain(0.5, (tuple(1 - GRID), None)),
        structures=(known,),
    )
    return Predictor(model, level=0.8, domain=True)


def test_a_frame_has_the_columns_and_cells_of_the_file(predictor):
    """In the same order, up to the rounding of the file."""
    out = io.StringIO()
    rows = TableRows([pd.DataFrame({"smiles": SMILES})], "smiles", "x")
    predict_rows(predictor, rows, out, digits=17)
    written = pd.read_csv(io.StringIO(out.getvalue()))
    frame = predictor.to_frame(SMILES)
    assert [*frame.columns] == [*written.columns] and len(frame) == len(SMILES)
    assert frame["in_domain"].tolist() == [True, pd.NA, False, False]
    for name in frame.columns:
        own, other = frame[name], written[name]
        assert (own.isna() == other.isna()).all(), name
        if name == "in_domain":
            own = own.map({True: "yes", False: "no"})
        if own.dtype.kind == "f":
            np.testing.assert_allclose(own, other, rtol=1e-6)
        else:
            assert own.dropna().tolist() == other.dropna().tolist(), name
    assert "unclosed ring" in frame["error"][1]


def test_an_empty_frame_has_all_columns(predictor):
    one, other = predictor.to_frame([]), predictor.to_frame(["CCO"])
    assert len(one) == 0 and [*one.columns] == [*other.columns]
    types = other.dtypes.drop("error")
    assert (one.dtypes.drop("error") == types).all()


def test_a_prediction_shows_its_values_and_its_molecule(predictor):
    (prediction,) = predictor.predict(["CC(=O)O"])
    page = ET.fromstring(prediction._repr_html_())
    cells = [[cell.text or "" for cell in row] for row in page.iter("tr")]
    found = dict(cells)
    assert found["SMILES"] == "CC(=O)O"
    assert float(found["y"]) == pytest.approx(prediction.values["y"], rel=1e-3)
    assert found["in_domain"] == ("yes" if prediction.domain["in_domain"] else "no")
    assert found["<i>k</i>"] == prediction.values["<i>k</i>"]
    wanted = {*prediction.values, *prediction.uncertainty, *prediction.domain}
    assert wanted < {*found} and "<i>k</i>, probability of <b>a</b>" in found
    assert page.find("{http://www.w3.org/2000/svg}svg") is not None
    assert "<b>a" not in prediction._repr_html_() and "<i>k" not in prediction._repr_html_()

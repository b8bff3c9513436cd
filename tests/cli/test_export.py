"""`molsepnorm export`: a trained model, its molecules, and what is refused."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

SOLVENTS = ["water", "dmso", "ethanol"]


@pytest.fixture(scope="module")
def model(tmp_path_factory, ok, tiny, write_table):
    """A probe with all kinds of inputs, and the table that it was trained on."""
    folder = tmp_path_factory.mktemp("export")
    cells = {"y": [0.5, 2, -1.5, 3, 1], "a": [0, 1, 0, 0, 1, 1, 0], "solvent": SOLVENTS}
    table = write_table(folder / "data.csv", **cells, ph=[1, 2, 7, 9])
    data = ("train", "--data", table, "--split", "0.4,0.3,0.3")
    inputs = ("--feature-columns", "solvent,ph:number", "--molecule-features", "morgan,rdkit")
    ok(*data, "--targets", "a", *tiny, *inputs, "-o", folder / "start")
    more = ("--from", folder / "start", "--epochs", 0, "-o", folder / "run")
    # the labels are unrelated to the structures: a fit to more molecules predicts their mean
    ok(*data, "--targets", "y", *more, "--no-refit")
    return "--model", folder / "run"


def test_an_exported_model_predicts_as_predict(model, run, ok, tmp_path):
    """A kernel regression that reads columns, fingerprints and descriptors."""
    pytest.importorskip("onnxruntime")
    table = tmp_path / "data.csv"
    table.write_text((model[1].parent / "data.csv").read_text() + "C1CC,1,1,water,7\n")
    text = ok("models", "export", *model, "-o", tmp_path / "out")
    assert f"Model: {tmp_path / 'out' / 'model.onnx'}\n" in text
    assert "Largest difference from molsepnorm predict on " in text

    result = run("models", "export", *model, "--encode", table, "-o", tmp_path / "encoded")
    assert result.exit_code == 0, result.output
    assert f"30 molecules in 1 file: {tmp_path / 'encoded'}" in result.stdout
    assert "data.csv, line 32: RDKit cannot read 'C1CC'" in result.stderr
    from molsepnorm.interop.export import onnx_runner

    with np.load(tmp_path / "encoded" / "00001.npz") as arrays:
        values = onnx_runner(tmp_path / "out" / "model.onnx")(arrays)[:, 0]
        smiles = arrays["smiles"].tolist()
    rows = [*csv.DictReader(io.StringIO(ok("predict", *model, "-i", table)))]
    assert smiles == [row["smiles"] for row in rows[:-1]]
    expected = [float(row["y_pred"]) for row in rows[:-1]]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-4)


def test_a_table_is_encoded_by_the_same_options_as_in_predict(model, ok, tmp_path):
    found = []
    for mark, options in ((".", ()), (",", ("--decimal", ","))):
        table, out = tmp_path / "x.csv", tmp_path / f"out{len(found)}"
        table.write_text(f"smiles;solvent;ph\nCCO;water;7{mark}25\n")
        ok("models", "export", *model, "--encode", table, *options, "-o", out)
        with np.load(out / "00001.npz") as arrays:
            found.append(arrays["features"].tolist())
    assert found[0] == found[1]


def test_wrong_options_are_refused(model, refused, tmp_path):
    output = ("-o", tmp_path / "out")
    text = refused("models", "export", *model, "--encode", "none.csv", *output, code=1)
    assert "none.csv: there is no such file" in text
    text = refused("models", "export", *model, "--smiles-column", "s", *output)
    assert "belong to --encode" in text
    assert [*tmp_path.iterdir()] == []

"""`molsepnorm export`: a trained model, its molecules, and what is refused."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
import torch

SOLVENTS = ["water", "dmso", "ethanol"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, ok, tiny, write_table):
    """A folder with data.csv, a probe with all kinds of inputs, and two runs of a smaller one."""
    folder = tmp_path_factory.mktemp("export")
    cells = {"y": [0.5, 2, -1.5, 3, 1], "a": [0, 1, 0, 0, 1, 1, 0], "solvent": SOLVENTS}
    table = write_table(folder / "data.csv", **cells, ph=[1, 2, 7, 9])
    data = ("train", "--data", table, "--split", "0.4,0.3,0.3")
    inputs = ("--feature-columns", "solvent,ph", "--molecule-features", "morgan,rdkit")
    ok(*data, "--targets", "a", *tiny, *inputs, "-o", folder / "start")
    more = ("--from", folder / "start", "--epochs", 0, "-o", folder / "run")
    # the labels are unrelated to the structures: a fit to more molecules predicts their mean
    ok(*data, "--targets", "y", *more, "--no-refit")
    for seed in (1, 2):
        ok(*data, "--targets", "y", *tiny, "--seed", seed, "-o", folder / f"plain-{seed}")
    return folder


def predictions_of(exported, encoded):
    """The predictions of a TorchScript file for all encoded molecules, with their SMILES."""
    module = torch.jit.load(exported / "model.pt")
    smiles, values = [], []
    for path in sorted(encoded.iterdir()):
        arrays = dict(np.load(path))
        smiles += arrays.pop("smiles").tolist()
        arrays.pop("rows")
        values.append(module(**{name: torch.from_numpy(each) for name, each in arrays.items()}))
    return smiles, torch.cat(values).numpy()


@pytest.mark.parametrize("runs", [["run"], ["plain-1", "plain-2"]])
def test_an_exported_model_predicts_as_predict(workspace, run, ok, tmp_path, runs):
    """A probe that reads columns, fingerprints and descriptors, and the mean of two models."""
    table = tmp_path / "data.csv"
    table.write_text((workspace / "data.csv").read_text() + "C1CC,1,1,water,7\n")
    models = [part for name in runs for part in ("--model", workspace / name)]
    text = ok("export", *models, "--to", "torchscript", "-o", tmp_path / "out")
    assert f"Model: {tmp_path / 'out' / 'model.pt'}\n" in text
    assert "Largest difference from molsepnorm predict on " in text
    assert "(standard deviations of the labels)" in text

    result = run("export", *models, "--encode", table, "-o", tmp_path / "encoded")
    assert result.exit_code == 0, result.output
    assert f"30 molecules in 1 file: {tmp_path / 'encoded'}" in result.stdout
    assert "data.csv, line 32: RDKit cannot read 'C1CC'" in result.stderr
    smiles, values = predictions_of(tmp_path / "out", tmp_path / "encoded")
    rows = [*csv.DictReader(io.StringIO(ok("predict", *models, "-i", table)))]
    assert smiles == [row["smiles"] for row in rows[:-1]]
    expected = [float(row["y_pred"]) for row in rows[:-1]]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(values[:, 0], expected, rtol=1e-3, atol=1e-4)


def test_wrong_options_are_refused(workspace, refused, tmp_path):
    model = ("export", "--model", workspace / "plain-1")
    neither = refused(*model, "-o", tmp_path / "out")
    assert "give either --to onnx or --to torchscript, to write the model, or --encode" in neither
    table = ("--encode", workspace / "data.csv")
    assert neither == refused(*model, "--to", "onnx", *table, "-o", tmp_path / "out")
    text = refused(*model, "--to", "onnx", "--smiles-column", "s", "-o", tmp_path / "out")
    assert "--smiles-column belongs to --encode" in text
    assert [*tmp_path.iterdir()] == []

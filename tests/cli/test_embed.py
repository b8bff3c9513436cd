"""`molsepnorm embed`, from a table, --smiles and standard input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import Target, Task
from support import SMALL, far_from_initial

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained without labels."""
    folder = tmp_path_factory.mktemp("embed") / "model"
    network = far_from_initial(GraphormerConfig(**SMALL | {"outputs": 1}))
    task = Task((Target("y", "regression"),), "mae")
    PropertyModel.of(network, "zinc", task, objective="contrastive").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("processes", [1, 2])
def test_a_table_is_embedded(run, model, tmp_path, processes):
    smiles = [f"{'C' * length}O" for length in range(1, 31)] * 10
    smiles[7] = "C1CC"
    table = pd.DataFrame({"id": range(300), "smi": smiles})
    table.to_csv(tmp_path / "in.csv", index=False)
    out = tmp_path / "new/out.parquet"
    given = ("--model", model, "-i", tmp_path / "in.csv", "--smiles-column", "smi", "-o", out)
    result = run("embed", *given, "--processes", processes, "--atoms")
    assert result.exit_code == 0, result.output
    assert "300 rows to " in result.stderr
    assert "; 1 could not be embedded, see the column error" in result.stderr
    written = pd.read_parquet(out)
    assert written["smi"].tolist() == smiles
    assert written["id"].tolist() == [str(row) for row in range(300)]
    expected = Predictor.from_pretrained(model).embed(smiles).molecules
    np.testing.assert_allclose(np.stack(written["embedding"]), expected, rtol=1e-4, atol=1e-5)
    assert [len(atoms) for atoms in written["atom_embeddings"][:8]] == [2, 3, 4, 5, 6, 7, 8, 0]

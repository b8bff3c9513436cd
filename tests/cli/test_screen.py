"""`molsepnorm screen` through the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import Target, Task
from support import SMALL, far_from_initial

from .conftest import TINY


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights, and a library of two files with two invalid SMILES."""
    folder = tmp_path_factory.mktemp("screen")
    network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": 1}))
    task = Task((Target("y", "regression"),), "mae")
    PropertyModel.of(network, "zinc", task).save_pretrained(folder / "model")
    smiles = [f"{'C' * length}{end}" for length in range(1, 31) for end in ("O", "N", "=O")]
    smiles[7], smiles[80] = "C1CC", ""
    table = pd.DataFrame({"id": range(len(smiles)), "smiles": smiles, "note": "x"})
    (folder / "lib").mkdir()
    table.iloc[:60].to_parquet(folder / "lib" / "a.parquet", index=False)
    table.iloc[60:].to_csv(folder / "lib" / "b.csv.gz", index=False)
    return folder


def test_uncertainty_and_domain_add_columns(ok, write_table, tmp_path):
    table = write_table(tmp_path / "data.csv", y=[0.1, 0.4, 0.9, 0.2])
    ok("train", "-q", "--data", table, "--targets", "y", *TINY, "-o", tmp_path / "run")
    given = ("--model", tmp_path / "run", "-i", table, "--uncertainty", "--level", "0.5")
    condition = "y_low > -1e9 and in_domain and similarity >= 0.99"
    ok("screen", *given, "--domain", "--filter", condition, "-o", tmp_path / "out")
    found = pd.read_parquet(tmp_path / "out" / "parts")
    ok("predict", *given, "--domain", "-o", tmp_path / "p.parquet")
    wanted = pd.read_parquet(tmp_path / "p.parquet").query("similarity >= 0.99")
    assert 0 < len(found) == len(wanted)
    for name in ("y_pred", "y_std", "y_low", "y_high", "similarity"):
        assert found[name].tolist() == pytest.approx(wanted[name].tolist(), rel=1e-4, abs=1e-5)
    assert found["in_domain"].tolist() == [each == "yes" for each in wanted["in_domain"]]
    assert found["nearest_smiles"].tolist() == wanted["nearest_smiles"].tolist()


def test_the_python_example_of_the_page_runs(workspace, tmp_path, monkeypatch, capsys):
    """With a model whose target is logS."""
    page = Path(__file__).parents[2] / "docs" / "screening.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [each for each in blocks if "ScreenOptions" in each]
    network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": 1}))
    task = Task((Target("logS", "regression"),), "mae")
    PropertyModel.of(network, "zinc", task).save_pretrained(tmp_path / "runs" / "logS")
    (tmp_path / "lib").symlink_to(workspace / "lib")
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace("processes=4", "processes=1"), page.name, "exec"), {})
    rows, kept, rejected = map(int, capsys.readouterr().out.split())
    assert (rows, rejected) == (60, 1)
    assert 0 < kept == len(pd.read_parquet(tmp_path / "hits" / "parts"))


@pytest.mark.skipif(sys.platform != "linux", reason="signals a group of processes")
def test_a_stopped_screen_goes_on(ok, workspace, tmp_path):
    """With several processes."""
    table = pd.read_parquet(workspace / "lib" / "a.parquet")
    pd.concat([table] * 200).to_csv(tmp_path / "large.csv", index=False)
    given = ("--model", workspace / "model", "--input", tmp_path / "large.csv")
    options = ("-o", tmp_path / "out", "--processes", "2", "--rows-per-part", "300")
    args = ["screen", *map(str, (*given, *options))]
    code = "from molsepnorm.cli import main; main()"
    command = [sys.executable, "-c", code, *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    parts, until = tmp_path / "out" / "parts", time.monotonic() + 60
    while len(list(parts.glob("*.parquet"))) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert "Traceback" not in errors
    assert process.returncode == 130
    assert "Stopped at once." in errors
    assert 3 <= len(list(parts.glob("*.parquet"))) < 40
    ok(*args)
    found = pd.read_parquet(parts)
    assert found["source_row"].tolist() == [row + 2 for row in range(12_000) if row % 60 != 7]

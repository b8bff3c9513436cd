"""The benchmark of screening measures rows and memory, with molecules that all differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support import tiny_model

ZINC = [
    "CC(C)NC(=O)N1CCCCC[C@@H]1C1CC[NH+](Cc2ccc(C#N)cc2F)CC1",
    "CN(C(=O)CSc1ccc(Cl)cc1)c1cccc2ncccc12",
    "O=C(Nc1cccc(C2CCCC2)c1)c1ccc(CC(=O)O)cc1",
    "CCc1ccc(C2=NCCN2)cc1CCO",
    "Cc1ccc(-c2ccc(CN3CCOCC3)cc2)cc1C",
]


def test_a_measurement_counts_rows_and_memory(benchmarks, tmp_path, monkeypatch):
    tiny_model().save_pretrained(tmp_path / "model")
    (tmp_path / "data" / "zinc").mkdir(parents=True)
    pd.DataFrame({"smiles": ZINC}).to_csv(tmp_path / "data/zinc/train.csv.gz", index=False)
    monkeypatch.setenv("MOLSEPNORM_DATA", str(tmp_path / "data"))
    command = [sys.executable, benchmarks / "screening.py", "--model", tmp_path / "model"]
    command += ["--molecules", "100", "--processes", "1", "--scratch", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["molecules"], figures["rejected"]) == (100, 0)
    assert figures["rows_per_second"] == pytest.approx(100 / figures["seconds"], rel=0.05)
    assert 0 < figures["seconds_to_start"] < figures["seconds"]
    assert figures["rows_per_cpu_second"] > 0
    assert figures["peak_mib"] >= max(size for _, size in figures["mib_over_time"]) > 100
    assert len(pd.read_parquet(Path(tmp_path) / "output" / "parts")["smiles"].unique()) == 100

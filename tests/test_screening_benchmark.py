"""The molecules of the benchmark of screening all differ."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
import torch
from rdkit import Chem

from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task

ZINC = [
    "CC(C)NC(=O)N1CCCCC[C@@H]1C1CC[NH+](Cc2ccc(C#N)cc2F)CC1",
    "CN(C(=O)CSc1ccc(Cl)cc1)c1cccc2ncccc12",
    "O=C(Nc1cccc(C2CCCC2)c1)c1ccc(CC(=O)O)cc1",
    "CCc1ccc(C2=NCCN2)cc1CCO",
    "Cc1ccc(-c2ccc(CN3CCOCC3)cc2)cc1C",
]


def test_molecules_are_valid_and_different(benchmarks):
    """Also as canonical SMILES, in which the joined parts cannot be seen."""
    made = importlib.import_module("screening")
    large, small = made.parts_for(100, ZINC)
    assert min(len(large), len(small)) > 5
    every = list(made.joined(large, small))
    assert len(every) == len(large) * len(small)
    assert len({Chem.CanonSmiles(text) for text in every}) == len(every)
    start = list(islice(made.joined(large, small), 10))
    assert len({text.rpartition(")")[2] for text in start}) > 3  # mixed


def test_a_measurement_counts_rows_and_memory(benchmarks, tmp_path, monkeypatch):
    with torch.random.fork_rng():
        config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2, max_path_length=3)
        task = Task((Target("y", "regression"),), "mae")
        PropertyModel(Graphormer(config), "zinc", task).save_pretrained(tmp_path / "model")
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

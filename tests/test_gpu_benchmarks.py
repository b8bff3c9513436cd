"""benchmarks/gpu/: packed molecules, isolated jobs, the networks and variants that are compared."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from molsepnorm import load_config
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets import load as load_dataset
from molsepnorm.data.datasets.dataset import LabelledGraph, cached_store
from molsepnorm.interop.graphormer_weights.parity import MOLECULES, reference_inputs
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.nn import Graphormer
from molsepnorm.training.run import architecture

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


SMILES = ("C", "CCO", "C#N", "CC(=O)[O-].C[NH3+]", "c1ccccc1O", "N#CC(F)(Cl)C=CCCBr")


def small_store(folder: Path, bond_lengths: int = 20) -> Any:
    """Make a store of a few molecules with labels, in the format of ZINC's store."""
    read = featurize.get("zinc")
    graphs = [read(smiles) for smiles in SMILES]
    spec = EncodingSpec((3,), max_path_length=bond_lengths)
    molecules = [LabelledGraph(2 * i, graph, (i / 3,)) for i, graph in enumerate(graphs)]
    notes = {"splits": {"train": 4, "val": 1, "test": 1}}
    return cached_store(str(folder), "zinc", spec, ("penalised_logp",), molecules, notes)


@pytest.mark.parametrize("lengths", [20, 2])
def test_packed_molecules_become_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: int
) -> None:
    """The files are equal, also for another encoding than that of the packed store."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    expected = small_store(Path("made"), lengths)
    packed.pack(small_store(Path("long")), tmp_path / "some.npz")
    spec = EncodingSpec((3,), max_path_length=lengths)
    unpacked = packed.unpack(tmp_path / "some.npz", "unpacked", spec)
    assert unpacked.path.read_bytes() == expected.path.read_bytes()


def test_a_packed_data_set_loads_without_raw_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key in the cache is that of a downloaded data set."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    packed.pack(small_store(Path("made")), tmp_path / "some.npz")
    packed.unpack(tmp_path / "some.npz", "zinc-full-downloaded", EncodingSpec((3,)))
    found = load_dataset(DataConfig(dataset="zinc-full"), EncodingSpec((3,)))
    assert [len(found.splits[name]) for name in ("train", "val", "test")] == [4, 1, 1]


def test_the_peers_inputs_are_those_of_its_own_preprocessing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The molecules have unique shortest paths; the collator masks atoms 19 bonds or more apart."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    read = featurize.get("zinc")
    graphs = [read(smiles) for smiles in MOLECULES["zinc"]]
    molecules = [LabelledGraph(i, graph, (float(i),)) for i, graph in enumerate(graphs)]
    store = cached_store("peer", "zinc", EncodingSpec((3,)), ("y",), molecules, {})
    order = np.array([3, 0, 5, 1, 2, 4])
    found = module("gpu.peer").inputs(store, order)
    expected = reference_inputs([graphs[i] for i in order], "hf", "zinc", 20)
    expected["attn_bias"][:, 1:, 1:][expected["spatial_pos"] >= 20] = -torch.inf
    assert (expected["attn_bias"] == -torch.inf).any()
    assert found.pop("labels").tolist() == order.tolist()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.equal(value, expected[name].to(value.dtype)), name


JOBS = """
import os, sys, time

def job(name):
    if name == "fails":
        raise ValueError("a | b\\nc")
    if name == "dies":
        os._exit(9)
    if name == "hangs":
        time.sleep(60)
    return sys.path[0]
"""


def test_a_job_that_fails_dies_or_hangs_loses_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other jobs run in order, in other processes if needed."""
    jobs = module("gpu.jobs")
    (tmp_path / "some_jobs.py").write_text(JOBS)
    monkeypatch.syspath_prepend(str(tmp_path))
    job = module("some_jobs").job
    names = ["fails", "dies", "one", "hangs", "two"]
    done = jobs.run_jobs(job, names, time.monotonic() + 60, 3.0, first_path="/first")
    assert list(done) == names
    assert done["fails"].error == "ValueError: a | b"
    assert done["dies"].error == "its process ended with status 9"
    assert done["hangs"].error == "stopped after 3 s"
    assert done["one"].result == done["two"].result == "/first" and not done["one"].error
    late = jobs.run_jobs(job, ["one"], time.monotonic())["one"]
    assert late.error == "not begun: no time was left"
    monkeypatch.setattr(jobs, "_serve", os._exit)
    ended = jobs.run_jobs(3, ["one"], time.monotonic() + 60)["one"]
    assert ended.error.startswith("the process ended with status")


def test_the_fastest_measured_variant_is_the_best() -> None:
    """The name of a variant has all its settings."""
    trainers, timing = module("gpu.trainers"), module("gpu.timing")
    variant = trainers.Variant("compiled", "bf16", 2, fused=False)
    assert trainers.Variant.of(str(variant)) == variant
    assert timing.fastest({"captured/tf32/4/fused": 2.5, str(variant): 2.4}) == variant
    assert timing.fastest({}) == trainers.Variant()


def test_overlapping_kernels_count_once_as_busy_time() -> None:
    profiling = module("gpu.profiling")
    ran = [profiling.Kernel("", *times) for times in ((0, 4), (1, 2), (3, 6), (8, 9))]
    assert profiling._busy(ran) == 7


def test_failures_come_first_in_the_table_of_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1 if a check failed; an error in one measurement does not stop the others."""
    monkeypatch.setenv("OUT", str(tmp_path))
    run, row = module("gpu.run"), {"what": "step", "unit": "ms", "ours": [2.0]}
    passed = {"what": "a", "figure": 1e-5, "bound": 1e-4, "passed": True}
    found: dict[str, Any] = {"check": [passed], "profile": ["captured: 3 ms"]}
    found["time"] = {"best": "captured", "rows": [{**row, "target": None}], "failed": {"x": "late"}}
    monkeypatch.setattr(run, "measure", lambda verb, *_: found[verb])
    assert run.main(["profile", "time", "check"]) == 0
    table = (tmp_path / "table.md").read_text()
    for part in ("| a | 1.0e-05 | 1e-04 | ok |", "| step, ms | 2 |", "Not measured: x: late"):
        assert part in table
    found["check"].append({"what": "b", "passed": False, "error": "x | y"})
    assert run.main(["check"]) == 1
    table = (tmp_path / "table.md").read_text()
    assert "1 of 2 passed" in table
    assert table.index("| b | x / y |  | **failed** |") < table.index("| a | 1.0e-05")
    assert json.loads((tmp_path / "figures.json").read_text())["check"] == found["check"]
    del found["time"]
    assert run.main(["time"]) == 1
    assert "**time failed: KeyError: 'time'**" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"run\.sh check"):
        run.main(["chekc"])


def test_the_compared_networks_have_every_ingredient() -> None:
    """They take smaller steps than SLIM."""
    networks = module("gpu.trainers")
    one, two = networks.WALKS.settings({}), networks.PAIRS.settings({"optim.ema": 0.9})
    together = {name.removeprefix("model.") for name in (*one, *two)}
    ingredients = {"local", "node_walks", "pair_walks", "resistance_kernels", "urpe"}
    assert ingredients | {"degree_scaler", "pair_width", "readout", "head"} <= together
    assert two["optim.ema"] == 0.9 and two["optim.warmup"] == pytest.approx(16 * 32 / 99840)
    assert networks.SLIM.settings({"a": 1}) == {"a": 1}
    for settings in (one, two):
        recipe = BENCHMARKS.parent / "configs" / "zinc-slim-paper.yaml"
        config = load_config(config=recipe, overrides=settings)
        assert Graphormer(architecture(config)).config.layers <= 12

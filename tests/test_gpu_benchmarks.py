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

from molsepnorm import load_config
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.cached import LabelledGraph, cached_set
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.nn import Graphormer
from molsepnorm.training.architecture import architecture

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


SMILES = ("C", "CCO", "C#N", "CC(=O)[O-].C[NH3+]", "c1ccccc1O", "N#CC(F)(Cl)C=CCCBr")


def small_set(folder: Path, bond_lengths: int = 20) -> Any:
    """Make a data set of a few molecules in the format of ZINC's, as four, one and one in a
    split."""
    read = featurize.get("zinc")
    graphs = [read(smiles) for smiles in SMILES]
    spec = EncodingSpec((3,), max_path_length=bond_lengths)
    molecules = [LabelledGraph(2 * i, graph, (i / 3,)) for i, graph in enumerate(graphs)]
    splits = {"train": range(4), "val": [4], "test": [5]}
    store, labels = cached_set(str(folder), "zinc", spec, 1, molecules, splits)
    return Dataset("some", store, labels.values, ("y",), ("regression",), labels.splits)


@pytest.mark.parametrize("lengths", [20, 2])
def test_packed_molecules_become_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: int
) -> None:
    """The files are equal, also for another encoding than that of the packed store."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    expected = small_set(Path("made"), lengths)
    packed.pack(small_set(Path("long")), tmp_path / "some.npz")
    spec = EncodingSpec((3,), max_path_length=lengths)
    store, labels = packed.unpack(tmp_path / "some.npz", "unpacked", spec)
    assert store.path.read_bytes() == expected.store.path.read_bytes()
    assert np.array_equal(labels.values, expected.labels)
    assert {name: part.tolist() for name, part in labels.splits.items()} == {
        "train": [0, 1, 2, 3],
        "val": [4],
        "test": [5],
    }


def test_a_packed_data_set_loads_without_raw_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key in the cache is that of a downloaded data set."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    monkeypatch.setattr(packed, "FOLDER", tmp_path)
    expected = small_set(Path("made"))
    packed.pack(expected, tmp_path / "zinc-full.npz")
    found = packed.load(load_config("zinc-full"))
    assert [len(found.splits[name]) for name in ("train", "val", "test")] == [4, 1, 1]
    assert np.array_equal(found.labels, expected.labels)


JOBS = """
import os, time

def job(name):
    if name == "fails":
        raise ValueError("a | b\\nc")
    if name == "dies":
        os._exit(9)
    if name == "hangs":
        time.sleep(60)
    return os.getpid()
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
    done = jobs.run_jobs(job, names, time.monotonic() + 60, 3.0)
    assert list(done) == names
    assert done["fails"].error == "ValueError: a | b"
    assert done["dies"].error == "its process ended with status 9"
    assert done["hangs"].error == "stopped after 3 s"
    assert done["one"].result != done["two"].result and not done["one"].error + done["two"].error
    late = jobs.run_jobs(job, ["one"], time.monotonic())["one"]
    assert late.error == "not begun: no time was left"
    monkeypatch.setattr(jobs, "_serve", os._exit)
    ended = jobs.run_jobs(3, ["one"], time.monotonic() + 60)["one"]
    assert ended.error.startswith("the process ended with status")


def test_the_name_of_a_variant_has_all_its_settings() -> None:
    trainers, timing = module("gpu.trainers"), module("gpu.timing")
    variant = trainers.Variant("compiled", "bf16", 2, fused=False)
    assert trainers.Variant.of(str(variant)) == variant
    assert len({*map(str, timing.VARIANTS)}) == len(timing.VARIANTS)


def test_a_variant_is_timed(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("SMALL", "1"), ("MOLSEPNORM_SCRATCH", str(tmp_path))):
        monkeypatch.setenv(name, value)
    found = module("gpu.timing").job("eager/fp32/2/plain")
    assert found["variant"] == "eager/fp32/2/plain" and found["steps_per_second"] > 0


def test_failed_checks_come_first_in_the_table_of_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status is 1 if a check failed."""
    monkeypatch.setenv("OUT", str(tmp_path))
    run = module("gpu.run")
    found: dict[str, Any] = {
        "check": [{"what": "a", "figure": 1e-5, "bound": 1e-4, "passed": True}],
        "time": [{"variant": "one", "steps_per_second": 321.0}, {"variant": "x", "error": "late"}],
    }
    monkeypatch.setattr(run, "measure", lambda verb, _: found[verb])
    assert run.main(["time", "check"]) == 0
    table = (tmp_path / "table.md").read_text()
    for part in ("| a | 1.0e-05 | 1e-04 | ok |", "| one | 321.0 |", "| x | late |"):
        assert part in table
    found["check"].append({"what": "b", "passed": False, "error": "x | y"})
    assert run.main(["check"]) == 1
    table = (tmp_path / "table.md").read_text()
    assert "1 of 2 passed" in table
    assert table.index("| b | x / y |  | **failed** |") < table.index("| a | 1.0e-05")
    assert json.loads((tmp_path / "figures.json").read_text())["check"] == found["check"]
    with pytest.raises(SystemExit, match=r"run\.sh check"):
        run.main(["chekc"])


def test_the_compared_network_has_every_ingredient() -> None:
    """It takes smaller steps than SLIM."""
    networks = module("gpu.trainers")
    settings = networks.WALKS.settings({"optim.ema": 0.9})
    ingredients = {"local", "node_walks", "pair_walks", "resistance_kernels", "urpe"}
    names = {name.removeprefix("model.") for name in settings}
    assert ingredients | {"readout", "head"} <= names
    assert settings["optim.ema"] == 0.9
    assert settings["optim.warmup"] == pytest.approx(16 * 32 / 99840)
    assert networks.SLIM.settings({"a": 1}) == {"a": 1}
    recipe = BENCHMARKS.parent / "configs" / "zinc-slim-paper.yaml"
    config = load_config(config=recipe, overrides=settings)
    assert Graphormer(architecture(config)).config.layers == 12

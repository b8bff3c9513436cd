"""A screen on a local Ray cluster with two workers."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path

import pandas as pd
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.predict.screening import ScreenOptions, screen

from .conftest import rows_of

OPTIONS = ScreenOptions(rows_per_part=10)


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine, with two CPUs."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture
def library(molecules, tmp_path) -> list[str]:
    """A Parquet file and a CSV of 150 rows each, with two invalid SMILES."""
    molecules(150, (3,)).to_parquet(tmp_path / "a.parquet", index=False)
    molecules(150, (149,)).to_csv(tmp_path / "b.csv", index=False)
    return [str(tmp_path / "a.parquet"), str(tmp_path / "b.csv")]


def actors() -> list[int]:
    """The processes of the actors that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_Actor"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_rows_are_those_of_one_process_although_a_worker_is_killed(
    cluster, predictor, screened, library, tmp_path
):
    """Ray starts the worker again, and repeats its task."""
    alone = screened(library, rows_per_part=10, into="alone")
    killed = []

    def kill(progress) -> None:
        if progress.parts == 4:
            killed.append(actors()[0])
            os.kill(killed[0], signal.SIGKILL)

    result = screen(predictor, library, tmp_path / "out", OPTIONS, "ray", 2, on_progress=kill)
    assert len(killed) == 1
    assert (result.rows, result.kept, result.rejected, result.parts) == (300, 298, 2, 30)
    pd.testing.assert_frame_equal(rows_of(tmp_path / "out" / "parts"), alone)
    rejected = [rows_of(tmp_path / each / "rejected") for each in ("out", "alone")]
    pd.testing.assert_frame_equal(*rejected)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999"])
def test_a_cluster_that_does_not_answer_is_refused(
    predictor, library, tmp_path, monkeypatch, address
):
    """At once, where Ray would try for minutes."""
    stub = types.SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", stub)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=f"cluster cannot be reached: {address}, .*RAY_ADDRESS"):
        screen(predictor, library, tmp_path / "out", OPTIONS, "ray")
    assert not (tmp_path / "out").exists()

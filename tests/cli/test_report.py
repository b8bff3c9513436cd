"""`molsepnorm report`."""

from __future__ import annotations

import pytest

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, ok, tiny, write_table):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("report")
    table = write_table(folder / "table.csv", y=NUMBERS)
    data = ("--data", table, "--split", "0.4,0.3,0.3", "--targets", "y")
    ok("train", *data, *tiny, "-o", folder / "run")
    return folder / "run"


def test_the_report_is_written_again(finished, ok, tmp_path):
    own, other = finished / "report.html", tmp_path / "a.html"
    assert f"Report: {other}" in ok("report", finished, "--output", other)
    assert other.read_text().count("<h2>") == own.read_text().count("<h2>") > 6
    written = own.read_text()
    own.unlink()
    assert f"Report: {own}" in ok("report", finished)
    assert own.read_text() == written


def test_a_folder_that_is_no_run_has_a_clear_message(refused, tmp_path):
    assert "is not the folder of a run" in refused("report", tmp_path, code=1)

"""Tables and progress on narrow terminals and with small numbers."""

from __future__ import annotations

import io

import pytest

from molsepnorm.cli.console import make_console
from molsepnorm.cli.display import TrainingDisplay
from molsepnorm.cli.tables import scores_table
from molsepnorm.training.callback import EpochRecord


@pytest.mark.parametrize("width", [40, 57, 80, 119])
def test_no_number_is_broken_at_any_width(width):
    titles = ("validation", "test", "95 % interval", "without forest", "random forest")
    columns = {title: {"rmse/mass": 131072.0, "r2": 0.7788} for title in titles}
    columns["trivial baseline"] = {"rmse/mass": 107233.0, "r2": -0.00049351}
    console = make_console(file=io.StringIO(), width=width)
    console.print(scores_table(columns))
    words = console.file.getvalue().replace(",", " ").split()
    assert words.count("131072") == words.count("0.7788") == len(titles)
    assert {"rmse/mass", "107233", "-0.0004935"} <= {*words}


def test_scores_of_small_labels_have_digits():
    display = TrainingDisplay()
    display.console = make_console(file=io.StringIO(), width=80)
    display._metric, display._score, display._last_printed = "rmse", "", 0
    record = EpochRecord(1, 9, 1e-3, 0.00123456, 0.5, {"rmse": 4.385e-7}, 1.0, 90.0, best=True)
    display._start = None
    display.on_epoch(record, 1)
    assert "loss 0.001235  val rmse 4.385e-07" in display.console.file.getvalue()

"""Tables and progress on narrow terminals and with small numbers."""

from __future__ import annotations

import io

import pytest

from molsepnorm.cli.console import make_console
from molsepnorm.cli.tables import scores_table


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

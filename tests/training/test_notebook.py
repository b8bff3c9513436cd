"""Results of runs in notebooks."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from molsepnorm.tasks.metrics import significant
from molsepnorm.training import TrainingResult, train


def test_a_result_shows_its_scores_and_conclusion(configure, tmp_path):
    result = train(configure({"run.epochs": 1}), tmp_path / "a<b>")
    page = ET.fromstring(result._repr_html_())
    rows = [[cell.text or "" for cell in row] for row in page.iter("tr")]
    assert rows[0] == ["metric", "validation", "test", "95 % interval", "trivial baseline"]
    scores = {name: cells for name, *cells in rows[1:]}
    for column, part in ((0, "val"), (1, "test"), (3, "test_constant")):
        value = result.metrics[part]["mae"]
        assert scores["MAE"][column] == significant(value)
    assert str(tmp_path / "a<b>") == page.find("p/code").text
    assert len(page.findall("ul/li")) >= 1


def test_a_result_without_scores_says_how_far_it_is():
    text = TrainingResult(None, False, None, {})._repr_html_()
    assert "in memory" in text and "not finished" in text and "table" not in text
    assert "<x>" not in TrainingResult(Path("<x>"), True, None, {})._repr_html_()

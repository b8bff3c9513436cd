"""The Python examples of the README and of docs/library.md run as they stand."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from examples import examples, run

TOP = Path(__file__).parents[1]


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An empty namespace, in a folder with the tables that the examples name."""
    demo = pd.read_csv(TOP / "data" / "demo.csv").head(60)
    demo.rename(columns={"penalised_logp": "logS"}).to_csv(tmp_path / "my.csv", index=False)
    (tmp_path / "data").symlink_to(TOP / "data")
    monkeypatch.chdir(tmp_path)
    return {}


def run_examples(path: str, namespace: dict[str, Any]) -> list[str]:
    """Run the Python blocks of a page one after another and return what each of them prints."""
    blocks = [each for each in examples(TOP / path) if each.language == "python"]
    return [output.text for output in run(blocks, namespace)]


def test_the_readme(namespace: dict[str, Any]) -> None:
    (printed,) = run_examples("README.md", namespace)
    assert "CCO {'logS': " in printed


def test_the_page_on_the_library(
    namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[dict[str, float]] = []
    tracker = ModuleType("mlflow")  # a stand-in, which is no dependency
    vars(tracker).update(
        start_run=nullcontext,
        log_metrics=lambda values, step: logged.append(values),
        log_metric=lambda name, value: logged.append({name: value}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    printed = run_examples("docs/library.md", namespace)
    assert [{"val_loss", "mae"} <= {*each} for each in logged] == [True] * 2 + [False]
    assert logged[-1].keys() == {"test_mae"}
    assert len(printed) > 6
    assert "not a molecule None " in "".join(printed)

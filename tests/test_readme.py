"""The Python examples of the README and of docs/library.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

TOP = Path(__file__).parents[1]


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An empty namespace, in a folder with the table that the examples name."""
    demo = pd.read_csv(TOP / "data" / "demo.csv").head(60)
    demo.rename(columns={"penalised_logp": "logS"}).to_csv(tmp_path / "my.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return {}


def run_examples(path: str, namespace: dict[str, Any]) -> int:
    """Run the Python blocks of a page one after another and return their number."""
    text = (TOP / path).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for block in blocks:
        code = block.replace('"run.epochs": 50', '"run.epochs": 1')  # the only change: fewer epochs
        exec(compile(code, path, "exec"), namespace)
    return len(blocks)


def test_the_readme(namespace: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_examples("README.md", namespace) == 1
    assert "CCO {'logS': " in capsys.readouterr().out


def test_the_page_on_the_library(
    namespace: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_examples("docs/library.md", namespace) > 6
    assert "not a molecule None " in capsys.readouterr().out


def test_earlier_import_paths(namespace: dict[str, Any]) -> None:
    """The examples that earlier versions of the README showed still run."""
    code = """
import molsepnorm
from molsepnorm.encodings.transform import AddShortestPathEncoding
from molsepnorm.featurize.pyg import from_data, to_data

graph = molsepnorm.featurize.get("ogb")("CC(=O)O")
encode = AddShortestPathEncoding(bond_sizes=(5, 6, 2), bond_offset=0)
assert from_data(encode(to_data(graph, y=[1.0])), bond_offset=0).num_atoms == 4
"""
    exec(compile(code, "README.md", "exec"), namespace)

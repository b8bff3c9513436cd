"""What the README shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=["train"])
def test_python_examples_run(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each Python block runs, on a table of the name it uses; fewer epochs are the only change."""
    demo = pd.read_csv(README.parent / "data" / "demo.csv").head(60)
    demo.rename(columns={"penalised_logp": "logS"}).to_csv(tmp_path / "my.csv", index=False)
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace('"run.epochs": 50', '"run.epochs": 1'), "README.md", "exec"), {})
    if "train(" in code:
        assert "CCO {'logS': " in capsys.readouterr().out

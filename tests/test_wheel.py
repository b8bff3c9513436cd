"""An installed package works away from the checkout, recipes included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support import write_model_with_card

ROOT = Path(__file__).parents[1]


def _pip(*args: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Made from a copy of the files that git knows or would know, so that nothing is left in the
    checkout and nothing of it gets in, and with one more model."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "tree" / name)
    write_model_with_card(folder / "tree" / "molsepnorm" / "pretrained" / "molsepnorm-tiny")
    _pip("wheel", folder / "tree", "--no-deps", "--no-build-isolation", "-w", folder / "dist")
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    _pip("install", wheel, "--no-deps", "--target", target)
    return target


def _python(code: str, *args: str | Path, target: Path, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    """Every file of the package, every recipe and the licence; no tests, data, benchmarks."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for path in (ROOT / "molsepnorm").rglob("*.*"):
        assert str(path.relative_to(ROOT)) in names or "__pycache__" in path.parts
    for path in (ROOT / "configs").glob("*.yaml"):
        assert f"molsepnorm/configs/{path.name}" in names
    for file in ("card.json", "config.json", "model.safetensors"):
        assert f"molsepnorm/pretrained/molsepnorm-tiny/{file}" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert any(name.endswith("/entry_points.txt") for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert len(tops) == 2
    assert "molsepnorm" in tops
    assert not [name for name in names if "test" in name or name.endswith((".csv", ".pyc"))]


def test_the_installed_command_trains_and_predicts(installed, tmp_path):
    """One epoch on a few molecules."""
    rows = [f"{'C' * i},{i / 3:.2f}" for i in range(1, 21)]
    (tmp_path / "tiny.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    code = (
        "import molsepnorm, sys\n"
        "assert molsepnorm.__file__.startswith(sys.argv.pop(1))\n"
        "from molsepnorm.cli import main\nmain()\n"
    )
    train = ("train", "--data", "tiny.csv", "--preset", "slim", "--set", "model.layers=1")
    printed = _python(
        *(code, str(installed), *train, "--epochs", "1", "-o", "run"),
        target=installed,
        cwd=tmp_path,
    )
    assert "layers 1, width 80" in printed
    assert (tmp_path / "run" / "metrics.json").exists()
    predict = ("predict", "--model", "run", "--smiles", "CCO")
    printed = _python(code, str(installed), *predict, target=installed, cwd=tmp_path)
    assert printed.startswith("smiles,y_pred,error\nCCO,")

"""chemprop's command line, in an environment of its own.

Install torch==2.13.0 there first (the build for CPUs), then chemprop==2.3.1.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from commands import run

from peers import PeerMissing

__all__ = ["executable", "fast_features", "model", "predict", "version"]


def executable(given: Path | None) -> Path:
    """Return the absolute path.

    Raises:
        PeerMissing: the path was not given, or does not exist.
    """
    if given is None:
        raise PeerMissing("chemprop was not given: --chemprop PATH or CHEMPROP=PATH")
    if not given.is_file():
        raise PeerMissing(f"there is no chemprop at {given}")
    return given.absolute()


def version(chemprop: Path) -> str:
    """Return its name and version."""
    code = "from importlib.metadata import version; print(version('chemprop'))"
    python = [str(chemprop.with_name("python")), "-c", code]
    done = subprocess.run(python, check=True, capture_output=True, text=True)
    return f"chemprop {done.stdout.strip()}"


def model(chemprop: Path, table: Path, folder: Path) -> Path:
    """Train a model of its default size for one epoch on a small table of `smiles` and `y`."""
    made = folder / "model_0" / "best.pt"
    if not made.exists():
        train = [str(chemprop), "train", "--data-path", str(table), "--output-dir", str(folder)]
        columns = ["--smiles-columns", "smiles", "--target-columns", "y"]
        # the default warm-up of two epochs would not fit into one
        kind = ["--task-type", "regression", "--epochs", "1", "--warmup-epochs", "0"]
        run([*train, *columns, *kind], table.parent)
    return made


def fast_features(chemprop: Path) -> list[str]:
    """Return the option for features in C++, which is not the default.

    Raises:
        PeerMissing: the package for it is not installed.
    """
    python = [str(chemprop.with_name("python")), "-c", "import cuik_molmaker"]
    if subprocess.run(python, capture_output=True).returncode:
        raise PeerMissing("this chemprop has no cuik-molmaker")
    return ["--use-cuikmolmaker-featurization"]


def predict(chemprop: Path, model: Path, table: Path, out: Path) -> list[str]:
    """Return the command that predicts a table with default options."""
    files = ["--test-path", str(table), "--model-paths", str(model), "--output", str(out)]
    return [str(chemprop), "predict", *files, "--smiles-columns", "smiles"]

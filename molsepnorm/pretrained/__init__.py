"""Trained models that come with the package, each in a folder, and their cards."""

from __future__ import annotations

from pathlib import Path

from molsepnorm.pretrained.card import CARD

SERVED = "molsepnorm-admet"
"""Name of the shipped model that `molsepnorm serve` serves by default."""

_FOLDER = Path(__file__).parent


def shipped_models() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(_FOLDER.glob(f"*/{CARD}"))}


def resolve(model: Path | str) -> Path:
    """Return the folder of a model from its path or, without one, the name of a shipped model."""
    return shipped_models()[str(model)] if _is_name(model) else Path(model)


def recorded_path(model: Path | str) -> Path:
    """Return the path to record in a file: absolute, or the name of a shipped model."""
    return Path(model) if _is_name(model) else Path(model).resolve()


def _is_name(model: Path | str) -> bool:
    return str(model) in shipped_models() and not Path(model).is_dir()

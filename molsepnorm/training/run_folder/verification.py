"""Comparison of models and checkpoints with the digests of their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from safetensors import SafetensorError, safe_open

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import check_sealed
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.model.folder import WEIGHTS, find_folder
from molsepnorm.pretrained import resolve
from molsepnorm.pretrained.card import CARD, read_card
from molsepnorm.training.run_folder.folder import RunFolder


@dataclass(frozen=True)
class Check:
    """The outcome for a model folder or a checkpoint."""

    path: str  # relative to the folder that was verified
    problem: str  # the reason why it is damaged, which names the file; empty if it is intact


def verify(folder: Path | str) -> list[Check]:
    """Load models, and compare their files with their digests.

    The folder is a model folder, a run folder or the name of a shipped model. All models and
    checkpoints of a run are verified, also those of an ensemble's members; its other files have no
    digests.
    """
    folder = resolve(folder)
    run, files = RunFolder.of_model(folder), set[Path]()
    if run is not None and run.path == folder:
        with clear_errors(folder, "read"):
            files = {*folder.rglob("*.safetensors")} - {*folder.glob("**/.*.partial/**/*")}
    models = {find_folder(folder), *(path.parent for path in files if path.name == WEIGHTS)}
    checks = {model: partial(_load, model) for model in models}
    checks |= {path: partial(_require_sealed, path) for path in files if path.name != WEIGHTS}
    return [
        Check(str(path.relative_to(folder)), _problem(check))
        for path, check in sorted(checks.items())
    ]


def _problem(check: Callable[[], None]) -> str:
    try:
        check()
    except ModelError as error:
        return str(error)
    return ""


def _load(folder: Path) -> None:
    model = PropertyModel.from_pretrained(folder)
    if model.structures:
        model.training_molecules()
    if (folder / CARD).exists() and read_card(folder).weights_sha256 != weights_digest(folder):
        raise ModelError(
            f"{folder / CARD} is damaged or belongs to another model than {WEIGHTS}: copy the "
            "folder from its source again"
        )


def _require_sealed(path: Path) -> None:
    try:
        with clear_errors(path, "read"), safe_open(path, framework="pt"):
            check_sealed(path)
    except (SafetensorError, ValueError) as error:
        message = f"{path} is damaged ({error}): copy the folder from its source again"
        raise ModelError(message) from error

"""Comparison of models and checkpoints with the digests of their files."""

from __future__ import annotations

from dataclasses import dataclass
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
    checks = dict.fromkeys(models, _load)
    checks |= {path: _require_sealed for path in files if path.name != WEIGHTS}
    found = []
    for path, check in sorted(checks.items()):
        problem = ""
        try:
            check(path)
        except ModelError as error:
            problem = str(error)
        found.append(Check(str(path.relative_to(folder)), problem))
    return found


def _load(path: Path) -> None:
    model = PropertyModel.from_pretrained(path)
    if model.structures:
        model.training_molecules()
    if (path / CARD).exists() and read_card(path).weights_sha256 != weights_digest(path):
        raise ModelError(
            f"{path / CARD} is damaged or belongs to another model than {WEIGHTS}: copy the "
            "folder from its source again"
        )


def _require_sealed(path: Path) -> None:
    try:
        with clear_errors(path, "read"), safe_open(path, framework="pt"):
            check_sealed(path)
    except (SafetensorError, ValueError) as error:
        message = f"{path} is damaged ({error}): copy the folder from its source again"
        raise ModelError(message) from error

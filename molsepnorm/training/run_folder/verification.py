"""Comparison of the files of a model or a run with their digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from safetensors import SafetensorError, safe_open

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import KEY, check_sealed
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import folder as models
from molsepnorm.model.folder import CONFIG, WEIGHTS
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.pretrained import read_card, resolve
from molsepnorm.pretrained.card import CARD
from molsepnorm.training.run_folder.folder import RunFolder

_LEFT_OUT = "left out"


@dataclass(frozen=True)
class FileCheck:
    """The outcome for one file."""

    file: str  # path of the file, relative to the folder that was verified
    status: str
    """intact, damaged, "left out" if the training molecules are missing, or "no digest" if changes
    cannot be noticed."""
    problem: str = ""  # the reason why a file counts as damaged


def verify(folder: Path | str) -> list[FileCheck]:
    """Compare files with their digests, and load each model.

    The folder is a model folder, a run folder or the name of a shipped model. All models and
    checkpoints of a run are verified, also those of an ensemble's members; its other files have no
    digests.
    """
    folder = resolve(folder)
    run, files = RunFolder.of_model(folder), list[Path]()
    if run is not None and run.path == folder:
        with clear_errors(folder, "read"):
            files = sorted({*folder.rglob("*.safetensors")} - {*folder.glob("**/.*.partial/**/*")})
    found: dict[Path, str | None] = {}
    weights = (path.parent for path in files if path.name == WEIGHTS)
    for model in (models.find_folder(folder), *weights):
        found |= _check_model(model)
    for path in files:
        if path not in found:
            found[path] = _problem(partial(_require_sealed, path))
    status = {None: "no digest", "": "intact", _LEFT_OUT: _LEFT_OUT}
    return [
        FileCheck(str(path.relative_to(folder)), status.get(problem, "damaged"), problem or "")
        for path, problem in found.items()
    ]


def _check_model(folder: Path) -> dict[Path, str | None]:
    """Return the problem of each file of a model folder: a message if it is damaged or missing, an
    empty text if it matches its digest, None without a digest."""
    found: dict[Path, str | None] = dict.fromkeys(sorted(folder.iterdir()))
    config, weights, structures = (folder / n for n in (CONFIG, WEIGHTS, TRAINING_FILE))
    found[config] = _problem(lambda: models.read_config(config))
    if found[config]:
        return found  # the digests of the other files are in this one
    about = models.read_config(config)
    found[weights] = _problem(lambda: models.read_weights(weights, about))
    for file in models.training_files(structures, about):
        found[structures] = _problem(file.read)
    if TRAINING_FILE in about[KEY] and not structures.exists():
        found[structures] = _LEFT_OUT  # as docs/sharing.md says
    if (card := folder / CARD) in found:
        found[card] = _problem(lambda: _require_card_of(folder))
    if not any(found.values()):
        found[config] = _problem(lambda: models.read_folder(folder))
    return found


def _problem(read: Callable[[], object]) -> str:
    try:
        read()
    except ModelError as error:
        return str(error)
    return ""


def _require_card_of(folder: Path) -> None:
    if read_card(folder).weights_sha256 != models.weights_digest(folder):
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

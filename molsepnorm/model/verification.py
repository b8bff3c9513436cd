"""Check that the files of a model folder are intact."""

from __future__ import annotations

from pathlib import Path

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import KEY
from molsepnorm.model.description import CONFIG, read_config
from molsepnorm.model.folder import find_folder, read_folder, training_files, weights_digest
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.model.weights import WEIGHTS, read_weights
from molsepnorm.pretrained import read_card
from molsepnorm.pretrained.card import CARD


def check_files(folder: Path | str) -> dict[Path, str | None]:
    """Compare every file of a model folder with its digest, and load the model.

    Returns:
        The problem of each file: a message if it is damaged or missing, an empty text if it matches
        its digest, None if there is no digest of it.

    Raises:
        ModelError: the folder is missing or incomplete.
        StorageError: a file cannot be read.
    """
    folder = find_folder(folder)
    found: dict[Path, str | None] = dict.fromkeys(sorted(folder.iterdir()))
    config, weights, structures = (folder / n for n in (CONFIG, WEIGHTS, TRAINING_FILE))
    try:
        about = read_config(config)
        found[config] = ""
    except ModelError as error:
        found[config] = str(error)
        return found  # the digests of the other files are in this one
    try:
        read_weights(weights, about)
        found[weights] = ""
    except ModelError as error:
        found[weights] = str(error)
    if TRAINING_FILE in about[KEY] and not structures.exists():
        found[structures] = f"{structures} is missing: copy the folder from its source again"
    for file in training_files(structures, about):
        try:
            file.read()
            found[structures] = ""
        except ModelError as error:
            found[structures] = str(error)
    if (card := folder / CARD) in found:
        try:
            if read_card(folder).weights_sha256 != weights_digest(folder):
                found[card] = (
                    f"{card} is damaged or belongs to another model: its digest of {WEIGHTS} does "
                    "not match. Copy the folder from its source again"
                )
        except ModelError as error:
            found[card] = str(error)
    if not any(found.values()):
        try:
            read_folder(folder)
        except ModelError as error:
            found[config] = str(error)
    return found

"""`share`: the part of a run that can be given away, as a zip archive."""

from __future__ import annotations

import csv
import json
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import yaml

from molsepnorm.data.tables import read_chunks
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.model import README, PropertyModel
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.training.recipes import read_yaml
from molsepnorm.training.results.disclosure import CONTENTS, revealed, without_structures
from molsepnorm.training.run_folder.folder import RunFolder

_MODEL = ("model/config.json", "model/model.safetensors", f"model/{README}")
_WITHOUT_PATHS = ("metrics.json", "config.yaml")
"""Files that are written anew, with the names of files in place of their paths."""

_SHORTEST = 5
"""Minimum length of a SMILES that is searched for; shorter ones are also words."""
_BETWEEN = re.compile(r"[\s\"'`,|]+")
_PATH = re.compile(r"(?:^|[\s\"'`(=:,])(/[\w.~-]+/[\w./~-]+|[A-Za-z]:[\\/][\w.~-]+|\\\\[\w.-]+\\)")


@dataclass(frozen=True)
class Shared:
    """The result of `share`."""

    path: Path
    included: dict[str, str]
    """Content of each file in the archive, by its name."""
    left_out: dict[str, str]
    """Content of each file of the run that is not in the archive, by its name."""
    revealed: tuple[str, ...]
    """Sentences on what the model file holds about the training molecules."""
    searched: int
    """Number of different SMILES that the archive was searched for."""


def share(
    run: Path | str,
    path: Path | str,
    *,
    models: bool = False,
    training_structures: bool = False,
    force: bool = False,
) -> Shared:
    """Write the model, its card, the scores and the configuration of a finished run to a zip file.

    Structures, labels, predictions, and names of machines, users and folders are left out; the
    structures and labels of the training molecules can be included. The archive has one folder,
    which `predict` and `Predictor.from_pretrained` read.

    The texts in the archive are searched for absolute paths, and for the SMILES of the run's files
    and of its table, if that still exists. Nothing is written if one is found.

    Args:
        run: the run folder.
        path: the archive.
        models: include the model of each member of an ensemble.
        training_structures: include the structures and labels of the training molecules, which
            `predict --domain` needs.
        force: replace an existing archive.

    Raises:
        ConfigError: the archive exists, the model does not have the structures that should be
            included, or a file would reveal a structure or a path.
        ModelError: the folder is not that of a finished run, or is damaged.
        StorageError: the archive cannot be written.
    """
    folder, path = RunFolder(run), Path(path)
    if not folder.config.is_file() or not folder.metrics.is_file():
        raise ModelError(
            f"{run} is not the folder of a finished run: it needs {folder.config.name} and "
            f"{folder.metrics.name}"
        )
    if path.exists() and not force:
        raise ConfigError(f"{path} exists: choose another name, or replace it with --force")
    chosen = [*_MODEL, *_WITHOUT_PATHS]
    if models:
        numbers = sorted(int(each.name) for each in folder.members.glob("[0-9]*"))
        chosen += [f"members/{number}/{name}" for number in numbers for name in _MODEL]
    model = PropertyModel.from_pretrained(folder.path)
    if training_structures:
        model.training_molecules()  # raises an error if there are none
        found = (f"{Path(name).parent.as_posix()}/{TRAINING_FILE}" for name in chosen)
        chosen += [name for name in dict.fromkeys(found) if (folder.path / name).is_file()]
    else:
        model = replace(model, structures=())
    files = {name: _content(folder.path / name, training_structures) for name in chosen}
    smiles = _smiles(folder)
    for name, content in files.items():
        _require_clean(name, content, smiles)
    with clear_errors(folder.path, "read"):
        present = sorted(
            each.relative_to(folder.path).as_posix()
            for each in folder.path.rglob("*")
            if each.is_file()
        )
    with replacing(path) as scratch, zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # the default date of a ZipInfo, 1980, reveals nothing
            entry = zipfile.ZipInfo(f"{path.stem}/{name}")
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return Shared(
        path,
        {name: _what(name) for name in files},
        {name: _what(name) for name in present if name not in files},
        tuple(revealed(model)),
        len(smiles),
    )


def _what(name: str) -> str:
    """Return what a file of a run holds."""
    if name in _WITHOUT_PATHS:
        return f"{CONTENTS[name].partition(';')[0].partition(',')[0]}, without paths"
    own = re.sub(r"^members/\d+/(?=model/)", "", name)
    found = (what for pattern, what in CONTENTS.items() if fnmatch(own, pattern))
    return next(found, "not a file of molsepnorm")


def _content(path: Path, training_structures: bool) -> bytes:
    """Return the content of a file for the archive, with or without the training molecules."""
    if path.name == "config.yaml":
        return yaml.safe_dump(_without_paths(read_yaml(path)), sort_keys=False).encode()
    if path.name == "metrics.json":
        return json.dumps(_without_paths(read_json(path)), indent=2).encode() + b"\n"
    if path.name == README and not path.exists():
        run = path.parent.parent
        command = f"molsepnorm train --resume {shlex.quote(str(run))}"
        raise ModelError(f"{run} has no model card: {command} writes it")
    with clear_errors(path, "read"):
        content = path.read_bytes()
    if path.name == README and not training_structures:
        return without_structures(content.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )
    return content


def _without_paths(value: Any) -> Any:
    """Return plain values with the name of the file or folder in place of each absolute path."""
    if isinstance(value, Mapping):
        return {key: _without_paths(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if kind(value).is_absolute():
                return kind(value).name
    return value


def _smiles(run: RunFolder) -> set[str]:
    """Return the SMILES of a run's own files, and of its table if that still exists."""
    found: set[str] = set()
    data = read_yaml(run.config)["data"]
    for path in run.path.glob("**/*.csv"):
        with clear_errors(path, "read"), open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.update(row.get(name) or "" for name in ("smiles", data["smiles_column"]))
    for table in map(Path, filter(None, [data.get("table"), *data.get("structures", [])])):
        if table.is_file():
            found.update(_column(table, data["smiles_column"]))
    return {word for text in found for word in text.split()[:1] if len(word) >= _SHORTEST}


def _column(table: Path, name: str) -> Iterator[str]:
    try:
        for piece in read_chunks(table, smiles_column=name):
            yield from piece.iloc[:, list(piece.columns).index(name)]
    except ValueError:  # a column or a package is missing: it is no longer the table of the run
        return


def _require_clean(name: str, content: bytes, smiles: set[str]) -> None:
    """Raise a `ConfigError` if a file holds one of the SMILES or an absolute path."""
    if name.endswith(".safetensors"):
        content = content[8 : 8 + int.from_bytes(content[:8], "little")]  # names and metadata
    text = content.decode(errors="replace")
    text += "\n" + text.replace("\\\\", "\\")  # JSON doubles backslashes
    found = next((each for each in _BETWEEN.split(text) if each in smiles), None)
    what = "the SMILES"
    if found is None and (match := _PATH.search(text)):
        found, what = match[1], "the path"
    if found is not None:
        raise ConfigError(
            f"nothing was written, because {name} holds {what} {found}: remove it from the file, "
            "or rename the column, class or file that it comes from and train again"
        )

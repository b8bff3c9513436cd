"""`share`: the part of a run that can be given away, as a zip archive."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import yaml

from molsepnorm.data.tables import read_chunks
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.model import README, PropertyModel
from molsepnorm.model.parts import Forest, KernelPart
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.training.recipes import load_config, read_yaml
from molsepnorm.training.run_folder.folder import RunFolder, read_table

_SHORTEST = 5
"""Minimum length of a SMILES that is searched for; shorter ones are also words."""
_BETWEEN = re.compile(r"[\s\"'`,|]+")
_PATH = re.compile(r"(?:^|[\s\"'`(=:,])(/[\w.~-]+/[\w./~-]+|[A-Za-z]:[\\/][\w.~-]+|\\\\[\w.-]+\\)")

_STRUCTURES = (
    f"{TRAINING_FILE} holds the SMILES, the fingerprints and the labels of all training molecules."
)
_NO_STRUCTURES = (
    f"{TRAINING_FILE}, with the structures and labels of the training molecules, is not included, "
    "so `predict --domain` cannot be used."
)


class Shared(NamedTuple):
    """The result of `share`."""

    included: list[str]
    """Names of files."""
    left_out: list[str]
    revealed: list[str]
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

    Its texts are searched for absolute paths, and for the SMILES of the run's files and of its
    table, if that still exists. Nothing is written if one is found.

    Args:
        path: the archive, which is replaced with `force` only.
        models: include the model of each member of an ensemble.
        training_structures: include the structures and labels of the training molecules.

    Raises:
        ConfigError: the archive exists, the model does not have the structures that should be
            included, or a file would reveal a structure or a path.
        ModelError: the folder is not that of a finished run, or is damaged.
        StorageError: the archive cannot be written.
    """
    folder, path = RunFolder(run), Path(path)
    if not (folder.config.is_file() and folder.metrics.is_file()):
        raise ModelError(f"{run} is not the folder of a finished run")
    if path.exists() and not force:
        raise ConfigError(f"{path} exists: choose another name, or replace it with --force")
    model = PropertyModel.from_pretrained(folder.path)
    names = ["config.json", "model.safetensors", README]
    if training_structures:
        model.training_molecules()  # raises an error if there are none
        names.append(TRAINING_FILE)
    else:
        model = replace(model, structures=())
    chosen = {"metrics.json", "config.yaml", *(f"model/{name}" for name in names)}
    member = re.compile(r"^members/[0-9]+/(?=model/)" if models else "^")
    smiles, files, left_out = _smiles(folder), {}, []
    with clear_errors(folder.path, "read"):
        for each in sorted(each for each in folder.path.rglob("*") if each.is_file()):
            name = each.relative_to(folder.path).as_posix()
            if member.sub("", name) in chosen:
                files[name] = _content(each, training_structures)
                _require_clean(name, files[name], smiles)
            else:
                left_out.append(name)
    if f"model/{README}" not in files:
        raise ModelError(f"{run} has no model card: molsepnorm train --resume {run} writes it")
    with replacing(path) as scratch, zipfile.ZipFile(scratch, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(f"{path.stem}/{name}")  # without the time of writing
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return Shared([*files], left_out, [*revealed(model)], len(smiles))


def _content(path: Path, training_structures: bool) -> bytes:
    """Return the content of a file, without paths in settings and scores."""
    if path.name == "config.yaml":
        return yaml.safe_dump(_without_paths(read_yaml(path)), sort_keys=False).encode()
    if path.name == "metrics.json":
        return json.dumps(_without_paths(read_json(path)), indent=2).encode() + b"\n"
    if path.name == README and not training_structures:
        return path.read_bytes().replace(_STRUCTURES.encode(), _NO_STRUCTURES.encode())
    return path.read_bytes()


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
    data = load_config(config=run.config).data
    for path in run.path.glob("**/*.csv"):
        table = read_table(path)
        for name in {"smiles", data.smiles_column} & {*table}:
            found.update(table[name])
    for source in filter(None, [data.table, *data.structures]):
        # where the column or a package is missing, it is no longer the table of the run
        with suppress(ValueError):
            for piece in read_chunks(source, options=data.reading) if source.is_file() else ():
                found.update(piece.iloc[:, list(piece.columns).index(data.smiles_column)])
    return {word for text in found for word in text.split()[:1] if len(word) >= _SHORTEST}


def _require_clean(name: str, content: bytes, smiles: set[str]) -> None:
    """Refuse a file that holds one of the SMILES or an absolute path."""
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


def revealed(model: PropertyModel) -> Iterator[str]:
    """Yield sentences on what the files of a model hold about its training molecules."""
    if model.task.targets:
        errors = ", and the errors of up to 1,000 validation molecules, sorted by size"
        yield (
            "config.json holds the names of targets, classes and feature columns, the words of "
            "feature columns, the mean and standard deviation of the training labels"
            f"{errors * bool(model.calibration)}."
        )
    if model.structures:
        yield _STRUCTURES
    elif model.domain is not None:
        yield _NO_STRUCTURES
    kernels = [part for part in model.parts if isinstance(part, KernelPart)]
    for part in kernels:
        reads = part.reads
        count = reads.morgan + len(reads.descriptors) + reads.pairs
        features = f", {count:,} descriptors and fingerprint counts" * bool(count)
        cells = ", the cells of its feature columns" * bool(reads.columns)
        more = " and reconstruct parts of their structures" * bool(features)
        yield (
            f"model.safetensors holds {len(part.regression.centers):,} training molecules in "
            f"encoded form (a kernel regression): for each of them its embedding{features}{cells} "
            "and a weight for each target. Anyone with the file can test whether a known molecule "
            f"is among them, estimate their labels{more}."
        )
    if model.share(Forest):
        yield (
            "model.safetensors holds the trees of a random forest: the mean label of the training "
            "molecules in each leaf, often of a single one, and the Morgan counts and descriptors "
            "that separate them."
        )
    if not (kernels or model.share(Forest)):
        yield "model.safetensors holds network weights only, without molecules and labels."
    yield (
        "Weights can also show indirectly whether a molecule was used in training. Do not share "
        "a model if its training structures must stay secret."
    )

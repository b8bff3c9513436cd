"""`Manifest`: the file that describes a screen, so that a later start can continue it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.digests import KEY, has_digest, json_digest
from molsepnorm.files.lock import LOCK
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import clear_errors, remove_leftovers, write_json
from molsepnorm.model import PropertyModel
from molsepnorm.model.folder import packed
from molsepnorm.predict.screening.best import Ranking
from molsepnorm.predict.screening.plan import Library, task_name
from molsepnorm.predict.screening.work import PARTS, REJECTED, Done, part_path, read_counts

MANIFEST = "manifest.json"

_SCHEMA = 1
_SECONDS = 10.0  # between two writings of the manifest
_SHARE = 0.02  # of the time that writing it may take


@dataclass
class _File:
    """A file of the library."""

    file: str
    bytes: int
    modified_ns: int


@dataclass
class _Counts:
    """The numbers of rows of a finished part, see `Done`."""

    rows: int
    kept: int
    rejected: int


@dataclass
class _Content:
    """The types of the file."""

    schema: int
    molsepnorm: str
    model: str
    options: dict[str, Any]
    inputs: list[_File]
    parts: dict[str, _Counts]
    ranked_by: str | None = None


def model_digest(model: PropertyModel) -> str:
    """Return the digest of what `save_pretrained` writes for a model, except for the version of
    molsepnorm."""
    about, _ = packed(model)
    del about["molsepnorm"]
    return json_digest(about)


class Manifest:
    """The description of a screen, with its files and its finished parts.

    A part is finished as soon as its file exists. The manifest repeats the counts of the parts,
    which makes a later start faster; it may lack the last ones.

    Args:
        folder: the output.
        model: digest of the model.
        options: all options that change results.
        library: the files.
        ranking: the ranking, if any.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        options: Mapping[str, Any],
        library: Library,
        ranking: Ranking | None,
    ) -> None:
        self.folder = folder
        self.path = folder / MANIFEST
        self._ranking = ranking
        inputs = [_File(each.name, each.size, each.modified) for each in library.sources]
        as_read = json.loads(json.dumps(options))
        ranked = None if ranking is None else str(ranking)
        self._content = _Content(_SCHEMA, __version__, model, as_read, inputs, {}, ranked)
        self._due = 0.0

    def check(self) -> None:
        """Check that the output is empty, or holds the same screen.

        Raises:
            ConfigError: it holds something else, or a screen of another model, with other options
                or of other files.
            ModelError: the manifest is damaged.
            StorageError: the folder cannot be read.
        """
        with clear_errors(self.folder, "read"):
            if not self.folder.is_dir():
                if self.folder.exists():
                    raise ConfigError(f"{self.folder} is a file: the output is a folder")
                return
            remove_leftovers(self.folder)
            present = set(os.listdir(self.folder)) - {LOCK}
        if not present:
            return
        if MANIFEST not in present:
            raise ConfigError(
                f"{self.folder} exists, is not empty and holds no {MANIFEST} of a screen: choose "
                "another folder"
            )
        self._compare(self._read())

    def _read(self) -> _Content:
        content = read_json(self.path)
        if not isinstance(content, dict) or not content.keys() >= {"schema", "molsepnorm", KEY}:
            raise ModelError(f"{self.path} is not the manifest of a screen: choose another folder")
        if content["schema"] != _SCHEMA:
            raise ModelError(
                f"{self.path} was written by another version of molsepnorm, "
                f"{content['molsepnorm']!s:.80}: use that version, or choose another folder"
            )
        if not has_digest(content, content.pop(KEY)):
            raise ModelError(
                f"{self.path} is damaged or was changed: its content does not match its digest. "
                "Finished parts are complete; choose another folder to screen again"
            )
        return check_types(_Content, content, f"{self.path} is not the manifest of a screen")

    def _compare(self, begun: _Content) -> None:
        """Check that a screen which was begun has the model, options and files of this one."""
        now, differences = self._content, []
        if begun.model != now.model:
            differences.append("another model")
        for name in sorted({*begun.options, *now.options}):
            one, other = begun.options.get(name), now.options.get(name)
            if one != other:
                differences.append(f"{name} {_shown(one)}, now {_shown(other)}")
        files, others = ([each.file for each in one.inputs] for one in (begun, now))
        if gone := [name for name in files if name not in others]:
            differences.append(f"the file {gone[0]}, which is not named now")
        if new := [name for name in others if name not in files]:
            differences.append(f"no file {new[0]}")
        if not differences and files != others:
            differences.append("the files in another order")
        if differences:
            raise ConfigError(
                f"{self.folder} holds a screen with {'; '.join(differences)}. Start it again as it "
                "was begun, or choose another folder"
            )
        ranked = self._ranking is not None
        for number, (old, its) in enumerate(zip(begun.inputs, now.inputs, strict=True)):
            prefix = "" if ranked else task_name(number, 0).partition("-")[0] + "-"
            if old != its and any(name.startswith(prefix) for name in self._present()):
                what = "delete its parts ({}) to screen the file again"
                if ranked:
                    what = (
                        "rows of other files may have been left out because of its old rows. "
                        "Delete the parts of all files ({}) to screen again"
                    )
                raise ConfigError(
                    f"{its.file} has changed since {self.folder} was begun: "
                    f"{what.format(self.folder / PARTS / f'{prefix}*')}, or choose another folder"
                )

    def _present(self) -> list[str]:
        """Return the names of the parts that exist."""
        folder = self.folder / PARTS
        with clear_errors(folder, "read"):
            if not folder.is_dir():
                return []
            return [Path(name).stem for name in os.listdir(folder) if name.endswith(".parquet")]

    def begin(self) -> Iterator[Done]:
        """Write the manifest, and yield the parts that were finished before.

        The folder should be locked. A part whose file is damaged is left out. Files of rejected
        rows are deleted if their part does not exist.
        """
        if not self.path.exists():
            self.write()  # before anything else, since it marks the folder as that of a screen
        recorded = self._read().parts
        with clear_errors(self.folder, "write"):
            for kind in (PARTS, REJECTED):
                (self.folder / kind).mkdir(exist_ok=True)
                remove_leftovers(self.folder / kind)
            present = set(self._present())
            for path in (self.folder / REJECTED).glob("*.parquet"):
                if path.stem not in present:
                    path.unlink()
        for name in sorted(present):
            done = None
            if name in recorded and self._ranking is None:
                done = Done(name, **asdict(recorded[name]))
            else:
                done = read_counts(part_path(self.folder, PARTS, name), self._ranking)
            if done is not None:
                self._record(done)
                yield done
        self.write()

    def add(self, done: Done) -> None:
        """Record a finished part; the file is written from time to time."""
        self._record(done)
        if time.monotonic() >= self._due:
            self.write()

    def _record(self, done: Done) -> None:
        self._content.parts[done.name] = _Counts(done.rows, done.kept, done.rejected)

    def parts(self) -> list[Path]:
        """Return the files of all parts, in the order of the library."""
        numbers = sorted(tuple(map(int, name.split("-"))) for name in self._content.parts)
        return [part_path(self.folder, PARTS, task_name(*each)) for each in numbers]

    def write(self) -> None:
        """Write the file.

        Raises:
            StorageError: it cannot be written.
        """
        began = time.monotonic()
        parts = dict(sorted(self._content.parts.items()))
        content = asdict(replace(self._content, parts=parts))
        write_json(self.path, {**content, KEY: json_digest(content)})
        now = time.monotonic()
        self._due = now + max(_SECONDS, (now - began) / _SHARE)


def _shown(value: Any) -> str:
    return "none" if value is None else f"'{value}'"

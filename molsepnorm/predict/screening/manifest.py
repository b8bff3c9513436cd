"""`Manifest`: the file that describes a screen, so that a later start can continue it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.digests import json_digest
from molsepnorm.files.lock import LOCK
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors, remove_leftovers, write_json
from molsepnorm.model import PropertyModel
from molsepnorm.model.folder import packed
from molsepnorm.predict.screening.library import Library, task_name
from molsepnorm.predict.screening.parts import (
    PARTS,
    REJECTED,
    Done,
    Ranking,
    part_path,
    read_counts,
)

MANIFEST = "manifest.json"


def model_digest(model: PropertyModel) -> str:
    """Return the digest of what `save_pretrained` writes for a model, except for the version of
    molsepnorm."""
    about, _ = packed(model)
    del about["molsepnorm"]
    return json_digest(about)


class Manifest:
    """The description of a screen, with its files and its finished parts.

    A part is finished as soon as its file exists, which has its counts. The manifest repeats them
    when the screen ends.

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
        self._path = folder / MANIFEST
        self._ranking = ranking
        self._parts: dict[str, dict[str, int]] = {}
        inputs = [
            {"file": each.name, "bytes": each.size, "modified_ns": each.modified}
            for each in library.sources
        ]
        content = {
            "molsepnorm": __version__,
            "model": model,
            "options": options,
            "inputs": inputs,
            "ranked_by": None if ranking is None else str(ranking),
        }
        self._content = json.loads(json.dumps(content))  # as it is read again

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
        content = read_json(self._path)
        try:
            self._compare(content)
        except (TypeError, KeyError, AttributeError):
            raise ModelError(
                f"{self._path} is damaged, or is not the manifest of a screen: choose another "
                "folder"
            ) from None

    def _compare(self, begun: dict[str, Any]) -> None:
        """Check that a screen which was begun has the model, options and files of this one."""
        now, differences = self._content, []
        if begun["model"] != now["model"]:
            differences.append("another model")
        for name in sorted({*begun["options"], *now["options"]}):
            one, other = begun["options"].get(name), now["options"].get(name)
            if one != other:
                differences.append(f"{name} {_shown(one)}, now {_shown(other)}")
        files, others = ([each["file"] for each in one["inputs"]] for one in (begun, now))
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
        for number, (old, its) in enumerate(zip(begun["inputs"], now["inputs"], strict=True)):
            prefix = "" if ranked else task_name(number, 0).partition("-")[0] + "-"
            if old != its and any(name.startswith(prefix) for name in self._present()):
                what = "delete its parts ({}) to screen the file again"
                if ranked:
                    what = (
                        "rows of other files may have been left out because of its old rows. "
                        "Delete the parts of all files ({}) to screen again"
                    )
                raise ConfigError(
                    f"{its['file']} has changed since {self.folder} was begun: "
                    f"{what.format(self.folder / PARTS / f'{prefix}*')}, or choose another folder"
                )

    def _present(self) -> list[str]:
        """Return the names of the parts that exist, in the order of the library."""
        folder = self.folder / PARTS
        with clear_errors(folder, "read"):
            if not folder.is_dir():
                return []
            names = [Path(name).stem for name in os.listdir(folder) if name.endswith(".parquet")]
        return sorted(names)

    def begin(self) -> Iterator[Done]:
        """Write the manifest, and yield the parts that were finished before.

        The folder should be locked. A part whose file is damaged is left out. Files of rejected
        rows are deleted if their part does not exist.
        """
        self.write()  # before anything else, since it marks the folder as that of a screen
        with clear_errors(self.folder, "write"):
            for kind in (PARTS, REJECTED):
                (self.folder / kind).mkdir(exist_ok=True)
                remove_leftovers(self.folder / kind)
            present = self._present()
            for path in (self.folder / REJECTED).glob("*.parquet"):
                if path.stem not in present:
                    path.unlink()
        for name in present:
            done = read_counts(part_path(self.folder, PARTS, name), self._ranking)
            if done is not None:
                self.add(done)
                yield done

    def add(self, done: Done) -> None:
        """Record a finished part."""
        counts = {"rows": done.rows, "kept": done.kept, "rejected": done.rejected}
        self._parts[done.name] = counts

    def parts(self) -> list[Path]:
        """Return the files of all parts, in the order of the library."""
        return [part_path(self.folder, PARTS, name) for name in sorted(self._parts)]

    def write(self) -> None:
        """Write the file.

        Raises:
            StorageError: it cannot be written.
        """
        write_json(self._path, {**self._content, "parts": dict(sorted(self._parts.items()))})


def _shown(value: Any) -> str:
    return "none" if value is None else f"'{value}'"

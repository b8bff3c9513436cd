"""The molecules that a model was trained on, as a file of its folder.

A Morgan fingerprint shows most of a structure: it does not protect confidential molecules.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from molsepnorm.errors import ModelError
from molsepnorm.files.writing import clear_errors
from molsepnorm.molecules.featurize.standardize import Level, molecule_key
from molsepnorm.tasks.domain import compared

TRAINING_FILE = "training_molecules.gz"
_DAMAGE = OSError, EOFError, zlib.error, LookupError, AttributeError, TypeError


@dataclass(frozen=True, eq=False)
class TrainingMolecules:
    """The n training molecules of a model with T targets."""

    smiles: tuple[str, ...]
    fingerprints: np.ndarray
    """uint8 [n, 256]: see `packed_morgan`."""
    labels: np.ndarray
    """float64 [n, T]: numbers in the unit of the table, or indices of classes; NaN if missing."""
    bounds: np.ndarray
    """int8 [n, T]: 1 if the value is at least the label, -1 if at most, 0 if equal."""
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The n cells of each column of further molecules, as canonical SMILES; "" for an empty one."""

    def __len__(self) -> int:
        return len(self.smiles)

    @cached_property
    def compared(self) -> np.ndarray:
        """bool [n, 1 + T]: see `tasks.domain.compared`."""
        return compared(self.labels)

    @cached_property
    def measured(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the label of each molecule from all rows with its SMILES.

        Returns:
            labels: float64 [n, T], the first label of these rows, exact before bounds, or NaN.
            bounds: int8 [n, T], those of these labels.
            several: bool [n, T], true where exact labels of these rows differ.
        """
        import pandas as pd

        smiles = pd.Series(self.smiles, dtype=object)
        labels, bounds = np.full_like(self.labels, np.nan), np.zeros_like(self.bounds)
        several = np.zeros(labels.shape, dtype=bool)
        for i, (column, signs) in enumerate(zip(self.labels.T, self.bounds.T, strict=True)):
            known = pd.DataFrame({"smiles": smiles, "label": column, "sign": signs}).dropna()
            exact = known["sign"] == 0
            numbers = known[exact].groupby("smiles")["label"].nunique()
            first = pd.concat([known[exact], known[~exact]]).drop_duplicates("smiles")
            first = first.set_index("smiles").reindex(smiles)
            labels[:, i], bounds[:, i] = first["label"], first["sign"].fillna(0)
            several[:, i] = numbers.reindex(smiles) > 1
        return labels, bounds, several

    @cached_property
    def distinct_further(self) -> dict[str, tuple[list[str], np.ndarray]]:
        """The m different molecules of each column of further molecules, and their fingerprints,
        uint8 [m, 256]."""
        from molsepnorm.molecules.featurize.fingerprints import packed_morgan
        from molsepnorm.molecules.featurize.further import as_one_molecule

        distinct = {name: sorted({*cells} - {""}) for name, cells in self.further.items()}
        prints = (packed_morgan(map(as_one_molecule, texts)) for texts in distinct.values())
        return dict(zip(distinct, zip(distinct.values(), prints, strict=True), strict=True))

    @cached_property
    def rows(self) -> set[tuple[str, ...]]:
        """The molecules of each row, with the further ones."""
        return {*zip(self.smiles, *self.further.values(), strict=True)}

    def some(self, rows: np.ndarray) -> TrainingMolecules:
        """Return some of the molecules, given by their indices (m,)."""
        smiles, *further = (
            tuple(texts[row] for row in rows) for texts in (self.smiles, *self.further.values())
        )
        arrays = self.fingerprints[rows], self.labels[rows], self.bounds[rows]
        return TrainingMolecules(smiles, *arrays, dict(zip(self.further, further, strict=True)))

    def filled(self) -> TrainingMolecules:
        """Return the molecules; a label that a row lacks is the first one of the other rows with
        the same molecule and further ones."""
        labels, bounds = self.labels.copy(), self.bounds.copy()
        keys = [*zip(self.smiles, *self.further.values(), strict=True)]
        for i, column in enumerate(self.labels.T):
            first = {keys[row]: row for row in np.flatnonzero(np.isfinite(column))[::-1]}
            rows = np.flatnonzero(np.isnan(column))
            found = np.array([first.get(keys[row], row) for row in rows], dtype=np.int64)
            labels[rows, i], bounds[rows, i] = column[found], self.bounds[found, i]
        return replace(self, labels=labels, bounds=bounds)

    def holds(self, smiles: Sequence[str], level: Level) -> np.ndarray:
        """Return which of n molecules are among these, bool (n,), whatever their spelling. The
        SMILES have the standard form of `level`, that of the model. Only molecules with the same
        fingerprint are written anew; a file without fingerprints (0) has canonical SMILES."""
        from molsepnorm.molecules.featurize.fingerprints import fingerprints_of

        alike = {bits.tobytes() for bits in fingerprints_of(smiles)[0]}
        pairs = zip(self.smiles, self.fingerprints, strict=True)
        known = {molecule_key(text, level) for text, bits in pairs if bits.tobytes() in alike}
        known |= {*self.smiles}
        return np.array([molecule_key(text, "none") in known for text in smiles], dtype=bool)

    def read(self) -> TrainingMolecules:
        """Return itself; see `TrainingFile.read`."""
        return self

    def to_bytes(self) -> bytes:
        """Return the content of the file, in the format of safetensors, compressed by gzip."""
        from safetensors.numpy import save

        texts = [text.encode() for text in self.smiles]
        arrays = {
            "smiles": np.frombuffer(b"".join(texts), dtype=np.uint8),
            "smiles_ends": np.cumsum([0, *map(len, texts)], dtype=np.int64),
            "fingerprints": np.ascontiguousarray(self.fingerprints),
            "labels": np.ascontiguousarray(self.labels),
            "bounds": np.ascontiguousarray(self.bounds),
        }
        if self.further:
            further = json.dumps(self.further).encode()
            arrays["further"] = np.frombuffer(further, dtype=np.uint8)
        return gzip.compress(save(arrays), compresslevel=6, mtime=0)

    @staticmethod
    def from_bytes(content: bytes) -> TrainingMolecules:
        """Return the molecules in a file's content, or raise a `ValueError` if it is damaged."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            found = load(gzip.decompress(content))
            names = ("smiles", "smiles_ends", "fingerprints", "labels", "bounds")
            text, ends, prints, labels, bounds = (found[name] for name in names)
            columns = json.loads(found["further"].tobytes()) if "further" in found else {}
            further = {name: tuple(map(str, texts)) for name, texts in columns.items()}
        except (*_DAMAGE, SafetensorError) as error:
            raise ValueError(str(error)) from error
        whole = text.tobytes()
        smiles = tuple(whole[a:b].decode() for a, b in pairwise(ends.tolist()))
        shapes = prints.ndim, labels.ndim, bounds.shape == labels.shape
        if shapes != (2, 2, True) or not len(smiles) == len(prints) == len(labels):
            raise ValueError("its arrays do not fit each other")
        if any(len(cells) != len(smiles) for cells in further.values()):
            raise ValueError("its columns of further molecules do not fit its molecules")
        return TrainingMolecules(smiles, prints, labels, bounds, further)

    @staticmethod
    def joined(parts: Sequence[TrainingMolecules], level: Level) -> TrainingMolecules:
        """Return the union of one or more parts, whose molecules are standardised at `level`.

        A molecule has the SMILES of the first part with it. With the same labels in several parts
        it occurs once.
        """
        if len(parts) == 1:
            return parts[0]
        from molsepnorm.molecules.featurize.fingerprints import with_one_text

        prints, labels, bounds = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("fingerprints", "labels", "bounds")
        )
        written = [text for part in parts for text in part.smiles]
        smiles = with_one_text(written, prints, level)
        names = parts[0].further
        further = {n: tuple(chain(*(part.further[n] for part in parts))) for n in names}
        first: dict[tuple[str | bytes, ...], int] = {}
        for row, texts in enumerate(zip(smiles, *further.values(), strict=True)):
            first.setdefault((*texts, labels[row].tobytes(), bounds[row].tobytes()), row)
        every = TrainingMolecules(tuple(smiles), prints, labels, bounds, further)
        return every.some(np.array([*first.values()], dtype=np.int64))


@dataclass(frozen=True)
class TrainingFile:
    """A file of training molecules that is read when it is needed."""

    path: Path
    digest: str | None
    """Its SHA-256 digest in config.json; without one the file is refused."""

    def read(self) -> TrainingMolecules:
        with clear_errors(self.path, "read"):
            content = self.path.read_bytes()
        try:
            if self.digest != hashlib.sha256(content).hexdigest():
                raise ValueError("it does not match its digest in config.json")
            return TrainingMolecules.from_bytes(content)
        except ValueError as error:
            raise ModelError(
                f"{self.path} is damaged or belongs to another model ({error}): copy the folder "
                "from its source again, or delete this file to use the model without it"
            ) from error

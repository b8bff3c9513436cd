"""Fingerprints that earlier versions recorded for a run's data, so that these runs can resume.

Stores held the labels then, and a run recorded the digest of its store's file. Both are functions
of the data, so the file is composed again here, without being written.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.files.arrays import array_bytes
from molsepnorm.files.digests import BLANK, KEY
from molsepnorm.files.writing import fingerprint

__all__ = ["legacy_fingerprints"]


def legacy_fingerprints(dataset: Dataset) -> tuple[str, str]:
    """Return the fingerprints since stores held a digest (schema 2), and before that."""
    sealed, unsealed = hashlib.sha256(), hashlib.blake2b(digest_size=12)
    store, about = dataset.store, json.dumps(_about(dataset))
    arrays = {
        "sizes": store.sizes,
        "rows": store.rows,
        "labels": dataset.labels,
        "path_parents": store.paths.parents,
        "path_bonds": store.paths.bonds,
        "path_depths": store.paths.depths,
        "atoms": store.atoms,
        "degrees": store.degrees,
        "pairs": store.pairs,
    }
    unsealed.update(next(array_bytes(arrays, {"store": about})))
    for number, piece in enumerate(array_bytes(arrays, {KEY: BLANK, "store": about})):
        sealed.update(piece)
        if number:  # the headers differ
            unsealed.update(piece)
    unsealed.update(b"\0")
    found = (sealed.hexdigest(), unsealed.hexdigest())
    if dataset.weights is None:
        return found
    weights = dataset.weights.tobytes().hex()
    return fingerprint(found[0], weights), fingerprint(found[1], weights)


def _about(dataset: Dataset) -> dict[str, object]:
    """Return the description of a store of schema 2: its notes depended on the source."""
    store, splits = dataset.store, dataset.splits
    notes: dict[str, object] = {"rejected": store.rejected}
    if dataset.evaluator is not None:  # a set of OGB
        notes = {"splits": {name: part.tolist() for name, part in splits.items()}}
    elif dataset.smiles is None:  # ZINC
        notes = {"splits": {name: len(part) for name, part in splits.items()}}
    encoding = asdict(store.encoding)
    del encoding["molecule_features"]  # which did not exist
    return {
        "schema": 2,
        "encoding": encoding,
        "featurizer": store.featurizer,
        "targets": dataset.targets,
        "most_bonds": store.max_bonds,
        "notes": notes,
    }

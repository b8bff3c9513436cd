"""`nearest_molecules`: the most similar of some molecules to each of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan
from molsepnorm.molecules.featurize.smiles import canonical_smiles

__all__ = ["nearest_molecules"]


def nearest_molecules(
    smiles: Sequence[str], known: Sequence[str], fingerprints: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[InvalidMolecule | None]]:
    """Return the most similar known molecule of each molecule, and their Tanimoto similarity.

    Different molecules may have equal fingerprints, such as enantiomers and long alkanes. If a
    molecule is itself among the known ones, it is the nearest.

    Args:
        smiles: n SMILES.
        known: SMILES of m molecules.
        fingerprints: uint8 [m, BITS // 8], their fingerprints, see `packed_morgan`.

    Returns:
        The index, int64 [n], and the similarity, float64 [n], and the error of a SMILES that RDKit
        cannot read, or None. A molecule with an error has the index 0 and the similarity NaN.
    """
    index, similarity = np.zeros(len(smiles), dtype=np.int64), np.full(len(smiles), np.nan)
    errors: list[InvalidMolecule | None] = [None] * len(smiles)
    bits, rows = [], []
    for row, text in enumerate(smiles):
        try:
            bits.append(packed_morgan([text]))
            rows.append(row)
        except InvalidMolecule as error:
            errors[row] = error
    if rows:
        own = np.concatenate(bits)
        index[rows], similarity[rows] = nearest(own, fingerprints)
        _prefer_itself(index, np.array(rows), own, similarity, smiles, known, fingerprints)
    return index, similarity, errors


def _prefer_itself(
    index: np.ndarray,
    rows: np.ndarray,
    bits: np.ndarray,  # of these rows
    similarity: np.ndarray,
    smiles: Sequence[str],
    known: Sequence[str],
    fingerprints: np.ndarray,
) -> None:
    """Change the index of each of these rows that is a known molecule to the first row of it."""
    equal = np.flatnonzero(similarity[rows] == 1)
    if not len(equal):
        return
    hashes = _hashes(fingerprints)
    order = np.argsort(hashes, kind="stable")
    wanted = _hashes(bits[equal])
    starts = np.searchsorted(hashes, wanted, sorter=order)
    ends = np.searchsorted(hashes, wanted, side="right", sorter=order)
    canonical: dict[int, str] = {}
    for row, start, end in zip(rows[equal].tolist(), starts, ends, strict=True):
        if end - start < 2:
            continue
        text = canonical_smiles(smiles[row])
        for other in order[start:end].tolist():  # with few exceptions, equal fingerprints
            if other not in canonical:
                canonical[other] = canonical_smiles(known[other])
            if canonical[other] == text:
                index[row] = other
                break


def _hashes(fingerprints: np.ndarray) -> np.ndarray:  # uint64 (n,)
    words = np.ascontiguousarray(fingerprints).view(np.uint64)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64)
    return (words * (2 * factors + 1)).sum(axis=1)

"""`nearest_molecules`: the most similar of some molecules to each of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan
from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.molecules.featurize.standardize import Level, standardized

__all__ = ["nearest_molecules"]


def nearest_molecules(
    smiles: Sequence[str], known: Sequence[str], fingerprints: np.ndarray, level: Level = "none"
) -> tuple[np.ndarray, np.ndarray, list[InvalidMolecule | None]]:
    """Return the most similar known molecule of each molecule, and their Tanimoto similarity.

    Different molecules may have equal fingerprints, such as enantiomers and long alkanes. If a
    molecule is itself among the known ones, it is the nearest.

    Args:
        smiles: n SMILES, standardised.
        known: SMILES of m molecules, as they were before they were standardised.
        fingerprints: uint8 [m, BITS // 8], fingerprints of their standardised forms, see
            `packed_morgan`.
        level: of this standardisation.

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
        near, share = nearest(own, fingerprints)
        equal = np.flatnonzero(share == 1)
        texts = [smiles[rows[place]] for place in equal]
        same = _same_molecules(texts, own[equal], known, fingerprints, level)
        near[equal] = np.where(same < 0, near[equal], same)
        index[rows], similarity[rows] = near, share
    return index, similarity, errors


def _same_molecules(
    smiles: Sequence[str],
    bits: np.ndarray,
    known: Sequence[str],
    fingerprints: np.ndarray,
    level: Level,
) -> np.ndarray:  # int64 (n,)
    """Return the index of the first known molecule that each molecule is; -1 if it is none, or the
    only one with its fingerprint."""
    found = np.full(len(smiles), -1)
    if not len(smiles):
        return found
    hashes, wanted = _hashes(fingerprints), _hashes(bits)
    order = np.argsort(hashes, kind="stable")
    starts = np.searchsorted(hashes, wanted, sorter=order)
    ends = np.searchsorted(hashes, wanted, side="right", sorter=order)
    canonical: dict[int, str] = {}
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end - start < 2:
            continue
        text = canonical_smiles(smiles[row])
        for other in order[start:end].tolist():  # with few exceptions, equal fingerprints
            if other not in canonical:
                canonical[other] = canonical_smiles(standardized([known[other]], level)[0])
            if canonical[other] == text:
                found[row] = other
                break
    return found


def _hashes(fingerprints: np.ndarray) -> np.ndarray:  # uint64 (n,)
    words = np.ascontiguousarray(fingerprints).view(np.uint64)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64)
    return (words * (2 * factors + 1)).sum(axis=1)

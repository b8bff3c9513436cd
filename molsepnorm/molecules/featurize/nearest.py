"""Molecules that are found by their fingerprints: the most similar ones, and the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.fingerprints import BITS, nearest, packed_morgan
from molsepnorm.molecules.featurize.standardize import Level, molecule_key


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
    bits, errors = fingerprints_of(smiles)
    index, similarity = np.zeros(len(smiles), dtype=np.int64), np.full(len(smiles), np.nan)
    rows = np.array([row for row, error in enumerate(errors) if error is None], dtype=np.int64)
    if len(rows):
        index[rows], similarity[rows] = nearest(bits[rows], fingerprints)
        equal = np.flatnonzero(similarity == 1)
        texts = [smiles[row] for row in equal.tolist()]
        same = _same_molecules(texts, bits[equal], known, fingerprints, level)
        index[equal] = np.where(same < 0, index[equal], same)
    return index, similarity, errors


def fingerprints_of(smiles: Sequence[str]) -> tuple[np.ndarray, list[InvalidMolecule | None]]:
    """Return the fingerprints of n SMILES, uint8 [n, BITS // 8] as those of `packed_morgan`, and
    the error of a SMILES that RDKit cannot read, or None. The bits of such a one are 0."""
    bits = np.zeros((len(smiles), BITS // 8), dtype=np.uint8)
    errors: list[InvalidMolecule | None] = [None] * len(smiles)
    for row, text in enumerate(smiles):
        try:
            bits[row] = packed_morgan([text])[0]
        except InvalidMolecule as error:
            errors[row] = error
    return bits, errors


def with_one_text(smiles: Sequence[str], fingerprints: np.ndarray, level: Level) -> list[str]:
    """Return the SMILES in which every row of a molecule has the text of its first row.

    Args:
        smiles: n SMILES, as they were before they were standardised at `level`.
        fingerprints: uint8 [n, BITS // 8], fingerprints of their standardised forms. Only texts
            with equal fingerprints are compared, by `molecule_key`.
        level: of this standardisation.
    """
    alike: dict[int, dict[str, None]] = {}
    hashes = _hashes(fingerprints).tolist()
    for text, number in zip(smiles, hashes, strict=True):
        alike.setdefault(number, {})[text] = None
    first: dict[tuple[int, str], str] = {}
    for number, different in alike.items():
        known: dict[str, str] = {}
        for text in different if len(different) > 1 else ():
            first[number, text] = known.setdefault(molecule_key(text, level), text)
    return [first.get(each, each[1]) for each in zip(hashes, smiles, strict=True)]


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
        text = molecule_key(smiles[row], "none")
        for other in order[start:end].tolist():  # with few exceptions, equal fingerprints
            if other not in canonical:
                canonical[other] = molecule_key(known[other], level)
            if canonical[other] == text:
                found[row] = other
                break
    return found


def _hashes(fingerprints: np.ndarray) -> np.ndarray:  # uint64 (n,)
    words = np.ascontiguousarray(fingerprints).view(np.uint64)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64)
    return (words * (2 * factors + 1)).sum(axis=1)

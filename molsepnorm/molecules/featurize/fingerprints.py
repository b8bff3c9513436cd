"""Morgan fingerprints of many molecules, for similarities between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator
from scipy.sparse import csr_matrix, vstack

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.molecules.featurize.standardize import Level, molecule_key

BITS = 2048
"""Number of bits of a fingerprint."""

_QUERIES, _OTHERS = 256, 4096  # fingerprints that are compared at once
_FREQUENT = 128  # bits that are compared as a dense matrix, the others as a sparse one
_MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)


def packed_morgan(smiles: Iterable[str]) -> np.ndarray:  # uint8 (G, BITS // 8)
    """Return the Morgan fingerprints of radius 2 (ECFP4), with 8 bits in a byte, lowest bit first.

    Raises:
        InvalidMolecule: as the featurisers.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742, as in RDKit.
    """
    prints = (_MORGAN.GetFingerprint(oriented_mol(text)) for text in smiles)
    content = b"".join(DataStructs.BitVectToBinaryText(each) for each in prints)
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, BITS // 8)


def morgan_matrix(smiles: Iterable[str]) -> csr_matrix:  # float32 (G, BITS)
    """Return the fingerprints of `packed_morgan` as a sparse matrix of zeros and ones."""
    return _sparse(packed_morgan(smiles))


def tanimoto(one: csr_matrix, other: csr_matrix) -> np.ndarray:  # float64 (A, B)
    """Return the Tanimoto similarity of each of A molecules to each of B others.

    >>> matrix = morgan_matrix(["CCO", "OCC", "CCN"])
    >>> tanimoto(matrix[:1], matrix).round(2).tolist()
    [[1.0, 1.0, 0.33]]
    """
    common = (one @ other.T).toarray().astype(np.float64)
    sizes = np.asarray(one.sum(axis=1)) + np.asarray(other.sum(axis=1)).T - common  # of unions
    return common / sizes


def similar_pairs(
    bits: np.ndarray, first: int, least: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices i < j and the Tanimoto similarity of all pairs of molecules with a
    similarity of `least` or more and i among the first molecules.

    >>> i, j, similarity = similar_pairs(packed_morgan(["CCN", "CCO", "OCC"]), 2, 0.7)
    >>> i.tolist(), j.tolist(), similarity.tolist()
    ([1], [2], [1.0])
    """
    matrix = _sparse(bits)
    found: list[tuple[np.ndarray, ...]] = [(np.empty(0, int), np.empty(0, int), np.empty(0))]
    for start in range(0, first, _QUERIES):
        with np.errstate(invalid="ignore"):  # two molecules without a bit are not similar
            block = tanimoto(matrix[start : min(start + _QUERIES, first)], matrix[start:])
        i, j = np.nonzero(np.triu(block, 1) >= least)
        found.append((i + start, j + start, block[i, j]))
    one, other, similarity = map(np.concatenate, zip(*found, strict=True))
    return one, other, similarity


def nearest(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most similar of B molecules to each of A molecules, and their Tanimoto similarity.

    Of several equally similar molecules, the first one is returned. The result does not depend on
    the other rows of `one`. 10,000 molecules and 50,000 others take about 6 seconds on one core,
    in 40 MB of memory.

    >>> bits = packed_morgan(["CCN", "CCO", "OCC"])
    >>> index, similarity = nearest(bits[2:], bits)
    >>> index.tolist(), similarity.tolist()
    ([1], [1.0])

    Args:
        one, other: fingerprints as those of `packed_morgan`, uint8 [A, BITS // 8] and
            [B, BITS // 8].

    Returns:
        The indices, int64 [A], and the similarities, float64 [A]; -1 where there is no molecule to
        compare with.
    """
    index, best = np.zeros(len(one), dtype=np.int64), np.full(len(one), -1.0)
    queries = _sparse(one)
    sizes = np.asarray(queries.sum(axis=1))  # float32 (A, 1)
    for start in range(0, len(other), _OTHERS):
        block = _sparse(other[start : start + _OTHERS])
        frequent = np.zeros(BITS, dtype=bool)
        frequent[np.argsort(-block.getnnz(axis=0), kind="stable")[:_FREQUENT]] = True
        dense, sparse = block[:, frequent].toarray().T, block[:, ~frequent].T.tocsr()
        of_dense, of_sparse = queries[:, frequent], queries[:, ~frequent]
        of_block = np.asarray(block.sum(axis=1)).T  # float32 (1, b)
        for first in range(0, len(one), _QUERIES):
            rows = slice(first, first + _QUERIES)
            common = of_dense[rows].toarray() @ dense
            common += (of_sparse[rows] @ sparse).toarray()
            common /= sizes[rows] + of_block - common
            found = common.argmax(axis=1)
            similarity = common[np.arange(len(found)), found]
            better = np.flatnonzero(similarity > best[rows])
            best[first + better], index[first + better] = similarity[better], found[better] + start
    return index, _ratios(one, other[index] if len(other) else one, best)


def _ratios(one: np.ndarray, other: np.ndarray, found: np.ndarray) -> np.ndarray:  # float64 (A,)
    """Return similarities that were found in float32, in double precision."""
    either, both = one | other, one & other
    counts = (np.unpackbits(each, axis=1).sum(axis=1, dtype=np.int64) for each in (both, either))
    return np.where(found < 0, found, np.divide(*counts))


def _sparse(bits: np.ndarray) -> csr_matrix:  # float32 (G, BITS)
    starts = range(0, len(bits) or 1, _OTHERS)  # a block of dense bits at a time
    blocks = (np.unpackbits(bits[at : at + _OTHERS], axis=1, bitorder="little") for at in starts)
    return vstack([csr_matrix(block, dtype=np.float32) for block in blocks], format="csr")


def nearest_labelled(
    one: np.ndarray, other: np.ndarray, labelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # int64 [A, T], float64 [A, T]
    """Return `nearest` among the molecules with a label of each of T targets, bool [B, T]."""
    index = np.full((len(one), labelled.shape[1]), -1)
    similarity = np.full(index.shape, -1.0)
    masks, targets = np.unique(labelled, axis=1, return_inverse=True)
    for number, mask in enumerate(masks.T):
        rows = np.flatnonzero(mask)
        found, best = nearest(one, other[rows])
        if len(rows):
            index[:, targets == number] = rows[found][:, None]
        similarity[:, targets == number] = best[:, None]
    return index, similarity


def nearest_molecules(
    smiles: Sequence[str],
    known: Sequence[str],
    fingerprints: np.ndarray,
    level: Level = "none",
    labelled: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, list[InvalidMolecule | None]]:
    """Return the most similar known molecule of each molecule, and their Tanimoto similarity.

    For a known molecule this is the molecule itself, although others, such as enantiomers, may have
    the same fingerprint.

    Args:
        smiles: n SMILES, standardised.
        known: SMILES of m molecules, as they were before they were standardised.
        fingerprints: uint8 [m, BITS // 8], of their standardised forms, see `packed_morgan`.
        level: of this standardisation.
        labelled: bool [m, T], the molecules that are compared for each of T targets; by default all
            of them, and T is 1.

    Returns:
        The index, int64 [n, T], and the similarity, float64 [n, T]; 0 and NaN for an invalid
        SMILES. None or the error of each SMILES.
    """
    labelled = np.ones((len(known), 1), dtype=bool) if labelled is None else labelled
    bits, errors = fingerprints_of(smiles)
    index = np.zeros((len(smiles), labelled.shape[1]), dtype=np.int64)
    similarity = np.full(index.shape, np.nan)
    rows = np.array([row for row, error in enumerate(errors) if error is None], dtype=np.int64)
    if len(rows):
        index[rows], similarity[rows] = nearest_labelled(bits[rows], fingerprints, labelled)
        equal = np.flatnonzero((similarity == 1).any(axis=1))
        texts = [smiles[row] for row in equal.tolist()]
        same = _same_molecules(texts, bits[equal], known, fingerprints, level)
        index[equal] = np.where(labelled[same] & (same >= 0)[:, None], same[:, None], index[equal])
    return index, similarity, errors


def fingerprints_of(smiles: Sequence[str]) -> tuple[np.ndarray, list[InvalidMolecule | None]]:
    """Return the fingerprints of n SMILES, uint8 [n, BITS // 8], and the error of an invalid
    SMILES, whose bits are 0."""
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
        fingerprints: uint8 [n, BITS // 8], of their standardised forms; only equal ones are
            compared.
        level: of this standardisation.
    """
    keys = [bits.tobytes() for bits in fingerprints]
    alike: dict[bytes, dict[str, str]] = {}  # fingerprint -> text -> first text of its molecule
    for key, text in zip(keys, smiles, strict=True):
        alike.setdefault(key, {})[text] = text
    for different in alike.values():
        if len(different) > 1:
            first: dict[str, str] = {}
            for text in different:
                different[text] = first.setdefault(molecule_key(text, level), text)
    return [alike[key][text] for key, text in zip(keys, smiles, strict=True)]


def _same_molecules(
    smiles: Sequence[str],
    bits: np.ndarray,
    known: Sequence[str],
    fingerprints: np.ndarray,
    level: Level,
) -> np.ndarray:  # int64 (n,)
    """Return the index of the first known molecule that is the same; -1 if none is, or only one has
    the fingerprint."""
    keys = [own.tobytes() for own in bits]
    alike: dict[bytes, list[int]] = {key: [] for key in keys}
    for other, own in enumerate(fingerprints if keys else ()):
        if (key := own.tobytes()) in alike:
            alike[key].append(other)
    canonical = cache(lambda other: molecule_key(known[other], level))
    found = np.full(len(smiles), -1)
    for row, (text, key) in enumerate(zip(smiles, keys, strict=True)):
        if len(alike[key]) > 1:
            own = molecule_key(text, "none")
            found[row] = next((each for each in alike[key] if canonical(each) == own), -1)
    return found

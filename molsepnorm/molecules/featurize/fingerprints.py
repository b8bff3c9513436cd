"""Morgan fingerprints of many molecules, for similarities between them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from scipy.sparse import csr_matrix

from molsepnorm.molecules.featurize.smiles import oriented_mol

__all__ = ["BITS", "morgan_matrix", "nearest_similarity", "tanimoto"]

BITS = 2048
"""Number of bits of a fingerprint."""

_PAIRS = 1 << 20  # pairs of molecules compared at once
_MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)


def morgan_matrix(smiles: Iterable[str]) -> csr_matrix:  # float32 (G, BITS)
    """Return the Morgan fingerprints of radius 2 (ECFP4) as a sparse matrix of zeros and ones.

    Raises:
        InvalidMolecule: as the featurisers.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742, as in RDKit.
    """
    bits = [np.array(_MORGAN.GetFingerprint(oriented_mol(text)).GetOnBits()) for text in smiles]
    ends = np.cumsum([0, *map(len, bits)])
    columns = np.concatenate([np.empty(0, dtype=np.int64), *bits])
    return csr_matrix((np.ones(ends[-1], np.float32), columns, ends), (len(bits), BITS))


def tanimoto(one: csr_matrix, other: csr_matrix) -> np.ndarray:  # float64 (A, B)
    """Return the Tanimoto similarity of each of A molecules to each of B others.

    >>> matrix = morgan_matrix(["CCO", "OCC", "CCN"])
    >>> tanimoto(matrix[:1], matrix).round(2).tolist()
    [[1.0, 1.0, 0.33]]

    Args:
        one, other: fingerprints (A, BITS) and (B, BITS) of zeros and ones.
    """
    common = (one @ other.T).toarray().astype(np.float64)
    sizes = np.asarray(one.sum(axis=1)) + np.asarray(other.sum(axis=1)).T - common  # of unions
    return common / sizes


def nearest_similarity(one: csr_matrix, other: csr_matrix) -> np.ndarray:  # float64 (A,)
    """Return the Tanimoto similarity of each of A molecules to the most similar of B others.

    500 molecules and 20,000 others take about half a second.

    Args:
        one, other: as for `tanimoto`; B is at least 1.
    """
    step = max(1, _PAIRS // other.shape[0])
    starts = range(0, one.shape[0], step)
    parts = [tanimoto(one[at : at + step], other).max(axis=1) for at in starts]
    return np.concatenate([np.empty(0), *parts])

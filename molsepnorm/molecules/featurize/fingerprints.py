"""Morgan fingerprints of many molecules, for similarities between them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from scipy.sparse import csr_matrix

from molsepnorm.molecules.featurize.smiles import oriented_mol

__all__ = ["BITS", "morgan_matrix"]

BITS = 2048
"""Number of bits of a fingerprint."""

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

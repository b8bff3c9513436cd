"""Compute the inputs of fit.py for the molecules of a table.

    python features.py molecules.csv features.npy

These are Morgan counts (radius 2, 2,048 bins) and RDKit's 2D descriptors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

__all__ = ["morgan_and_descriptors"]


def morgan_and_descriptors(smiles: Sequence[str]) -> np.ndarray:  # (G, 2048 + descriptors)
    """Return the counts and descriptors, in float32.

    Descriptors that are infinite or that RDKit cannot compute are NaN; values that are too large
    for float32 are clipped.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors, rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    largest = np.finfo(np.float32).max
    rows = []
    with rdBase.BlockLogs():
        for molecule in map(Chem.MolFromSmiles, smiles):
            descriptors = Descriptors.CalcMolDescriptors(molecule, missingVal=np.nan).values()
            counts = generator.GetCountFingerprintAsNumPy(molecule)
            values = np.array([*counts, *descriptors], dtype=np.float64)
            values[np.isinf(values)] = np.nan
            rows.append(values.clip(-largest, largest).astype(np.float32))
    return np.stack(rows)


if __name__ == "__main__":
    data, output = sys.argv[1:]
    np.save(output, morgan_and_descriptors(pd.read_csv(data)["smiles"].tolist()))

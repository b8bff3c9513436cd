"""Compute the inputs of the methods of fit.py for each molecule of a table.

    python features.py molecules.csv features.npy
    python features.py molecules.csv features.npy --model MODEL

By default these are Morgan counts (radius 2, 2,048 bins) and RDKit's 2D descriptors; with --model
they are the graph embeddings of a trained model.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["embeddings", "morgan_and_descriptors"]


def morgan_and_descriptors(smiles: Sequence[str]) -> np.ndarray:  # (G, 2048 + descriptors)
    """Return the counts and descriptors as float32; NaN where RDKit gives none.

    Larger values than float32 has are clipped.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors, rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    rows = []
    with rdBase.BlockLogs():
        for text in smiles:
            molecule = Chem.MolFromSmiles(text)
            descriptors = Descriptors.CalcMolDescriptors(molecule, missingVal=np.nan)
            counts = generator.GetCountFingerprintAsNumPy(molecule)
            values = np.array(list(descriptors.values()), dtype=np.float64)
            values[np.isinf(values)] = np.nan
            largest = np.finfo(np.float32).max
            rows.append(np.concatenate([counts, values.clip(-largest, largest)]).astype(np.float32))
    return np.stack(rows)


def embeddings(smiles: Sequence[str], model: Path) -> np.ndarray:  # (G, C)
    """Return the graph embeddings of a trained model."""
    from molsepnorm import Predictor

    return np.asarray(Predictor.from_pretrained(model).embed(smiles))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    smiles = pd.read_csv(options.data)["smiles"].tolist()
    made = embeddings(smiles, options.model) if options.model else morgan_and_descriptors(smiles)
    np.save(options.output, made)


if __name__ == "__main__":
    main()

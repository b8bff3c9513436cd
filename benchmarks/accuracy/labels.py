"""Measure how far ZINC's labels depend on the order of the atoms, which no model can learn.

    MOLSEPNORM_DATA=... python benchmarks/accuracy/labels.py

Penalised logP is log P minus synthetic accessibility minus a ring term, each standardised. The ring
term is the number of atoms beyond six of the largest ring of *one* cycle basis, the one networkx
finds; for rings that share several bonds the basis depends on the order of the atoms. For every
validation and test molecule this script derives the ring term from the label and compares it with
the basis of the SMILES' own order, with the smallest rings, and with the bases of 200 random
orders.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from rdkit import Chem, RDConfig
from rdkit.Chem import Crippen

sys.path.append(os.path.join(RDConfig.RDContribDir, "SA_Score"))
import sascorer

_LOGP, _SA, _RINGS = (2.45709540, 1.43432440), (-3.05258113, 0.83352070), (-0.04856969, 0.28602122)
"""Mean and standard deviation of the three terms, with which the labels were standardised."""
_ORDERS = 200


def ring_term(label: float, molecule: Chem.Mol) -> float:
    """Return the number of atoms beyond six that the label counts."""
    rest = (Crippen.MolLogP(molecule) - _LOGP[0]) / _LOGP[1]
    rest += (-sascorer.calculateScore(molecule) - _SA[0]) / _SA[1]
    return -((label - rest) * _RINGS[1] + _RINGS[0])


def beyond_six(rings: Iterable[Iterable[int]]) -> int:
    """Return the number of atoms beyond six of the largest ring."""
    return max(0, max((len(list(ring)) for ring in rings), default=0) - 6)


def of_basis(molecule: Chem.Mol) -> int:
    """Return the ring term of the cycle basis that this order of atoms gives."""
    return beyond_six(nx.cycle_basis(nx.Graph(Chem.GetAdjacencyMatrix(molecule))))


def main() -> None:
    """Print the findings for each split."""
    folder, chance = Path(os.environ["MOLSEPNORM_DATA"]) / "zinc", random.Random(0)
    for split in ("val", "test"):
        table = pd.read_csv(folder / f"{split}.csv.gz")
        rows = (folder / f"{split}.index").read_text().replace(",", " ").split()
        terms, spread, smallest, explained, orders = [], [], [], 0, 0
        for row in map(int, rows):
            molecule = Chem.MolFromSmiles(table["smiles"][row])
            term, others = ring_term(table["y"][row], molecule), []
            if molecule.GetRingInfo().NumRings() > 1:
                order = list(range(molecule.GetNumAtoms()))
                for _ in range(_ORDERS):
                    chance.shuffle(order)
                    others.append(of_basis(Chem.RenumberAtoms(molecule, order)))
            explained += abs(term - of_basis(molecule)) < 0.5
            orders += len(set(others)) > 1
            terms.append(round(term))
            spread.append(np.abs(others - np.median(others)).mean() if others else 0.0)
            smallest.append(beyond_six(molecule.GetRingInfo().AtomRings()))
        by_rings = np.abs(np.subtract(terms, smallest)).mean() / _RINGS[1]
        print(
            f"{split}: {explained} of {len(terms)} labels have the ring term of their own SMILES; "
            f"in {orders} it depends on the order.\n"
            f"MAE of the best guess over all orders {np.mean(spread) / _RINGS[1]:.4f}; of the "
            f"smallest rings {by_rings:.4f}, which differ in "
            f"{np.not_equal(terms, smallest).sum()} molecules."
        )


if __name__ == "__main__":
    main()

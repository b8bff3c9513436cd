"""What of ZINC's labels depends on the order of the atoms, so that no model can learn it.

    MOLSEPNORM_DATA=... python benchmarks/accuracy/labels.py

Penalised logP is log P less synthetic accessibility less a ring term, each standardised. The ring
term is the number of atoms beyond six of the largest ring of *one* cycle basis, that which networkx
finds; where rings share several bonds, another order of the atoms gives another basis. For every
validation and test molecule this works the term out of its label, compares it with the basis of the
SMILES' own order and with the smallest rings, and with the bases of 200 random orders.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
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
    """How many atoms beyond six the label counts."""
    rest = (Crippen.MolLogP(molecule) - _LOGP[0]) / _LOGP[1]
    rest += (-sascorer.calculateScore(molecule) - _SA[0]) / _SA[1]
    return -((label - rest) * _RINGS[1] + _RINGS[0])


def of_basis(molecule: Chem.Mol) -> int:
    """Atoms beyond six of the largest ring of the cycle basis that this order of atoms gives."""
    rings = nx.cycle_basis(nx.Graph(Chem.GetAdjacencyMatrix(molecule)))
    return max(0, max(map(len, rings), default=0) - 6)


def of_smallest_rings(molecule: Chem.Mol) -> int:
    """The same of the smallest set of smallest rings."""
    return max(0, max(map(len, molecule.GetRingInfo().AtomRings()), default=0) - 6)


def of_other_orders(molecule: Chem.Mol, chance: random.Random) -> list[int]:
    """The ring term under random orders of the atoms; none where there is one ring at most."""
    if molecule.GetRingInfo().NumRings() < 2:
        return []
    order, found = list(range(molecule.GetNumAtoms())), []
    for _ in range(_ORDERS):
        chance.shuffle(order)
        found.append(of_basis(Chem.RenumberAtoms(molecule, order)))
    return found


def molecules(folder: Path, split: str) -> Iterator[tuple[float, Chem.Mol]]:
    """Labels and molecules of the 12,000."""
    rows = pd.read_csv(folder / f"{split}.csv.gz")
    places = [
        int(text) for text in (folder / f"{split}.index").read_text().replace(",", " ").split()
    ]
    for label, smiles in zip(rows["y"][places], rows["smiles"][places], strict=True):
        yield label, Chem.MolFromSmiles(smiles)


def main() -> None:
    """Print a line for each split."""
    folder, chance = Path(os.environ["MOLSEPNORM_DATA"]) / "zinc", random.Random(0)
    for split in ("val", "test"):
        told, spread, smallest, explained, orders = [], [], [], 0, 0
        for label, molecule in molecules(folder, split):
            term = ring_term(label, molecule)
            others = of_other_orders(molecule, chance)
            explained += abs(term - of_basis(molecule)) < 0.5
            orders += len(set(others)) > 1
            told.append(round(term))
            spread.append(np.abs(others - np.median(others)).mean() if others else 0.0)
            smallest.append(of_smallest_rings(molecule))
        by_median = np.mean(spread) / _RINGS[1]
        by_rings = np.abs(np.subtract(told, smallest)).mean() / _RINGS[1]
        print(
            f"{split}: {explained} of {len(told)} labels have their SMILES' own ring term; "
            f"in {orders} it depends on the order.\n"
            f"MAE of the best guess over all orders {by_median:.4f}; of the smallest rings "
            f"{by_rings:.4f}, "
            f"which differ in {np.not_equal(told, smallest).sum()} molecules."
        )


if __name__ == "__main__":
    main()

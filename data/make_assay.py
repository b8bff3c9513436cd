"""Make a raw assay table, as an instrument or a database exports it, for docs/tutorial-assay.md.

    python data/make_assay.py assay.csv

The molecules are the first ones of `demo.csv`, and the IC50 is invented: a sum over their structure
with noise. The table has what real ones have: bounds, salts, repeated measurements, a column that
is no target, cells that are no numbers, and a broken SMILES. The same RDKit writes the same bytes
every time.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from random import Random

from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors

COLUMNS = ("compound_id", "smiles", "ic50_nM", "MW", "measured")
MOLECULES = 240
SEED = 2026
LIMIT = 10_000  # nM, the highest concentration of the assay
NOISE = 0.3  # standard deviation of one measurement, in units of pIC50
REPEATED = 0.1  # share of molecules with a second measurement
SALTS = 0.15  # share of amines that are written as hydrochlorides

_AMINE = Chem.MolFromSmarts("[NX3;H1,H2;!$(NC=O);!$(NS=O);!$(Nc)]")
_AMIDE = Chem.MolFromSmarts("[NX3]C(=O)")
_AZINE = Chem.MolFromSmarts("n")


def pic50(mol: Chem.Mol) -> float:
    """Return the invented activity of a molecule, without noise."""
    rings = min(len(mol.GetSubstructMatches(_AZINE)), 3)
    amides = min(len(mol.GetSubstructMatches(_AMIDE)), 2)
    return 3.8 + 0.8 * rings + 0.6 * amides + 0.3 * max(-1.0, min(Crippen.MolLogP(mol), 5.0))


def rows() -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    random = Random(SEED)
    with Path(__file__).with_name("demo.csv").open(encoding="utf-8", newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][:MOLECULES]
    found: list[tuple[str, ...]] = []
    for number, text in enumerate(smiles, start=1):
        mol = Chem.MolFromSmiles(text)
        salt = mol.HasSubstructMatch(_AMINE) and random.random() < SALTS
        for _ in range(2 if random.random() < REPEATED else 1):
            value = 10 ** (9 - pic50(mol) - random.gauss(0, NOISE))
            cell = f">{LIMIT}" if value > LIMIT else f"{value:.3g}"
            day = f"2026-{random.randint(1, 9):02}-{random.randint(1, 28):02}"
            mass = f"{Descriptors.MolWt(mol):.1f}"
            found.append((f"MSN-{number:04}", text + ".Cl" * salt, cell, mass, day))
    found[7] = (*found[7][:2], "n.d.", *found[7][3:])
    found[60] = (*found[60][:2], "12.5 nM", *found[60][3:])
    found[100] = (found[100][0], found[100][1] + ")", *found[100][2:])
    return found


def main() -> None:
    """Write the table to the path on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python data/make_assay.py FILE.csv")
    with open(sys.argv[1], "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows())


if __name__ == "__main__":
    main()

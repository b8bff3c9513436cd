"""Write the structures that `molsepnorm-small` learns from: one canonical SMILES a line.

    pip download MoleculeACE==3.0.0 --no-deps && unzip MoleculeACE-3.0.0-py3-none-any.whl -d ace
    python benchmarks/pretraining/structures.py structures.smi \\
        --tables ace/MoleculeACE/Data/benchmark_data

They are the training and validation rows of the tables in MOLSEPNORM_DATA, of MoleculeACE, of
ogbg-molhiv and of all of ZINC. Left out are test rows of any of these sets, and molecules of more
than 80 heavy atoms. No label is read.

The order is random with a fixed seed. A quarter of the lines are from ZINC until the other
structures are used up, and all lines after that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from environment import data_folder  # noqa: E402
from rdkit import Chem, rdBase  # noqa: E402

LARGEST = 80  # heavy atoms
ZINC_SHARE = 0.25  # of the first lines, until the other structures are used up
_SPLITS = ("split", "scaffold_split")


def main() -> None:
    """Collect, leave out test rows, order, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--tables", type=Path, help="folder of MoleculeACE's tables")
    options = parser.parse_args()
    folder = data_folder()
    tables = [
        path
        for name in ("moleculenet", "tdc", "biogen_adme", "uvvis")
        for path in sorted((folder / name).glob("*.csv"))
        if path.stem != "published"
    ]
    tables += sorted(options.tables.glob("CHEMBL*.csv")) if options.tables else []
    pieces = [_rows(path) for path in tables] + [_molhiv(folder / "ogbg_molhiv")]
    rows = pd.concat(pieces, ignore_index=True)
    zinc = pd.concat(
        [
            pd.read_csv(folder / "zinc" / f"{name}.csv.gz")[["smiles"]].assign(test=name != "train")
            for name in ("train", "test", "val")
        ],
        ignore_index=True,
    )
    for part in (rows, zinc):
        part["smiles"] = [_canonical(text) for text in part["smiles"]]
    held_out = set(rows["smiles"][rows["test"]]) | set(zinc["smiles"][zinc["test"]])
    varied = sorted(set(rows["smiles"].dropna()) - held_out)
    common = sorted(set(zinc["smiles"].dropna()) - held_out - set(varied))
    random = np.random.default_rng(0)
    random.shuffle(varied)
    random.shuffle(common)
    beside = min(len(common), round(len(varied) * ZINC_SHARE / (1 - ZINC_SHARE)))
    first = np.array([*varied, *common[:beside]], dtype=object)
    random.shuffle(first)
    options.output.write_text("\n".join([*first, *common[beside:]]) + "\n")
    print(f"{len(varied)} of tables and molhiv, {len(common)} of ZINC; {len(held_out)} left out")


def _rows(path: Path) -> pd.DataFrame:
    """Return the SMILES of a table, and whether each is a test row."""
    table = pd.read_csv(path)
    column = next(name for name in _SPLITS if name in table)
    return pd.DataFrame({"smiles": table["smiles"], "test": table[column] == "test"})


def _molhiv(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "mapping" / "mol.csv.gz")[["smiles"]].assign(test=True)
    train = pd.read_csv(folder / "split" / "scaffold" / "train.csv.gz", header=None)[0]
    table.loc[train, "test"] = False
    return table


def _canonical(smiles: str) -> str | None:
    """Return RDKit's canonical SMILES; None if it cannot be read or is too large."""
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(str(smiles).strip())
    return Chem.MolToSmiles(mol) if mol and 0 < mol.GetNumHeavyAtoms() <= LARGEST else None


if __name__ == "__main__":
    main()

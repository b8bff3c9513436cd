"""A featuriser of another package, from installation to predictions in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from molsepnorm.cli import main
from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.featurize import registry
from runs import rows_of

SOURCE = """
import numpy as np
from molsepnorm import MolGraph
from molsepnorm.molecules.featurize import Featurizer
from molsepnorm.molecules.featurize.smiles import canonical_mol


class Elements(Featurizer):
    name = "elements"
    version = "1"
    atom_sizes = (120,)
    bond_sizes = (2,)
    molecule_features = ("atoms", "charge")

    def __call__(self, smiles):
        mol = canonical_mol(smiles)
        atoms = [[atom.GetAtomicNum()] for atom in mol.GetAtoms()]
        bonds = [[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in mol.GetBonds()]
        kinds = [[int(bond.GetIsAromatic())] for bond in mol.GetBonds()]
        charge = sum(atom.GetFormalCharge() for atom in mol.GetAtoms())
        features = [len(atoms), charge or (np.nan if "I" in smiles else 0)]
        return MolGraph(atoms, np.reshape(bonds, (-1, 2)), np.reshape(kinds, (-1, 1)), features)
"""
SMILES = [f"{'C' * length}{end}" for length in range(1, 9) for end in ("O", "N", "Cl", "C(=O)[O-]")]
SETTINGS = (
    *("--layers", "1", "--epochs", "1", "--batch-size", "8", "--featurizer", "elements"),
    *("--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "model.heads=2"),
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages with the plug-in, which this process finds."""
    about = tmp_path / "site" / "element_features-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: element-features\nVersion: 1.0\n")
    entry = "[molsepnorm.featurizers]\nelements = element_features:Elements\n"
    (about / "entry_points.txt").write_text(entry)
    (about.parent / "element_features.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(about.parent)
    monkeypatch.setattr(registry, "_registered", {**registry._registered})
    return about.parent


def command(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.output


def column(path: Path, name: str) -> list[str]:
    return [row[name] for row in rows_of(path)]


def test_a_plug_in_is_trained_with_and_predicts_in_another_process(tmp_path, site):
    table, run = tmp_path / "table.csv", tmp_path / "run"
    rows = [f"{smiles},{len(smiles)}" for smiles in SMILES] + ["CCI,3"]
    table.write_text("\n".join(["smiles,y", *rows]) + "\n")
    command("train", "--data", table, *SETTINGS, "-o", run)
    assert column(run / "rejected.csv", "reason") == [
        "molecule-level feature 'charge' is nan, not finite"
    ]

    molecules = tmp_path / "molecules.smi"
    molecules.write_text("\n".join([*SMILES, "CCI"]) + "\n")
    predict = ("predict", "--model", run, "-i", molecules, "-o")
    command(*predict, tmp_path / "here.csv")
    script = [sys.executable, "-m", "molsepnorm", *predict, tmp_path / "fresh.csv"]
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    subprocess.run(script, check=True, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    here, fresh = (column(tmp_path / f"{name}.csv", "y_pred") for name in ("here", "fresh"))
    assert here == fresh and len(here) == len(SMILES) + 1 and here[-1] == ""

    statistics = PropertyModel.from_pretrained(run).network.molecule_features
    assert 3 < statistics.mean[0] < 12 and statistics.sd.tolist() != [1, 1]

    module = sys.modules["element_features"]
    module.Elements.version = "2"
    message = "trained with version 1 of the featuriser 'elements', and version 2 is installed"
    with pytest.raises(ModelError, match=message):
        PropertyModel.from_pretrained(run)

    sys.path.remove(str(site))
    registry._registered.pop("elements")
    output = command(*predict, tmp_path / "none.csv", code=1)
    message = "the model needs the featuriser 'elements' (version 1), which is not registered here"
    assert message in " ".join(output.split())
    assert "unknown featuriser" in command("train", "--data", table, *SETTINGS, code=2)


def test_spawned_workers_find_a_plug_in(tmp_path, site):
    script = tmp_path / "script.py"
    script.write_text(
        "import molsepnorm, sys\n"
        "from molsepnorm.molecules.featurize import Featurizer, get, register\n"
        "from molsepnorm.workers import Workers\n"
        "class Mine(type(get('elements'))):\n"
        "    name = 'mine'\n"
        "if __name__ == '__main__':\n"
        "    register(Mine)\n"
        "    for name in ('elements', 'mine'):\n"
        "        with Workers(1, get(name).many, method='spawn') as workers:\n"
        "            print(list(workers.map([['CCO', 'x']])))\n"
    )
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("[[MolGraph(3 atoms, 2 bonds), InvalidMolecule(") == 2, done.stderr

"""Models whose every part matters: networks, forests and inputs beside the structure."""

from __future__ import annotations

from molsepnorm.molecules.featurize import SIZES
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task
from support import far_from_initial

DRUGS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "C[C@H](N)C(=O)O",
    "C[NH2+]Cc1ccccc1.[Cl-]",
    "FC(F)(F)c1ccc(Cl)cc1",
    "N#CC1CC1",
    "C",
]
TASK = Task(
    (
        Target("y", "regression", 2.0, 3.0),
        Target("ic50_nM", "regression", 6.0, 1.0, transform="pic50"),
        Target("active", "binary"),
        Target("colour", "multiclass", classes=("red", "green", "blue")),
    ),
    "loss",
)
INPUTS = ExtraInputs(
    (FeatureColumn("T"), FeatureColumn("solvent", ("water", "wine"))),
    2048,
    ("MolWt", "TPSA"),
    pairs=2048,
)
CELLS = {
    "T": [20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0],
    "solvent": ["water", "wine", "wine", "water", "water", "wine", "water"],
}


def network(**settings):
    settings = {"local": "gine", "node_walks": 3, "pair_walks": 3, **settings}
    ogb = SIZES["ogb"]
    sizes = {"atom_sizes": ogb.atoms, "bond_sizes": ogb.bonds, "outputs": TASK.outputs}
    shape = {"layers": 2, "width": 16, "ffn_width": 16, "heads": 2, "max_path_length": 3}
    return far_from_initial(GraphormerConfig(**{**shape, **sizes, **settings})).eval()

"""Small networks, and molecules for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import SMALL, far_from_initial

from molsepnorm.analysis.geometry import ModelOnMolecules
from molsepnorm.data.store import GraphStore, StoreWriter
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import GraphormerConfig
from molsepnorm.tasks import Target, Task

SMILES = tuple("C" * length + end for length in range(1, 6) for end in ("O", "N", "Cl", "F", "C=O"))
LABELS = np.stack([np.arange(25.0), np.arange(25) % 2, np.arange(25) % 3], axis=1)
LABELS[3] = np.nan
TASK = Task(
    (
        Target("y", "regression", mean=0.0, scale=1.0),
        Target("active", "binary"),
        Target("colour", "multiclass", classes=("red", "green", "blue")),
    ),
    metric="mae",
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ModelOnMolecules]:
    """`model("a", group="a", graphs=range(25), dropout=0.1)`, and network settings."""
    folder: Path = tmp_path_factory.mktemp("models")

    def make(name: str, group: str | None = None, graphs=range(25), **settings) -> ModelOnMolecules:
        config = GraphormerConfig(**{**SMALL, "outputs": TASK.outputs, **settings})
        model = PropertyModel(far_from_initial(config), "zinc", TASK)
        store = _store(folder / f"{name}.store", model)
        shown = np.array(graphs)
        return ModelOnMolecules(name, group or name, model, store, shown, LABELS[shown], SMILES)

    return make


def _store(path: Path, model: PropertyModel) -> GraphStore:
    zinc = featurize.get("zinc")
    encoded = encode([zinc(text) for text in SMILES], model.encoding)
    with StoreWriter(path, model.encoding, "zinc") as writer:
        writer.append(encoded)
    return GraphStore.open(path)

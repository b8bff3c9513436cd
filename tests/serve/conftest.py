"""Small models, one with a card, and a server on a free port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

import uvicorn

import molsepnorm
from molsepnorm.cli.serve import _listening
from molsepnorm.model import PropertyModel
from molsepnorm.pretrained.card import ModelCard
from molsepnorm.serve import Limits, Service
from molsepnorm.serve.app import create_app
from support import write_card

ENDS = ("O", "N", "Cl", "c1ccccc1")
SMILES = [f"{'C' * n}{end}" for n in range(1, 11) for end in ENDS]


@pytest.fixture(scope="session")
def models() -> dict[str, PropertyModel]:
    """Models of a number whose name is HTML, of two classes, of three targets, and of pairs."""
    random = np.random.default_rng(0)
    size = np.array([len(text) for text in SMILES]) + random.normal(0, 0.3, len(SMILES))
    options = {
        "splits": {"train": range(24), "val": range(24, 36), "test": range(36, 40)},
        "overrides": {"run.epochs": 0, "run.threads": 1, "run.baseline": False},
    }
    order = random.permutation(len(SMILES))
    smiles, size = [SMILES[row] for row in order], size[order]
    number = molsepnorm.fit(smiles, size, targets=["<b>size"], **options)
    long = molsepnorm.fit(smiles, (size > 6).astype(int), targets=["long"], **options)
    known = np.where(["N" in text for text in smiles], np.nan, size)  # no label of an amine
    labels = np.stack([size, size > 6, known], axis=1)
    several = molsepnorm.fit(smiles, labels, targets=["length", "long", "known"], **options)
    solvents = np.where(size > 6, "CCO", "O")
    pairs = molsepnorm.fit(
        smiles, size, targets=["shift"], feature_columns={"solvent:molecule": solvents}, **options
    )
    found = {"size": number, "long": long, "profile": several, "pairs": pairs}
    return {name: predictor.model for name, predictor in found.items()}


@pytest.fixture(scope="session")
def cards(
    models: dict[str, PropertyModel], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ModelCard]:
    """The model of three targets has a card, which has end points for two of them."""
    folder = tmp_path_factory.mktemp("profile")
    models["profile"].save_pretrained(folder)
    return {"profile": write_card(folder, "length", "long", reference=(0.0, 1.0, 20.0))}


@pytest.fixture(scope="session")
def service(models: dict[str, PropertyModel], cards: dict[str, ModelCard]) -> Service:
    return Service(models, Limits(rows=300, megabytes=0.5, seconds=30), cards=cards)


@pytest.fixture(scope="session")
def address(service: Service) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    listener = _listening("127.0.0.1", 0)
    app = create_app(service, {"127.0.0.1"})
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture
def saved(models: dict[str, PropertyModel], tmp_path: Path) -> Path:
    models["size"].save_pretrained(tmp_path / "size")
    return tmp_path / "size"

"""Featurisers that other code registers, by a call or by an entry point."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import molsepnorm
from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize import FeatureSizes, Featurizer, registry
from molsepnorm.molecules.molecule import MolGraph


class Chain(Featurizer):
    """Reads a chain of carbon atoms, with its length and the length's inverse as features."""

    name = "chain"
    atom_sizes = (2,)
    bond_sizes = (3,)
    molecule_features = ("length", "inverse")

    def __call__(self, smiles: str) -> MolGraph:
        size = smiles.count("C")
        bonds = np.stack([np.arange(size - 1), np.arange(1, size)], axis=1)
        inverse = np.nan if size == 3 else 1 / size
        return MolGraph(
            np.zeros((size, 1), int), bonds, np.zeros_like(bonds[:, :1]), [size, inverse]
        )


@pytest.fixture(autouse=True)
def registrations(monkeypatch):
    """Undo the registrations of each test."""
    monkeypatch.setattr(registry, "_registered", {**registry._registered})


def test_register_makes_a_class_available_by_its_name():
    assert "chain" not in featurize.SIZES
    with pytest.raises(ValueError, match="unknown featuriser 'chain'"):
        DataConfig(table="x.csv", featurizer="chain")
    assert molsepnorm.featurize.register(Chain) is Chain
    assert isinstance(featurize.get("chain"), Chain)
    assert featurize.SIZES["chain"] == FeatureSizes((2,), (3,), ("length", "inverse"), "1")
    assert list(featurize.SIZES) == ["chain", "ogb", "zinc"] and len(featurize.SIZES) == 3
    assert DataConfig(table="x.csv", featurizer="chain").featurizer == "chain"
    molsepnorm.featurize.register(Chain)  # a second time, as a notebook does


def test_a_name_cannot_be_registered_twice():
    featurize.register(Chain)
    for name, holder in (("ogb", "OgbFeaturizer"), ("chain", "Chain")):
        other = type("Other", (Chain,), {"name": name})
        with pytest.raises(ConfigError, match=rf"the name '{name}' is taken by \S+:{holder}:"):
            featurize.register(other)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"name": "My Features"}, "name must consist of lower-case letters"),
        ({"atom_sizes": (257,)}, "atom_sizes must be a tuple of integers in 1 … 256"),
        ({"molecule_features": ("a", "a")}, "molecule_features must be a tuple of different"),
    ],
)
def test_a_wrong_declaration_is_refused(attributes, message):
    with pytest.raises(ConfigError, match=message):
        featurize.register(type("Mine", (Chain,), {"name": "mine", **attributes}))
    with pytest.raises(ConfigError, match="must be a subclass of Featurizer; got"):
        featurize.register("chain")


def test_molecule_level_features_are_checked_for_each_molecule():
    made = Chain().many(["C", "CCC", "CC"])
    assert made[0].features.dtype == np.float32
    assert made[2].features.tolist() == [2, 0.5]
    assert str(made[1]) == "molecule-level feature 'inverse' is nan, not finite"
    assert isinstance(made[1], InvalidMolecule)
    fewer = type("Fewer", (Chain,), {"molecule_features": ("length",)})
    with pytest.raises(ConfigError, match="'chain' returned 2 .* for CC; it declares 1 .*: length"):
        fewer().many(["CC"])


def test_a_featuriser_is_pickled_by_its_class():
    assert isinstance(pickle.loads(pickle.dumps(Chain())), Chain)

    class Local(Chain):
        pass

    with pytest.raises(ConfigError, match="'chain' cannot be imported by worker processes: define"):
        pickle.dumps(Local())

"""To and from PyTorch Geometric's `Data`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.pyg import featurized, from_data, to_data
from molsepnorm.molecules.molecule import MolGraph


@st.composite
def graphs(draw: st.DrawFn) -> MolGraph:
    """Any graph at all: bonds in any order and direction, any number of features."""
    atoms = draw(st.integers(1, 8))
    pairs = [(i, j) for i in range(atoms) for j in range(i)]
    bonds = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    bonds = [pair[::-1] if draw(st.booleans()) else pair for pair in bonds]
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return MolGraph(
        numbers.integers(0, 256, (atoms, draw(st.integers(1, 3)))),
        np.array(bonds, dtype=np.int64).reshape(-1, 2),
        numbers.integers(0, 256, (len(bonds), draw(st.integers(1, 3)))),
    )


def assert_equal(one: MolGraph, other: MolGraph) -> None:
    for name in ("atom_features", "bonds", "bond_features"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_array_equal(left, right)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_from_data_is_the_inverse_of_to_data(graph):
    data = to_data(graph)
    assert_equal(from_data(data, bond_offset=0), graph)
    assert data.validate()
    assert data.is_undirected()


@settings(max_examples=100, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_edges_may_come_in_any_order(graph, chance):
    data = to_data(graph)
    rows = list(range(data.edge_index.shape[1]))
    chance.shuffle(rows)
    data.edge_index = data.edge_index[:, rows]
    data.edge_attr = data.edge_attr[rows]
    shuffled = from_data(data, bond_offset=0)
    assert bond_table(shuffled) == bond_table(graph)
    first = [tuple(edge) for edge in data.edge_index.T.tolist()]
    places = [first.index(tuple(bond)) for bond in shuffled.bonds.tolist()]
    assert places == sorted(places)


def bond_table(graph: MolGraph) -> dict[frozenset[int], list[int]]:
    bonds = map(frozenset, graph.bonds.tolist())
    return dict(zip(bonds, graph.bond_features.tolist(), strict=True))


def test_batches_as_pyg_expects():
    molecules = ("CCO", "C", "CC")
    labels = ([1, float("nan")], np.array([[1.5, 2]]), torch.tensor([3, 4]))
    data = [
        to_data(featurize.get("zinc")(smiles), y=y, smiles=smiles)
        for smiles, y in zip(molecules, labels, strict=True)
    ]
    batch = Batch.from_data_list(data)
    for name, dtype, shape in (
        ("x", torch.int64, (6, 1)),
        ("edge_index", torch.int64, (2, 6)),
        ("edge_attr", torch.int64, (6, 1)),
        ("y", torch.float32, (3, 2)),
    ):
        assert (batch[name].dtype, tuple(batch[name].shape)) == (dtype, shape)
    assert batch.y[1:].tolist() == [[1.5, 2], [3, 4]] and batch.y[0, 1].isnan()
    assert_equal(from_data(batch.get_example(2), bond_offset=0), featurize.get("zinc")("CC"))
    plain = to_data(featurize.get("zinc")("C"))
    assert "y" not in plain and "smiles" not in plain


def example(**changes: object) -> Data:
    """Two atoms and a bond with flat attributes, as in PyG's ZINC, but for the changes."""
    values = {
        "x": torch.tensor([0, 1]),
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "edge_attr": torch.tensor([2, 2]),
    }
    return Data(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "the data has no x; expected integers of shape [N] or [N, A]"),
        ({"x": torch.zeros(2, 1, 1, dtype=torch.long)}, "x must have shape [N] or [N, A]"),
        ({"edge_attr": torch.tensor([1, 2])}, "edges (0, 1) and (1, 0) have different edge_attr"),
        (
            {"edge_index": torch.tensor([[0], [1]]), "edge_attr": torch.tensor([1])},
            "edge (0, 1) is in edge_index without (1, 0)",
        ),
        ({"x": torch.zeros(0, 1, dtype=torch.long)}, "the molecule has no atoms"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(InvalidMolecule) as caught:
        from_data(example(**changes), bond_offset=0)
    assert str(caught.value).startswith(message)


def test_atoms_of_another_featurizer_are_refused():
    """PyTorch Geometric's `from_smiles` has OGB's shape, and atomic numbers in place of OGB's,
    which begin at 0."""
    own = to_data(featurize.get("ogb")("CCO"), smiles="OCC")  # in any order
    assert featurized(own, 0, "ogb").num_atoms == 3
    own.x[:, 0] += 1
    with pytest.raises(ConfigError, match="SMILES OCC have other features than those of the feat"):
        featurized(own, 0, "ogb")
    del own.smiles
    assert featurized(own, 0, "ogb").atom_features.tolist() == own.x.tolist()


@pytest.mark.parametrize("smiles", ["O[C@H](F)C", "F[C@@H](O)C", "CC(F)O"])
def test_chirality_tags_of_ogb_become_those_of_the_featurizer(smiles):
    """`smiles2graph` reads tags in the order of writing. One molecule has one graph."""
    graph = pytest.importorskip("ogb.utils.mol").smiles2graph(smiles)
    arrays = {name: torch.from_numpy(graph[name]) for name in ("edge_index", "edge_feat")}
    x = torch.from_numpy(graph["node_feat"])
    data = Data(x=x, edge_index=arrays["edge_index"], edge_attr=arrays["edge_feat"], smiles=smiles)
    expected = featurize.get("ogb")(smiles)
    found = featurized(data, 0, "ogb")
    assert found.atom_features.tolist() == expected.atom_features.tolist()
    assert found.bonds.tolist() == expected.bonds.tolist()
    del data.smiles
    if "@" in smiles:
        with pytest.raises(ConfigError, match="chirality tags.*to_data"):
            featurized(data, 0, "ogb")
    else:
        assert featurized(data, 0, "ogb").atom_features.tolist() == x.tolist()

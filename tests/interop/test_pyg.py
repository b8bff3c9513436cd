"""`Collate` and `graphormer_config`: PyTorch Geometric's data sets with PyTorch's loader."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Data

import molsepnorm
from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import ConfigError
from molsepnorm.interop.pyg import AddShortestPathEncoding, Collate, graphormer_config
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.molecules.featurize.pyg import to_data

SMILES = ["CCO", "c1ccccc1CC#N", "C", "CC(=O)O", "C1CCCCC1", "OCC(N)C(=O)O", "[Na+].[Cl-]"]
OGB = molsepnorm.featurize.get("ogb")


@pytest.fixture
def dataset():
    return [to_data(OGB(text), y=[len(text), 0.5]) for text in SMILES]


@pytest.fixture
def network(dataset):
    torch.manual_seed(0)
    config = graphormer_config(dataset, bond_offset=0, layers=2, local="gine", pair_walks=4)
    return molsepnorm.Graphormer(config).eval()


def test_batches_hold_the_molecules_in_their_order(dataset, network):
    """The outputs are those of the molecules one at a time, however they are padded."""
    collate = Collate(network.config, bond_offset=0)
    batch, y = collate(dataset)
    assert y.tolist() == [[len(text), 0.5] for text in SMILES]
    encoded = [encode([OGB(text)], encoding_of(network.config)) for text in SMILES]
    with torch.no_grad():
        outputs = network(batch)
        each = torch.cat([network(GraphTensors.of(one).cut([0])) for one in encoded])
    assert outputs.numpy() == pytest.approx(each.numpy(), abs=1e-5)
    assert len(batch.groups) == 2


def test_a_loader_trains_a_network(dataset):
    config = graphormer_config(dataset, bond_offset=0, layers=1, width=16, ffn_width=16, heads=2)
    network = molsepnorm.Graphormer(config)
    optimizer = torch.optim.Adam(network.parameters(), 0.03)
    collate = Collate(config, bond_offset=0)
    loader = DataLoader(dataset * 4, 7, collate_fn=collate, num_workers=2, persistent_workers=True)
    losses = []
    for _ in range(20):
        for batch, y in loader:
            loss = (network(batch) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


def test_the_architecture_fits_the_features(dataset):
    config = graphormer_config(dataset, bond_offset=0, layers=3)
    x, edges = (torch.cat([data[name] for data in dataset]) for name in ("x", "edge_attr"))
    assert config.atom_sizes == tuple((x.max(0).values + 1).tolist())
    assert config.bond_sizes == tuple((edges.max(0).values + 1).tolist())
    assert (config.max_degree, config.outputs, config.layers) == (3, 2, 3)
    assert graphormer_config(dataset, bond_offset=0, outputs=5).outputs == 5
    shifted = [data.clone() for data in dataset]
    for data in shifted:
        data.edge_attr = data.edge_attr + 1
    assert graphormer_config(shifted, bond_offset=1) == graphormer_config(dataset, bond_offset=0)


def test_data_without_labels(dataset, network):
    for data in dataset:
        del data.y
    batch, y = Collate(network.config, bond_offset=0)(dataset)
    assert y is None
    assert len(batch) == 7
    assert graphormer_config(dataset, bond_offset=0).outputs == 1


def test_what_does_not_fit_is_refused(dataset, network):
    collate = Collate(network.config, bond_offset=0)
    with pytest.raises(ConfigError, match="bond_offset is missing"):
        Collate(network.config)
    rare = to_data(OGB("[U]"), y=[1.0, 2.0])
    with pytest.raises(ConfigError, match="molecule 7"):
        collate([*dataset, rare])
    del dataset[3].y
    with pytest.raises(ConfigError, match="molecule 3 of the batch has 0 labels in y"):
        collate(dataset)


def test_the_repr_of_the_transform_makes_it_again():
    """PyTorch Geometric identifies a `pre_transform` by its repr."""
    given = {"bond_sizes": (4, 2), "bond_offset": 1, "max_degree": 7, "max_distance": 9}
    transform = AddShortestPathEncoding(**given, max_path_length=5)
    again = eval(repr(transform))
    assert (again.spec, again.bond_offset) == (transform.spec, transform.bond_offset)


def test_the_offset_must_be_given_and_is_subtracted():
    with pytest.raises(ConfigError, match="bond_offset is missing: pass the attribute of the"):
        AddShortestPathEncoding((3,))
    for offset in (0, 1):
        data = Data(
            x=torch.zeros(2, 1, dtype=torch.long),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            edge_attr=torch.tensor([2, 2]),
        )
        encoded = AddShortestPathEncoding((3,), bond_offset=offset, max_path_length=1)(data)
        assert encoded.pair_path.view(2, 2).tolist() == [[-1, 2 - offset], [2 - offset, -1]]

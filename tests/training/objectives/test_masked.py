"""The prediction of masked atoms and bonds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import batch_of, far_from_initial

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.paths import UNREACHABLE
from molsepnorm.nn import GraphormerConfig
from molsepnorm.tasks import Task
from molsepnorm.training import load_config
from molsepnorm.training.objectives import masked as module
from molsepnorm.training.objectives.masked import mask_atoms, mask_bonds
from molsepnorm.training.objectives.pretraining import Pretraining

SMILES = (
    "CCO",
    "c1ccccc1Cl",
    "C[N+](=O)[O-]",
    "C",
    "C1CC1O",
    "[Na+].[Cl-]",
    "C/C=C/C#N",
    "CC(=O)N",
)
OGB = featurize.SIZES["ogb"]
GRAPHS = [featurize.get("ogb")(text) for text in SMILES]
NETWORKS = [
    {},
    {"readout": "mean", "norm": "shared"},
    {"local": "gine", "node_walks": 4, "pair_walks": 4, "pair_hidden": 0},
]


def objective_of(share: float = 0.4, **settings) -> tuple[Pretraining, GraphormerConfig]:
    architecture = GraphormerConfig(
        **{
            "layers": 2,
            "width": 16,
            "ffn_width": 24,
            "heads": 4,
            "outputs": 0,
            "atom_sizes": OGB.atoms,
            "bond_sizes": OGB.bonds,
            "max_path_length": 4,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            **settings,
        }
    )
    config = load_config(
        "molecules.csv",
        overrides={
            "objective.name": "pretraining",
            **{f"objective.{name}": 0 for name in ("descriptors", "fingerprint")},
            "objective.masked": 1,
            "objective.mask_share": share,
        },
    )
    model = PropertyModel(far_from_initial(architecture), "ogb", Task((), "loss"))
    return Pretraining(model, None, config), architecture


def cells(batch):
    """The molecule, the first slot and the pairs (first cell, width) of every row of a batch."""
    first_slot = first_pair = 0
    for group in batch.groups:
        for _ in range(group.graphs):
            index = batch.graph_token.tolist().index(first_slot)
            yield index, first_slot, first_pair, group.slots
            first_slot, first_pair = first_slot + group.slots, first_pair + group.slots**2


def log_probability(logits: torch.Tensor, value: int) -> float:
    return float(torch.log_softmax(logits.double(), 0)[value])


@pytest.mark.parametrize("settings", NETWORKS, ids=str)
def test_the_loss_is_that_of_a_loop_over_the_molecules(settings):
    """Each molecule is masked by hand, passes the network alone, and its labels are those of the
    featuriser."""
    objective, config = objective_of(**settings)
    objective.eval()
    masked = objective.losses["masked"]
    batch = batch_of(GRAPHS, config, max_groups=3)
    torch.manual_seed(2)
    with torch.no_grad():
        found = objective(batch, torch.arange(len(GRAPHS)))[0] / len(GRAPHS)
    torch.manual_seed(2)
    atoms = mask_atoms(batch, 0.4)
    bonds, _ = mask_bonds(batch, 0.4)
    of_atoms, of_bonds = [], []
    for index, slot, pair, width in cells(batch):
        graph, one = GRAPHS[index], batch_of([GRAPHS[index]], config)
        pairs = one.pairs.clone().view(len(one.mask), -1)
        hidden = [i for i in range(graph.num_atoms) if atoms[slot + 1 + i]]
        removed = {}
        for (i, j), features in zip(graph.bonds.tolist(), graph.bond_features, strict=True):
            i, j = min(i, j), max(i, j)
            if bonds[pair + (i + 1) * width + j + 1]:
                removed[i, j] = features
                pairs[i + 1, j + 1] = pairs[j + 1, i + 1] = UNREACHABLE

        def hide(x, hidden=hidden):
            x = x.clone()
            for i in hidden:
                x[i + 1] = masked.vector
            return x

        with torch.no_grad():
            _, x = objective.network.embed_with_atoms(replace(one, pairs=pairs.flatten()), hide)
            for i in hidden:
                heads = masked.atom_head(x[i + 1]).split(OGB.atoms)
                features = zip(heads, graph.atom_features[i], strict=True)
                of_atoms.append(np.mean([-log_probability(*each) for each in features]))
            for (i, j), values in removed.items():
                heads = masked.bond_head(x[i + 1] + x[j + 1]).split(OGB.bonds)
                features = zip(heads, values, strict=True)
                of_bonds.append(np.mean([-log_probability(*each) for each in features]))
    assert len(of_atoms) == int(atoms.sum()) > 5
    assert len(of_bonds) == int(bonds.sum()) > 5
    assert float(found) == pytest.approx(np.mean(of_atoms) + np.mean(of_bonds), rel=1e-5)


def test_a_masked_atom_is_hidden_from_the_network(monkeypatch):
    """If the first atom is masked, CCO and NCO have the same vectors."""
    objective, config = objective_of()
    objective.eval()
    masked, network = objective.losses["masked"], objective.network
    monkeypatch.setattr(module, "mask_bonds", lambda batch, _: (batch.pairs < 0, batch))
    seen = []
    plain = network.embed_with_atoms

    def spy(batch, alter=None):
        seen.append(plain(batch, alter)[1])
        return None, seen[-1]

    monkeypatch.setattr(network, "embed_with_atoms", spy)
    for slot in (1, 3):
        for text in ("CCO", "NCO"):
            batch = batch_of([featurize.get("ogb")(text)], config)
            first = torch.arange(4) == slot
            monkeypatch.setattr(module, "mask_atoms", lambda batch, _, chosen=first: chosen)
            with torch.no_grad():
                masked(network, None, batch, None)
    torch.testing.assert_close(seen[0], seen[1], rtol=0, atol=0)
    assert (seen[2] - seen[3]).abs().max() > 0.1


def test_a_share_of_the_atoms_is_masked_and_at_least_one():
    _, config = objective_of()
    batch = batch_of(GRAPHS, config, max_groups=2)
    torch.manual_seed(0)
    draws = torch.stack([mask_atoms(batch, 0.3) for _ in range(2000)])
    assert not draws[:, ~batch.mask].any()
    shares = draws[:, batch.mask].float().mean(0)
    assert (shares - 0.3).abs().max() < 0.05  # five standard deviations of 0.01
    few = torch.stack([mask_atoms(batch, 1e-9) for _ in range(500)])
    assert few.sum(1).eq(1).all()
    assert few[:, batch.mask].any(0).all()  # any atom may be that one


def test_a_share_of_the_bonds_is_masked_in_both_directions():
    _, config = objective_of()
    batch = batch_of(GRAPHS, config, max_groups=2)
    bonded = batch.paths.distances[batch.pairs] == 1
    torch.manual_seed(0)
    counts = torch.zeros(len(bonded))
    for _ in range(1000):
        chosen, altered = mask_bonds(batch, 0.3)
        counts += chosen
        removed = altered.pairs != batch.pairs
        assert (altered.pairs[removed] == UNREACHABLE).all()
        assert not (removed & ~bonded).any()
        assert not (chosen & ~removed).any()
        assert removed.sum() == 2 * chosen.sum()
        for part in batch.by_group(removed):
            assert torch.equal(part, part.mT)
    upper = torch.cat([part.triu(1).flatten() for part in batch.by_group(bonded)])
    assert upper.sum() == sum(graph.num_bonds for graph in GRAPHS)
    assert ((counts / 1000)[upper] - 0.3).abs().max() < 0.07  # five standard deviations
    assert not counts[~upper].any()


@pytest.mark.parametrize("training", [False, True])
def test_a_molecule_without_bonds_has_the_loss_of_its_atom(training):
    objective, config = objective_of(norm="sep-ln")
    objective.train(training)
    methane = batch_of(GRAPHS[3:4], config)
    loss_sum, count = objective(methane, torch.arange(1))
    assert (count.item(), loss_sum.isfinite()) == (1, True)
    loss_sum.backward()
    masked = objective.losses["masked"]
    assert masked.vector.grad.abs().sum() > 0
    assert not masked.bond_head.weight.grad.any()


def test_it_learns_what_is_masked():
    """The atoms and bonds that are not masked determine those that are."""
    objective, config = objective_of(share=0.15, init="xavier", norm="shared")
    objective.network.reset_parameters()
    objective.train()
    batch = batch_of(GRAPHS, config)
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        loss_sum, count = objective(batch, torch.arange(len(GRAPHS)))
        optimizer.zero_grad()
        (loss_sum / count).backward()
        optimizer.step()
        losses.append(loss_sum.item() / count.item())
    atoms = np.concatenate([graph.atom_features for graph in GRAPHS])
    bonds = np.concatenate([graph.bond_features for graph in GRAPHS])
    constant = sum(np.mean([entropy(column) for column in each.T]) for each in (atoms, bonds))
    assert np.mean(losses[-20:]) < 0.6 * constant


def entropy(values) -> float:
    """The loss of the best constant prediction of these values."""
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(shares * np.log(shares)).sum())


def test_a_network_whose_only_layer_has_the_graph_token_alone_is_refused():
    with pytest.raises(ConfigError, match=r"set model.layers to 2 or more, or model.readout to"):
        objective_of(layers=1)
    objective_of(layers=1, readout="token+mean")


def test_resistances_are_refused():
    with pytest.raises(ConfigError, match=r"masked removes bonds, and the resistances of model"):
        objective_of(resistance_kernels=4)


def test_a_largest_distance_of_one_is_refused():
    """All pairs of a fragment have the code of a bond then, and would be predicted and removed."""
    with pytest.raises(ConfigError, match=r"masked predicts bonds, and model\.max_distance: 1 "):
        objective_of(max_distance=1, max_path_length=1)
    objective_of(max_distance=2, max_path_length=1)

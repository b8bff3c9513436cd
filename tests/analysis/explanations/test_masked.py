"""Predictions for parts of molecules, compared with slow code that removes one atom at a time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from explained import DRUGS, TASK, network
from molsepnorm.analysis.explanations.masked import (
    Maskable,
    OtherInput,
    TokenAttention,
    explained_scale,
    masked_predictions,
)
from molsepnorm.data.batching import GraphTensors
from molsepnorm.model import ExtraArrays, Inputs, encoding_of
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, UNREACHABLE
from molsepnorm.molecules.featurize import get
from molsepnorm.molecules.featurize.atom_order import traced
from molsepnorm.molecules.featurize.descriptors import (
    morgan_counts,
    morgan_environments,
    pair_counts,
    pair_environments,
)
from molsepnorm.molecules.featurize.smiles import canonical_mol

NO_INPUTS = ({}, ())


def without(batch, absent: int):
    """The batch of one molecule with the slot of an atom turned into padding, by hand."""
    slot, slots = absent + 1, batch.groups[0].slots
    pairs = batch.pairs.view(slots, slots).clone()
    pairs[slot, :] = torch.where(pairs[slot] == PADDING, PADDING, UNREACHABLE)
    pairs[:, slot] = PADDING
    pairs[slot, 0] = GRAPH_TOKEN
    mask, atoms, degrees = batch.mask.clone(), batch.atoms.clone(), batch.degrees.clone()
    mask[slot], atoms[slot], degrees[slot] = False, 0, 0
    return replace(batch, pairs=pairs.flatten(), mask=mask, atoms=atoms, degrees=degrees)


def test_an_absent_atom_is_padding(plain):
    """For any subset of the atoms, down to none."""
    model, rng = plain.model, np.random.default_rng(0)
    graphs = [get("ogb")(text) for text in DRUGS]
    encoded = encode(graphs, model.encoding)
    subsets = [rng.random((6, graph.num_atoms)) < 0.5 for graph in graphs]
    for each in subsets:
        each[0], each[1] = True, False
    molecules = [Maskable(i, each, *NO_INPUTS) for i, each in enumerate(subsets)]
    none = ExtraArrays.none(len(graphs))
    found = masked_predictions(model, encoded, none, molecules, torch.device("cpu"))
    tensors = GraphTensors.of(encoded)
    for index, each in enumerate(subsets):
        for present, row in zip(each, found[index], strict=True):
            batch = tensors.cut([index])
            for atom in np.flatnonzero(~present):
                batch = without(batch, int(atom))
            with torch.no_grad():
                expected = TASK.predictions(model.network(batch)).numpy()[0]
            np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smiles", [*DRUGS, "C1CCCCC1", "OC(=O)c1ccc2[nH]ccc2c1", "[Na+].C"])
@pytest.mark.parametrize(
    ("find", "count"), [(morgan_environments, morgan_counts), (pair_environments, pair_counts)]
)
def test_counts_of_a_part_equal_a_loop_over_environments(smiles, find, count):
    form = traced(smiles).smiles
    mol, environments = canonical_mol(form), find(form)
    everything = np.ones((1, mol.GetNumAtoms()), dtype=bool)
    np.testing.assert_array_equal(environments.counts(everything)[0], count(mol))
    parts = np.random.default_rng(0).random((5, mol.GetNumAtoms())) < 0.7
    slow = np.zeros((5, len(count(mol))))
    for row, part in enumerate(parts):
        for column, members in zip(environments.columns, environments.members, strict=True):
            slow[row, column] += all(part[members > 0])
    np.testing.assert_array_equal(environments.counts(parts), slow)
    assert not environments.counts(~everything).any()


class Given(SimpleNamespace):
    """Environments with the same counts whatever is absent."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(counts=lambda present: np.tile(values, (len(present), 1)))


def test_absent_inputs_are_missing_values(whole):
    """As if the cells were NaN, which networks and forests replace by their averages."""
    model = whole.model
    encoded = encode([get("ogb")("CCO")], model.encoding)
    rng = np.random.default_rng(0)
    extra = ExtraArrays(*(rng.normal(size=(1, n)).astype(np.float32) for n in model.inputs.widths))
    fingerprints = {name: Given(getattr(extra, name)) for name in ("counts", "pairs")}
    others = OtherInput("T", np.array([2])), OtherInput("descriptors", np.array([0, 1]))
    coalitions = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=bool)
    each = Maskable(0, coalitions, fingerprints, others)
    (found,) = masked_predictions(model, encoded, extra, [each], torch.device("cpu"))
    for row, absent in zip(found, ("descriptors", "columns", None), strict=True):
        missing = ExtraArrays(*(values.copy() for values in extra))
        if absent is not None:
            getattr(missing, absent)[:, : 2 if absent == "descriptors" else 1] = np.nan
        inputs = Inputs.of(encoded, missing)
        expected = model.predict(inputs, np.array([0])).values
        np.testing.assert_allclose(row, expected[0], rtol=1e-4, atol=1e-5)
    assert np.ptp(found, axis=0).max() > 1e-3


def test_classes_are_explained_by_their_log_odds(plain):
    predictions = np.array([[1.5, 6.0, 0.9, 0.2, 0.3, 0.5], [0, 0, 1, 0, 0, 1]])
    found = explained_scale(plain.model, predictions)
    np.testing.assert_array_equal(found[:, :2], predictions[:, :2])
    np.testing.assert_allclose(found[0, 2:], np.log([9, 0.25, 3 / 7, 1]), atol=1e-12)
    np.testing.assert_allclose(found[1, 2:4], [np.log(1e7 - 1), -np.log(1e7 - 1)], rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"readout": "token+mean"}], ids=str)
def test_weights_of_a_molecule_sum_to_one_and_ignore_padding(settings):
    """In a batch as alone."""
    model = network(**settings)
    graphs = [get("ogb")(text) for text in DRUGS]
    tensors = GraphTensors.of(encode(graphs, encoding_of(model.config)))
    attention = TokenAttention(model)
    together = attention(tensors.cut(np.arange(len(graphs))))
    for index, graph in enumerate(graphs):
        (alone,) = attention(tensors.cut([index]))
        size = graph.num_atoms + 1
        assert float(alone.sum()) == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(together[index, :size], alone, atol=1e-5, rtol=1e-4)
        assert not together[index, size:].any()
    assert together.std() > 0.01


def test_weights_equal_the_softmax_of_a_single_layer():
    model = network(layers=1, local="none", node_walks=0, pair_walks=0)
    graph = get("ogb")("CC(=O)Oc1ccccc1C(=O)O")
    batch = GraphTensors.of(encode([graph], encoding_of(model.config))).cut([0])
    layer, heads = model.layers[0], model.config.heads
    with torch.no_grad():
        x = layer.attention_norm(model.embedding(batch), batch.graph_token, batch.mask)
        q, k, _ = layer.attention.qkv(x).chunk(3, dim=1)
        pairs = model.pair_encoding(batch)
        width = model.config.width // heads
        expected = torch.zeros(len(x))
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            logits = k[:, part] @ q[0, part] / width**0.5 + pairs.bias[0][head, 0, 0, : len(x)]
            expected += torch.softmax(logits, dim=0) / heads
    torch.testing.assert_close(TokenAttention(model)(batch)[0], expected, atol=1e-6, rtol=1e-5)


def test_the_network_is_left_as_it_is():
    model = network()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.random.get_rng_state()
    TokenAttention(model)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())

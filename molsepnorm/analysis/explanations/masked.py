"""Predictions for molecules without some atoms and inputs; the attention of the graph token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from molsepnorm.analysis.observe import observed
from molsepnorm.devices import Precision
from molsepnorm.errors import InvalidMolecule
from molsepnorm.model import ExtraArrays, Inputs, PropertyModel, encoding_of
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, encode
from molsepnorm.molecules.featurize.atom_order import Traced, traced
from molsepnorm.molecules.featurize.descriptors import Environments
from molsepnorm.molecules.featurize.further import PLUS, components
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.parts import FAST, PLAIN

MAX_ATOMS = 200
"""Larger molecules are not explained, since the time grows with the third power of their size."""
_TINY = 1e-7  # the smallest probability that has a log-odds


@dataclass(frozen=True, eq=False)
class OtherInput:
    """An input beside the structure. It is one player, or, of a further molecule, the atoms and the
    descriptors of each component, and it is missing if none of them is present."""

    name: str
    places: np.ndarray
    """Its places in the features of the featuriser, followed by the descriptors and the feature
    columns."""
    components: tuple[tuple[str, str, Traced], ...] = ()
    """Text and SMILES of the components of a further molecule, and their atoms."""
    partial: Callable[[np.ndarray], np.ndarray] | None = None
    """Function from some of several players, bool (K, players), to the input, (K, places)."""

    @property
    def players(self) -> int:
        return sum(len(form.places) + 1 for *_, form in self.components) or 1


@dataclass(frozen=True, eq=False)
class Maskable:
    """A molecule and its players: its N atoms, then those of the inputs beside the structure."""

    index: int
    """Its number in the encoded molecules."""
    coalitions: np.ndarray
    """bool [K, n]: the players that are present in each of its K variants."""
    fingerprints: dict[str, Environments]
    """The environments of the counts that the model reads, by their name in `ExtraArrays`."""
    inputs: tuple[OtherInput, ...]


def masked_predictions(
    model: PropertyModel,
    encoded: EncodedGraphs,
    extra: ExtraArrays,
    molecules: Sequence[Maskable],
    device: torch.device,
    precision: Precision = "fp32",
) -> list[np.ndarray]:  # float32 (K, O) each
    """Return the predictions for every coalition of each molecule.

    An absent atom is left out of attention, messages, random walks and read-outs, like padding. The
    other atoms keep their features, degrees, distances and paths of the whole molecule. Fingerprint
    counts are those of environments whose atoms are all present. Other absent inputs are missing
    values, which networks replace by their mean over the training molecules and forests by their
    median.
    """
    present, features, extras = [], [], []
    for molecule in molecules:
        index, count = molecule.index, int(encoded.sizes[molecule.index])
        present.append((index, molecule.coalitions[:, :count]))
        own = np.empty(0) if encoded.features is None else encoded.features[index]
        of_featurizer, others = _inputs(molecule, own, extra.of(np.array([index])), count)
        features.append(of_featurizer)
        extras.append(others)
    variants = _without_atoms(encoded, present)
    if encoded.features is not None:
        variants = replace(variants, features=np.concatenate(features))
    every_extra = ExtraArrays(*map(np.concatenate, zip(*extras, strict=True)))
    inputs = Inputs.of(variants, every_extra, device)
    predicted = model.predict(inputs, np.arange(len(variants)), precision).values
    ends = np.cumsum([len(molecule.coalitions) for molecule in molecules])
    return np.split(predicted, ends[:-1])


def _without_atoms(
    encoded: EncodedGraphs, molecules: Sequence[tuple[int, np.ndarray]]
) -> EncodedGraphs:
    """Return variants of molecules, given by number and the atoms that are present, bool (K, N)."""
    first_atom = np.cumsum(encoded.sizes) - encoded.sizes
    first_pair = np.cumsum(encoded.sizes**2) - encoded.sizes**2
    sizes, atoms, pairs = [], [], []
    for index, variants in molecules:
        for present in variants:
            kept = np.flatnonzero(present)
            sizes.append(len(kept))
            atoms.append(first_atom[index] + kept)
            pairs.append((first_pair[index] + kept[:, None] * len(present) + kept).ravel())
    of_atoms, of_pairs = np.concatenate(atoms), np.concatenate(pairs)
    rows = np.repeat([index for index, _ in molecules], [len(each) for _, each in molecules])
    return EncodedGraphs(
        sizes=np.array(sizes, dtype=np.int64),
        atoms=encoded.atoms[of_atoms],
        degrees=encoded.degrees[of_atoms],
        pairs=encoded.pairs[of_pairs],
        paths=encoded.paths,
        max_bonds=encoded.max_bonds,
        features=None if encoded.features is None else encoded.features[rows],
    )


def _inputs(
    molecule: Maskable, own: np.ndarray, extra: ExtraArrays, count: int
) -> tuple[np.ndarray, ExtraArrays]:
    """Return the featuriser's features, float32 (K, F), and the extra inputs of every coalition."""
    present, others = np.split(molecule.coalitions, [count], axis=1)
    widths = np.cumsum([len(own), extra.descriptors.shape[1]])
    whole = np.concatenate([own, extra.descriptors[0], extra.columns[0]], dtype=np.float32)
    values = np.tile(whole, (len(molecule.coalitions), 1))
    for each in molecule.inputs:
        players, others = np.split(others, [each.players], axis=1)
        values[np.ix_(~players.any(axis=1), each.places)] = np.nan
        if each.partial is not None:
            some = players.any(axis=1) & ~players.all(axis=1)
            values[np.ix_(some, each.places)] = each.partial(players[some])
    features, descriptors, columns = np.split(values, widths, axis=1)
    counts = {name: found.counts(present) for name, found in molecule.fingerprints.items()}
    none = np.zeros((len(values), 0), dtype=np.float32)
    return features, ExtraArrays(
        counts.get("counts", none), descriptors, counts.get("pairs", none), columns
    )


def with_atoms(whole: OtherInput, molecules: MoleculeColumns | None, cell: str) -> OtherInput:
    """Return an input with the players of its cell, if it is a column of molecules: the atoms and
    the descriptors of each component. Without embeddings or atoms that can be traced, it stays as
    it is. Absent atoms are left out of the embedding; without any, it is the mean embedding of the
    training molecules, and absent descriptors are their mean."""
    if molecules is None or molecules.network is None or whole.name not in molecules.projections:
        return whole
    (text,) = molecules.keys(whole.name, [cell])
    shares, smiles = zip(*components(text), strict=True)
    try:
        forms = [*map(traced, smiles)]
    except InvalidMolecule:  # such as that of an empty cell
        return whole
    read = featurize.get(molecules.featurizer).many([form.smiles for form in forms])
    graphs = [each for each in read if not isinstance(each, InvalidMolecule)]
    sizes = [len(form.places) for form in forms]
    if [each.num_atoms for each in graphs] != sizes or sum(sizes) > MAX_ATOMS:
        return whole
    encoded = encode(graphs, encoding_of(molecules.network.config))
    mean, width = molecules.projections[whole.name][0].numpy(), molecules.network.layers_width
    whole_features, _ = molecules.features(smiles)

    def vectors(present: np.ndarray) -> np.ndarray:  # bool (n, players) -> float32 (n, w)
        players, of_row = np.unique(present, axis=0, return_inverse=True)
        features = np.tile(mean, (len(players), 1))
        for index, size in enumerate(sizes):
            atoms, has_descriptors, players = np.split(players, [size, size + 1], axis=1)
            rows = np.flatnonzero(atoms.any(axis=1))
            embedded = molecules.embedded(_without_atoms(encoded, [(index, atoms[rows])]))
            features[rows, :width] += shares[index] * (embedded - mean[:width])
            described = whole_features[index, width:] - mean[width:]
            features[has_descriptors[:, 0], width:] += shares[index] * described
        return molecules.projected(whole.name, features)[of_row.ravel()]

    texts = text.split(PLUS)
    return replace(whole, components=tuple(zip(texts, smiles, forms, strict=True)), partial=vectors)


def explained_scale(model: PropertyModel, predictions: np.ndarray) -> np.ndarray:  # float64 (…, O)
    """Return predictions on the scale that is explained: the learned scale of a regression target,
    and the log-odds of a class, ln(p / (1 - p)), with p between 1e-7 and 1 - 1e-7."""
    values = predictions.astype(np.float64)
    for target, columns in zip(model.task.targets, model.task.columns(), strict=True):
        if target.kind != "regression":
            chance = np.clip(values[..., columns], _TINY, 1 - _TINY)
            values[..., columns] = np.log(chance / (1 - chance))
    return values


_READABLE = FAST._replace(attention=PLAIN.attention, dropout=PLAIN.dropout)


class TokenAttention:
    """Computes the mean attention weights of the graph token over all heads and layers, in a copy
    of the network with plain attention."""

    def __init__(self, network: Graphormer) -> None:
        self._network = empty_network(network.config, _READABLE)
        self._network.load_state_dict(network.state_dict())
        self._network.to(network.embedding.graph_token.device).eval()

    @torch.no_grad()
    def __call__(self, batch: GraphBatch) -> Tensor:  # (B, S)
        """Return the weights of the graph token, the atoms and padding (0), for a batch of one
        group."""
        sites = [cast(GraphormerLayer, layer).attention.dropout for layer in self._network.layers]
        # weights (H, graphs, Q, S)
        means = observed(self._network, batch, sites, lambda weights: weights[:, :, 0].mean(0))
        return torch.stack(means).mean(0)[batch.order]

"""Predictions for molecules without some atoms and inputs; the attention of the graph token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from molsepnorm.analysis.observe import observed
from molsepnorm.devices import Precision
from molsepnorm.model import ExtraArrays, Inputs, PropertyModel
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.featurize.descriptors import Environments
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.parts import FAST, PLAIN

_TINY = 1e-7  # the smallest probability that has a log-odds


@dataclass(frozen=True, eq=False)
class Maskable:
    """A molecule and its players: its N atoms, then the inputs beside the structure."""

    index: int
    """Its number in the encoded molecules."""
    coalitions: np.ndarray
    """bool [K, n]: the players that are present in each of its K variants."""
    fingerprints: dict[str, Environments]
    """The environments of the counts that the model reads, by their name in `ExtraArrays`."""
    inputs: tuple[tuple[str, np.ndarray], ...]
    """Name of each other input, and its places in the features of the featuriser, followed by the
    descriptors and the feature columns."""


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
    first_atom = np.cumsum(encoded.sizes) - encoded.sizes
    first_pair = np.cumsum(encoded.sizes**2) - encoded.sizes**2
    sizes, atoms, pairs, features, extras = [], [], [], [], []
    for molecule in molecules:
        index, count = molecule.index, int(encoded.sizes[molecule.index])
        for present in molecule.coalitions[:, :count]:
            kept = np.flatnonzero(present)
            sizes.append(len(kept))
            atoms.append(first_atom[index] + kept)
            pairs.append((first_pair[index] + kept[:, None] * count + kept).ravel())
        own = np.empty(0) if encoded.features is None else encoded.features[index]
        of_featurizer, others = _inputs(molecule, own, extra.of(np.array([index])), count)
        features.append(of_featurizer)
        extras.append(others)
    of_atoms, of_pairs = np.concatenate(atoms), np.concatenate(pairs)
    variants = EncodedGraphs(
        sizes=np.array(sizes, dtype=np.int64),
        atoms=encoded.atoms[of_atoms],
        degrees=encoded.degrees[of_atoms],
        pairs=encoded.pairs[of_pairs],
        paths=encoded.paths,
        max_bonds=encoded.max_bonds,
        features=None if encoded.features is None else np.concatenate(features),
    )
    every_extra = ExtraArrays(*map(np.concatenate, zip(*extras, strict=True)))
    inputs = Inputs.of(variants, every_extra, device)
    predicted = model.predict(inputs, np.arange(len(variants)), precision).values
    ends = np.cumsum([len(molecule.coalitions) for molecule in molecules])
    return np.split(predicted, ends[:-1])


def _inputs(
    molecule: Maskable, own: np.ndarray, extra: ExtraArrays, count: int
) -> tuple[np.ndarray, ExtraArrays]:
    """Return the featuriser's features, float32 (K, F), and the extra inputs of every coalition."""
    present, others = np.split(molecule.coalitions, [count], axis=1)
    widths = np.cumsum([len(own), extra.descriptors.shape[1]])
    whole = np.concatenate([own, extra.descriptors[0], extra.columns[0]], dtype=np.float32)
    values = np.tile(whole, (len(molecule.coalitions), 1))
    for is_present, (_, places) in zip(others.T, molecule.inputs, strict=True):
        values[np.ix_(~is_present, places)] = np.nan
    features, descriptors, columns = np.split(values, widths, axis=1)
    counts = {name: found.counts(present) for name, found in molecule.fingerprints.items()}
    none = np.zeros((len(values), 0), dtype=np.float32)
    return features, ExtraArrays(
        counts.get("counts", none), descriptors, counts.get("pairs", none), columns
    )


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

"""Predictions for molecules without some atoms and inputs, and the attention of the graph token.

Attention shows where a network looks, not why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices import Precision
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.featurize.descriptors import Environments
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.observe import observed
from molsepnorm.nn.parts import FAST, PLAIN
from molsepnorm.predict.inference import predict

_TINY = 1e-7  # the smallest probability that has a log-odds


@dataclass(frozen=True, eq=False)
class Maskable:
    """A molecule, and the parts that can be removed from it: the players.

    The first N players are its atoms. The others are the inputs beside the structure.
    """

    index: int
    """Its number in the encoded molecules."""
    coalitions: np.ndarray
    """bool [K, n]: the players that are present in each of its K variants."""
    fingerprints: tuple[tuple[slice, Environments], ...]
    """The molecule-level features that are counts of a fingerprint, and their environments."""
    inputs: tuple[tuple[str, np.ndarray], ...]
    """Name of each other input, and its molecule-level features, as indices."""


def masked_predictions(
    model: PropertyModel,
    encoded: EncodedGraphs,
    molecules: Sequence[Maskable],
    device: torch.device,
    precision: Precision = "fp32",
) -> list[np.ndarray]:  # float32 (K, O) each
    """Return what the model predicts for every coalition of each molecule.

    An absent atom is left out as a padded slot is: no slot attends to it, it sends no messages,
    random walks do not visit it, and no read-out contains it. The other atoms keep their features,
    degrees, distances and paths of the whole molecule. Without atoms, the network reads the graph
    token alone. Fingerprint counts are those of environments whose atoms are all present. Other
    absent inputs are missing values, which each network replaces by their mean over the training
    molecules and each forest by their median.
    """
    first_atom = np.cumsum(encoded.sizes) - encoded.sizes
    first_pair = np.cumsum(encoded.sizes**2) - encoded.sizes**2
    sizes, atoms, pairs, features = [], [], [], []
    for each in molecules:
        count = int(encoded.sizes[each.index])
        for present in each.coalitions[:, :count]:
            kept = np.flatnonzero(present)
            sizes.append(len(kept))
            atoms.append(first_atom[each.index] + kept)
            pairs.append((first_pair[each.index] + kept[:, None] * count + kept).ravel())
        if encoded.features is not None:
            features.append(_features(each, encoded.features[each.index], count))
    of_atoms, of_pairs = np.concatenate(atoms), np.concatenate(pairs)
    variants = EncodedGraphs(
        sizes=np.array(sizes, dtype=np.int64),
        atoms=encoded.atoms[of_atoms],
        degrees=encoded.degrees[of_atoms],
        pairs=encoded.pairs[of_pairs],
        paths=encoded.paths,
        max_bonds=encoded.max_bonds,
        features=np.concatenate(features) if features else None,
    )
    tensors = GraphTensors.of(variants, device)
    predicted = predict(model, tensors, np.arange(len(variants)), precision)
    ends = np.cumsum([len(each.coalitions) for each in molecules])
    return np.split(predicted, ends[:-1])


def _features(each: Maskable, whole: np.ndarray, count: int) -> np.ndarray:  # float32 (K, F)
    """Return the molecule-level features of every coalition."""
    features = np.tile(whole, (len(each.coalitions), 1))
    for counts, environments in each.fingerprints:
        features[:, counts] = environments.counts(each.coalitions[:, :count])
    for present, (_, columns) in zip(each.coalitions[:, count:].T, each.inputs, strict=True):
        features[np.ix_(~present, columns)] = np.nan
    return features


def explained_scale(model: PropertyModel, predictions: np.ndarray) -> np.ndarray:  # float64 (…, O)
    """Return predictions (…, O) on the scale that is explained.

    A regression target is explained on the scale that is learned, a class by the log-odds of its
    probability, ln(p / (1 - p)), with p between 1e-7 and 1 - 1e-7.
    """
    values = predictions.astype(np.float64)
    for target, columns in zip(model.task.targets, model.task.columns(), strict=True):
        if target.kind != "regression":
            chance = np.clip(values[..., columns], _TINY, 1 - _TINY)
            values[..., columns] = np.log(chance / (1 - chance))
    return values


_READABLE = FAST._replace(attention=PLAIN.attention, dropout=PLAIN.dropout)


class TokenAttention:
    """Computes the mean attention weight of the graph token over all heads and layers.

    The fast attention does not keep its weights, so this builds the network with the plain one.

    Args:
        network: the network; it is not changed.
    """

    def __init__(self, network: Graphormer) -> None:
        self._network = empty_network(network.config, _READABLE)
        self._network.load_state_dict(network.state_dict())
        self._network.to(network.embedding.graph_token.device).eval()

    @torch.no_grad()
    def __call__(self, batch: GraphBatch) -> Tensor:  # (B, S)
        """Return the weights of a batch in a single group, whose rows sum to 1.

        Slot 0 is the graph token, the atoms follow, and padding has weight 0.
        """
        sites = [cast(GraphormerLayer, each).attention.dropout for each in self._network.layers]
        # weights (H, graphs, Q, S)
        means = observed(self._network, batch, sites, lambda weights: weights[:, :, 0].mean(0))
        return torch.stack(means).mean(0)[batch.order]

"""Pre-training by the prediction of masked atoms and bonds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.paths import UNREACHABLE
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.objectives.pretext import Pretext

__all__ = ["Masked", "mask_atoms", "mask_bonds"]

_IGNORED = -100  # the target that `cross_entropy` leaves out


class Masked(Pretext):
    r"""The cross-entropy of the features of masked atoms and bonds, in a forward pass of its own.

    The input embedding of a masked atom, degree and walks included, is replaced by a learned
    vector. The path code of a masked bond becomes `UNREACHABLE`, so message passing and random
    walks do not use the bond. Linear heads predict the features of an atom from its vector, and
    those of a bond from the sum of the vectors of its two atoms:

    .. math::

        \frac1{|\mathcal A|} \sum_{i \in \mathcal A} \frac1A \sum_a
            \mathrm{CE}\bigl(W_a h_i, x_{ia}\bigr)
        + \frac1{|\mathcal B|} \sum_{ij \in \mathcal B} \frac1F \sum_f
            \mathrm{CE}\bigl(V_f (h_i + h_j), e_{ijf}\bigr)

    with the masked atoms and bonds of the batch, A features per atom and F per bond.

    The codes of longer paths over a masked bond are unchanged. With a `max_path_length` above 1
    they contain the bond's label, so the network can infer a bond from the paths over it; a
    distance of two atoms that passes over the bond stays the same, too.

    Source: Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020, arXiv
    1905.12265, section 3.1.2 (attribute masking). What differs: bonds are masked independently of
    atoms, and all features of an atom are predicted.

    Raises:
        ConfigError: the network has one layer and reads out the graph token, so the vectors of
            atoms do not depend on other atoms; it encodes resistances, which need all bonds; or
            its largest distance is 1, so that all pairs of a fragment have the code of a bond.
    """

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        config = network.config
        if config.layers == 1 and config.last_layer_is_token_only:
            raise ConfigError(
                "objective.masked needs vectors of atoms that attention has computed, and the only "
                "layer of this network computes the graph token: set model.layers to 2 or more, "
                "or model.readout to token+mean"
            )
        if config.resistance_kernels:
            raise ConfigError(
                "objective.masked removes bonds, and the resistances of model.resistance_kernels "
                "cannot be computed without them: set one of the two to 0"
            )
        if config.max_distance == 1:
            raise ConfigError(
                "objective.masked predicts bonds, and model.max_distance: 1 makes all atoms of a "
                "fragment neighbours: use 2 or more"
            )
        self.share = settings.mask_share
        self.atom_sizes, self.bond_sizes = config.atom_sizes, config.bond_sizes
        self.vector = nn.Parameter(0.02 * torch.randn(config.width))
        self.atom_head = nn.Linear(config.width, sum(config.atom_sizes))
        self.bond_head = nn.Linear(config.width, sum(config.bond_sizes))

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        atoms = mask_atoms(batch, self.share)
        bonds, altered = mask_bonds(batch, self.share)
        _, x = network.embed_with_atoms(
            altered, lambda x: torch.where(atoms[:, None], self.vector.to(x.dtype), x)
        )
        # the head is linear, so it is applied to each atom and the results are added
        halves = F.linear(x, self.bond_head.weight, self.bond_head.bias / 2).float()  # (M, Σ sizes)
        parts = halves.split([group.graphs * group.slots for group in batch.groups])
        halves_of = [
            part.view(group.graphs, group.slots, -1)
            for part, group in zip(parts, batch.groups, strict=True)
        ]
        of_pairs = [(each[:, :, None] + each[:, None, :]).flatten(0, 2) for each in halves_of]
        labels = batch.paths.first_bonds.index_select(0, batch.pairs)
        features = _features_of(labels, self.bond_sizes)
        return _cross_entropy(
            self.atom_head(x).float(), batch.atoms, self.atom_sizes, atoms
        ) + _cross_entropy(torch.cat(of_pairs), features, self.bond_sizes, bonds)


def mask_atoms(batch: GraphBatch, share: float) -> Tensor:  # bool (M,)
    """Return true for a random share of the atoms, and for at least one."""
    draws = torch.rand(len(batch.mask), device=batch.mask.device).masked_fill_(~batch.mask, 2.0)
    return (draws <= draws.min().clamp(min=share)) & batch.mask


def mask_bonds(batch: GraphBatch, share: float) -> tuple[Tensor, GraphBatch]:
    """Return true for a random share of the bonds, bool (P,), and the batch without them.

    A bond is chosen at the pair (i, j) with i < j, and removed at both of its pairs.
    """
    bonded = batch.paths.distances.index_select(0, batch.pairs) == 1
    drawn = bonded & (torch.rand(len(bonded), device=bonded.device) < share)
    chosen = [part.triu(1) for part in batch.by_group(drawn)]
    removed = torch.cat([(part | part.mT).flatten() for part in chosen])
    pairs = batch.pairs.masked_fill(removed, UNREACHABLE)
    return torch.cat([part.flatten() for part in chosen]), replace(batch, pairs=pairs)


def _features_of(labels: Tensor, sizes: Sequence[int]) -> Tensor:  # (n, F)
    """Split bond labels (n,) into the features that `bond_labels` combines."""
    features = []
    for size in sizes:
        features.append(labels % size)
        labels = labels // size
    return torch.stack(features, dim=1)


def _cross_entropy(
    logits: Tensor,  # (n, Σ sizes)
    features: Tensor,  # (n, F)
    sizes: Sequence[int],
    chosen: Tensor,  # bool (n,)
) -> Tensor:  # ()
    """Return the mean cross-entropy of the features of the chosen rows; 0 if there are none.

    It is computed for all rows, since a selection would wait for the device.
    """
    targets = features.masked_fill(~chosen[:, None], _IGNORED)
    parts = zip(logits.split([*sizes], dim=1), targets.unbind(1), strict=True)
    sums = [F.cross_entropy(part, target, reduction="sum") for part, target in parts]
    return torch.stack(sums).mean() / chosen.sum().clamp(min=1)

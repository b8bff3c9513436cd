"""Pre-training by contrastive learning of molecule embeddings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.sepnorm.kernels import at_least_float32
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.objectives.pretext import Pretext

__all__ = ["Contrastive", "info_nce"]


class Contrastive(Pretext):
    """The contrastive loss of two embeddings per molecule, computed with two dropout masks.

    Each view is a forward pass of its own, so that a batch norm in training sees one view at a time
    and its statistics do not reveal the pairs; running statistics are updated twice per step. The
    first view is the pass that all losses share. In evaluation both views are computed anew, with
    dropout, and batch norms keep their statistics. With several processes, negatives come from the
    process's own molecules.

    Source: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings", EMNLP 2021,
    arXiv 2104.08821, section 3. What differs: there both views are in one batch, which is the same
    without a batch norm.

    Raises:
        ConfigError: the network has no dropout, so both views would be equal.
    """

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        if not draws_at_random(network):
            raise ConfigError(
                "contrastive learning needs a network with dropout, such as model.dropout: 0.1; "
                "without it both views of a molecule are the same"
            )
        self.temperature = settings.temperature

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        if self.training:
            return info_nce(read, network.embed(batch), self.temperature)
        with dropout_alone(network):
            return info_nce(network.embed(batch), network.embed(batch), self.temperature)


def info_nce(first: Tensor, second: Tensor, temperature: float = 0.05) -> Tensor:  # ()
    r"""Return the contrastive loss, which identifies the other view of each molecule in the batch.

    .. math::

        -\frac1{2B} \sum_i \Bigl[ \log\frac{e_{ii}}{\sum_j e_{ij}}
            + \log\frac{e_{ii}}{\sum_j e_{ji}} \Bigr], \qquad e_{ij} = e^{u_i \cdot v_j / \tau}

    with u and v the views (B, d), scaled to length one, in float32 or more. If all views are equal,
    the loss is log B. It is 0 for a single molecule, which has no negatives.

    Source: van den Oord et al., "Representation Learning with Contrastive Predictive Coding",
    arXiv 1807.03748, eq. 4; the cosine and the temperature τ of SimCSE, arXiv 2104.08821, eq. 1.
    What differs: the loss is symmetric in the two views, as in Radford et al., ICML 2021,
    arXiv 2103.00020.

    >>> alike = torch.ones(4, 3)
    >>> info_nce(alike, alike).exp()
    tensor(4.)

    Args:
        first: (B, d), one view of each molecule.
        second: (B, d), the other views in the same order.
        temperature: τ, above 0.
    """
    with torch.autocast(first.device.type, enabled=False):
        u, v = (F.normalize(at_least_float32(view), dim=1) for view in (first, second))
        logits = u @ v.T / temperature  # (B, B)
        partner = torch.arange(len(first), device=first.device)
        return (F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2

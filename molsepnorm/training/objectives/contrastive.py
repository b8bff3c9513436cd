"""Learning without labels: two views of each molecule, and the loss that draws them together."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.sepnorm.kernels import at_least_float32

__all__ = ["dropout_views", "info_nce"]


def dropout_views(network: Graphormer, batch: GraphBatch) -> tuple[Tensor, Tensor]:  # (B, R) each
    """Two embeddings of every molecule under two draws of dropout, the least of augmentations.

    Each view is a pass of its own, so that in training a batch norm sees one view at a time and
    cannot tell by its statistics which two belong together; running statistics take two steps.

    Source: Gao et al., "SimCSE: Simple Contrastive Learning of Sentence Embeddings", EMNLP 2021,
    arXiv 2104.08821, section 3. What differs: there both views go through in one batch, which
    without a batch norm is the same.

    Raises:
        ConfigError: the network has no dropout, or is in evaluation mode: the views would be one.
    """
    if not network.training or not draws_at_random(network):
        raise ConfigError(
            "two views by dropout need a network in training mode with some dropout, such as "
            "dropout=0.1 in a GraphormerConfig: otherwise they are the same"
        )
    return network.embed(batch), network.embed(batch)


def info_nce(first: Tensor, second: Tensor, temperature: float = 0.05) -> Tensor:  # ()
    r"""The contrastive loss: of all molecules' second views, which is the one of mine?

    .. math::

        -\frac1{2B} \sum_i \Bigl[ \log\frac{e_{ii}}{\sum_j e_{ij}}
            + \log\frac{e_{ii}}{\sum_j e_{ji}} \Bigr], \qquad e_{ij} = e^{u_i \cdot v_j / \tau}

    with u and v the views (B, d), scaled to length one, in float32 or more. Views that are all
    alike give log B.

    Source: van den Oord et al., "Representation Learning with Contrastive Predictive Coding",
    arXiv 1807.03748, eq. 4; the cosine and the temperature τ of SimCSE, arXiv 2104.08821, eq. 1.
    What differs: each view asks for the other, as in Radford et al., ICML 2021, arXiv 2103.00020.

    >>> alike = torch.ones(4, 3)
    >>> info_nce(alike, alike).exp()
    tensor(4.)

    Args:
        first: (B, d), a view of each molecule.
        second: (B, d), another, in the same order.
        temperature: τ, above 0.

    Raises:
        ConfigError: the views differ in shape, or there is one molecule, or the temperature is not
            above 0.
    """
    if first.shape != second.shape or first.dim() != 2 or len(first) < 2:
        raise ConfigError(
            "a contrastive loss takes two views (B, d) of two molecules or more; got "
            f"{tuple(first.shape)} and {tuple(second.shape)}"
        )
    if not temperature > 0:
        raise ConfigError(f"a temperature is above 0; got {temperature}")
    with torch.autocast(first.device.type, enabled=False):
        u, v = (F.normalize(at_least_float32(view), dim=1) for view in (first, second))
        logits = u @ v.T / temperature  # (B, B)
        partner = torch.arange(len(first), device=first.device)
        return (F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2

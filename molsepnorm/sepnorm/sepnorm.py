"""SepNorm: the graph token and the atom tokens are normalised by separate layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.sepnorm.batch_norm import (
    MaskedBatchNorm1d,
    at_least_float32,
    is_shared_out,
    mask_aware,
)

__all__ = ["SepNorm", "SharedNorm", "Unfused"]


class _NotFused(Tensor):
    """A tensor that torch's fused encoder layer leaves alone, as it does with every subclass."""


class Unfused:
    """A mixin that makes torch's `nn.TransformerEncoderLayer` call a norm in evaluation.

    In evaluation that layer, and `nn.TransformerEncoder` with it, computes both of its norms as
    layer norms, from their `eps`, `weight` and `bias`, and never calls them. It does so only where
    both `eps` are equal and no weight is a subclass of a tensor.
    """

    tok_norm: nn.Module

    @property
    def eps(self) -> float:
        """NaN, which equals nothing."""
        return torch.nan

    @property
    def weight(self) -> Tensor:
        """The weight of the tokens' norm, of a class that is not fused."""
        return _not_fused(self.tok_norm, "weight")

    @property
    def bias(self) -> Tensor:
        """The bias of the tokens' norm, of a class that is not fused."""
        return _not_fused(self.tok_norm, "bias")


def _not_fused(norm: nn.Module, name: str) -> Tensor:
    value = getattr(norm, name, None)
    return torch.empty(0).as_subclass(_NotFused) if value is None else value.as_subclass(_NotFused)


class SepNorm(Unfused, nn.Module):
    r"""Normalises slot 0 of a sequence, the graph token (or CLS), apart from the other slots.

    .. math:: y_0 = \mathrm{norm_{cls}}(x_0), \qquad y_i = \mathrm{norm_{tok}}(x_i) \quad (i \ge 1)

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers",
    NeurIPS 2023, arXiv 2309.12931, section 3. The constructor is the published one.

    What differs from a literal reading:

    - An `nn.BatchNorm1d` that `tok_norm` makes becomes a `MaskedBatchNorm1d`: it normalises
      channels, as the paper means, and counts real tokens only, never padding.
    - Besides (n, l, d) the packed layout (m, d) of a `GraphBatch` is read.

    It reads batches first. Where sequences are (l, n, d), as in torch's `batch_first=False`, slot 0
    would be the first sequence: use `LeadingSepNorm(…, batch_first=False)` or `convert_to_sepnorm`.

    As in PyTorch, `requires_grad_(False)` freezes weights alone. To freeze a batch norm's running
    statistics in training, call `norm.cls_norm.eval()` after each `model.train()`.

    A batch norm of the graph token wants variance between the graphs. Before the first layer the
    token is one and the same vector in each, so `Graphormer` gives its first norm another kind.

    >>> norm = SepNorm(4)
    >>> norm(torch.randn(8, 5, 4)).shape
    torch.Size([8, 5, 4])
    """

    def __init__(
        self,
        hidden_size: int,
        cls_norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
        tok_norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.cls_norm = cls_norm(hidden_size)
        self.tok_norm = mask_aware(tok_norm(hidden_size))

    def forward(
        self, x: Tensor, graph_token: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:  # same shape as x
        """Normalise.

        Args:
            x: (n, l, d), slot 0 of each sequence being its token; or packed, (m, d).
            graph_token: int64 (n,), the slots of the tokens; needed where x is packed.
            mask: bool, x's shape without d: where an ordinary token stands, neither the graph
                token nor padding. Only a batch norm of the tokens reads it; without a mask all
                slots but the graph token's count.

        A nested tensor of sequences is padded, normalised and nested again.

        Raises:
            ValueError: x or the mask has another shape; x is packed and `graph_token` is missing;
                or in training a batch norm of the graph token gets a single graph.
        """
        if x.is_nested:
            return self._nested(x)
        _check_shapes(x, mask, self.hidden_size)
        if x.dim() == 3:
            num_graphs, num_slots, width = x.shape
            first = torch.arange(0, num_graphs * num_slots, num_slots, device=x.device)
            flat_mask = None if mask is None else mask.reshape(-1)
            return self.forward(x.reshape(-1, width), first, flat_mask).view_as(x)
        if graph_token is None:
            raise ValueError(
                f"SepNorm got a packed input of shape {tuple(x.shape)} and must be told where the "
                "graph tokens are: pass graph_token=, or an input of shape (n, l, d), a single "
                "sequence being (1, l, d)"
            )
        if isinstance(self.tok_norm, MaskedBatchNorm1d):
            y = self.tok_norm(x, _others(x, graph_token) if mask is None else mask)
        else:
            y = self.tok_norm(x)  # slot by slot: the tokens' rows are overwritten below
        token = self.tokens(x.index_select(0, graph_token)).to(y.dtype)
        kind = type(self.tok_norm)
        if kind in (nn.LayerNorm, nn.RMSNorm) or issubclass(kind, MaskedBatchNorm1d):
            return y.index_copy_(0, graph_token, token)  # their gradients do not read their output
        return y.index_copy(0, graph_token, token)

    def _nested(self, x: Tensor) -> Tensor:
        """Normalise sequences of several lengths, as torch's encoder makes them in evaluation."""
        sizes = [len(sequence) for sequence in x.unbind()]
        padded = x.to_padded_tensor(0.0)  # (n, l, d)
        slots = torch.arange(padded.shape[1], device=x.device)
        mask = (slots > 0) & (slots < torch.tensor(sizes, device=x.device)[:, None])
        y = self.forward(padded, mask=mask)
        rows = [row[:size] for row, size in zip(y, sizes, strict=True)]
        return torch.nested.as_nested_tensor(rows, layout=x.layout)

    def tokens(self, x: Tensor) -> Tensor:  # (n, d), at least float32
        """Normalise graph tokens, x (n, d), alone.

        Raises:
            ValueError: in training a batch norm gets a single graph, of all processes together
                where it is synchronised.
        """
        return normalize_special(self.cls_norm, x)


def normalize_special(norm: nn.Module, x: Tensor) -> Tensor:  # (n, d), at least float32
    """Normalise one special token of each of n sequences, x (n, d), in float32 or more unless the
    norm's own weights are of a lower precision.

    Raises:
        ValueError: in training a batch norm gets a single sequence, of all processes together
            where it is synchronised.
    """
    batch_norm = isinstance(norm, _BatchNorm) and not is_shared_out(norm)
    if norm.training and len(x) == 1 and batch_norm:
        raise ValueError(
            "SepNorm's batch norm of the graph token (or CLS) cannot train on a batch of one graph "
            "(or sequence): its variance over the batch is not defined. Use batches of two or "
            "more, or cls_norm=nn.LayerNorm (graph_norm='layer' in a GraphormerConfig)"
        )
    weight = getattr(norm, "weight", None)
    low = isinstance(weight, Tensor) and weight.element_size() < 4  # of a network in half precision
    return norm(x if low else at_least_float32(x))


class SharedNorm(Unfused, nn.Module):
    """One norm for all tokens, with the call of `SepNorm`: the baseline that SepNorm replaces."""

    def __init__(self, hidden_size: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.norm = mask_aware(norm(hidden_size))

    @property
    def tok_norm(self) -> nn.Module:  # type: ignore[override]
        """The norm of all tokens."""
        return self.norm

    def forward(
        self, x: Tensor, graph_token: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:  # same shape as x
        """Normalise every slot alike; arguments as in `SepNorm`, the token counting as real.

        Raises:
            ValueError: x or the mask has another shape.
        """
        if not x.is_nested:
            _check_shapes(x, mask, self.hidden_size)
        if not isinstance(self.norm, MaskedBatchNorm1d):
            return self.norm(x)
        if mask is not None and x.dim() == 3:
            mask = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], dim=1)
        elif mask is not None and graph_token is not None:
            mask = mask.index_fill(0, graph_token, True)
        return self.norm(x, mask)

    def tokens(self, x: Tensor) -> Tensor:  # (n, d)
        """Normalise graph tokens, x (n, d), alone; a batch norm counts all tokens and cannot."""
        return self.norm(x)


def _others(x: Tensor, graph_token: Tensor) -> Tensor:
    mask = torch.ones(len(x), dtype=torch.bool, device=x.device)
    return mask.index_fill_(0, graph_token, False)


def _check_shapes(x: Tensor, mask: Tensor | None, width: int) -> None:
    """That x is (n, l, d) or (m, d), with d as given, and the mask (n, l) or (m,).

    Raises:
        ValueError: it is not.
    """
    if x.dim() not in (2, 3) or x.shape[-1] != width or (x.dim() == 3 and not x.shape[1]):
        raise ValueError(
            "the norm expects (sequences, slots, channels), with a slot or more, or packed (slots, "
            f"channels), and was made for {width} channels; got {tuple(x.shape)}"
        )
    if mask is not None and mask.shape != x.shape[:-1]:
        raise ValueError(
            f"the mask must have the shape {tuple(x.shape[:-1])} for an input of shape "
            f"{tuple(x.shape)}; got {tuple(mask.shape)}"
        )

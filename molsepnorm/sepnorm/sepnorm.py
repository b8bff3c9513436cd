"""SepNorm: separate normalisation layers for the graph token and the other tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import (
    MaskedBatchNorm1d,
    contains_batch_norm,
    counts_rows,
    is_synchronized,
    mask_aware,
    normalize_real,
)
from molsepnorm.sepnorm.kernels import at_least_float32

for name in ("at_least_float32", "_check_several"):
    fx.wrap(name)  # torch.fx calls it without tracing it


class _NotFused(Tensor):
    """A tensor that torch's fused encoder layer does not accept."""


class DropIn(nn.Module):
    """A norm of token sequences that replaces another norm.

    In evaluation `nn.TransformerEncoderLayer` and `nn.TransformerEncoder` do not call their norms,
    but compute layer norms from the attributes `eps`, `weight` and `bias`. They do so only if the
    `eps` of both norms are equal and no weight is a subclass of a tensor.
    """

    tok_norm: nn.Module
    eps = torch.nan  # not equal to anything
    published_names: ClassVar = {"cls_norm_layer": "cls_norm", "tok_norm_layer": "tok_norm"}

    @property
    def weight(self) -> Tensor:
        return self._not_fused("weight")

    @property
    def bias(self) -> Tensor:
        return self._not_fused("bias")

    def _not_fused(self, name: str) -> Tensor:
        value = getattr(self.tok_norm, name, None)
        return (torch.empty(0) if value is None else value).as_subclass(_NotFused)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add a child, as `nn.SyncBatchNorm.convert_sync_batchnorm` does to replace norms. The
        successor of a norm that reads a mask reads it too."""
        if module is not None and isinstance(self._modules.get(name), MaskedBatchNorm1d):
            module = mask_aware(module)
        super().add_module(name, module)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        for old, new in self.published_names.items():
            for key in [key for key in state_dict if key.startswith(f"{prefix}{old}.")]:
                rest = key.removeprefix(f"{prefix}{old}")
                state_dict[f"{prefix}{new}{rest}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class SepNorm(DropIn):
    r"""Normalise slot 0 of a sequence, the graph token (or CLS), apart from the other slots.

    .. math:: y_0 = \mathrm{norm_{cls}}(x_0), \qquad y_i = \mathrm{norm_{tok}}(x_i) \quad (i \ge 1)

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers",
    NeurIPS 2023, arXiv 2309.12931, section 3. The constructor is the published one.

    Differences: a batch norm of torch for the other tokens becomes a `MaskedBatchNorm1d`, which
    normalises channels, as the paper means, and does not count padding. Besides (n, l, d) the
    packed layout (m, d) of a `GraphBatch` is accepted if `tok_norm` normalises each row; otherwise
    `tok_norm` gets (n, l − 1, d), as published.

    A state dict of the published module (`cls_norm_layer.…`, `tok_norm_layer.…`) can be loaded. For
    sequences (l, n, d), as with torch's `batch_first=False`, use
    `MultiTokenSepNorm(…, batch_first=False)` or `convert_to_sepnorm`.

    >>> norm = SepNorm(4)
    >>> norm(torch.randn(8, 5, 4)).shape
    torch.Size([8, 5, 4])

    Args:
        hidden_size: number of channels, d.
        cls_norm: makes the norm of the graph token from the number of channels.
        tok_norm: makes the norm of the other tokens.
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
            x: (n, l, d) with the token of each sequence at slot 0; or packed, (m, d). A nested
                tensor of sequences is normalised as a packed input.
            graph_token: int64 (n,), the slots of the tokens; required if x is packed.
            mask: bool, x's shape without d: true at ordinary tokens, false at padding. It is read
                by a batch norm of the ordinary tokens, which never counts the graph token. Without
                a mask there is no padding.

        Raises:
            ValueError: x or the mask has another shape; x is packed and `graph_token` is missing;
                or a batch norm of the graph token is trained on a single graph.
            ConfigError: x is packed and `tok_norm` does not normalise each row; `tok_norm` contains
                a batch norm that cannot read the mask; or torch.fx traces a batch norm of tokens.
        """
        if isinstance(x, fx.Proxy):
            if contains_batch_norm(self.tok_norm):
                raise ConfigError(
                    "torch.fx cannot trace a batch norm of tokens that reads a mask: make SepNorm "
                    "a leaf module (is_leaf_module of a torch.fx.Tracer), or use a layer norm"
                )
            return self._sequences(x, None)
        if x.is_nested:
            return self._nested(x)
        _check_shapes(x, mask, self.hidden_size)
        if x.dim() == 3:
            return self._sequences(x, mask)
        if graph_token is None:
            raise ValueError(
                f"SepNorm got a packed input of shape {tuple(x.shape)} without the slots of the "
                "graph tokens: pass graph_token=, or an input of shape (n, l, d), a single "
                "sequence being (1, l, d)"
            )
        _check_packable(self.tok_norm)
        if counts_rows(self.tok_norm):
            mask = torch.ones(len(x), dtype=torch.bool, device=x.device) if mask is None else mask
            y = normalize_real(self.tok_norm, x, mask.index_fill(0, graph_token, False))
        else:
            y = self.tok_norm(x)  # the rows of graph tokens are replaced below
        token = self.tokens(x.index_select(0, graph_token)).to(y.dtype)
        if type(self.tok_norm) in (nn.LayerNorm, nn.RMSNorm, MaskedBatchNorm1d):
            return y.index_copy_(0, graph_token, token)  # their gradients do not read their output
        return y.index_copy(0, graph_token, token)

    def tokens(self, x: Tensor) -> Tensor:  # (n, d), at least float32
        """Normalise graph tokens, x (n, d). A batch norm cannot train on a single graph."""
        return normalize_special(self.cls_norm, x)

    def _sequences(self, x: Tensor, mask: Tensor | None) -> Tensor:  # (n, l, d)
        token = self.tokens(x[:, 0]).unsqueeze(1)
        y = normalize_real(self.tok_norm, x[:, 1:], None if mask is None else mask[:, 1:])
        return torch.cat([token.to(y.dtype), y], dim=1)

    def _nested(self, x: Tensor) -> Tensor:
        """Normalise sequences of different lengths, as torch's encoder makes them in evaluation."""
        sequences = x.unbind()
        sizes = torch.tensor([len(sequence) for sequence in sequences], device=x.device)
        starts = (sizes.cumsum(0) - sizes)[sizes > 0]
        rows = self.forward(torch.cat(sequences), starts).split(sizes.tolist())
        return torch.nested.as_nested_tensor(list(rows), layout=x.layout)


class SharedNorm(DropIn):
    """One norm for all tokens, with the call of `SepNorm`: the baseline that SepNorm replaces."""

    def __init__(self, hidden_size: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.norm = mask_aware(norm(hidden_size))

    @property
    def tok_norm(self) -> nn.Module:  # type: ignore[override]
        return self.norm

    def forward(
        self, x: Tensor, graph_token: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:  # same shape as x
        """Normalise all slots alike. Arguments and errors are those of `SepNorm`; a batch norm also
        counts the graph token."""
        if not x.is_nested:
            _check_shapes(x, mask, self.hidden_size)
        if x.dim() == 2:
            _check_packable(self.norm)
        if mask is not None and x.dim() == 3:
            mask = torch.cat([torch.ones_like(mask[:, :1]), mask[:, 1:]], dim=1)
        elif mask is not None and graph_token is not None:
            mask = mask.index_fill(0, graph_token, True)
        return normalize_real(self.norm, x, mask)


def normalize_special(norm: nn.Module, x: Tensor) -> Tensor:  # (n, d), at least float32
    """Normalise one special token of each of n sequences, in float32 or more unless the weights of
    the norm have a lower precision. A batch norm cannot train on a single sequence."""
    if norm.training and isinstance(norm, _BatchNorm) and not is_synchronized(norm):
        _check_several(x)
    weight = getattr(norm, "weight", None)
    is_low = isinstance(weight, Tensor) and weight.element_size() < 4  # a half-precision network
    return norm(x if is_low else at_least_float32(x))


def _check_several(x: Tensor) -> None:
    if len(x) == 1:
        raise ValueError(
            "SepNorm's batch norm of the graph token (or CLS) cannot train on a batch of one graph "
            "(or sequence): its variance over the batch is not defined. Use batches of two or "
            "more, or cls_norm=nn.LayerNorm (norm='sep-ln' in a GraphormerConfig)"
        )


def _check_packable(norm: nn.Module) -> None:
    row_norms = (nn.LayerNorm, nn.RMSNorm, nn.Identity, _BatchNorm)
    if not any(isinstance(module, row_norms) for module in norm.modules()):
        raise ConfigError(
            f"the norm of the tokens, a {type(norm).__name__}, expects sequences and got packed "
            "rows (m, d) of all sequences: pass an input of shape (n, l, d) (enable_nested_tensor="
            "False in an nn.TransformerEncoder), or use nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d, "
            "nn.Identity or a subclass"
        )


def _check_shapes(x: Tensor, mask: Tensor | None, width: int) -> None:
    if x.dim() not in (2, 3) or x.shape[-1] != width or (x.dim() == 3 and not x.shape[1]):
        raise ValueError(
            "the norm expects (sequences, slots, channels) with at least one slot, or packed "
            f"(slots, channels), and was made for {width} channels; got {tuple(x.shape)}"
        )
    if mask is not None and mask.shape != x.shape[:-1]:
        raise ValueError(
            f"the mask must have the shape {tuple(x.shape[:-1])} for an input of shape "
            f"{tuple(x.shape)}; got {tuple(mask.shape)}"
        )

"""SepNorm for several special tokens and both layouts, against torch's norms slot by slot."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.sepnorm import MaskedBatchNorm1d, MultiTokenSepNorm, SepNorm
from molsepnorm.sepnorm.multi_token import Padding

SEQUENCES, SLOTS, WIDTH = 6, 7, 4


def some_input(seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """(B, S, C): each slot with another mean and spread."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SEQUENCES, SLOTS, WIDTH, generator=generator, dtype=dtype)
    place = torch.arange(SLOTS, dtype=dtype)[:, None]
    return (1 + place) * x + 3 * place


def some_mask(special: int) -> Tensor:
    """(B, S): where no padding stands; every sequence has its special tokens and one more."""
    lengths = special + 1 + torch.arange(SEQUENCES) % (SLOTS - special)
    return torch.arange(SLOTS) < lengths[:, None]


def perturbed(norm: MultiTokenSepNorm) -> MultiTokenSepNorm:
    """With affine parameters that tell norms and channels apart."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return norm


@pytest.mark.parametrize("tok_norm", [nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm])
def test_one_special_token_is_sepnorm(tok_norm: type[nn.Module]) -> None:
    """Outputs, gradients and running statistics are equal, with padding."""
    ours = perturbed(MultiTokenSepNorm(WIDTH, tok_norm=tok_norm))
    theirs = SepNorm(WIDTH, tok_norm=tok_norm)
    theirs.cls_norm = copy.deepcopy(ours.cls_norms[0])
    theirs.tok_norm = copy.deepcopy(ours.tok_norm)
    mask = some_mask(1)
    others = mask.clone()
    others[:, 0] = False
    x, x_theirs = (some_input().requires_grad_() for _ in range(2))
    y, y_theirs = ours(x, mask), theirs(x_theirs, mask=others)
    torch.testing.assert_close(y, y_theirs)
    weight = torch.randn(y.shape)
    for output in (y, y_theirs):
        (output * weight).sum().backward()
    torch.testing.assert_close(x.grad, x_theirs.grad)
    for one, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("special", [1, 2, 3])
@pytest.mark.parametrize("batch_first", [True, False])
def test_each_special_token_has_a_norm_of_its_own(special: int, batch_first: bool) -> None:
    """Compared slot by slot with torch's functions."""
    norm = perturbed(MultiTokenSepNorm(WIDTH, special_tokens=special, batch_first=batch_first))
    x = some_input()
    y = norm(x) if batch_first else norm(x.transpose(0, 1)).transpose(0, 1)
    assert len({id(each) for each in norm.cls_norms}) == special
    for slot in range(SLOTS):
        if slot < special:
            own = norm.cls_norms[slot]
            expected = nn.functional.batch_norm(
                x[:, slot], None, None, own.weight, own.bias, training=True
            )
            torch.testing.assert_close(own.running_mean, 0.1 * x[:, slot].mean(0))
        else:
            expected = nn.functional.layer_norm(
                x[:, slot], (WIDTH,), norm.tok_norm.weight, norm.tok_norm.bias
            )
        torch.testing.assert_close(y[:, slot], expected)


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_batch_norm_of_tokens_counts_neither_padding_nor_special_tokens(
    batch_first: bool,
) -> None:
    """Its statistics are those of all other rows."""
    norm = MultiTokenSepNorm(
        WIDTH, tok_norm=nn.BatchNorm1d, special_tokens=2, batch_first=batch_first
    )
    assert type(norm.tok_norm) is MaskedBatchNorm1d
    x, mask = some_input(), some_mask(2)
    rows = torch.stack(
        [x[b, s] for b in range(SEQUENCES) for s in range(2, SLOTS) if mask[b, s]]
    ).double()
    for rubbish in (0.0, 1e4):
        one = copy.deepcopy(norm)
        given = torch.where(mask[..., None], x, rubbish)
        y = one(given, mask) if batch_first else one(given.transpose(0, 1), mask).transpose(0, 1)
        torch.testing.assert_close(one.tok_norm.running_mean, (0.1 * rows.mean(0)).float())
        torch.testing.assert_close(one.tok_norm.running_var, (0.9 + 0.1 * rows.var(0)).float())
        mean, deviation = rows.mean(0), (rows.var(0, correction=0) + 1e-5).sqrt()
        others = mask.clone()
        others[:, :2] = False
        torch.testing.assert_close(y[others], ((rows - mean) / deviation).float())


@pytest.mark.parametrize("batch_first", [True, False])
def test_one_sequence_without_a_batch(batch_first: bool) -> None:
    """The output for (S, C) equals that for a batch of one."""
    norm = MultiTokenSepNorm(WIDTH, tok_norm=nn.BatchNorm1d, batch_first=batch_first)
    norm.tok_norm.running_mean.fill_(2.0)
    norm.eval()
    x = some_input()[0]
    one = norm(x[None] if batch_first else x[:, None])
    torch.testing.assert_close(norm(x), one[0] if batch_first else one[:, 0], rtol=0, atol=0)
    norm.tok_norm.train()
    mask = torch.arange(SLOTS) < 5
    norm(x, mask)
    torch.testing.assert_close(norm.tok_norm.running_mean, 1.8 + 0.1 * x[1:5].mean(0))


def test_compiled_equals_eager() -> None:
    """torch.compile makes a single graph, also with the mask of the context."""
    eager = perturbed(MultiTokenSepNorm(WIDTH, tok_norm=nn.BatchNorm1d, special_tokens=2))
    inner = copy.deepcopy(eager)
    eager.padding.real = inner.padding.real = some_mask(2)
    compiled = torch.compile(inner, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(some_input()), eager(some_input()))
    torch.testing.assert_close(inner.tok_norm.running_mean, eager.tok_norm.running_mean)


# --- the hook that reads masks ------------------------------------------------------------------


class Reader(nn.Module):
    def forward(self, x: Tensor, attention_mask: Tensor | None = None, **others: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("positional", "named", "expected"),
    [
        ([torch.tensor([[1, 1, 0]])], {}, [[True, True, False]]),
        ([], {"attention_mask": torch.tensor([[0.0, 2.0, 1.0]])}, [[False, True, True]]),
        ([], {"src_key_padding_mask": torch.tensor([[False, True]])}, [[True, False]]),
        ([], {"src_key_padding_mask": torch.tensor([0.0, -torch.inf])}, [True, False]),
        ([], {"src_key_padding_mask": torch.tensor([0.0, -1e9, -5.0])}, [True, False, True]),
        ([], {"src_key_padding_mask": torch.tensor([0.0, -1e4]).half()}, [True, False]),
        ([], {"src_key_padding_mask": torch.tensor([1.0, -1e4]).bfloat16()}, [True, False]),
        ([], {"src_key_padding_mask": torch.tensor([0.0, -3.5e38]).bfloat16()}, [True, False]),
        ([None], {}, None),
        ([], {}, None),
    ],
)
def test_masks_are_found_by_name_and_by_position(
    positional: list, named: dict, expected: list | None
) -> None:
    """The mask of the last call is forgotten."""
    module, padding = Reader(), Padding()
    padding.follow(module)
    padding.real = torch.ones(1, 1)
    module(torch.zeros(1), *positional, **named)
    assert (None if padding.real is None else padding.real.tolist()) == expected
    assert copy.deepcopy(padding).real is None


def test_masks_without_the_padding_are_refused() -> None:
    """Such as a mask over pairs of slots. They are refused only if the mask is needed."""
    module, norm = Reader(), MultiTokenSepNorm(4, tok_norm=nn.BatchNorm1d)
    norm.padding.follow(module)
    x = torch.randn(2, 3, 4)
    for name, mask, told in (
        ("attention_mask", torch.ones(1, 1, 3, 3), r"shape \(1, 1, 3, 3\)"),
        ("attention_mask", {}, "dict"),
        ("attention_mask", torch.tensor([[0.0, 0.0, -1e4]] * 2), r"shape \(2, 3\)"),
        ("src_key_padding_mask", torch.zeros(1, 2, 3), r"shape \(1, 2, 3\)"),
    ):
        module(torch.zeros(1), **{name: mask})
        with pytest.raises(ValueError, match=f"{name} must be .*; got {told}"):
            norm.train()(x)
        assert norm.eval()(x).shape == x.shape
        assert norm.train()(x, torch.ones(2, 3).bool()).shape == x.shape
    module(torch.zeros(1))
    assert norm.train()(x).shape == x.shape

"""SepNorm as a norm of torch's own encoder: evaluation as in training, fused or not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.sepnorm import MultiTokenSepNorm, SepNorm, SharedNorm

WIDTH = 16
NORMS: dict[str, Callable[[], nn.Module]] = {
    "sep": lambda: SepNorm(WIDTH),
    "layers": lambda: SepNorm(WIDTH, nn.LayerNorm),
    "batch": lambda: SepNorm(WIDTH, tok_norm=nn.BatchNorm1d),
    "none": lambda: SepNorm(WIDTH, nn.Identity, nn.Identity),
    "shared": lambda: SharedNorm(WIDTH),
    "multi-token": lambda: MultiTokenSepNorm(WIDTH),
}
MODES: dict[str, Callable[[], AbstractContextManager]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


def layer_of(norm_first: bool, batch_first: bool = True) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        WIDTH, 4, 24, dropout=0.1, norm_first=norm_first, batch_first=batch_first
    )


def trained(model: nn.Module) -> nn.Module:
    """The model after a few steps, with changed weights and running statistics."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(6, 7, WIDTH)).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model.eval()


def unfused(model: nn.Module, *args: Tensor, **kwargs: Tensor) -> Tensor:
    """Run the encoder without its fused path."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("places", [("norm1",), ("norm2",), ("norm1", "norm2")])
@pytest.mark.parametrize("norm", NORMS)
def test_a_layer_evaluates_as_its_norms_do(norm, places, norm_first, mode):
    torch.manual_seed(0)
    layer = layer_of(norm_first)
    for place in places:
        setattr(layer, place, NORMS[norm]())
    trained(layer)
    x = torch.randn(5, 7, WIDTH)
    padding = torch.arange(7) >= torch.tensor([7, 3, 5, 1, 6])[:, None]
    assert torch.backends.mha.get_fastpath_enabled()
    with MODES[mode]():
        for masks in ({}, {"src_key_padding_mask": padding}):
            torch.testing.assert_close(layer(x, **masks), unfused(layer, x, **masks))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which", ["before", "first", "last", "all"])
@pytest.mark.parametrize("norm", NORMS)
def test_an_encoder_evaluates_as_its_norms_do(norm, which, mode):
    """Put into the layer before the encoder is made, or into layers of an existing encoder."""
    torch.manual_seed(0)
    layer = layer_of(norm_first=False)
    if which == "before":
        layer.norm1 = NORMS[norm]()
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH))
    for place in {"first": [0], "last": [1], "all": [0, 1]}.get(which, []):
        encoder.layers[place].norm2 = NORMS[norm]()
    if which == "last" and norm == "multi-token":
        pytest.skip("refuses nested tensors; convert_to_sepnorm turns them off")
    trained(encoder)
    x = torch.randn(5, 7, WIDTH)
    padding = torch.arange(7) >= torch.tensor([7, 3, 5, 1, 6])[:, None]
    with MODES[mode]():
        torch.testing.assert_close(encoder(x), unfused(encoder, x))
        fused = encoder(x, src_key_padding_mask=padding)
        plain = unfused(encoder, x, src_key_padding_mask=padding)
        torch.testing.assert_close(fused[~padding], plain[~padding])


def test_the_layer_is_fused_without_the_mixin():
    """With two layer norms the norms are never called, so the tests above test something."""
    layer, called = layer_of(norm_first=False).eval(), []
    layer.norm1.forward = lambda x: called.append(1) or x
    with torch.no_grad():
        layer(torch.randn(2, 3, WIDTH))
        assert not called
        layer.norm2 = SepNorm(WIDTH).eval()
        layer(torch.randn(2, 3, WIDTH))
    assert called


def test_nested_sequences_are_normalised_as_padded_ones():
    norm = trained(SepNorm(WIDTH, tok_norm=nn.BatchNorm1d))
    rows = [torch.randn(length, WIDTH) for length in (4, 2, 3)]
    for mode in (False, True):
        both = [copy.deepcopy(norm).train(mode) for _ in range(2)]
        nested = both[0](torch.nested.nested_tensor(rows))
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
        mask[:, 0] = False
        expected = both[1](padded, mask=mask)
        for got, wanted, row in zip(nested.unbind(), expected, rows, strict=True):
            torch.testing.assert_close(got, wanted[: len(row)])


@pytest.mark.parametrize("make", [SepNorm, SharedNorm])
@pytest.mark.parametrize(
    "shape", [(2, 3, 5, WIDTH), (WIDTH,), (2, 3, WIDTH + 1), (2, WIDTH, 3), (2, 0, WIDTH)]
)
def test_other_shapes_are_refused(make, shape):
    with pytest.raises(
        ValueError, match=r"expects \(sequences, slots, channels\).* 16 channels; g"
    ):
        make(WIDTH)(torch.randn(shape))


def moved(model: nn.Module, x: Tensor) -> set[str]:
    """The parts of the state that a forward pass in training changes."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(x)
    return {name for name, value in model.state_dict().items() if not value.equal(before[name])}


@pytest.mark.parametrize("norm", ["sep", "batch", "multi-token"])
def test_eval_on_a_norm_freezes_its_statistics_in_training(norm):
    """Freezing the weights does not. A single sequence is accepted then."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), NORMS[norm]())
    x = torch.randn(6, 7, WIDTH)
    model.requires_grad_(False).train()
    assert any("running_mean" in name for name in moved(model, x))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()
    assert not moved(model, x)
    assert model(x[:1]).shape == (1, 7, WIDTH)
    model.train()
    assert any("running_mean" in name for name in moved(model, x))

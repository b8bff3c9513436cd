"""Conversion by rules, torch's fused path, and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.nn import MultiTokenSepNorm, convert_to_sepnorm

WIDTH, BATCH, SLOTS = 8, 5, 4


class Block(nn.Module):
    """A transformer layer of an unknown class."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-3)
        self.mix = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.mix(y, y, y)[0]
        return x + self.linear(self.norm2(x))


class Network(nn.Module):
    """A network of unknown layers, with norms that do not act on token sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())
        self.pooled = nn.BatchNorm1d(WIDTH)
        self.plane = nn.LayerNorm((SLOTS, WIDTH))

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.layers(x)


def names(model: nn.Module) -> list[str]:
    """The names of the modules that were replaced."""
    return [name for name, module in model.named_modules() if isinstance(module, MultiTokenSepNorm)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("layers.*.norm?", ["0.norm1", "0.norm2", "1.norm1", "1.norm2"]),
        ("*norm2", ["0.norm2", "1.norm2"]),
        (["layers.1.norm1", "layers.0.norm2"], ["0.norm2", "1.norm1"]),
        (lambda name, module: isinstance(module, nn.RMSNorm), ["0.norm2", "1.norm2"]),
    ],
)
def test_exactly_the_modules_that_where_selects_are_replaced(
    where: object, expected: list[str]
) -> None:
    """Rules are patterns or functions; the first site gets another kind of norm."""
    model = Network()
    conversion = convert_to_sepnorm(model, where=where)
    assert names(model) == [f"layers.{name}" for name in expected]
    assert [site.is_first for site in conversion.sites] == [True] + [False] * (len(expected) - 1)
    model(torch.randn(BATCH, SLOTS, WIDTH)).sum().backward()


def test_weights_and_epsilon_are_copied() -> None:
    """An ε that the factory sets is kept."""
    model = Network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(1, 2)
    old = copy.deepcopy(model.layers[0])
    norms = {"cls_norm": nn.RMSNorm, "tok_norm": nn.LayerNorm, "first_cls_norm": nn.BatchNorm1d}
    convert_to_sepnorm(model, where="layers.0.norm?", special_tokens=2, **norms)
    first, second = model.layers[0].norm1, model.layers[0].norm2
    assert [type(norm) for norm in first.cls_norms] == [nn.BatchNorm1d] * 2
    assert [type(norm) for norm in second.cls_norms] == [nn.RMSNorm] * 2
    assert (first.tok_norm.eps, second.tok_norm.eps) == (1e-6, 1e-3)
    assert second.cls_norms[1].eps == 1e-3
    for new, norm in ((first, old.norm1), (second, old.norm2)):
        for each in (*new.cls_norms, new.tok_norm):
            torch.testing.assert_close(each.weight, norm.weight, rtol=0, atol=0)
            assert each.weight is not norm.weight
    torch.testing.assert_close(first.cls_norms[0].bias, old.norm1.bias, rtol=0, atol=0)
    assert not second.tok_norm.bias.any()  # an RMS norm has none to give
    model = Network()
    convert_to_sepnorm(model, lambda width: nn.LayerNorm(width, eps=0.1), where="layers.*.norm1")
    assert model.layers[1].norm1.cls_norms[0].eps == 0.1


def test_new_norms_are_on_the_device_of_the_old_one() -> None:
    """They have its device and mode, and are at least float32."""
    model = Network().to("meta").eval()
    convert_to_sepnorm(model, where="*norm1")
    new = model.layers[1].norm1
    assert {tensor.device.type for tensor in new.state_dict().values()} == {"meta"}
    assert not any(module.training for module in new.modules())
    for dtype, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        model = Network().to(dtype)
        expected_output = model(x := torch.randn(BATCH, SLOTS, WIDTH, dtype=dtype))
        convert_to_sepnorm(model, nn.LayerNorm, where="*norm1")
        assert model.layers[1].norm1.cls_norms[0].weight.dtype is expected
        torch.testing.assert_close(model(x), expected_output)
        assert model(x).dtype is dtype


def test_the_mask_of_an_unknown_model_is_its_own_argument() -> None:
    """It is the argument attention_mask of the converted model."""
    model = Network()
    model.layers[0].norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
    convert_to_sepnorm(model, tok_norm=nn.BatchNorm1d, where="layers.0.norm1")
    x, mask = torch.randn(BATCH, SLOTS, WIDTH), torch.ones(BATCH, SLOTS)
    mask[2:, 2:] = 0
    model(x, mask)
    rows = x[:, 1:][mask[:, 1:].bool()]
    statistics = model.layers[0].norm1.tok_norm.running_mean
    torch.testing.assert_close(statistics, 0.1 * rows.mean(0))


def test_a_norm_that_several_modules_share_is_replaced_in_all() -> None:
    """It stays a single norm, and `undo` restores it everywhere."""
    model = Network()
    shared = model.layers[1].norm1 = model.layers[0].norm1
    conversion = convert_to_sepnorm(model, where="layers.0.norm1")
    assert isinstance(model.layers[0].norm1, MultiTokenSepNorm)
    assert model.layers[1].norm1 is model.layers[0].norm1
    conversion.undo()
    assert model.layers[0].norm1 is shared
    assert model.layers[1].norm1 is shared


def test_a_rule_inside_a_known_network_uses_its_defaults() -> None:
    """Layout and first norms. Outside of it the defaults are used, and arguments override both."""
    layer = nn.TransformerEncoderLayer(WIDTH, 2, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.ModuleDict({"encoder": encoder, "head": nn.LayerNorm(WIDTH)})
    conversion = convert_to_sepnorm(model, where=["encoder.layers.?.norm1", "head"])
    sites = {site.name: site for site in conversion.sites}
    assert list(sites) == ["encoder.layers.0.norm1", "encoder.layers.1.norm1", "head"]
    assert [site.is_first for site in conversion.sites] == [True, False, True]  # first outside it
    assert [site.batch_first for site in conversion.sites] == [False, False, True]
    conversion.undo()
    conversion = convert_to_sepnorm(model, batch_first=True, special_tokens=3)
    assert {site.batch_first for site in conversion.sites} == {True}
    assert {site.special_tokens for site in conversion.sites} == {3}
    assert "head" not in {site.name for site in conversion.sites}


def test_first_sites_can_be_passed() -> None:
    """Several sites or none, by names or by a function."""
    rules = [
        (None, ["0.norm1"]),
        ("layers.0.*", ["0.norm1", "0.norm2"]),
        (["*norm1"], ["0.norm1", "1.norm1"]),
        (lambda name, module: name.endswith("1.norm2"), ["1.norm2"]),
    ]
    for first, expected in rules:
        conversion = convert_to_sepnorm(Network(), where="layers.*.norm?", first=first)
        told = [site.name for site in conversion.sites if site.is_first]
        assert told == [f"layers.{name}" for name in expected]
    with pytest.raises(
        ConfigError, match=r"first='\*norm2' matches no module; the norms are: layer"
    ):
        convert_to_sepnorm(Network(), where="*norm1", first="*norm2")


def test_patterns_do_not_match_identities() -> None:
    """Identities take the place of norms that are left out."""
    model = Network()
    model.layers[0].norm2 = nn.Identity()
    convert_to_sepnorm(model, where="layers.*.norm?")
    assert names(model) == ["layers.0.norm1", "layers.1.norm1", "layers.1.norm2"]
    with pytest.raises(ConfigError, match="'layers.0.norm2' matches no module"):
        convert_to_sepnorm(Network().apply(without_norm2), where="layers.0.norm2")


def without_norm2(module: nn.Module) -> None:
    if isinstance(module, Block):
        module.norm2 = nn.Identity()


def test_a_norm_without_weights_takes_the_model_s_type() -> None:
    for change, dtype, device in (
        ({"dtype": torch.float64}, torch.float64, "cpu"),
        ({"device": "meta"}, torch.float32, "meta"),
    ):
        model = Network()
        model.layers[0].norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        model.to(**change)
        convert_to_sepnorm(model, where="layers.0.norm1")
        weight = model.layers[0].norm1.cls_norms[0].weight
        assert (weight.dtype, weight.device.type) == (dtype, device)


# --- torch's encoders ---------------------------------------------------------------------------


def encoder_layer(**options: object) -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def moved(model: nn.Module) -> nn.Module:
    """Statistics away from 0 and 1, so that what bypasses them shows."""
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 2)
    return model.eval()


def by_hand(layer: nn.Module, x: Tensor, padding: Tensor | None) -> Tensor:
    """A layer that norms first or last, its SepNorm spelt out."""

    def normalised(sepnorm: MultiTokenSepNorm, x: Tensor) -> Tensor:
        own = sepnorm.cls_norms[0]
        if isinstance(own, nn.BatchNorm1d):
            token = (x[:, 0] - own.running_mean) / (own.running_var + own.eps).sqrt()
            token = token * own.weight + own.bias
        else:
            token = own(x[:, 0])
        return torch.stack([token, *sepnorm.tok_norm(x[:, 1:]).unbind(1)], 1)

    def attention(x: Tensor) -> Tensor:
        return layer.self_attn(x, x, x, key_padding_mask=padding)[0]

    def feed_forward(x: Tensor) -> Tensor:
        return layer.linear2(layer.activation(layer.linear1(x)))

    if layer.norm_first:
        x = x + attention(normalised(layer.norm1, x))
        return x + feed_forward(normalised(layer.norm2, x))
    x = normalised(layer.norm1, x + attention(x))
    return normalised(layer.norm2, x + feed_forward(x))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_fused_path_does_not_bypass_sepnorm(
    padded: bool, norm_first: bool, activation: str, unfused: Callable[[], Any]
) -> None:
    """In evaluation without gradients an encoder would use it, with nested tensors."""
    layer = encoder_layer(norm_first=norm_first, activation=activation)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
    convert_to_sepnorm(model)
    model = moved(model)
    x = torch.randn(BATCH, SLOTS, WIDTH)
    padding = torch.arange(SLOTS) >= torch.tensor([4, 3, 2, 4, 1])[:, None] if padded else None
    real = torch.ones(BATCH, SLOTS).bool() if padding is None else ~padding
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        fast = model(x, src_key_padding_mask=padding)
        expected = x
        for layer in model.layers:
            expected = by_hand(layer, expected, padding)
        with unfused():
            slow = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(fast[real], expected[real])
    torch.testing.assert_close(fast[real], slow[real])
    with torch.inference_mode():
        torch.testing.assert_close(copy.deepcopy(model)(x, src_key_padding_mask=padding), fast)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_undo_restores_the_fused_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called before and afterwards, not in between; it stays enabled if no norm changed."""
    calls = []
    fused = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or fused(*args)
    )
    model = nn.TransformerEncoder(encoder_layer(), 2).eval()
    x, padding = torch.randn(BATCH, SLOTS, WIDTH), torch.zeros(BATCH, SLOTS).bool()
    padding[:, -1] = True

    def count() -> int:
        calls.clear()
        with torch.no_grad():
            model(x, src_key_padding_mask=padding)
        return len(calls)

    assert count() == 2
    conversion = convert_to_sepnorm(model)
    assert count() == 0
    conversion.undo()
    assert count() == 2
    convert_to_sepnorm(model, where="layers.1.norm?")
    assert count() == 1


def test_a_single_layer_and_layers_in_a_list_are_known() -> None:
    """Outside of an encoder, only the first layer of a stack has a first norm."""
    layer = encoder_layer(norm_first=True)
    [first, second] = convert_to_sepnorm(layer).sites
    assert (first.name, first.is_first, second.name, second.is_first) == (
        *("norm1", True),
        *("norm2", False),
    )
    moved(layer)
    x = torch.randn(BATCH, SLOTS, WIDTH)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), by_hand(layer, x, None))
    assert not any(site.is_first for site in convert_to_sepnorm(encoder_layer()).sites)
    stacks = nn.ModuleDict(
        {name: nn.ModuleList(encoder_layer(norm_first=True) for _ in range(3)) for name in "ab"}
    )
    conversion = convert_to_sepnorm(stacks)
    assert len(conversion.sites) == 12
    assert [site.name for site in conversion.sites if site.is_first] == ["a.0.norm1", "b.0.norm1"]
    towers = nn.ModuleList(
        nn.ModuleList(encoder_layer(norm_first=True) for _ in range(2)) for _ in range(2)
    )
    conversion = convert_to_sepnorm(towers)
    assert [site.name for site in conversion.sites if site.is_first] == ["0.0.norm1", "1.0.norm1"]


def test_only_the_encoder_of_a_torch_transformer_is_known() -> None:
    """The sequences of the decoder of `nn.Transformer` have no known special token."""
    model = nn.Transformer(WIDTH, 2, 2, 2, 12, dropout=0.0)
    before = dict(model.decoder.named_modules())
    conversion = convert_to_sepnorm(model, tok_norm=nn.BatchNorm1d)
    assert {site.name.split(".")[0] for site in conversion.sites} == {"encoder"}
    assert len(conversion.sites) == 5
    assert dict(model.decoder.named_modules()) == before
    src, padding = torch.randn(SLOTS, BATCH, WIDTH), torch.zeros(BATCH, SLOTS).bool()
    padding[1:, 2:] = True
    model(src, src[:2], src_key_padding_mask=padding, memory_key_padding_mask=padding)
    real = model.encoder.norm.padding.real
    assert real is not None
    assert torch.equal(real, ~padding)


def test_one_sequence_without_a_batch_may_have_a_float_mask() -> None:
    """(S, C) with a mask (S,) that is −∞ at padding, in evaluation."""
    for batch_first in (True, False):
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=batch_first)
        convert_to_sepnorm(layer, tok_norm=nn.BatchNorm1d)
        moved(layer)
        x = torch.randn(SLOTS, WIDTH)
        mask = torch.tensor([0.0, 0.0, 0.0, -torch.inf])
        batch = x[None] if batch_first else x[:, None]
        inside = layer(batch, src_key_padding_mask=mask[None])
        torch.testing.assert_close(
            layer(x, src_key_padding_mask=mask), inside[0] if batch_first else inside[:, 0]
        )


# --- what is refused ----------------------------------------------------------------------------


def test_models_that_cannot_be_converted_are_refused_and_unchanged() -> None:
    """Each message says what to do, and the model is unchanged."""

    def no_module(width: int) -> object:
        return torch.ones(width)

    def too_wide(width: int) -> nn.Module:
        return nn.LayerNorm(width + 1)

    def flat(width: int) -> nn.Module:
        return nn.Flatten(0)

    refused = [
        ({}, r"this Network has no known norm of token sequences; known are BertModel.*where="),
        ({"where": "layers.*.norm3"}, r"where='layers.\*.norm3' matches no module.*layers.0.norm1"),
        ({"where": ["*norm1", "*nrm2"]}, r"where='\*nrm2' matches no module"),
        ({"where": lambda name, module: False}, "a function that is true for no module"),
        ({"where": "*norm?*", "special_tokens": 0}, "at least one special token"),
        ({"where": ["*norm1", "plane"]}, "'plane' .* LayerNorm is no norm over the last"),
        ({"where": ["*norm1", "pooled"]}, "'pooled' .* BatchNorm1d is no norm over the last"),
        ({"where": "layers.0"}, "'layers.0' .* Block is no norm over the last"),
        ({"where": "*norm1", "cls_norm": no_module}, "must make a module .*; got a Tensor"),
        ({"where": "*norm1", "cls_norm": nn.BatchNorm2d}, "got a BatchNorm2d, .*expected 4D input"),
        (
            {"where": "*norm1", "tok_norm": too_wide},
            r"LayerNorm, which fails for an input \(2, 8\)",
        ),
        ({"where": "*norm1", "first_cls_norm": flat}, r"Flatten that returns \(16,\) for \(2, 8\)"),
        ({"where": "*norm1", "cls_norm": "batch"}, "cls_norm= must make a norm .* got 'batch'"),
        ({"where": "*norm1", "first_cls_norm": None}, "first_cls_norm= must make .* got None"),
        ({"where": "*norm1", "tok_norm": nn.LayerNorm(8)}, "tok_norm= must .* got LayerNorm"),
        ({"where": "*norm1", "special_tokens": "1"}, "special_tokens= must be an int .* got '1'"),
        ({"where": "*norm1", "batch_first": "no"}, "batch_first= must be True, .* got 'no'"),
        ({"where": []}, r"where= must be a name such as .*; got \[\]"),
        ({"where": 5}, "where= must be a name such as .*; got 5"),
        ({"where": nn.LayerNorm}, "where= must be a name .* got <class 'torch.nn.*LayerNorm'>"),
        ({"where": [nn.LayerNorm]}, "where= must be a name .* got .<class"),
    ]
    model = Network()
    before = dict(model.named_modules())
    for options, message in refused:
        with pytest.raises(ConfigError, match=message):
            convert_to_sepnorm(model, **options)
        assert dict(model.named_modules()) == before
    with pytest.raises(ConfigError, match="the norms are: none"):
        convert_to_sepnorm(nn.Sequential(nn.Linear(2, 2)), where="norm")
    with pytest.raises(ConfigError, match=r"only an nn\.Module can be converted; got a dict"):
        convert_to_sepnorm({})


def test_a_converted_model_is_not_converted_again() -> None:
    model = Network()
    convert_to_sepnorm(model, where="*norm1")
    with pytest.raises(ConfigError, match=r"this Network is already converted: undo\(\)"):
        convert_to_sepnorm(model, where="*norm2")
    assert names(model) == ["layers.0.norm1", "layers.1.norm1"]


def test_layers_of_unknown_layout_are_refused() -> None:
    """A layer of an unknown class inside torch's encoder: the layout must be passed."""
    model = nn.TransformerEncoder(Block(), 2, enable_nested_tensor=False)
    with pytest.raises(ConfigError, match="layout of Block inside .* is unknown: pass"):
        convert_to_sepnorm(model)
    assert len(convert_to_sepnorm(model, batch_first=True).sites) == 4


def test_layers_with_unknown_norms_are_refused() -> None:
    """They are reported, so that a conversion is never partial."""

    class Stranger(nn.TransformerEncoderLayer):
        def __init__(self) -> None:
            super().__init__(WIDTH, 2, 12, batch_first=True)
            self.norm_a, self.norm_b = self.norm1, self.norm2
            self.norm1 = self.norm2 = nn.Identity()

    model = nn.TransformerEncoder(encoder_layer(), 2, nn.LayerNorm(WIDTH))
    model.layers = nn.ModuleList([Stranger(), Stranger()])
    with pytest.raises(ConfigError, match=r"'layers.0', a Stranger, has no known norm: .*where="):
        convert_to_sepnorm(model)
    assert len(convert_to_sepnorm(model, where=["layers.*.norm_?", "norm"]).sites) == 5


def test_a_model_in_ddp_is_refused(tmp_path: Path) -> None:
    """It would not average the gradients of the new norms."""
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(Network())
        with pytest.raises(
            ConfigError, match="by DistributedDataParallel.*convert it before wrapp"
        ):
            convert_to_sepnorm(wrapped, where="*norm1")
    finally:
        torch.distributed.destroy_process_group()


def test_bert_decoders_and_chunked_feed_forward_are_refused() -> None:
    """The first token of a decoder attends only to itself, so it is no CLS. A feed-forward block
    that works in pieces would have several first tokens."""
    transformers = pytest.importorskip("transformers")
    small = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    size = {"vocab_size": 9, "hidden_size": WIDTH, **small}
    decoder = transformers.BertConfig(**size, is_decoder=True, add_cross_attention=True)
    with pytest.raises(ConfigError, match="BertModel.* but not as decoders, whose first token"):
        convert_to_sepnorm(transformers.BertModel(decoder))
    encoder = transformers.BertConfig(**size)
    both = transformers.EncoderDecoderModel(
        encoder=transformers.BertModel(encoder), decoder=transformers.BertLMHeadModel(decoder)
    )
    sites = convert_to_sepnorm(both).sites
    assert [site.name.split(".")[0] for site in sites] == ["encoder"] * 3
    pieces = transformers.BertModel(transformers.BertConfig(**size, chunk_size_feed_forward=2))
    with pytest.raises(ConfigError, match="in pieces, .*chunk_size_feed_forward = 0"):
        convert_to_sepnorm(pieces)


def test_a_nested_tensor_is_refused() -> None:
    norm = MultiTokenSepNorm(WIDTH)
    nested = torch.nested.nested_tensor([torch.randn(2, WIDTH), torch.randn(3, WIDTH)])
    with pytest.raises(ValueError, match="takes padded sequences, not a nested tensor"):
        norm(nested)


def test_norms_before_the_first_block_of_timm_are_first_sites(timm: object) -> None:
    """With `pre_norm`, two norms or more are called before a layer has mixed the tokens."""
    from timm.models import vision_transformer as vit

    size = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "depth": 2}
    for block, expected in (
        (vit.Block, ["blocks.0.norm1"]),
        (vit.ResPostBlock, []),
        (vit.ParallelScalingBlock, ["blocks.0.in_norm"]),
        (vit.ParallelThingsBlock, ["blocks.0.attns.0.norm", "blocks.0.attns.1.norm"]),
    ):
        for pre in (False, True):
            model = vit.VisionTransformer(**size, pre_norm=pre, block_fn=block)
            sites = convert_to_sepnorm(model).sites
            assert [site.name for site in sites if site.is_first] == ["norm_pre"] * pre + expected
    none = vit.VisionTransformer(**size | {"depth": 0})
    assert [site.name for site in convert_to_sepnorm(none).sites] == ["norm"]


def test_timm_without_a_class_token_is_refused(timm: object) -> None:
    """It has no special token; registers are enough."""
    from timm.models.vision_transformer import ResPostBlock, VisionTransformer

    size = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "depth": 2}
    plain = {"class_token": False, "global_pool": "avg", **size}
    with pytest.raises(ConfigError, match="VisionTransformer has no class token.*reg_tokens="):
        convert_to_sepnorm(VisionTransformer(**plain))
    conversion = convert_to_sepnorm(VisionTransformer(**plain, reg_tokens=2))
    assert [site.special_tokens for site in conversion.sites] == [2] * 4  # fc_norm is a head's
    conversion = convert_to_sepnorm(VisionTransformer(**size, block_fn=ResPostBlock))
    assert not any(site.is_first for site in conversion.sites)

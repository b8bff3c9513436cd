"""Conversion by rules, torch's fused path, and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm import MultiTokenSepNorm, convert_to_sepnorm

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
    """Rules are patterns, which do not match identities, or functions. The first site gets another
    kind of norm."""
    model = Network()
    conversion = convert_to_sepnorm(model, where=where)
    assert names(model) == [f"layers.{name}" for name in expected]
    assert [site.is_first for site in conversion.sites] == [True] + [False] * (len(expected) - 1)
    model(torch.randn(BATCH, SLOTS, WIDTH)).sum().backward()
    model = Network()
    model.layers[0].norm1 = nn.Identity()
    convert_to_sepnorm(model, where="*.norm?")
    assert names(model) == ["layers.0.norm2", "layers.1.norm1", "layers.1.norm2"]


def test_weights_and_epsilon_are_copied() -> None:
    """An ε that the function sets is kept."""
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
    assert (first.tok_norm.eps, second.tok_norm.eps, second.cls_norms[1].eps) == (1e-6, 1e-3, 1e-3)
    for new, norm in ((first, old.norm1), (second, old.norm2)):
        for each in (*new.cls_norms, new.tok_norm):
            torch.testing.assert_close(each.weight, norm.weight, rtol=0, atol=0)
            assert each.weight is not norm.weight
    torch.testing.assert_close(first.cls_norms[0].bias, old.norm1.bias, rtol=0, atol=0)
    assert not second.tok_norm.bias.any()  # an RMS norm has none to give
    model = Network()
    convert_to_sepnorm(model, lambda width: nn.LayerNorm(width, eps=0.1), where="layers.*.norm1")
    assert model.layers[1].norm1.cls_norms[0].eps == 0.1


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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_fused_path_does_not_bypass_sepnorm(
    activation: str, unfused: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In evaluation without gradients an encoder uses it, with nested tensors, unless it is
    converted; after `undo`, and where no norm changed, too."""
    calls: list[int] = []
    fused = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or fused(*args)
    )
    model = nn.TransformerEncoder(encoder_layer(activation=activation), 2).eval()
    padding = torch.arange(SLOTS) >= torch.tensor([4, 3, 2, 4, 1])[:, None]
    x = torch.randn(BATCH, SLOTS, WIDTH)

    def count() -> int:
        calls.clear()
        with torch.no_grad():
            y = model(x, src_key_padding_mask=padding)
            with unfused():
                expected = model(x, src_key_padding_mask=padding)
        torch.testing.assert_close(y[~padding], expected[~padding])
        return len(calls)

    assert count() == 2
    conversion = convert_to_sepnorm(model)
    moved(model)
    assert count() == 0
    conversion.undo()
    assert count() == 2
    convert_to_sepnorm(model, where="layers.1.norm?")
    assert count() == 1


def test_a_single_layer_and_layers_in_a_list_are_known() -> None:
    """Outside of an encoder, only the first layer of a stack has a first norm."""

    def first_sites(model: nn.Module) -> list[str]:
        return [site.name for site in convert_to_sepnorm(model).sites if site.is_first]

    def stack(layers: int) -> nn.ModuleList:
        return nn.ModuleList(encoder_layer(norm_first=True) for _ in range(layers))

    assert first_sites(encoder_layer(norm_first=True)) == ["norm1"]
    assert first_sites(encoder_layer()) == []
    assert first_sites(nn.ModuleDict({"a": stack(3), "b": stack(3)})) == ["a.0.norm1", "b.0.norm1"]
    assert first_sites(nn.ModuleList([stack(2), stack(2)])) == ["0.0.norm1", "1.0.norm1"]


# --- what is refused ----------------------------------------------------------------------------


def test_models_that_cannot_be_converted_are_refused_and_unchanged() -> None:
    refused: list[dict[str, Any]] = [
        *(
            {"where": rule}
            for rule in (None, [], 5, nn.LayerNorm, [nn.LayerNorm], "layers.*.norm3")
        ),
        *({"where": rule} for rule in (["*norm1", "*nrm2"], lambda name, module: False)),
        *({"where": rule} for rule in (["*norm1", "plane"], ["*norm1", "pooled"], "layers.0")),
        *({"where": "*norm1", "first": rule} for rule in ("*norm2", 5)),
        *({"where": "*norm?*", "special_tokens": number} for number in (0, "1")),
        {"where": "*norm1", "batch_first": "no"},
        *({"where": "*norm1", "cls_norm": each} for each in (nn.BatchNorm2d, torch.ones, "batch")),
        {"where": "*norm1", "tok_norm": lambda width: nn.LayerNorm(width + 1)},
        {"where": "*norm1", "tok_norm": nn.LayerNorm(8)},
        *({"where": "*norm1", "first_cls_norm": each} for each in (lambda _: nn.Flatten(0), None)),
    ]
    model = Network()
    before = dict(model.named_modules())
    for options in refused:
        with pytest.raises(ConfigError):
            convert_to_sepnorm(model, **options)
        assert dict(model.named_modules()) == before
    with pytest.raises(ConfigError, match=r"'\*nrm2' matches no module; the norms are: layers.0"):
        convert_to_sepnorm(model, where=["*norm1", "*nrm2"])
    with pytest.raises(ConfigError, match=r"only an nn\.Module can be converted; got a dict"):
        convert_to_sepnorm({})


def test_unknown_layers_of_a_known_encoder_are_refused() -> None:
    """So that a conversion is never partial: the layout, or all norms, must be passed."""

    class Stranger(Block):
        def __init__(self) -> None:
            super().__init__()
            self.norm_a, self.norm_b = self.norm1, self.norm2
            self.norm1 = self.norm2 = nn.Identity()

    for layer, missing, passed in (
        (Block(), "layout of .* is unknown", {"batch_first": True}),
        (Stranger(), "'layers.0', a Stranger, has no known norm", {"where": "layers.*.norm_?"}),
    ):
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        with pytest.raises(ConfigError, match=missing):
            convert_to_sepnorm(model)
        assert len(convert_to_sepnorm(model, **{"batch_first": True} | passed).sites) == 4


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


def test_first_sites_and_special_tokens_of_timm(timm: object) -> None:
    """With `pre_norm`, two norms or more are called before a layer has mixed the tokens. Without a
    class token registers are needed."""
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
    plain = {"class_token": False, "global_pool": "avg", **size}
    with pytest.raises(ConfigError, match="VisionTransformer has no class token.*reg_tokens="):
        convert_to_sepnorm(vit.VisionTransformer(**plain))
    conversion = convert_to_sepnorm(vit.VisionTransformer(**plain, reg_tokens=2))
    assert [site.special_tokens for site in conversion.sites] == [2] * 4  # fc_norm is a head's

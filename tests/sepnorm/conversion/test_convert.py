"""SepNorm in small transformers of other libraries, with random weights."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.nn import MaskedBatchNorm1d, MultiTokenSepNorm, convert_to_sepnorm
from molsepnorm.sepnorm.batch_norm import synchronize_norms

WIDTH, BATCH, SLOTS = 16, 24, 6


@dataclass(frozen=True)
class Case:
    """A small transformer, its inputs, and the part of its output that is compared."""

    model: nn.Module
    inputs: dict[str, Any]
    first: tuple[str, ...]  # of its sites, by hand
    sites: int  # their number, by hand
    special: int = 1

    def answer(self, model: nn.Module) -> Tensor:
        torch.manual_seed(4)  # ViT-MAE hides patches at random
        output = model(**self.inputs)
        if isinstance(output, Tensor):
            return output
        return output.logits if hasattr(output, "logits") else output.last_hidden_state

    def slots_first(self, x: Tensor) -> Tensor:
        """(S, B, C) of what a norm reads."""
        layout = getattr(self.model, "layers", None)
        sequence_first = layout is not None and not layout[0].self_attn.batch_first
        return x if sequence_first else x.transpose(0, 1)


TEXT = {
    "vocab_size": 30,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 40,
}
IMAGE = {name: TEXT[name] for name in list(TEXT)[1:-1]} | {"image_size": 8, "patch_size": 4}
LENGTHS = 2 + torch.arange(BATCH) % (SLOTS - 1)


def real() -> Tensor:
    """(B, S): true at real tokens."""
    return torch.arange(SLOTS) < LENGTHS[:, None]


def text_inputs() -> dict[str, Tensor]:
    ids = torch.where(real(), torch.randint(3, 30, (BATCH, SLOTS)), 1)
    ids[:, 0] = 2  # CLS
    return {"input_ids": ids, "attention_mask": real().long()}


def bert() -> Case:
    import transformers

    config = transformers.BertConfig(**TEXT)
    model = transformers.BertForSequenceClassification(config)
    return Case(model, text_inputs(), ("bert.embeddings.LayerNorm",), 5)


def roberta() -> Case:
    import transformers

    model = transformers.RobertaModel(transformers.RobertaConfig(**TEXT))
    return Case(model, text_inputs(), ("embeddings.LayerNorm",), 5)


def vit() -> Case:
    import transformers

    model = transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE))
    images = {"pixel_values": torch.randn(BATCH, 3, 8, 8)}
    return Case(model, images, (first_of_vit(model.vit),), 5)


def first_of_vit(vit: nn.Module) -> str:
    """The layers are in `encoder.layer` in transformers 4, and in `layers` in transformers 5."""
    layers = "encoder.layer" if hasattr(vit, "encoder") else "layers"
    return f"vit.{layers}.0.layernorm_before"


def mae() -> Case:
    import transformers

    decoder = {"decoder_hidden_size": 8, "decoder_num_hidden_layers": 1}
    heads = {"decoder_num_attention_heads": 2, "decoder_intermediate_size": 12}
    config = transformers.ViTMAEConfig(**IMAGE, **decoder, **heads, mask_ratio=0.5)
    model = transformers.ViTMAEForPreTraining(config)
    images = {"pixel_values": torch.randn(BATCH, 3, 8, 8)}
    return Case(model, images, (first_of_vit(model.vit),), 5 + 3)


def small_timm(**options: Any) -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    size = {"img_size": 8, "patch_size": 4, "embed_dim": WIDTH, "num_heads": 2, "num_classes": 2}
    return VisionTransformer(**size, depth=2, mlp_ratio=1.5, **options)


def timm_plain() -> Case:
    images = {"x": torch.randn(BATCH, 3, 8, 8)}
    return Case(small_timm(), images, ("blocks.0.norm1",), 5)


def timm_registers() -> Case:
    """Four prefix tokens, a norm before the blocks, images of another size, norms of q and k."""
    model = small_timm(reg_tokens=3, pre_norm=True, dynamic_img_size=True, qk_norm=True)
    return Case(
        model, {"x": torch.randn(BATCH, 3, 12, 16)}, ("norm_pre", "blocks.0.norm1"), 6, special=4
    )


def torch_encoder(batch_first: bool, norm_first: bool, bias: bool = True) -> Case:
    options = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias}
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=0.0, **options)
    nested = batch_first and not norm_first and bias
    norm = nn.LayerNorm(WIDTH)
    model = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=nested)
    src = torch.randn(BATCH, SLOTS, WIDTH) if batch_first else torch.randn(SLOTS, BATCH, WIDTH)
    inputs = {"src": src, "src_key_padding_mask": ~real()}
    return Case(model, inputs, ("layers.0.norm1",) if norm_first else (), 5)


TORCH = {
    f"torch-{'batch' if batch_first else 'sequence'}-{'pre' if norm_first else 'post'}": (
        lambda batch_first=batch_first, norm_first=norm_first: torch_encoder(
            batch_first, norm_first
        )
    )
    for batch_first in (True, False)
    for norm_first in (True, False)
}
CASES: dict[str, Callable[[], Case]] = {
    "bert": bert,
    "roberta": roberta,
    "vit": vit,
    "mae": mae,
    "timm": timm_plain,
    "timm-registers": timm_registers,
    **TORCH,
}
TEXTS = ["bert", "roberta", *TORCH]
"""The cases with padding."""


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[str], Case]:
    """Makes a case by its name: every norm's weights and all biases are random, of order one."""

    def make(name: str) -> Case:
        if name.startswith("timm"):
            request.getfixturevalue("timm")
        elif not name.startswith("torch"):
            pytest.importorskip("transformers")
        torch.manual_seed(3)
        case = CASES[name]()
        with torch.no_grad():
            for parameter in case.model.parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
                elif not name.startswith("torch"):
                    parameter.mul_(5)  # their usual 0.02 leaves attention without a say
        return case

    return make


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, make: Callable[[str], Case]) -> Case:
    return make(request.param)


def loss_of(answer: Tensor) -> Tensor:
    torch.manual_seed(5)
    return (answer * torch.randn(answer.shape)).mean()


# --- what is replaced ---------------------------------------------------------------------------


def test_two_layer_norms_change_nothing(case: Case, unfused: Callable[[], Any]) -> None:
    """The outputs in evaluation have the same bits, since weights are taken from the old norm."""
    with unfused():  # that path rounds otherwise, and blanks padding
        expected = case.answer(case.model.eval())
    convert_to_sepnorm(case.model, nn.LayerNorm, nn.LayerNorm)
    assert len(sepnorms(case.model)) == case.sites
    torch.testing.assert_close(case.answer(case.model), expected, rtol=0, atol=0)


@pytest.mark.claim(
    "convert_to_sepnorm replaces exactly the norms on token sequences of BERT, RoBERTa, ViT, "
    "ViT-MAE, timm's ViT and nn.TransformerEncoder. Two layer norms change no output."
)
def test_sites_are_the_norms_on_sequences(case: Case) -> None:
    """Hooks on all norms find the same ones: those called with sequences of the model's width.
    Sites before the first layer are marked, and all are in the report."""
    shapes: dict[str, torch.Size] = {}
    for name, module in case.model.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(
                lambda module, args, name=name: shapes.__setitem__(name, args[0].shape)
            )
    case.answer(case.model)
    seen = {name for name, shape in shapes.items() if len(shape) == 3}
    conversion = convert_to_sepnorm(case.model)
    assert {site.name for site in conversion.sites} == seen
    assert tuple(site.name for site in conversion.sites if site.is_first) == case.first
    for site in conversion.sites:
        assert site.special_tokens == case.special
        assert site.cls_norm == ("LayerNorm" if site.is_first else "BatchNorm1d")
        assert site.width == shapes[site.name][-1]
        assert site.name in str(conversion)
    marks = len(case.first) + 1 if case.first else 0  # and one before what they mean
    assert str(conversion).count("*") == marks


def test_every_site_normalises_by_the_printed_norms(case: Case) -> None:
    """In training: special tokens by the batch's statistics, slot by slot, all others by their own;
    with the weights and the ε of the old norm."""
    old = copy.deepcopy(case.model)
    conversion = convert_to_sepnorm(case.model)
    caught: dict[str, tuple[Tensor, Tensor]] = {}
    for site in conversion.sites:
        case.model.get_submodule(site.name).register_forward_hook(
            lambda module, args, output, name=site.name: caught.update({name: (args[0], output)})
        )
    case.answer(case.model.train())
    assert len(caught) == case.sites
    for site in conversion.sites:
        norm = old.get_submodule(site.name)
        x, y = (case.slots_first(each) for each in caught[site.name])
        for slot in range(len(x)):
            along = 0 if slot < case.special and not site.is_first else 1
            eps = 1e-5 if along == 0 else norm.eps
            mean = x[slot].mean(along, keepdim=True)
            deviation = (x[slot].var(along, correction=0, keepdim=True) + eps).sqrt()
            expected = (x[slot] - mean) / deviation * norm.weight + norm.bias
            torch.testing.assert_close(y[slot], expected, rtol=1e-3, atol=1e-4)


def test_a_step_trains_every_norm(case: Case) -> None:
    """New parameters get gradients, those of the tokens are the old ones, and the loss falls."""
    parameters = dict(case.model.named_parameters())
    conversion = convert_to_sepnorm(case.model)
    for site in conversion.sites:
        new = case.model.get_submodule(site.name)
        assert new.tok_norm.weight is parameters[f"{site.name}.weight"]
        assert new.tok_norm.bias is parameters[f"{site.name}.bias"]
    before = loss_of(case.answer(case.model.train()))
    before.backward()
    for site in conversion.sites:
        for name, parameter in case.model.get_submodule(site.name).named_parameters():
            assert parameter.grad is not None, (site.name, name)
    trainable = [each for each in case.model.parameters() if each.grad is not None]
    slope = sum(parameter.grad.square().sum() for parameter in trainable)
    wanted = 0.01 * before.abs()
    torch.optim.SGD(trainable, lr=(wanted / slope).item()).step()
    fallen = before - loss_of(case.answer(case.model))
    torch.testing.assert_close(fallen, wanted, rtol=0.3, atol=0)  # to first order


@pytest.mark.parametrize("name", ["bert", "vit", "timm-registers", "torch-batch-pre"])
def test_evaluation_agrees_with_training(name: str, make: Callable[[str], Case]) -> None:
    """With converged running statistics, up to the factor n / (n − 1) of the variance."""
    case = make(name)
    convert_to_sepnorm(case.model.train(), quick_batch_norm)
    with torch.no_grad():
        for _ in range(60):
            trained = case.answer(case.model)
        evaluated = case.answer(case.model.eval())
    real_answer = real() if "src" in case.inputs else slice(None)
    difference = (trained - evaluated)[real_answer].norm() / trained[real_answer].norm()
    assert difference < 0.1
    assert difference > 0


@pytest.mark.parametrize("name", ["bert", "roberta", "vit", "mae", "timm", "timm-registers"])
def test_no_batch_norm_gets_equal_tokens(name: str, make: Callable[[str], Case]) -> None:
    """In training its special tokens differ between sequences."""
    case = make(name)
    conversion = convert_to_sepnorm(case.model.train())
    smallest: dict[str, float] = {}
    for site in conversion.sites:
        case.model.get_submodule(site.name).register_forward_hook(
            lambda module, args, output, name=site.name: smallest.update(
                {name: args[0][:, : case.special].var(0).mean(-1).min().item()}
            )
        )
    case.answer(case.model)
    alike = {name for name, variance in smallest.items() if variance < 1e-9}
    assert alike == {site.name for site in conversion.sites if site.is_first}


def quick_batch_norm(width: int) -> nn.Module:
    return nn.BatchNorm1d(width, momentum=0.2)


@pytest.mark.parametrize("name", ["bert", "vit", "mae", "timm", "timm-registers"])
def test_a_batch_norm_before_the_first_layer_amplifies_noise(
    name: str, make: Callable[[str], Case]
) -> None:
    """A batch norm before the first layer sees no variance: in training it gives its bias alone,
    and in evaluation, after a small step of the token, an outsized number."""
    case = make(name)
    convert_to_sepnorm(case.model.train(), first_cls_norm=nn.BatchNorm1d)
    site = case.model.get_submodule(case.first[0])
    caught = []
    site.register_forward_hook(lambda module, args, output: caught.append((args[0], output)))
    case.answer(case.model)
    x, y = caught.pop()
    norm = site.cls_norms[0]
    assert x[:, 0].var(0, correction=0).max() < 1e-10
    # variance 1e-14 of rounding over ε = 1e-5
    torch.testing.assert_close(y[:, 0], norm.bias.expand(BATCH, -1), rtol=0, atol=1e-3)
    for _ in range(300):
        site(x.detach())
    moved = x.detach() + 0.03
    assert (site(moved) - y)[:, 0].abs().max() < 0.01  # training: nothing to see
    assert (site.eval()(moved) - y)[:, 0].abs().max() > 1  # evaluation: 0.03 / √ε


# --- copies, files, undoing ---------------------------------------------------------------------


def trained(case: Case, **options: Any) -> nn.Module:
    """The converted model after a few steps."""
    convert_to_sepnorm(case.model.train(), **options)
    loss_of(case.answer(case.model)).backward()
    torch.optim.SGD(case.model.parameters(), lr=0.1).step()
    return case.model.eval()


@pytest.mark.parametrize("tok_norm", [None, nn.BatchNorm1d])
def test_state_dicts_round_trip(
    case: Case, tok_norm: Any, tmp_path: Path, make: Callable[[str], Case]
) -> None:
    """Into a new converted model, by state dict and safetensors file; and copies."""
    fresh, other = copy.deepcopy(case.model), copy.deepcopy(case.model)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(1)
    model = trained(case, tok_norm=tok_norm)
    expected = case.answer(model)
    convert_to_sepnorm(fresh.eval(), tok_norm=tok_norm)
    fresh.load_state_dict(model.state_dict())
    torch.testing.assert_close(case.answer(fresh), expected, rtol=0, atol=0)

    save_file(model.state_dict(), tmp_path / "model.safetensors")
    convert_to_sepnorm(other.eval(), tok_norm=tok_norm)
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    torch.testing.assert_close(case.answer(other), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["bert", "vit", "timm", "torch-batch-post", "torch-sequence-pre"])
@pytest.mark.parametrize("tok_norm", [None, nn.BatchNorm1d])
def test_copies_and_pickles_are_independent(
    name: str, tok_norm: Any, make: Callable[[str], Case]
) -> None:
    """They have their own hooks and masks; training the copy does not change the original."""
    case = make(name)
    model = trained(case, tok_norm=tok_norm)
    expected = case.answer(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        torch.testing.assert_close(case.answer(twin), expected, rtol=0, atol=0)
        twin.train()
        case.answer(twin)
        assert not torch.equal(case.answer(twin.eval()), expected)
        torch.testing.assert_close(case.answer(model), expected, rtol=0, atol=0)
        masks = {id(each.padding) for each in sepnorms(model)}
        assert not masks & {id(each.padding) for each in sepnorms(twin)}
        if tok_norm is not None and name not in ("vit", "timm"):
            assert all(each.padding.real is not None for each in sepnorms(twin))


def sepnorms(model: nn.Module) -> list[MultiTokenSepNorm]:
    return [module for module in model.modules() if isinstance(module, MultiTokenSepNorm)]


@pytest.mark.parametrize("tok_norm", [None, nn.BatchNorm1d])
def test_undo_restores_the_old_norms(case: Case, tok_norm: Any) -> None:
    """The old norms, names, outputs and attributes are restored."""
    before = case.answer(case.model.eval())
    modules = dict(case.model.named_modules())
    switches = [vars(module).copy() for module in case.model.modules()]
    keys = list(case.model.state_dict())
    conversion = convert_to_sepnorm(case.model, tok_norm=tok_norm)
    case.model.train()
    case.answer(case.model)
    case.model.eval()
    conversion.undo()
    assert list(case.model.state_dict()) == keys
    assert dict(case.model.named_modules()) == modules
    for module, attributes in zip(case.model.modules(), switches, strict=True):
        for name in ("training", "activation_relu_or_gelu", "use_nested_tensor"):
            assert getattr(module, name, None) == attributes.get(name)
        assert not module._forward_pre_hooks
        assert not module._forward_pre_hooks_with_kwargs
    torch.testing.assert_close(case.answer(case.model), before, rtol=0, atol=0)
    conversion.undo()  # once more: nothing happens
    convert_to_sepnorm(case.model)  # and the model can be converted again


def test_undo_keeps_the_trained_weights_of_the_tokens_norm(make: Callable[[str], Case]) -> None:
    """It does not overwrite a norm that was replaced since; also for a copy of both."""
    case = make("bert")
    conversion = convert_to_sepnorm(case.model)
    site = case.model.get_submodule("bert.embeddings.LayerNorm")
    with torch.no_grad():
        site.tok_norm.weight.fill_(7)
    twin, its = copy.deepcopy((case.model, conversion))
    its.undo()
    assert twin.bert.embeddings.LayerNorm.weight.tolist() == [7] * WIDTH
    assert isinstance(case.model.bert.embeddings.LayerNorm, MultiTokenSepNorm)
    case.model.bert.embeddings.LayerNorm = nn.Identity()
    with pytest.raises(ConfigError, match="cannot undo .* 'LayerNorm' of a BertEmbeddings is no"):
        conversion.undo()
    assert isinstance(case.model.bert.encoder.layer[0].output.LayerNorm, MultiTokenSepNorm)


@pytest.mark.parametrize("tok_norm", [None, nn.BatchNorm1d])
def test_a_state_from_before_the_conversion_can_be_loaded(case: Case, tok_norm: Any) -> None:
    """The result is the same as if it had been loaded before the conversion."""
    before, other = case.model.state_dict(), copy.deepcopy(case.model)
    expected_model = copy.deepcopy(case.model).eval()
    convert_to_sepnorm(expected_model, tok_norm=tok_norm)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    convert_to_sepnorm(other.eval(), tok_norm=tok_norm)
    other.load_state_dict(before)
    torch.testing.assert_close(case.answer(other), case.answer(expected_model), rtol=0, atol=0)


def test_a_state_from_before_the_conversion_can_be_assigned(make: Callable[[str], Case]) -> None:
    """Its tensors are not shared between norms. A missing weight of a meta model is reported."""
    case = make("bert")
    before = copy.deepcopy(case.model.state_dict())
    hollow = copy.deepcopy(case.model).to("meta")
    convert_to_sepnorm(case.model)
    case.model.load_state_dict(before, assign=True)
    for sepnorm in sepnorms(case.model):
        with torch.no_grad():
            expected = sepnorm.tok_norm.weight.clone()
            sepnorm.cls_norms[0].weight.add_(1)
        torch.testing.assert_close(sepnorm.tok_norm.weight, expected, rtol=0, atol=0)
    convert_to_sepnorm(hollow)
    with pytest.raises(
        RuntimeError, match="Missing key.*output.LayerNorm.cls_norms.0.running_mean"
    ):
        hollow.load_state_dict(before, assign=True)


def test_undo_follows_the_device_and_type_of_the_model(make: Callable[[str], Case]) -> None:
    """A norm that was put aside becomes what the others have become since: double, or half."""
    for dtype in (torch.float64, torch.bfloat16):
        case = make("torch-batch-post")
        conversion = convert_to_sepnorm(case.model, tok_norm=nn.LayerNorm)
        case.model.to(dtype)
        conversion.undo()
        assert {parameter.dtype for parameter in case.model.parameters()} == {dtype}
        case.model(case.inputs["src"].to(dtype))


# --- padding ------------------------------------------------------------------------------------


def with_rubbish(case: Case) -> dict[str, Any]:
    """The inputs with random padding."""
    inputs = dict(case.inputs)
    if "src" in inputs:
        batch_first = case.model.layers[0].self_attn.batch_first
        counted = (real() if batch_first else real().T)[..., None]
        inputs["src"] = torch.where(counted, inputs["src"], 50.0)
    else:
        inputs["input_ids"] = torch.where(real(), inputs["input_ids"], 29)
    return inputs


@pytest.mark.claim(
    "After a conversion padding has no influence, PyTorch's fused path does not bypass "
    "SepNorm, states round-trip, and the conversion can be undone."
)
@pytest.mark.parametrize("name", TEXTS)
def test_padding_does_not_change_outputs(name: str, make: Callable[[str], Case]) -> None:
    """With a batch norm of the tokens, for real slots, statistics and gradients. Without the hook
    padding has an effect, which shows that this test can fail."""
    case = make(name)
    convert_to_sepnorm(case.model.train(), tok_norm=nn.BatchNorm1d)
    deaf = copy.deepcopy(case.model)
    for module in deaf.modules():
        module._forward_pre_hooks.clear()
    results = {}
    for ears, model in (("with", case.model), ("without", deaf)):
        results[ears] = []
        for inputs in (case.inputs, with_rubbish(case)):
            if name == "roberta":  # whose positions would be read off the padding's ids
                inputs["position_ids"] = torch.arange(SLOTS).expand(BATCH, -1)
            twin = copy.deepcopy(model)
            output = twin(**inputs)
            y = output if isinstance(output, Tensor) else output[0]
            if y.dim() == 3:
                y = case.slots_first(y).transpose(0, 1)[real()]
            loss_of(y).backward()
            gradients = [sepnorm.tok_norm.weight.grad for sepnorm in sepnorms(twin)]
            results[ears].append([y, *twin.buffers(), *gradients])
    for one, other in zip(*results["with"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(*(result[0] for result in results["without"]), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_called_one_by_one_read_the_padding_mask(
    norm_first: bool, make: Callable[[str], Case]
) -> None:
    """The outputs equal those of the encoder."""
    case = make(f"torch-batch-{'pre' if norm_first else 'post'}")
    convert_to_sepnorm(case.model.train(), tok_norm=nn.BatchNorm1d)
    alone = copy.deepcopy(case.model)
    expected = case.answer(case.model)
    x, padding = case.inputs["src"], case.inputs["src_key_padding_mask"]
    for layer in alone.layers:
        x = layer(x, src_key_padding_mask=padding)
    torch.testing.assert_close(x, expected if alone.norm is None else x)
    for (name, one), other in zip(alone.named_buffers(), case.model.buffers(), strict=True):
        if name.startswith("layers"):
            torch.testing.assert_close(one, other)


def test_masks_are_read_only_for_batch_norms_of_tokens(make: Callable[[str], Case]) -> None:
    """A mask (B, S, S) does not say slot by slot what is padding: training stops, evaluation
    needs none."""
    case = make("bert")
    convert_to_sepnorm(case.model.eval(), tok_norm=nn.BatchNorm1d)
    ids, mask = case.inputs["input_ids"], real()[:, None].expand(-1, SLOTS, -1).long()
    torch.testing.assert_close(case.model(ids, attention_mask=mask).logits, case.answer(case.model))
    with pytest.raises(
        ValueError, match=r"must be of shape \(batch, slots\).*got shape \(24, 6, 6"
    ):
        case.model.train()(ids, attention_mask=mask)


def test_a_mask_may_be_positional_or_missing(make: Callable[[str], Case]) -> None:
    """Positional arguments are read. A call without a mask forgets the last one."""
    case = make("bert")
    convert_to_sepnorm(case.model.train(), tok_norm=nn.BatchNorm1d)
    named, placed, plain = (copy.deepcopy(case.model) for _ in range(3))
    named(**case.inputs)
    placed(case.inputs["input_ids"], case.inputs["attention_mask"])
    plain(case.inputs["input_ids"])
    states = [model.state_dict() for model in (named, placed, plain)]
    statistics = "bert.encoder.layer.1.output.LayerNorm.tok_norm.running_mean"
    torch.testing.assert_close(states[0][statistics], states[1][statistics], rtol=0, atol=0)
    assert not torch.allclose(states[0][statistics], states[2][statistics])
    named(case.inputs["input_ids"])
    assert all(each.padding.real is None for each in sepnorms(named))


def test_gradient_checkpointing_gives_the_same_gradients(make: Callable[[str], Case]) -> None:
    """Layers that run again in `backward` find the mask still: the gradients are the same."""
    case = make("bert")
    convert_to_sepnorm(case.model.train(), tok_norm=nn.BatchNorm1d)
    plain, thrifty = case.model, copy.deepcopy(case.model)
    thrifty.gradient_checkpointing_enable()
    calls = []
    norm = thrifty.bert.encoder.layer[0].attention.output.LayerNorm  # not a layer's last operation
    norm.register_forward_hook(lambda *_: calls.append(1))
    for model in (plain, thrifty):
        loss_of(case.answer(model)).backward()
    assert len(calls) == 2
    for one, other in zip(plain.parameters(), thrifty.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_batch_norms_of_tokens_can_be_synchronised(case: Case) -> None:
    """Every batch norm of a converted model counts all processes. In a single process the outputs
    are the same."""
    convert_to_sepnorm(case.model.train())
    synchronised = copy.deepcopy(case.model)
    synchronize_norms(synchronised)
    norms = [norm for each in sepnorms(synchronised) for norm in each.cls_norms]
    firsts = case.special * len(case.first)
    assert sum(type(norm) is nn.LayerNorm for norm in norms) == firsts
    batch_norms = [norm for norm in norms if isinstance(norm, MaskedBatchNorm1d)]
    assert sum(norm.synchronized for norm in batch_norms) == case.special * case.sites - firsts
    torch.testing.assert_close(
        case.answer(synchronised), case.answer(case.model), rtol=1e-3, atol=1e-4
    )

"""SepNorm in small transformers of other libraries, with random weights: those that need no rule,
and those for which docs/sepnorm.md has a rule."""

from __future__ import annotations

import ast
import copy
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm import Conversion, MaskedBatchNorm1d, MultiTokenSepNorm, convert_to_sepnorm
from molsepnorm.sepnorm.batch_norm import synchronize_norms

DOCS = Path(__file__).parents[2] / "docs" / "sepnorm.md"
WIDTH, BATCH, SLOTS = 16, 24, 6


@dataclass(frozen=True)
class Case:
    """A small transformer, its inputs, and the part of its output that is compared."""

    model: nn.Module
    inputs: dict[str, Any]
    first: tuple[str, ...]  # of its sites, by hand
    sites: int = 5  # their number, by hand
    special: int = 1
    rule: dict[str, Any] = field(default_factory=dict)

    def convert(self, model: nn.Module | None = None, **options: Any) -> Conversion:
        return convert_to_sepnorm(model or self.model, **self.rule, **options)

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


SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TEXT = {**SIZES, "vocab_size": 30, "max_position_embeddings": 40, "pad_token_id": 1}
IMAGE = {**SIZES, "image_size": 8, "patch_size": 4}
LENGTHS = 2 + torch.arange(BATCH) % (SLOTS - 1)


def real() -> Tensor:
    """(B, S): true at real tokens."""
    return torch.arange(SLOTS) < LENGTHS[:, None]


def of_transformers(
    name: str, first: list[str], settings: dict[str, Any], **options: Any
) -> Callable[[], Case]:
    """A case by the name of its model, with settings of its configuration and of the case."""

    def make() -> Case:
        import transformers

        kind = re.sub("Model$|For.*", "Config", name)
        model = getattr(transformers, name)(getattr(transformers, kind)(**settings))
        inputs = {"pixel_values": torch.randn(BATCH, 3, 8, 8)}
        if "vocab_size" in settings:
            ids = torch.where(real(), torch.randint(3, 29, (BATCH, SLOTS)), 1)
            ids[:, 0] = 2  # CLS
            inputs = {"input_ids": ids, "attention_mask": real().long()}
        names = dict(model.named_modules())
        found = tuple(each for each in first if each in names)
        return Case(model, inputs, found, rule=RULES.get(name, {}), **options)

    return make


def timm_vit(
    first: list[str], sites: int = 5, special: int = 1, **options: Any
) -> Callable[[], Case]:
    def make() -> Case:
        from timm.models.vision_transformer import VisionTransformer

        size = {"img_size": 8, "patch_size": 4, "embed_dim": WIDTH, "num_heads": 2}
        model = VisionTransformer(**size, num_classes=2, depth=2, mlp_ratio=1.5, **options)
        shape = (12, 16) if "dynamic_img_size" in options else (8, 8)
        return Case(model, {"x": torch.randn(BATCH, 3, *shape)}, tuple(first), sites, special)

    return make


def torch_encoder(batch_first: bool, norm_first: bool) -> Case:
    options = {"batch_first": batch_first, "norm_first": norm_first}
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=0.0, **options)
    nested = batch_first and not norm_first
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=nested)
    src = torch.randn(BATCH, SLOTS, WIDTH) if batch_first else torch.randn(SLOTS, BATCH, WIDTH)
    inputs = {"src": src, "src_key_padding_mask": ~real()}
    return Case(model, inputs, ("layers.0.norm1",) if norm_first else ())


def documented() -> dict[str, dict[str, Any]]:
    """The arguments of `convert_to_sepnorm` for each model, from the table."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\| `(where=.*)` \|$", DOCS.read_text(), re.MULTILINE)
    calls = {name: ast.parse(f"f({rule})", mode="eval").body for name, rule in rows}
    return {
        name: {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        for name, call in calls.items()
    }


RULES = documented()
TORCH: dict[str, Callable[[], Case]] = {
    f"torch-{layout}-{order}": (
        lambda layout=layout, order=order: torch_encoder(layout == "batch", order == "pre")
    )
    for layout in ("batch", "sequence")
    for order in ("pre", "post")
}
LAYERS = ("encoder.layer.0", "layers.0")  # of a ViT in transformers 4 and 5
IN_VIT = [f"vit.{layer}.layernorm_before" for layer in LAYERS]
DINO = [f"{layer}.norm1" for layer in LAYERS]
DECODER = {f"decoder_{name}": IMAGE[name] for name in [*SIZES][:4]} | {"decoder_hidden_size": 8}
REGISTERS = {"reg_tokens": 3, "pre_norm": True, "dynamic_img_size": True, "qk_norm": True}
ESM = {**TEXT, "mask_token_id": 29, "position_embedding_type": "rotary"}
DISTIL = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
DISTIL |= {"dropout": 0.0, "attention_dropout": 0.0}
EMBEDDINGS = ["embeddings.LayerNorm"]
KNOWN = {
    "bert": of_transformers("BertForSequenceClassification", ["bert.embeddings.LayerNorm"], TEXT),
    "roberta": of_transformers("RobertaModel", EMBEDDINGS, TEXT),
    "vit": of_transformers("ViTForImageClassification", IN_VIT, IMAGE),
    "mae": of_transformers("ViTMAEForPreTraining", IN_VIT, IMAGE | DECODER, sites=5 + 5),
    "timm": timm_vit(["blocks.0.norm1"]),
    # four prefix tokens, a norm before the blocks, images of another size, norms of q and k
    "timm-registers": timm_vit(["norm_pre", "blocks.0.norm1"], sites=6, special=4, **REGISTERS),
    **TORCH,
}
BY_RULE = {
    "EsmModel": of_transformers("EsmModel", ["encoder.layer.0.attention.LayerNorm"], ESM),
    "DistilBertModel": of_transformers("DistilBertModel", EMBEDDINGS, TEXT | DISTIL),
    "ElectraModel": of_transformers("ElectraModel", EMBEDDINGS, TEXT | {"embedding_size": WIDTH}),
    "Dinov2Model": of_transformers("Dinov2Model", DINO, IMAGE),
    "Dinov2WithRegistersModel": of_transformers(
        "Dinov2WithRegistersModel", DINO, IMAGE | {"num_register_tokens": 4}, special=1 + 4
    ),
    "DeiTModel": of_transformers("DeiTModel", [name[4:] for name in IN_VIT], IMAGE, special=1 + 1),
}
CASES: dict[str, Callable[[], Case]] = {**KNOWN, **BY_RULE}
TEXTS = ["bert", "roberta", *TORCH, "EsmModel", "DistilBertModel", "ElectraModel"]
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
    case.convert(cls_norm=nn.LayerNorm, tok_norm=nn.LayerNorm)
    assert len(sepnorms(case.model)) == case.sites
    torch.testing.assert_close(case.answer(case.model), expected, rtol=0, atol=0)


@pytest.mark.claim(
    "convert_to_sepnorm replaces exactly the norms on token sequences of BERT, RoBERTa, ViT, "
    "ViT-MAE, timm's ViT and nn.TransformerEncoder. Two layer norms change no output."
)
def test_sites_are_the_norms_on_sequences(case: Case) -> None:
    """Hooks on all norms find the same ones: those called with sequences. Sites before the first
    layer, where a special token is the same in all sequences, are marked; all are in the report."""
    seen: dict[str, Tensor] = {}
    for name, module in case.model.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(
                lambda module, args, name=name: seen.__setitem__(name, args[0])
            )
    case.answer(case.model)
    seen = {name: x for name, x in seen.items() if x.dim() == 3}
    conversion = case.convert()
    assert {site.name for site in conversion.sites} == seen.keys()
    assert tuple(site.name for site in conversion.sites if site.is_first) == case.first
    for site in conversion.sites:
        if "src" not in case.inputs:  # whose first slot is no CLS
            spread = seen[site.name][:, : case.special].var(0).mean(-1).min()
            assert site.is_first == (spread < 1e-9)
        assert site.special_tokens == case.special
        assert site.cls_norm == ("LayerNorm" if site.is_first else "BatchNorm1d")
        assert site.width == seen[site.name].shape[-1]
        assert site.name in str(conversion)
    marks = len(case.first) + 1 if case.first else 0  # and one before what they mean
    assert str(conversion).count("*") == marks


def test_every_site_normalises_by_the_printed_norms(case: Case) -> None:
    """In training: special tokens by the batch's statistics, slot by slot, all others by their own;
    with the weights and the ε of the old norm."""
    old = copy.deepcopy(case.model)
    conversion = case.convert()
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
    conversion = case.convert()
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


# --- copies, files, undoing ---------------------------------------------------------------------


def trained(case: Case, **options: Any) -> nn.Module:
    """The converted model after a few steps."""
    case.convert(case.model.train(), **options)
    loss_of(case.answer(case.model)).backward()
    torch.optim.SGD(case.model.parameters(), lr=0.1).step()
    return case.model.eval()


@pytest.mark.parametrize("tok_norm", [None, nn.BatchNorm1d])
def test_states_are_loaded_by_another_converted_model(
    case: Case, tok_norm: Any, tmp_path: Path
) -> None:
    """Those of the conversion, from a safetensors file, and those from before it."""
    before, old = copy.deepcopy(case.model.state_dict()), copy.deepcopy(case.model)
    other = copy.deepcopy(case.model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    case.convert(other.eval(), tok_norm=tok_norm)
    other.load_state_dict(before)
    case.convert(old.eval(), tok_norm=tok_norm)
    torch.testing.assert_close(case.answer(other), case.answer(old), rtol=0, atol=0)
    model = trained(case, tok_norm=tok_norm)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    torch.testing.assert_close(case.answer(other), case.answer(model), rtol=0, atol=0)


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
    conversion = case.convert(tok_norm=tok_norm)
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
    case.convert()  # and the model can be converted again


def test_undo_keeps_the_trained_weights_of_the_tokens_norm(make: Callable[[str], Case]) -> None:
    """It does not overwrite a norm that was replaced since; also for a copy of both."""
    case = make("bert")
    conversion = case.convert()
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


def test_a_state_from_before_the_conversion_can_be_assigned(make: Callable[[str], Case]) -> None:
    """Its tensors are not shared between norms. A missing weight of a meta model is reported."""
    case = make("bert")
    before = copy.deepcopy(case.model.state_dict())
    hollow = copy.deepcopy(case.model).to("meta")
    case.convert()
    case.model.load_state_dict(before, assign=True)
    for sepnorm in sepnorms(case.model):
        with torch.no_grad():
            expected = sepnorm.tok_norm.weight.clone()
            sepnorm.cls_norms[0].weight.add_(1)
        torch.testing.assert_close(sepnorm.tok_norm.weight, expected, rtol=0, atol=0)
    case.convert(hollow)
    with pytest.raises(
        RuntimeError, match="Missing key.*output.LayerNorm.cls_norms.0.running_mean"
    ):
        hollow.load_state_dict(before, assign=True)


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
    case.convert(case.model.train(), tok_norm=nn.BatchNorm1d)
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


def test_gradient_checkpointing_gives_the_same_gradients(make: Callable[[str], Case]) -> None:
    """Layers that run again in `backward` find the mask still: the gradients are the same."""
    case = make("bert")
    case.convert(case.model.train(), tok_norm=nn.BatchNorm1d)
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
    case.convert(case.model.train())
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

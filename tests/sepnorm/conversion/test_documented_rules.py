"""The rules that docs/sepnorm.md gives for models that are not known: they find every norm on
sequences, the first one first, and the converted model trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.nn import convert_to_sepnorm
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'molsepnorm[dev]'"
)

DOCS = Path(__file__).parents[3] / "docs" / "sepnorm.md"
LAYERS = 3
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
TEXT = {"vocab_size": 33, "pad_token_id": 1}
IMAGE = {"image_size": 32, "patch_size": 8}
SETTINGS: dict[str, dict[str, Any]] = {
    "EsmModel": {**SIZES, **TEXT, "mask_token_id": 32, "position_embedding_type": "rotary"},
    "DistilBertModel": {"dim": 16, "n_layers": LAYERS, "n_heads": 2, "hidden_dim": 24, **TEXT},
    "ElectraModel": {**SIZES, **TEXT, "embedding_size": 16},
    "Dinov2Model": {**SIZES, **IMAGE},
    "Dinov2WithRegistersModel": {**SIZES, **IMAGE, "num_register_tokens": 4},
    "DeiTModel": {**SIZES, **IMAGE},
}
HEADS = {
    "EsmModel": "EsmForSequenceClassification",
    "DistilBertModel": "DistilBertForMaskedLM",
    "ElectraModel": "ElectraForSequenceClassification",
    "Dinov2Model": "Dinov2ForImageClassification",
    "Dinov2WithRegistersModel": "Dinov2WithRegistersForImageClassification",
    "DeiTModel": "DeiTForImageClassification",
}


def documented() -> dict[str, dict[str, Any]]:
    """The arguments of `convert_to_sepnorm` for each model, from the table."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\| `(where=.*)` \|$", DOCS.read_text(), re.MULTILINE)
    calls = {name: ast.parse(f"f({rule})", mode="eval").body for name, rule in rows}
    return {
        name: {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        for name, call in calls.items()
    }


RULES = documented()


def test_every_model_of_the_table_is_tested():
    assert RULES.keys() == SETTINGS.keys() == HEADS.keys()


def make(name: str, head: str | None = None) -> tuple[nn.Module, Callable[[], Tensor]]:
    """A small model and a function that calls it."""
    torch.manual_seed(0)
    config = getattr(transformers, name.replace("Model", "Config"))(**SETTINGS[name])
    model = getattr(transformers, head or name)(config)
    if "image_size" in SETTINGS[name]:
        inputs = {"pixel_values": torch.randn(4, 3, 32, 32)}
    else:
        mask = torch.ones(4, 9, dtype=torch.long)
        mask[1, 6:] = 0
        inputs = {"input_ids": torch.randint(5, 30, (4, 9)), "attention_mask": mask}
    return model, lambda: model(**inputs)[0]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_the_norms_on_sequences(name):
    """All of them, in the order of the layers; outputs do not change."""
    model, call = make(name)
    model.eval()
    before = call()
    seen: list[str] = []
    for path, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(
                lambda _, args, path=path: seen.append(path) if args[0].dim() == 3 else None
            )
    call()
    conversion = convert_to_sepnorm(model, cls_norm=nn.LayerNorm, **RULES[name])
    assert sorted(site.name for site in conversion.sites) == sorted(seen)
    assert [site.name for site in conversion.sites if site.is_first] == seen[:1]
    assert len(seen) == 2 * LAYERS + 1
    torch.testing.assert_close(call(), before)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_works_below_a_head_and_the_model_trains(name):
    alone = convert_to_sepnorm(make(name)[0], **RULES[name])
    model, call = make(name, HEADS[name])
    conversion = convert_to_sepnorm(model, **RULES[name])
    assert len(conversion.sites) == len(alone.sites)
    model.train()
    call().square().mean().backward()
    norms = [each for each in model.modules() if isinstance(each, MultiTokenSepNorm)]
    assert all(p.grad.isfinite().all() for norm in norms for p in norm.parameters())


def test_the_numbers_of_special_tokens_are_those_of_the_models():
    for name in RULES:
        model, _ = make(name)
        count = RULES[name].get("special_tokens", 1)
        tokens = [n for n, _ in model.named_parameters() if re.search("(cls|dist).*_token$", n)]
        registers = [p.shape[1] for n, p in model.named_parameters() if "register_tokens" in n]
        expected = len(tokens) + sum(registers) if "image_size" in SETTINGS[name] else 1
        assert count == expected

"""Names of the tensors of other Graphormers, and the search for them in a checkpoint.

Two formats have our architecture, a pre-norm Graphormer with one layer norm for all tokens:
"graphormer-v1", the first release of microsoft/Graphormer, and "hf", the encoder of
`GraphormerForGraphClassification` in transformers up to 4.57.6 with `pre_layernorm=True`. The head
of "hf" (linear, activation, norm, linear) has no counterpart here, so the graph token after the
last layer is imported, and the last norm and the head keep their initial weights.

**Index shifts.** Both formats store the values of all features of an atom or a bond in one table,
with 512 rows per feature and some rows for padding. Value x of feature f is in row ::

    atoms   x + 512 f + 2 (graphormer-v1),  x + 512 f + 3 (hf)
    bonds   x + 512 f + 3 (both); one more for ZINC, whose bonds are 1, 2, 3 there and 0, 1, 2 here

A degree or a distance d is in row d + 1, and atoms of different fragments are at distance 510.
Weights of the reference's second release that were copied to transformers have atoms in the rows of
v1, while transformers' own collator reads the next row: use `atom_shift=2` for them.

**Transposes.** The matrix of a position multiplies a row vector from the right there, and a column
vector from the left here.

**Padding.** Row 0 of edge_encoder pads paths to the longest path of the batch, at most L bonds. v1
initialises it at random and never trains it, so its outputs depend slightly on the other molecules
of a batch. Its contribution to a path that is padded to L depends on the distance only, and is
added to the biases of distances and of different fragments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from molsepnorm.errors import ConfigError, ModelError, did_you_mean, first_of

__all__ = [
    "BOND_SHIFT",
    "FORMATS",
    "STRIDE",
    "UNREACHABLE_ROW",
    "Format",
    "first_names",
    "format_named",
    "recognise",
    "v1_names",
]

STRIDE = 512
"""Number of rows per feature."""

BOND_SHIFT = 3
"""The row of the first bond feature's value 0."""

UNREACHABLE_ROW = 511
"""The row of the distance between atoms of different fragments."""


@dataclass(frozen=True)
class Format:
    """Module names of a format; its tensors have .weight or .bias appended."""

    atom_shift: int
    """The row of the first atom feature's value 0."""
    tables: dict[str, str]
    """Content of a table -> its module."""
    layer: dict[str, str]
    """Our module in a layer -> theirs; q, k and v are separate."""
    settings: dict[str, str]
    """Our hyper-parameter -> theirs."""
    after: dict[str, str] = field(default_factory=dict)
    """Our module after the last layer -> theirs."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names in some versions of the format -> names above."""
    unused: tuple[str, ...] = ()
    """Modules of the encoder without effect."""
    head: tuple[str, ...] = ()
    """Parts of the tensor names of a head without a counterpart here."""


_MAX_LISTED = 8  # tensors in a message
_ATOM_TABLES = {
    "atoms": "atom_encoder",
    "in_degrees": "in_degree_encoder",
    "out_degrees": "out_degree_encoder",
    "graph_token": "graph_token",
}
_PAIR_TABLES = {
    "virtual_distance": "graph_token_virtual_distance",
    "distances": "spatial_pos_encoder",
    "bonds": "edge_encoder",
    "positions": "edge_dis_encoder",
}

FORMATS = {
    "graphormer-v1": Format(
        atom_shift=2,
        tables=_ATOM_TABLES | _PAIR_TABLES,
        layer={
            "attention_norm.norm": "self_attention_norm",
            "q": "self_attention.linear_q",
            "k": "self_attention.linear_k",
            "v": "self_attention.linear_v",
            "attention.out": "self_attention.output_layer",
            "ffn_norm.norm": "ffn_norm",
            "ffn_in": "ffn.layer1",
            "ffn_out": "ffn.layer2",
        },
        settings={"dropout": "dropout_rate", "attention_dropout": "attention_dropout_rate"},
        after={"last_norm.norm": "final_ln", "head": "downstream_out_proj"},
        aliases={"rel_pos_encoder": "spatial_pos_encoder", "out_proj": "downstream_out_proj"},
    ),
    "hf": Format(
        atom_shift=3,
        tables={role: f"graph_node_feature.{name}" for role, name in _ATOM_TABLES.items()}
        | {role: f"graph_attn_bias.{name}" for role, name in _PAIR_TABLES.items()},
        layer={
            "attention_norm.norm": "self_attn_layer_norm",
            "q": "self_attn.q_proj",
            "k": "self_attn.k_proj",
            "v": "self_attn.v_proj",
            "attention.out": "self_attn.out_proj",
            "ffn_norm.norm": "final_layer_norm",
            "ffn_in": "fc1",
            "ffn_out": "fc2",
        },
        settings={name: name for name in ("dropout", "attention_dropout", "activation_dropout")},
        unused=("final_layer_norm",),  # of the encoder; transformers never applies it
        head=(
            *("lm_head_transform_weight", "layer_norm", "classifier", "lm_output_learned_bias"),
            "embed_out",
        ),
    ),
}
"""The formats that can be imported."""


@dataclass(frozen=True)
class Recognised:
    """A state dict with exactly the tensors of its format."""

    format: Format
    tensors: dict[str, Tensor]
    """By the format's names, at least float32."""
    names: dict[str, str]
    """Name in the format -> name in the state dict."""
    unused: dict[str, str]
    """Tensor that is not imported -> the reason."""
    layers: int


def format_named(source: str) -> Format:
    """Return the format of checkpoints of a program.

    Raises:
        ConfigError: there is no such format.
    """
    if source not in FORMATS:
        raise ConfigError(f"unknown format '{source}'. {did_you_mean(source, FORMATS)}")
    return FORMATS[source]


def recognise(source: str, state: Mapping[str, Tensor], settings: Mapping[str, Any]) -> Recognised:
    """Find the tensors of a format in a state dict; their names may have any prefix.

    Raises:
        ConfigError: the format is unknown.
        ModelError: the architecture differs, or tensors are missing, left over, not finite or of
            wrong shapes.
    """
    form = format_named(source)
    names, unused = _match_names(form, state)
    _check_architecture(form, names, unused, settings)
    numbers = [int(n) for n in re.findall(r"^layers\.(\d+)\.", "\n".join(names), re.MULTILINE)]
    layers = max(numbers, default=0) + 1
    modules = [f"layers.{n}.{module}" for n in range(layers) for module in form.layer.values()]
    modules += form.after.values()
    wanted = [f"{module}.weight" for module in form.tables.values()]
    wanted += [f"{module}.{kind}" for module in modules for kind in ("weight", "bias")]
    missing = [name for name in wanted if name not in names]
    left = sorted(names[name] for name in names.keys() - set(wanted))
    if missing or left:
        found = [f"missing: {first_names(missing)}"] if missing else []
        found += [f"left over: {first_names(left)}"] if left else []
        raise ModelError(f"these are not the tensors of a {source} network; {'; '.join(found)}")
    tensors = {
        name: state[original].to(torch.promote_types(state[original].dtype, torch.float32))
        for name, original in names.items()
    }
    if bad := _misshapen(form, tensors, names):
        raise ModelError(f"shapes that do not fit: {first_names(bad)}")
    if bad := [names[name] for name, value in tensors.items() if not value.isfinite().all()]:
        raise ModelError(f"the checkpoint is damaged; not finite: {first_names(bad)}")
    return Recognised(form, tensors, names, unused, layers)


def v1_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of "hf" by their names in "graphormer-v1"."""
    v1, hf = FORMATS["graphormer-v1"], FORMATS["hf"]
    names = {theirs: v1.tables[role] for role, theirs in hf.tables.items()}
    names |= {theirs: v1.layer[part] for part, theirs in hf.layer.items()}
    pattern = re.compile(r"^(layers\.\d+\.|)(.+)(?=\.\w+$)")
    return {
        pattern.sub(lambda found: found[1] + names[found[2]], name): tensor
        for name, tensor in tensors.items()
    }


def first_names(names: list[str]) -> str:
    """Return the first names and the number of the others."""
    return first_of(names, _MAX_LISTED)


def _match_names(
    form: Format, state: Mapping[str, Tensor]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return `names` and `unused` of `Recognised`."""
    anchor = f"{form.tables['virtual_distance']}.weight"
    prefix = next((name.removesuffix(anchor) for name in state if name.endswith(anchor)), "")
    names: dict[str, str] = {}
    unused: dict[str, str] = {}
    for original in state:
        module, _, kind = original.removeprefix(prefix).rpartition(".")
        name = f"{form.aliases.get(module, module)}.{kind}"
        inside = original.startswith(prefix)
        if inside and module in form.unused:
            unused[original] = "it has no effect there"
        elif not inside and set(form.head) & set(original.split(".")):
            unused[original] = "part of a head without a counterpart in this network"
        else:
            names[name if inside and name not in names else original] = original
    return names, unused


def _check_architecture(
    form: Format, names: dict[str, str], unused: dict[str, str], settings: Mapping[str, Any]
) -> None:
    """Refuse checkpoints with these tensors that compute something else."""
    activation = settings.get("activation_fn", "gelu")
    post_norm = form.unused and not any(f"{form.unused[0]}.weight" in name for name in unused)
    reasons = {
        "it normalises after each residual (pre_layernorm is false), this network before": (
            post_norm or not settings.get("pre_layernorm", True)
        ),
        "it normalises its input (encoder_normalize_before)": "emb_layer_norm.weight" in names,
        f"its activation is {activation}, this network's gelu": activation != "gelu",
        "it scales its embeddings (embed_scale)": settings.get("embed_scale") is not None,
        "it reads the bonds of neighbours alone (edge_type is not multi_hop)": (
            f"{form.tables['positions']}.weight" not in names
        ),
    }
    found = [reason for reason, applies in reasons.items() if applies]
    if found and f"{form.tables['virtual_distance']}.weight" in names:
        raise ModelError(f"the checkpoint is of another architecture: {'; '.join(found)}")


def _misshapen(form: Format, tensors: dict[str, Tensor], names: dict[str, str]) -> list[str]:
    """Describe tables that do not match the width of the graph token or the number of heads."""
    if empty := [
        names[name] for name, value in tensors.items() if not (value.dim() and len(value))
    ]:
        return [f"{name} is empty" for name in empty]
    name = {role: f"{module}.weight" for role, module in form.tables.items()}
    width, heads = (tensors[name[r]].shape[-1] for r in ("graph_token", "virtual_distance"))
    if not heads or width % heads:
        return [f"{heads} heads do not divide a width of {width}"]
    if (count := len(tensors[name["positions"]])) % heads**2:
        return [f"{names[name['positions']]} has {count} rows, no multiple of {heads}²"]
    rows = {"graph_token": 1, "virtual_distance": 1, "positions": heads**2, "bonds": 1}
    columns = dict.fromkeys(_PAIR_TABLES, heads) | {"positions": 1}
    shapes = {role: (rows.get(role, 3), columns.get(role, width)) for role in name}
    return [
        f"{names[name[role]]} is {tuple(shape)}, expected at least {min_rows} rows of {size}"
        for role, (min_rows, size) in shapes.items()
        if len(shape := tensors[name[role]].shape) != 2 or shape[0] < min_rows or shape[1] != size
    ]

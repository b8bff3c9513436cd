"""Another Graphormer's tensors to ours, by the table in `molsepnorm.formats`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from molsepnorm import featurize
from molsepnorm.errors import ConfigError, ModelError, did_you_mean
from molsepnorm.formats import BOND_SHIFT, FORMATS, STRIDE, UNREACHABLE_ROW, Format
from molsepnorm.nn.graphormer import GraphormerConfig

__all__ = ["Imported", "import_weights"]

_ROWS = 256 + 1
"""Of a degree or distance table, row 0 included; the encodings count to 255."""


@dataclass(frozen=True)
class Imported:
    """A network's configuration and weights, and where each came from."""

    config: GraphormerConfig
    state: dict[str, Tensor]
    """Ours by name; what there is nothing for is left out."""
    mapped: dict[str, tuple[str, ...]]
    """Our names to those of the tensors they were made of."""
    unused: dict[str, str]
    """Tensors that are not imported, and why."""
    rows: dict[str, tuple[int, int]]
    """Tables to how many of how many rows are imported."""
    max_path_length: int
    """The bonds that the other network's paths are padded to."""
    padding: bool
    """Whether padding has an influence there, so that its outputs depend on the batch."""


def import_weights(
    source: str,
    state: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    *,
    featurizer: str,
    max_path_length: int,
    atom_shift: int | None = None,
    outputs: int = 1,
) -> Imported:
    """Turn another Graphormer's state dict into ours.

    Args:
        source: "graphormer-v1" or "hf".
        state: its tensors by name; what stands before the names does not matter.
        settings: its hyper-parameters under its own names, as far as they are known.
        featurizer: what its atoms and bonds are: "zinc" or "ogb".
        max_path_length: L, its multi_hop_max_dist; 0 or less where it has no limit.
        atom_shift: the row of the first atom feature's value 0, if not the format's.
        outputs: of the read-out, where the format has none for us.

    Raises:
        ConfigError: no such format or featuriser, or longer paths than it has tensors for.
        ModelError: another architecture; tensors missing, left over, not finite, or of shapes
            that do not fit.
    """
    kinds: list[tuple[str, str, Iterable[str]]] = [
        ("format", source, FORMATS),
        ("featuriser", featurizer, featurize.SIZES),
    ]
    for what, name, known in kinds:
        if name not in known:
            raise ConfigError(f"unknown {what} '{name}'. {did_you_mean(name, known)}")
    form, sizes = FORMATS[source], featurize.SIZES[featurizer]
    given, unused = _by_their_names(form, state)
    _check_architecture(source, form, given, unused, settings)
    layers = _check_names(source, form, given, unused)
    tensors = {name: state[original] for name, original in given.items()}
    _check_shapes(form, tensors, given, layers)

    ours: dict[str, Tensor] = {}
    mapped: dict[str, tuple[str, ...]] = {}

    def put(name: str, value: Tensor, *theirs: str) -> None:
        ours[name] = value.float().contiguous()
        mapped[name] = tuple(given[each] for each in theirs)

    name = {role: f"{module}.weight" for role, module in form.tables.items()}
    table = {role: tensors[each].float() for role, each in name.items()}
    for role, of in (("graph_token", "embedding"), ("virtual_distance", "bias")):
        put(f"{of}.graph_token", table[role][0], name[role])
    shift = form.atom_shift if atom_shift is None else atom_shift
    atoms = _features(table["atoms"], sizes.atoms, shift, given[name["atoms"]])
    put("embedding.atoms", torch.cat(atoms), name["atoms"])
    degrees = table["in_degrees"][1:_ROWS] + table["out_degrees"][1:_ROWS]
    put("embedding.degrees", degrees, name["in_degrees"], name["out_degrees"])
    first = BOND_SHIFT + (featurizer == "zinc")
    bonds = _features(table["bonds"], sizes.bonds, first, given[name["bonds"]])
    for feature, rows in enumerate(bonds):
        put(f"bias.bonds.{feature}", rows, name["bonds"])

    heads = table["virtual_distance"].shape[1]
    matrices = table["positions"].reshape(-1, heads, heads).transpose(1, 2)
    length = max_path_length if max_path_length > 0 else len(matrices)
    if length > len(matrices):
        raise ConfigError(
            f"max_path_length is {length}, and the checkpoint has matrices for the first "
            f"{len(matrices)} bonds of a path: give {len(matrices)} or less"
        )
    padding = matrices[:length] @ table["bonds"][0]  # (L, H)
    sources = [name["distances"], *([name["bonds"], name["positions"]] if padding.any() else [])]
    spatial = table["distances"][1 : min(_ROWS, UNREACHABLE_ROW)]
    rest = [padding[d:].sum(dim=0) / max(1, min(d, length)) for d in range(len(spatial))]
    put("bias.spatial", spatial + torch.stack(rest), *sources)
    if salts := len(table["distances"]) > UNREACHABLE_ROW:
        unreachable = table["distances"][UNREACHABLE_ROW] + padding.sum(dim=0) / length
        put("bias.unreachable", unreachable, *sources)
    put("bias.positions", matrices[: min(length, len(spatial) - 1)], name["positions"])

    for index in range(layers):
        modules = {part: f"layers.{index}.{module}" for part, module in form.layer.items()}
        for kind in ("weight", "bias"):
            qkv = [f"{modules[part]}.{kind}" for part in "qkv"]
            joined = torch.cat([tensors[each] for each in qkv])
            put(f"layers.{index}.attention.qkv.{kind}", joined, *qkv)
            for part in set(modules) - set("qkv"):
                each = f"{modules[part]}.{kind}"
                put(f"layers.{index}.{part}.{kind}", tensors[each], each)
    for part, module in form.after.items():
        for kind in ("weight", "bias"):
            put(f"{part}.{kind}", tensors[f"{module}.{kind}"], f"{module}.{kind}")

    config = GraphormerConfig(
        layers=layers,
        width=len(ours["embedding.graph_token"]),
        ffn_width=len(ours["layers.0.ffn_in.weight"]),
        heads=heads,
        norm="shared",
        node_norm="layer",
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        max_degree=len(degrees) - 1,
        max_distance=len(spatial) - 1,
        max_path_length=len(ours["bias.positions"]),
        outputs=len(ours["readout.bias"]) if form.after else outputs,
        **{part: settings[key] for part, key in form.settings.items() if key in settings},
    )
    counts = {
        "atoms": sum(sizes.atoms),
        "in_degrees": len(degrees),
        "out_degrees": len(degrees),
        "bonds": sum(sizes.bonds),
        "distances": len(spatial) + salts,
        "positions": config.max_path_length * heads**2,
    }
    read = {given[name[role]]: (count, len(table[role])) for role, count in counts.items()}
    return Imported(config, ours, mapped, unused, read, length, bool(padding.any()))


def _features(table: Tensor, sizes: tuple[int, ...], first: int, name: str) -> list[Tensor]:
    """The rows of each feature."""
    starts = [first + STRIDE * feature for feature in range(len(sizes))]
    if len(table) < (needed := starts[-1] + sizes[-1]):
        raise ModelError(
            f"{name} has {len(table)} rows, and the features need {needed}: choose the "
            "featuriser that the network was trained with"
        )
    return [table[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def _by_their_names(
    form: Format, state: Mapping[str, Tensor]
) -> tuple[dict[str, str], dict[str, str]]:
    """The format's names to those in the state dict, and what is known to be of no use."""
    anchor = f"{form.tables['virtual_distance']}.weight"
    prefix = next((name.removesuffix(anchor) for name in state if name.endswith(anchor)), "")
    given: dict[str, str] = {}
    unused: dict[str, str] = {}
    for original in state:
        if original.startswith(prefix):
            module, _, kind = original.removeprefix(prefix).rpartition(".")
            if module in form.unused:
                unused[original] = "it has no effect there"
                continue
            module = form.aliases.get(module, module)
            if f"{module}.{kind}" not in given:
                given[f"{module}.{kind}"] = original
                continue
        elif set(form.head) & set(original.split(".")):
            unused[original] = "a head that this network has no counterpart for"
            continue
        given[original] = original
    return given, unused


def _check_architecture(
    source: str,
    form: Format,
    given: dict[str, str],
    unused: dict[str, str],
    settings: Mapping[str, Any],
) -> None:
    """Refuse what has the right tensors and computes something else."""
    final = any(name.endswith(f"{module}.weight") for name in unused for module in form.unused)
    activation = settings.get("activation_fn", "gelu")
    positions = f"{form.tables['positions']}.weight" not in given
    reasons = {
        "it normalises after each residual (pre_layernorm is false), where this network does "
        "so before": source == "hf" and not (final and settings.get("pre_layernorm", True)),
        "it normalises its input (encoder_normalize_before)": "emb_layer_norm.weight" in given,
        f"its activation is {activation}, where this network's is gelu": activation != "gelu",
        "it scales its embeddings (embed_scale)": settings.get("embed_scale") is not None,
        "it reads the bonds of neighbours alone (its edge_type is not multi_hop)": positions,
    }
    found = [reason for reason, applies in reasons.items() if applies]
    if found and f"{form.tables['virtual_distance']}.weight" in given:
        raise ModelError(f"the checkpoint is of another architecture: {'; '.join(found)}")


def _check_names(
    source: str, form: Format, given: dict[str, str], unused: dict[str, str]
) -> int:
    """Refuse what lacks a tensor or has one more; returns the number of layers."""
    numbers = [int(n) for n in re.findall(r"^layers\.(\d+)\.", "\n".join(given), re.MULTILINE)]
    layers = max(numbers, default=0) + 1
    parts = [f"layers.{n}.{module}" for n in range(layers) for module in form.layer.values()]
    wanted = [f"{module}.weight" for module in form.tables.values()]
    wanted += [f"{p}.{kind}" for p in (*parts, *form.after.values()) for kind in ("weight", "bias")]
    missing = [name for name in wanted if name not in given]
    left = sorted(original for name, original in given.items() if name not in set(wanted))
    if missing or left:
        found = [f"missing: {_listed(missing)}"] * bool(missing)
        found += [f"left over: {_listed(left)}"] * bool(left)
        raise ModelError(f"this is no {source} checkpoint as we know it; {'; '.join(found)}")
    return layers


def _check_shapes(
    form: Format, tensors: dict[str, Tensor], given: dict[str, str], layers: int
) -> None:
    """Refuse shapes that do not fit each other, and values that are no numbers."""
    name = {role: f"{module}.weight" for role, module in form.tables.items()}
    heads, width = (tensors[name[r]].shape[-1] for r in ("virtual_distance", "graph_token"))
    ffn = len(tensors[f"layers.0.{form.layer['ffn_in']}.weight"])
    shapes: dict[str, tuple[int | None, ...]] = dict.fromkeys(name.values(), (None, width))
    shapes |= dict.fromkeys((name[r] for r in ("virtual_distance", "distances", "bonds")), (None, heads))
    shapes[name["positions"]] = (None, 1)
    weights: dict[str, tuple[int | None, ...]] = {
        **dict.fromkeys(form.layer.values(), (width, width)),
        form.layer["ffn_in"]: (ffn, width),
        form.layer["ffn_out"]: (width, ffn),
        form.layer["attention_norm.norm"]: (width,),
        form.layer["ffn_norm.norm"]: (width,),
    }
    weights = {f"layers.{n}.{m}": shape for n in range(layers) for m, shape in weights.items()}
    if form.after:
        weights |= {form.after["last_norm.norm"]: (width,), form.after["readout"]: (None, width)}
    for module, shape in weights.items():
        shapes[f"{module}.weight"] = shape
        shapes[f"{module}.bias"] = shape[:1]
    bad = [
        f"{given[each]} {tuple(tensors[each].shape)}, expected "
        f"({', '.join('any' if size is None else str(size) for size in shape)})"
        for each, shape in shapes.items()
        if len(shape) != tensors[each].dim()
        or any(want not in (None, got) for want, got in zip(shape, tensors[each].shape, strict=True))
    ]
    least = {"in_degrees": 3, "out_degrees": 3, "distances": 3, "bonds": 1}
    ...
    if bad:
        raise ModelError(f"shapes that do not fit: {_listed(bad)}")
    damaged = [given[each] for each, value in tensors.items() if not value.isfinite().all()]
    if damaged:
        raise ModelError(f"the checkpoint is damaged; not finite: {_listed(damaged)}")


def _listed(names: list[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

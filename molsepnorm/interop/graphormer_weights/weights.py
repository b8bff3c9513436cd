"""Convert the tensors of another Graphormer to ours; `.formats` describes the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from molsepnorm.errors import ConfigError, ModelError, did_you_mean
from molsepnorm.interop.graphormer_weights.formats import (
    BOND_SHIFT,
    STRIDE,
    UNREACHABLE_ROW,
    first_names,
    recognise,
)
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer

__all__ = ["Imported", "import_weights"]

_FEATURIZERS = ("zinc", "ogb")  # those of published Graphormers

_ROWS = 256 + 1
"""Maximum number of rows of a degree or distance table, including row 0."""


@dataclass(frozen=True)
class Imported:
    """The configuration and weights of a network, and their origin."""

    config: GraphormerConfig
    state: dict[str, Tensor]
    """Our tensors by name, without those that have no counterpart."""
    theirs: dict[str, Tensor]
    """The other network's tensors by their names in the format."""
    mapped: dict[str, tuple[str, ...]]
    """Our tensor -> names of the tensors from which it was made."""
    unused: dict[str, str]
    """Tensor that is not imported -> the reason."""
    rows: dict[str, tuple[int, int]]
    """Table -> number of imported rows, number of rows."""
    max_path_length: int
    """Number of bonds to which the other network pads paths."""
    padding: bool
    """True if the other network's outputs depend on the batch, because of padding."""


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
    """Convert the state dict of another Graphormer.

    Args:
        source: "graphormer-v1" or "hf".
        state: its tensors by name, with any prefix.
        settings: its known hyper-parameters, under its own names.
        featurizer: the features of its atoms and bonds, "zinc" or "ogb".
        max_path_length: L, its multi_hop_max_dist; 0 or less if there is no limit.
        atom_shift: the row of the first atom feature's value 0, if not the format's.
        outputs: number of outputs, if the format's head is not imported.

    Raises:
        ConfigError: the format or the featuriser is unknown, or paths are longer than the tensors.
        ModelError: as `recognise`.
    """
    if featurizer not in _FEATURIZERS:
        known = did_you_mean(featurizer, _FEATURIZERS)
        raise ConfigError(f"unknown featuriser '{featurizer}'. {known}")
    sizes = featurize.SIZES[featurizer]
    found = recognise(source, state, settings)
    form, given, tensors = found.format, found.names, found.tensors
    ours: dict[str, Tensor] = {}
    mapped: dict[str, tuple[str, ...]] = {}

    def put(name: str, value: Tensor, *theirs: str) -> None:
        ours[name] = value.contiguous()
        mapped[name] = tuple(given[each] for each in theirs)

    name = {role: f"{module}.weight" for role, module in form.tables.items()}
    table = {role: tensors[each] for role, each in name.items()}
    put("embedding.graph_token", table["graph_token"][0], name["graph_token"])
    put("pair_encoding.bias.graph_token", table["virtual_distance"][0], name["virtual_distance"])
    shift = form.atom_shift if atom_shift is None else atom_shift
    atoms = _features(table["atoms"], sizes.atoms, shift, given[name["atoms"]])
    put("embedding.atoms", torch.cat(atoms), name["atoms"])
    end = min(_ROWS, len(table["in_degrees"]), len(table["out_degrees"]))
    degrees = table["in_degrees"][1:end] + table["out_degrees"][1:end]
    put("embedding.degrees", degrees, name["in_degrees"], name["out_degrees"])
    first = BOND_SHIFT + (featurizer == "zinc")
    bonds = _features(table["bonds"], sizes.bonds, first, given[name["bonds"]])
    for feature, rows in enumerate(bonds):
        put(f"pair_encoding.bias.bonds.{feature}", rows, name["bonds"])

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
    put("pair_encoding.bias.spatial", spatial + torch.stack(rest), *sources)
    if salts := len(table["distances"]) > UNREACHABLE_ROW:
        unreachable = table["distances"][UNREACHABLE_ROW] + padding.sum(dim=0) / length
        put("pair_encoding.bias.unreachable", unreachable, *sources)
    positions = matrices[: min(length, len(spatial) - 1)]
    put("pair_encoding.bias.positions", positions, name["positions"])

    modules = dict(form.after)
    for index in range(found.layers):
        theirs = {part: f"layers.{index}.{module}" for part, module in form.layer.items()}
        modules |= {f"layers.{index}.{part}": theirs[part] for part in theirs if part not in "qkv"}
        for kind in ("weight", "bias"):
            qkv = [f"{theirs[part]}.{kind}" for part in "qkv"]
            if len({tensors[each].shape for each in qkv}) > 1:
                raise ModelError(
                    f"these differ in shape: {first_names([given[each] for each in qkv])}"
                )
            joined = torch.cat([tensors[each] for each in qkv])
            put(f"layers.{index}.attention.qkv.{kind}", joined, *qkv)
    for ours_module, module in modules.items():
        for kind in ("weight", "bias"):
            each = f"{module}.{kind}"
            put(f"{ours_module}.{kind}", tensors[each], each)

    config = GraphormerConfig(
        layers=found.layers,
        width=len(ours["embedding.graph_token"]),
        ffn_width=len(ours["layers.0.ffn_in.weight"]),
        heads=heads,
        norm="shared",
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        max_degree=len(degrees) - 1,
        max_distance=len(spatial) - 1,
        max_path_length=len(ours["pair_encoding.bias.positions"]),
        outputs=len(ours["head.bias"]) if form.after else outputs,
        **{part: settings[key] for part, key in form.settings.items() if key in settings},
    )
    with torch.device("meta"):
        wanted = Graphormer(config).state_dict()
    if bad := [
        f"{' and '.join(mapped[each])} as {tuple(value.shape)}, expected {tuple(shape)}"
        for each, value in ours.items()
        if value.shape != (shape := wanted[each].shape)
    ]:
        raise ModelError(f"shapes that do not fit: {first_names(bad)}")
    counts = {
        "atoms": sum(sizes.atoms),
        "in_degrees": len(degrees),
        "out_degrees": len(degrees),
        "bonds": sum(sizes.bonds),
        "distances": len(spatial) + salts,
        "positions": config.max_path_length * heads**2,
    }
    read = {given[name[role]]: (count, len(table[role])) for role, count in counts.items()}
    return Imported(config, ours, tensors, mapped, found.unused, read, length, bool(padding.any()))


def _features(table: Tensor, sizes: tuple[int, ...], first: int, name: str) -> list[Tensor]:
    """Return the rows of each feature."""
    starts = [first + STRIDE * feature for feature in range(len(sizes))]
    if len(table) < (needed := starts[-1] + sizes[-1]):
        raise ModelError(
            f"{name} has {len(table)} rows, and the features need {needed}: choose the "
            "featuriser that the network was trained with"
        )
    return [table[start : start + size] for start, size in zip(starts, sizes, strict=True)]

"""Import the encoder of transformers' Graphormer.

This is the encoder of `GraphormerForGraphClassification` in transformers up to 4.57.6 with
`pre_layernorm=True`: a pre-norm Graphormer with one layer norm for all tokens. The head has no
counterpart here, so the graph token after the last layer is imported, and the last norm is new.

**Index shifts.** Value x of feature f of an atom or a bond is in row x + 512 f + 3 of one table.
Bonds of ZINC are one row further, as they are 1, 2, 3 there and 0, 1, 2 here. A degree or a
distance d is in row d + 1, and atoms of different fragments are at distance 510. Weights of the
reference implementation that were copied to transformers have atoms one row earlier (shift 2).

**Transposes.** The matrix of a position multiplies a row vector from the right there, and a column
vector from the left here.

**Padding.** Row 0 of edge_encoder pads paths to the longest path of the batch, at most L bonds. If
it is not zero, outputs there depend slightly on the other molecules of a batch. Its contribution to
a path that is padded to L depends on the distance only, and is added to the biases of distances.

**Long distances.** The collator of transformers hides atoms that are 19 bonds apart or more from
each other, unless `spatial_pos_max=1024` is set. Here, distances above 255 bonds share one bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from molsepnorm.errors import (
    ConfigError,
    ModelError,
    StorageError,
    did_you_mean,
    first_of,
    prefixed,
)
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Task

__all__ = ["Imported", "convert"]

_FEATURIZERS = ("zinc", "ogb")  # those of published Graphormers
_STRIDE = 512  # rows per feature in a table of atoms or bonds
_SHIFT = 3  # row of the first feature's value 0 in such a table
_UNREACHABLE_ROW = 511  # of the distance between atoms of different fragments
_MAX_ROWS = 256 + 1  # imported rows of a degree or distance table, including row 0
_MAX_LISTED = 8  # tensors in a message

_ATOMS = "graph_node_feature.atom_encoder.weight"
_IN_DEGREES = "graph_node_feature.in_degree_encoder.weight"
_OUT_DEGREES = "graph_node_feature.out_degree_encoder.weight"
_GRAPH_TOKEN = "graph_node_feature.graph_token.weight"
_TOKEN_BIAS = "graph_attn_bias.graph_token_virtual_distance.weight"
_DISTANCES = "graph_attn_bias.spatial_pos_encoder.weight"
_BONDS = "graph_attn_bias.edge_encoder.weight"
_POSITIONS = "graph_attn_bias.edge_dis_encoder.weight"
_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_LAYER = {
    "attention_norm.norm": "self_attn_layer_norm",
    "attention.out": "self_attn.out_proj",
    "ffn_norm.norm": "final_layer_norm",
    "ffn_in": "fc1",
    "ffn_out": "fc2",
}
"""Our module in a layer -> theirs."""

_SETTINGS = {
    "pre_layernorm": True,
    "encoder_normalize_before": False,
    "edge_type": "multi_hop",
    "activation_fn": "gelu",
    "embed_scale": None,
}
"""The values in config.json with which transformers' encoder computes the same as this network."""


@dataclass(frozen=True)
class Imported:
    """The configuration and weights of a network, and their origin."""

    config: GraphormerConfig
    featurizer: str
    state: dict[str, Tensor]
    """Our tensors by name, at least float32, without those that have no counterpart."""
    mapped: dict[str, tuple[str, ...]]
    """Our tensor -> names of the tensors from which it was made."""
    unused: tuple[str, ...]
    """Tensors that are not imported: the head, and a norm that transformers does not apply."""
    fresh: tuple[str, ...]
    """Our tensors that have no counterpart and keep their initial weights."""

    def __str__(self) -> str:
        return (
            f"{len(self.mapped)} tensors imported, with the features of {self.featurizer}\n"
            f"Not imported: {', '.join(self.unused)}\n"
            f"Initial weights, to be trained: {', '.join(self.fresh)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the origin of all tensors as JSON values."""
        return {"mapped": self.mapped, "unused": self.unused, "fresh": self.fresh}


def convert(
    checkpoint: Path | str,
    *,
    featurizer: str | None = None,
    max_path_length: int | None = None,
    atom_shift: int = _SHIFT,
) -> tuple[PropertyModel, Imported]:
    """Return a model with the encoder of transformers' Graphormer, and the origin of its weights.

    The model has no targets: it gives embeddings and is a start for training.

    Args:
        checkpoint: a model folder of transformers, or a .safetensors or torch file.
        featurizer: "zinc" or "ogb", the checkpoint's features of atoms and bonds. [default: zinc
            if the atom table is too small for OGB's]
        max_path_length: the checkpoint's multi_hop_max_dist. [default: from the config.json beside
            the weights]
        atom_shift: first row of the atom table; 2 for weights of the reference implementation that
            were copied to transformers.

    Raises:
        ConfigError: an option is unknown or missing, or does not fit the checkpoint.
        ModelError: the checkpoint is damaged or has another architecture.
        StorageError: the checkpoint cannot be read.
    """
    state, settings = _read(Path(checkpoint))
    if max_path_length is not None:
        settings["multi_hop_max_dist"] = max_path_length
    with prefixed(checkpoint):
        found = import_weights(state, settings, featurizer=featurizer, atom_shift=atom_shift)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Graphormer(found.config).eval()
    network.load_state_dict(found.state, strict=False)
    task = Task((), "loss")
    return PropertyModel.of(network, found.featurizer, task, objective="pretraining"), found


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a checkpoint and the settings beside it; no code in it is run."""
    if path.is_dir():
        names = ("model.safetensors", "pytorch_model.bin")
        existing = [path / name for name in names if (path / name).exists()]
        if not existing:
            raise ModelError(f"{path} holds neither {' nor '.join(names)}: give a file")
        path = existing[0]
    try:
        with clear_errors(path, "read"):
            if path.suffix == ".safetensors":
                state: Any = load_file(path)
            else:
                state = torch.load(path, map_location="cpu", weights_only=True)
    except StorageError:
        raise
    except Exception as error:  # other files fail in many ways
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{path} is damaged, or holds more than tensors ({reason}): save the network's "
            "state_dict() alone"
        ) from error
    tensors = list(state.values()) if isinstance(state, dict) else []
    if not tensors or not all(isinstance(value, Tensor) for value in tensors):
        raise ModelError(f"{path} holds no tensors by name: save the network's state_dict() alone")
    config = path.with_name("config.json")
    settings = read_json(config) if config.exists() else {}
    if not isinstance(settings, dict) or settings.get("model_type") != "graphormer":
        return state, {}
    return state, {"multi_hop_max_dist": 5} | settings  # the default, which the file may omit


def import_weights(
    state: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    *,
    featurizer: str | None = None,
    atom_shift: int = _SHIFT,
) -> Imported:
    """Convert a state dict of transformers' Graphormer, with any prefix of its names.

    Args:
        settings: the entries of its config.json; multi_hop_max_dist is required.
        featurizer, atom_shift: as for `convert`, with its errors.
    """
    prefix = next((n.removesuffix(_GRAPH_TOKEN) for n in state if n.endswith(_GRAPH_TOKEN)), "")
    given = {name.removeprefix(prefix): name for name in state if name.startswith(prefix)}
    theirs = {
        name: state[original].to(torch.promote_types(state[original].dtype, torch.float32))
        for name, original in given.items()
    }
    layers = _check(theirs, settings)
    if featurizer is None:
        if len(theirs[_ATOMS]) > _STRIDE * (len(featurize.SIZES["ogb"].atoms) - 1):
            raise ConfigError(
                "its atom table has the default size of transformers, whatever features its "
                "network was trained with: give --featurizer ogb or zinc"
            )
        featurizer = "zinc"
    if featurizer not in _FEATURIZERS:
        known = did_you_mean(featurizer, _FEATURIZERS)
        raise ConfigError(f"unknown featuriser '{featurizer}'. {known}")
    sizes = featurize.SIZES[featurizer]
    heads = theirs[_TOKEN_BIAS].shape[1]
    matrices = theirs[_POSITIONS].reshape(-1, heads, heads).transpose(1, 2)  # (L, H, H)
    length = settings.get("multi_hop_max_dist")
    if not isinstance(length, int) or not 1 <= length <= len(matrices):
        raise ConfigError(
            f"max_path_length is {length}; expected the network's multi_hop_max_dist (often 20 for "
            f"ZINC and 5 elsewhere), 1 to {len(matrices)}: give --max-path-length"
        )
    ours: dict[str, Tensor] = {}
    mapped: dict[str, tuple[str, ...]] = {}

    def put(name: str, value: Tensor, *sources: str) -> None:
        ours[name] = value
        mapped[name] = tuple(given[each] for each in sources)

    put("embedding.graph_token", theirs[_GRAPH_TOKEN][0], _GRAPH_TOKEN)
    atoms = _features(theirs[_ATOMS], sizes.atoms, atom_shift, given[_ATOMS])
    put("embedding.atoms", torch.cat(atoms), _ATOMS)
    end = min(_MAX_ROWS, len(theirs[_IN_DEGREES]), len(theirs[_OUT_DEGREES]))
    degrees = theirs[_IN_DEGREES][1:end] + theirs[_OUT_DEGREES][1:end]
    put("embedding.degrees", degrees, _IN_DEGREES, _OUT_DEGREES)

    put("pair_encoding.bias.graph_token", theirs[_TOKEN_BIAS][0], _TOKEN_BIAS)
    first = _SHIFT + (featurizer == "zinc")
    for index, rows in enumerate(_features(theirs[_BONDS], sizes.bonds, first, given[_BONDS])):
        put(f"pair_encoding.bias.bonds.{index}", rows, _BONDS)
    padding = matrices[:length] @ theirs[_BONDS][0]  # (L, H)
    sources = [_DISTANCES, *([_BONDS, _POSITIONS] if padding.any() else [])]
    spatial = theirs[_DISTANCES][1:_MAX_ROWS]
    rest = [padding[d:].sum(dim=0) / max(1, min(d, length)) for d in range(len(spatial))]
    put("pair_encoding.bias.spatial", spatial + torch.stack(rest), *sources)
    if len(theirs[_DISTANCES]) > _UNREACHABLE_ROW:
        unreachable = theirs[_DISTANCES][_UNREACHABLE_ROW] + padding.sum(dim=0) / length
        put("pair_encoding.bias.unreachable", unreachable, *sources)
    positions = matrices[: min(length, len(spatial) - 1)]
    put("pair_encoding.bias.positions", positions, _POSITIONS)

    for at in (f"layers.{layer}" for layer in range(layers)):
        for kind in ("weight", "bias"):
            qkv = [f"{at}.{module}.{kind}" for module in _QKV]
            put(f"{at}.attention.qkv.{kind}", torch.cat([theirs[each] for each in qkv]), *qkv)
            for part, module in _LAYER.items():
                name = f"{at}.{module}.{kind}"
                put(f"{at}.{part}.{kind}", theirs[name], name)

    dropouts = ("dropout", "attention_dropout", "activation_dropout")
    config = GraphormerConfig(
        layers=layers,
        width=theirs[_GRAPH_TOKEN].shape[1],
        ffn_width=len(theirs["layers.0.fc1.bias"]),
        heads=heads,
        norm="shared",
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        max_degree=len(degrees) - 1,
        max_distance=len(spatial) - 1,
        max_path_length=len(positions),
        outputs=0,
        **{name: settings[name] for name in dropouts if name in settings},
    )
    with torch.device("meta"):
        fresh = tuple(name for name in Graphormer(config).state_dict() if name not in ours)
    used = {name for names in mapped.values() for name in names}
    unused = tuple(name for name in state if name not in used)
    return Imported(config, featurizer, ours, mapped, unused, fresh)


def _check(theirs: Mapping[str, Tensor], settings: Mapping[str, Any]) -> int:
    """Return the number of layers, after checking names, shapes and settings."""
    for name, needed in _SETTINGS.items():
        if (value := settings.get(name, needed)) != needed:
            raise ModelError(f"its {name} is {value}; only {needed} can be imported")
    layers = 1
    while f"layers.{layers}.fc1.bias" in theirs:
        layers += 1
    width, heads, ffn_width = (
        theirs[name].numel() if name in theirs else 0
        for name in (_GRAPH_TOKEN, _TOKEN_BIAS, "layers.0.fc1.bias")
    )
    columns = {
        **dict.fromkeys((_ATOMS, _IN_DEGREES, _OUT_DEGREES, _GRAPH_TOKEN), width),
        **dict.fromkeys((_DISTANCES, _BONDS, _TOKEN_BIAS), heads),
        _POSITIONS: 1,
    }
    layer = {
        **dict.fromkeys((*_QKV, "self_attn.out_proj"), (width, width)),
        **dict.fromkeys(("self_attn_layer_norm", "final_layer_norm"), (width,)),
        "fc1": (ffn_width, width),
        "fc2": (width, ffn_width),
    }
    modules = {f"layers.{n}.{name}": layer[name] for n in range(layers) for name in layer}
    modules["final_layer_norm"] = (width,)
    shapes = {f"{name}.weight": shape for name, shape in modules.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in modules.items()}
    missing = [name for name in (*columns, *shapes) if name not in theirs]
    left = [name for name in theirs if name not in columns and name not in shapes]
    if missing or left:
        expected = ", ".join(f"{name}={value}" for name, value in _SETTINGS.items())
        raise ModelError(
            f"these are not the tensors of transformers' Graphormer with {expected}; missing: "
            f"{first_of(missing, _MAX_LISTED) or 'none'}; left over: "
            f"{first_of(left, _MAX_LISTED) or 'none'}"
        )
    shapes |= {name: (*theirs[name].shape[:1], size) for name, size in columns.items()}
    if bad := [
        f"{name} is {tuple(theirs[name].shape)}, expected {shape}"
        for name, shape in shapes.items()
        if theirs[name].shape != shape
    ]:
        raise ModelError(f"shapes that do not fit: {first_of(bad, _MAX_LISTED)}")
    count = len(theirs[_POSITIONS])
    if not heads or not count or count % heads**2:
        raise ModelError(f"{_POSITIONS} has {count} rows, expected a multiple of {heads}² (heads)")
    if short := [n for n in (_IN_DEGREES, _OUT_DEGREES, _DISTANCES) if len(theirs[n]) < 3]:
        raise ModelError(f"tables with fewer than 3 rows: {', '.join(short)}")
    if bad := [name for name, value in theirs.items() if not value.isfinite().all()]:
        raise ModelError(f"the checkpoint is damaged; not finite: {first_of(bad, _MAX_LISTED)}")
    return layers


def _features(table: Tensor, sizes: tuple[int, ...], first: int, name: str) -> list[Tensor]:
    starts = [first + _STRIDE * feature for feature in range(len(sizes))]
    if len(table) < (needed := starts[-1] + sizes[-1]):
        raise ModelError(
            f"{name} has {len(table)} rows, and the features need {needed}: choose the "
            "featuriser that the network was trained with"
        )
    return [table[start : start + size] for start, size in zip(starts, sizes, strict=True)]

"""Read checkpoint files of other Graphormers and match their tensors with a format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from molsepnorm.errors import ConfigError, ModelError, StorageError, did_you_mean
from molsepnorm.files.writing import clear_errors
from molsepnorm.interop.graphormer_weights.formats import FORMATS, Format

__all__ = ["Recognised", "listed", "read_checkpoint", "recognise"]

_KINDS = ("weight", "bias")


def read_checkpoint(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the hyper-parameters of a checkpoint.

    Only tensors and plain values are unpickled.

    Args:
        path: a .safetensors or torch file, or a folder with one. If there is a `config.json` of
            transformers beside it, the hyper-parameters are read from it.

    Raises:
        StorageError: the file cannot be read.
        ModelError: the file is damaged, or has no named tensors.
    """
    path = Path(path)
    if path.is_dir():
        names = ("model.safetensors", "pytorch_model.bin")
        existing = [path / name for name in names if (path / name).exists()]
        if not existing:
            raise ModelError(f"{path} holds neither {' nor '.join(names)}: give a file")
        path = existing[0]
    try:
        with clear_errors(path, "read"):
            if path.suffix == ".safetensors":
                content: Any = load_file(path)
            else:
                content = torch.load(path, map_location="cpu", weights_only=True)
    except StorageError:
        raise
    except Exception as error:  # other files fail in many ways
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{path} is damaged, or holds more than tensors and plain values ({reason}). If you "
            "trust it, keep its tensors alone: torch.save(torch.load(PATH, weights_only=False)"
            '["state_dict"], "weights.pt")'
        ) from error
    settings = _settings_beside(path)
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            stored = content.get("hyper_parameters")
            settings |= dict(stored) if isinstance(stored, Mapping) else {}
            content = content[key]
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(value, Tensor) for value in content.values())
    ):
        raise ModelError(f"{path} holds no tensors by name, alone or under 'state_dict'")
    return dict(content), settings


def _settings_beside(path: Path) -> dict[str, Any]:
    """Return the settings in transformers' `config.json` beside a checkpoint, if there is one."""
    config = path.with_name("config.json")
    if not config.exists():
        return {}
    try:
        with clear_errors(config, "read"):
            content = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{config} is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("model_type") != "graphormer":
        return {}
    return {"multi_hop_max_dist": 5} | content  # the default, which the file may omit


@dataclass(frozen=True)
class Recognised:
    """A state dict with exactly the tensors of its format."""

    format: Format
    tensors: dict[str, Tensor]
    """By the format's names."""
    names: dict[str, str]
    """Name in the format -> name in the state dict."""
    unused: dict[str, str]
    """Tensor that is not imported -> the reason."""
    layers: int


def recognise(source: str, state: Mapping[str, Tensor], settings: Mapping[str, Any]) -> Recognised:
    """Find the tensors of a format in a state dict; their names may have any prefix.

    Raises:
        ConfigError: the format is unknown.
        ModelError: the architecture differs, or tensors are missing, left over, not finite or of
            wrong shapes.
    """
    if source not in FORMATS:
        raise ConfigError(f"unknown format '{source}'. {did_you_mean(source, FORMATS)}")
    form = FORMATS[source]
    names, unused = _by_their_names(form, state)
    _check_architecture(form, names, unused, settings)
    numbers = [int(n) for n in re.findall(r"^layers\.(\d+)\.", "\n".join(names), re.MULTILINE)]
    layers = max(numbers, default=0) + 1
    _check_names(source, form, layers, names)
    tensors = {name: state[original] for name, original in names.items()}
    if bad := _misshapen(form, tensors, names):
        raise ModelError(f"shapes that do not fit: {listed(bad)}")
    if bad := [names[name] for name, value in tensors.items() if not value.isfinite().all()]:
        raise ModelError(f"the checkpoint is damaged; not finite: {listed(bad)}")
    return Recognised(form, tensors, names, unused, layers)


def _by_their_names(
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


def _check_names(source: str, form: Format, layers: int, names: dict[str, str]) -> None:
    """Refuse missing and additional tensors."""
    modules = [f"layers.{n}.{module}" for n in range(layers) for module in form.layer.values()]
    modules += form.after.values()
    wanted = [f"{module}.weight" for module in form.tables.values()]
    wanted += [f"{module}.{kind}" for module in modules for kind in _KINDS]
    missing = [name for name in wanted if name not in names]
    left = sorted(original for name, original in names.items() if name not in set(wanted))
    if missing or left:
        found = [f"missing: {listed(missing)}"] if missing else []
        found += [f"left over: {listed(left)}"] if left else []
        raise ModelError(f"these are not the tensors of a {source} network; {'; '.join(found)}")


def _misshapen(form: Format, tensors: dict[str, Tensor], names: dict[str, str]) -> list[str]:
    """Describe tables that do not match the width of the graph token or the number of heads."""
    if empty := [
        names[each] for each, value in tensors.items() if not value.dim() or not len(value)
    ]:
        return [f"{name} is empty" for name in empty]
    name = {role: f"{module}.weight" for role, module in form.tables.items()}
    width, heads = (tensors[name[r]].shape[-1] for r in ("graph_token", "virtual_distance"))
    if not heads or width % heads:
        return [f"{heads} heads do not divide a width of {width}"]
    if (count := len(tensors[name["positions"]])) % heads**2:
        return [f"{names[name['positions']]} has {count} rows, no multiple of {heads}²"]
    rows = {"graph_token": 1, "virtual_distance": 1, "positions": heads**2, "bonds": 1}
    columns = dict.fromkeys(("virtual_distance", "distances", "bonds"), heads) | {"positions": 1}
    shapes = {role: (rows.get(role, 3), columns.get(role, width)) for role in name}
    return [
        f"{names[name[role]]} is {tuple(shape)}, expected at least {min_rows} rows of {size}"
        for role, (min_rows, size) in shapes.items()
        if len(shape := tensors[name[role]].shape) != 2 or shape[0] < min_rows or shape[1] != size
    ]


def listed(names: list[str], limit: int = 8) -> str:
    """Return the first names and the number of the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more

"""Import the weights of another Graphormer as a model, and check the result.

`.formats` describes the supported formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, ModelError, StorageError
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors
from molsepnorm.interop.graphormer_weights.formats import FORMATS, STRIDE, format_named, v1_names
from molsepnorm.interop.graphormer_weights.parity import (
    MOLECULES,
    reference_inputs,
    v1_outputs,
    v1_tokens,
)
from molsepnorm.interop.graphormer_weights.weights import Imported, import_weights
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.metrics import Kind

__all__ = ["ConversionReport", "Parity", "convert"]

_TOLERANCE = 1e-4
"""Maximum difference, relative to the largest compared number or 1."""


@dataclass(frozen=True)
class Parity:
    """The difference between our network and the other one."""

    compared: str
    """The compared output."""
    molecules: tuple[str, ...]
    """SMILES for which it was computed."""
    difference: float
    """The largest absolute difference, in float32."""
    largest: float
    """The largest absolute number compared."""


@dataclass(frozen=True)
class ConversionReport:
    """The result of a conversion, tensor by tensor."""

    source: str
    checkpoint: str
    featurizer: str
    mapped: dict[str, tuple[str, ...]]
    """Our tensor -> names of the tensors from which it was made."""
    unused: dict[str, str]
    """Tensor of the checkpoint that was not imported -> the reason."""
    fresh: dict[str, str]
    """Our tensor with initial weights -> the reason."""
    rows: dict[str, tuple[int, int]]
    """Table of the checkpoint -> number of imported rows, number of rows."""
    parameters: dict[str, int]
    """Numbers in the checkpoint, parameters of our network, and those with initial weights."""
    notes: tuple[str, ...]
    parity: Parity

    def __str__(self) -> str:
        """Return the report as readable text."""
        counts = self.parameters
        lines = [
            f"{self.checkpoint} ({self.source}, {self.featurizer} features): "
            f"{counts['checkpoint']:,} numbers; our network: {counts['network']:,} parameters, "
            f"{counts['fresh']:,} of them fresh"
        ]
        for title, names in (("Not imported", self.unused), ("Fresh", self.fresh)):
            lines += [f"{title}: {name} ({why})" for name, why in names.items()]
        lines += [
            f"Rows: {name}: {read:,} of {of:,} imported"
            for name, (read, of) in self.rows.items()
            if read < of
        ]
        lines += [f"Note: {note}" for note in self.notes]
        parity = self.parity
        lines.append(
            f"Parity: {parity.compared}, on {len(parity.molecules)} molecules: the largest "
            f"difference is {parity.difference:.1e}, the largest number {parity.largest:.2g}"
        )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def convert(
    source: str,
    checkpoint: Path | str,
    *,
    featurizer: str | None = None,
    targets: Sequence[str] | None = None,
    kind: Kind = "regression",
    max_path_length: int | None = None,
    atom_shift: int | None = None,
) -> tuple[PropertyModel, ConversionReport]:
    """Return a model with the weights of another Graphormer, checked by its own forward pass.

    Args:
        source: "graphormer-v1" or "hf".
        checkpoint: a file, or for "hf" a folder with `config.json` and weights.
        featurizer: "zinc" or "ogb". [default: by the size of the atom table, unless that has the
            default size of transformers]
        targets: names of the outputs. [default: "y", or "y1", "y2", …]. Weights of transformers
            have none: their head is not imported, and the model has to be fine-tuned.
        kind: kind of all targets; values or logits are not scaled.
        max_path_length: the network's multi_hop_max_dist, if the checkpoint does not contain it.
        atom_shift: see `.formats`.

    Raises:
        ConfigError: an option is unknown or missing, or does not fit the checkpoint.
        ModelError: the checkpoint is damaged, has another architecture, or fails the check.
        StorageError: the checkpoint cannot be read.
    """
    state, settings = read_checkpoint(checkpoint)
    if max_path_length is None:
        max_path_length = settings.get("multi_hop_max_dist")
    if not isinstance(max_path_length, int):
        raise ConfigError(
            f"{checkpoint} does not contain how many bonds of a path its network reads: give "
            "--max-path-length, its multi_hop_max_dist (often 20 for ZINC and 5 elsewhere)"
        )
    has_head = bool(format_named(source).after)
    if targets is not None and not has_head:
        raise ConfigError(
            "the weights of transformers have no output head that could be imported, so the model "
            "has no targets: leave --target out, and fine-tune the model (molsepnorm train --from)"
        )
    if featurizer is None:
        rows = [len(table) for name, table in state.items() if "atom_encoder" in name]
        last_feature = STRIDE * (len(featurize.SIZES["ogb"].atoms) - 1)
        featurizer = "ogb" if max(rows, default=0) > last_feature else "zinc"
        if featurizer == "ogb" and source == "hf":
            raise ConfigError(
                f"the atom table of {checkpoint} has the default size of transformers, whatever "
                "features its network was trained with: give --featurizer ogb or zinc"
            )
    found = import_weights(
        source,
        state,
        settings,
        featurizer=featurizer,
        max_path_length=max_path_length,
        atom_shift=atom_shift,
        outputs=len(targets or "y") if has_head else 0,
    )
    network, fresh = _network(found)
    parity = _parity(found, source, featurizer, atom_shift, network)
    if not parity.difference <= _TOLERANCE * max(1.0, parity.largest):
        raise ModelError(
            f"{checkpoint} was read, but the result differs from its own forward pass by "
            f"{parity.difference:.2g}, where at most {_TOLERANCE:g} of the largest number "
            f"({parity.largest:.2g}) is expected; please report this"
        )
    parameters = {name: value.numel() for name, value in network.named_parameters()}
    report = ConversionReport(
        source=source,
        checkpoint=str(checkpoint),
        featurizer=featurizer,
        mapped=found.mapped,
        unused=found.unused,
        fresh=fresh,
        rows=found.rows,
        parameters={
            "checkpoint": sum(tensor.numel() for tensor in state.values()),
            "network": sum(parameters.values()),
            "fresh": sum(parameters[name] for name in fresh),
        },
        notes=tuple(_notes(found, source)),
        parity=parity,
    )
    if not found.config.outputs:
        return PropertyModel(network, featurizer, Task((), "loss"), objective="pretraining"), report
    return PropertyModel(network, featurizer, _task(found.config.outputs, targets, kind)), report


def read_checkpoint(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the hyper-parameters of a checkpoint.

    Only tensors and plain values are unpickled. If there is a `config.json` of transformers beside
    the file, the hyper-parameters are read from it.

    Args:
        path: a .safetensors or torch file, or a folder with one.

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
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            stored = content.get("hyper_parameters")
            settings |= stored if isinstance(stored, dict) else {}
            content = content[key]
    tensors = list(content.values()) if isinstance(content, dict) else []
    if not tensors or not all(isinstance(value, Tensor) for value in tensors):
        raise ModelError(f"{path} holds no tensors by name, alone or under 'state_dict'")
    return content, settings


def _settings_beside(path: Path) -> dict[str, Any]:
    config = path.with_name("config.json")
    if not config.exists():
        return {}
    content = read_json(config)
    if not isinstance(content, dict) or content.get("model_type") != "graphormer":
        return {}
    return {"multi_hop_max_dist": 5} | content  # the default, which the file may omit


def _network(found: Imported) -> tuple[Graphormer, dict[str, str]]:
    """Return the network, and its tensors with initial weights -> the reason."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Graphormer(found.config)
    missing, _ = network.load_state_dict(found.state, strict=False)
    reasons = {
        "pair_encoding.bias.unreachable": "its network cannot read molecules of several fragments"
    }
    no_head = "its head has no counterpart; train this before you predict"
    return network.eval(), {name: reasons.get(name, no_head) for name in missing}


def _task(outputs: int, targets: Sequence[str] | None, kind: Kind) -> Task:
    if targets is None:
        targets = ["y"] if outputs == 1 else [f"y{index}" for index in range(1, outputs + 1)]
    if len(targets) != outputs:
        raise ConfigError(
            f"the network has {outputs} outputs, and {len(targets)} names were given: "
            f"{', '.join(targets)}"
        )
    metric = {"regression": "mae", "binary": "roc_auc"}[kind]
    return Task(tuple(Target(name, kind) for name in targets), metric)


def _notes(found: Imported, source: str) -> list[str]:
    notes = []
    if found.padding:
        notes.append(
            "its path padding has an influence, so its outputs depend on the longest path of a "
            f"batch; imported as for batches with a path of {found.max_path_length} bonds or more"
        )
    if found.config.max_distance == 255:
        notes.append("distances above 255 bonds share one bias")
    if source == "hf":
        notes.append(
            "compared without spatial_pos_max: the collator of transformers hides atoms 19 bonds "
            "apart or more from each other, unless spatial_pos_max=1024 is set"
        )
    return notes


@torch.no_grad()
def _parity(
    found: Imported, source: str, featurizer: str, atom_shift: int | None, network: Graphormer
) -> Parity:
    """Compare both networks on the built-in molecules that the other network can read."""
    form = FORMATS[source]
    rows = len(found.theirs[f"{form.tables['distances']}.weight"])
    shift = 0 if atom_shift is None else atom_shift - form.atom_shift
    weights = found.theirs if form.after else v1_names(found.theirs)
    weights = {name: tensor.float() for name, tensor in weights.items()}
    molecules, differences, outputs = [], [], []
    for smiles in MOLECULES[featurizer]:
        graph = featurize.get(featurizer)(smiles)
        inputs = reference_inputs([graph], source, featurizer, found.max_path_length)
        if inputs["spatial_pos"].max() >= rows:
            continue
        inputs["input_nodes"] += shift
        batch = GraphTensors.of(encode([graph], encoding_of(network.config))).cut([0])
        if form.after:
            theirs, ours = v1_outputs(weights, inputs), network(batch)
        else:
            width = (network.config.width,)
            theirs = torch.nn.functional.layer_norm(v1_tokens(weights, inputs), width)
            ours = network.embed(batch)
        molecules.append(smiles)
        differences.append((ours - theirs).abs().max())
        outputs.append(theirs.abs().max())
    last = "outputs" if form.after else "the graph token after the last layer, normalised"
    difference, largest = (float(torch.stack(each).max()) for each in (differences, outputs))
    return Parity(last, tuple(molecules), difference, largest)

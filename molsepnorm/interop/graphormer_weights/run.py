"""Import the weights of another Graphormer as a model, and check the result.

`.formats` describes the supported formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.interop.graphormer_weights.checkpoints import read_checkpoint
from molsepnorm.interop.graphormer_weights.formats import FORMATS
from molsepnorm.interop.graphormer_weights.parity import (
    MOLECULES,
    hf_network,
    hf_tokens,
    reference_inputs,
    v1_outputs,
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
    """Further remarks."""
    parity: Parity | None
    """None if the other network could not be run; a note gives the reason."""

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
        if self.parity:
            lines.append(
                f"Parity: {self.parity.compared}, on {len(self.parity.molecules)} molecules: at "
                f"most {self.parity.difference:.1e} apart, the largest being "
                f"{self.parity.largest:.2g}"
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
        featurizer: "zinc" or "ogb". [default: by the size of the atom table]
        targets: names of the outputs. [default: "y", or "y1", "y2", …]
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
    if featurizer is None:
        rows = max(
            (len(table) for name, table in state.items() if "atom_encoder" in name), default=0
        )
        featurizer = "ogb" if rows > 512 * (len(featurize.SIZES["ogb"].atoms) - 1) else "zinc"
    found = import_weights(
        source,
        state,
        settings,
        featurizer=featurizer,
        max_path_length=max_path_length,
        atom_shift=atom_shift,
        outputs=len(targets or "y"),
    )
    model, fresh = _model(found, source, featurizer, targets, kind)
    notes = _notes(found, source, settings)
    try:
        parity = _parity(found, source, featurizer, atom_shift, model.network)
    except ImportError as error:
        parity = None
        notes.append(
            f"not compared with the network of transformers ({error}): pip install "
            "transformers==4.57.6 and convert again to see the difference"
        )
    if parity and not parity.difference <= _TOLERANCE * max(1.0, parity.largest):
        raise ModelError(
            f"{checkpoint} was read, but the result differs from its own forward pass by "
            f"{parity.difference:.2g}, where at most {_TOLERANCE:g} of the largest number "
            f"({parity.largest:.2g}) is expected; please report this"
        )
    parameters = {name: value.numel() for name, value in model.network.named_parameters()}
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
        notes=tuple(notes),
        parity=parity,
    )
    return model, report


def _model(
    found: Imported, source: str, featurizer: str, targets: Sequence[str] | None, kind: Kind
) -> tuple[PropertyModel, dict[str, str]]:
    """Return the model, and the tensors with initial weights."""
    outputs = found.config.outputs
    if targets is None:
        targets = ["y"] if outputs == 1 else [f"y{index}" for index in range(1, outputs + 1)]
    if len(targets) != outputs:
        raise ConfigError(
            f"the network has {outputs} outputs, and {len(targets)} names were given: "
            f"{', '.join(targets)}"
        )
    metric = {"regression": "mae", "binary": "roc_auc"}[kind]
    task = Task(tuple(Target(name, kind) for name in targets), metric)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Graphormer(found.config)
    missing, _ = network.load_state_dict(found.state, strict=False)
    no_head = "its head has no counterpart; train this before you predict"
    no_salts = "its network cannot read molecules of several fragments"
    salts = "pair_encoding.bias.unreachable"
    fresh = {name: no_salts if name == salts else no_head for name in missing}
    return PropertyModel(network.eval(), featurizer, task), fresh


def _notes(found: Imported, source: str, settings: Mapping[str, Any]) -> list[str]:
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
    rows = found.theirs[f"{FORMATS[source].tables['distances']}.weight"].shape[0]
    read = featurize.get(featurizer)
    shift = 0 if atom_shift is None else atom_shift - FORMATS[source].atom_shift
    weights = {name: tensor.float() for name, tensor in found.theirs.items()}
    other = None
    if source == "hf":
        other = hf_network(weights, multi_hop_max_dist=found.max_path_length)
    used, apart, compared = [], [], []
    for smiles in MOLECULES[featurizer]:
        graph = read(smiles)
        inputs = reference_inputs([graph], source, featurizer, found.max_path_length)
        if inputs["spatial_pos"].max() >= rows:
            continue
        inputs["input_nodes"] += shift
        batch = GraphTensors.of(encode([graph], encoding_of(network.config))).cut([0])
        if other is None:
            theirs, ours = v1_outputs(weights, inputs), network(batch)
        else:
            width = (network.config.width,)
            theirs = torch.nn.functional.layer_norm(hf_tokens(other, inputs), width)
            ours = network.embed(batch)
        used.append(smiles)
        apart.append((ours - theirs).abs().max())
        compared.append(theirs.abs().max())
    what = "outputs" if other is None else "the graph token after the last layer, normalised"
    worst, largest = (float(torch.stack(values).max()) for values in (apart, compared))
    return Parity(what, tuple(used), worst, largest)

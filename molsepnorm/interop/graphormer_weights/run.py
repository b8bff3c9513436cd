"""Import the weights of another Graphormer as a model folder of ours, and check the result.

`.formats` says which Graphormers, and how their tensors become ours.
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
"""Of the largest number compared, or of 1 if that is less."""


@dataclass(frozen=True)
class Parity:
    """How far our network and the other one's forward pass are apart."""

    compared: str
    """What was compared."""
    molecules: tuple[str, ...]
    """On which."""
    difference: float
    """The largest absolute difference, in float32."""
    largest: float
    """The largest absolute number compared."""


@dataclass(frozen=True)
class ConversionReport:
    """What became of a checkpoint."""

    source: str
    checkpoint: str
    featurizer: str
    mapped: dict[str, tuple[str, ...]]
    """Our tensors to those they were made of."""
    unused: dict[str, str]
    """The checkpoint's tensors that were not imported, and why."""
    fresh: dict[str, str]
    """Our tensors that nothing was imported for, and why."""
    rows: dict[str, tuple[int, int]]
    """Tables of the checkpoint to how many of how many rows were imported."""
    parameters: dict[str, int]
    """Numbers in the checkpoint, in our network, and fresh among these."""
    notes: tuple[str, ...]
    """What else to know."""
    parity: Parity | None
    """None where the other network could not be run; a note says why."""

    def __str__(self) -> str:
        """The report for a person to read."""
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
        """The report as plain JSON values."""
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
    """A model with another Graphormer's weights, checked against that one's own forward pass.

    Args:
        source: "graphormer-v1" or "hf".
        checkpoint: a file, or for "hf" a folder with `config.json` and weights.
        featurizer: "zinc" or "ogb"; by default what the atom table is large enough for.
        targets: names of the outputs, "y" or "y1", "y2", … by default.
        kind: of all outputs; the values or logits are taken as they are.
        max_path_length: the network's multi_hop_max_dist, where the checkpoint does not tell.
        atom_shift: see `.formats`.

    Raises:
        ConfigError: an option is unknown or missing or does not fit the checkpoint.
        ModelError: the checkpoint is damaged, of another architecture, or fails the check.
        StorageError: it cannot be read.
    """
    state, settings = read_checkpoint(checkpoint)
    if max_path_length is None:
        max_path_length = settings.get("multi_hop_max_dist")
    if not isinstance(max_path_length, int):
        raise ConfigError(
            f"{checkpoint} does not tell how many bonds of a path its network reads: give "
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
    """The network in its model, and what of it is fresh."""
    outputs = found.config.outputs
    if targets is None:
        targets = ["y"] if outputs == 1 else [f"y{place}" for place in range(1, outputs + 1)]
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
            "apart or more from each other unless it is told spatial_pos_max=1024"
        )
    return notes


@torch.no_grad()
def _parity(
    found: Imported, source: str, featurizer: str, atom_shift: int | None, network: Graphormer
) -> Parity:
    """Compare on the built-in molecules that the other network can read."""
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

"""`export_model`: a model as a file of ONNX or TorchScript, checked before it is put in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError, StorageError
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.interop.export.formats import FORMATS, OPSET, WRITERS, Format, Run, require_format
from molsepnorm.interop.export.inputs import DenseInputs, dense_inputs, input_shapes
from molsepnorm.interop.export.predictions import DenseModel, output_columns
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.predict import Predictor

_ABOUT, _EXAMPLE = "model.json", "example.npz"
_TOLERANCE = 1e-3
"""Largest difference between the exported model and the predictor, in standard deviations of the
labels, or of a probability."""

_TRAINING = 64
"""Number of training molecules that are compared."""

_LONG = "C" * 50
MOLECULES = (
    *("C", "CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "Cn1c(=O)c2c(ncn2C)n(C)c1=O"),
    *("C[C@H](N)C(=O)O", "F/C=C/Cl", "CC(=O)[O-].C[NH3+]", "C1CC2CCC1C2", "N#Cc1ccc(Cl)c(Br)c1"),
    *("CC12CCC3C(CCC4=CC(=O)CCC34C)C1CCC2O", "O=S(=O)(N)c1ccc(F)cc1", _LONG),
)
"""Molecules of 1 to 50 atoms on which an export is traced and checked, with rings, stereo centres,
charges and two fragments. Those that a featuriser cannot read are left out."""

_MEANING = {
    "atoms": "atom features; 0 in padding",
    "degrees": "number of bonds of each atom, at most max_degree; 0 in padding",
    "mask": "true at atoms, false at padding",
    "distances": "number of bonds between two atoms, at most max_distance; -1 for atoms of "
    "different fragments and padding",
    "paths": "label of each bond on the canonical shortest path, counted from 1; 0 after the last",
    "neighbours": "indices of the bonded atoms, then -1",
    "features": "molecule-level features, not standardised",
}


@dataclass(frozen=True)
class ExportReport:
    """The check of an export."""

    file: Path
    """The exported model."""
    molecules: int
    """Number of molecules whose predictions were compared."""
    difference: float
    """Largest difference from `Predictor`, in `unit`."""
    unit: str
    """Values are compared on the scale that is learned, in standard deviations of the training
    labels; probabilities as they are."""


def check_export(to: str, folder: Path | str) -> Format:
    """Return the format, after checking it, the packages that it needs, and the folder.

    Raises:
        ConfigError: the format is unknown, a package is missing, or `folder` is the name of a file.
        StorageError: the folder holds files that are not those of an export.
    """
    folder = Path(folder)
    form = require_format(to)
    if folder.suffix in (".onnx", ".pt", ".json"):
        raise ConfigError(
            f"{folder} is the name of a file, and an export is a folder with {FORMATS[to]}, "
            f"{_ABOUT} and {_EXAMPLE}: give the name of a folder"
        )
    if folder.is_dir():
        with clear_errors(folder, "write"):
            found = {path.name for path in folder.iterdir()}
            own = {*FORMATS.values(), _ABOUT, _EXAMPLE} if _is_export(folder) else set()
            others = sorted(found - own)
        if others:
            raise StorageError(
                f"cannot write {folder}: it holds {others[0]}, which an export would replace: "
                "choose another folder"
            )
    return form


def export_model(model: PropertyModel, to: Format, folder: Path | str) -> ExportReport:
    """Write a model as a file of tensors in, predictions out, with all it needs to be used.

    The folder holds `model.onnx` or `model.pt`, `model.json`, which describes inputs and outputs,
    and `example.npz`, encoded molecules with their predictions. The file is loaded by onnxruntime
    or `torch.jit.load` and compared with `Predictor`, on built-in molecules and up to 64 training
    molecules if the model has them. No training molecule is written.

    Args:
        model: the model.
        to: the format.
        folder: the folder; an earlier export is replaced.

    Raises:
        ConfigError: as `check_export`, or the model has no dense form (see `DenseModel`).
        ModelError: the exported file differs from the model.
        StorageError: the folder cannot be written.
    """
    check_export(to, folder)
    dense = DenseModel(model).cpu()
    predictor = Predictor(_copy(model))
    example = _encoded(predictor, MOLECULES)
    if len(example.rows) < 2:  # a single one would fix the size of a batch
        reason = next(filter(None, example.errors))
        raise ConfigError(
            f"the featuriser '{model.featurizer}' can read {len(example.rows)} of the molecules "
            f"that an export is checked with, and at least 2 are needed: {reason}"
        )
    with replacing(folder, folder=True) as scratch:
        file = scratch / FORMATS[to]
        run = WRITERS[to](dense, example.arrays, file)
        report = replace(_compared(predictor, run, example), file=Path(folder) / file.name)
        texts = np.array([MOLECULES[row] for row in example.rows])
        predictions = run(example.arrays)
        np.savez_compressed(
            scratch / _EXAMPLE,
            smiles=texts,
            predictions=predictions,
            **example.arrays,  # type: ignore[arg-type]
        )
        about = json.dumps(_about(model, to, report), indent=2)
        (scratch / _ABOUT).write_text(about + "\n", encoding="utf-8")
    return report


def _is_export(folder: Path) -> bool:
    """Return whether a folder has the description of an exported model."""
    try:
        return "molsepnorm" in json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        return False


def _copy(model: PropertyModel) -> PropertyModel:
    """Return the model with copies of its networks, which `Predictor` moves to its device."""
    network, *partners = map(deepcopy, model.networks)
    return replace(model, network=network, partners=tuple(partners))


def _encoded(predictor: Predictor, smiles: Sequence[str]) -> DenseInputs:
    return dense_inputs(predictor.model, smiles, _cells(predictor.model, len(smiles)))


def _cells(model: PropertyModel, rows: int) -> dict[str, list[str]] | None:
    """Return cells of the model's feature columns that it can read: all words, and numbers of the
    range of the training rows; None if it has no such columns."""
    found: dict[str, list[str]] = {}
    for column in model.inputs.columns:
        low = 1.0 if column.low is None else column.low
        high = 1.0 if column.high is None else column.high
        numbers = np.linspace(low, high, max(rows, 2))
        words = column.words or [f"{number:.9g}" for number in numbers]
        found[column.name] = [words[row % len(words)] for row in range(rows)]
    return found or None


def _compared(predictor: Predictor, run: Run, example: DenseInputs) -> ExportReport:
    """Compare the exported model with the predictor, in batches and one by one."""
    model = predictor.model
    smiles = [MOLECULES[row] for row in example.rows]
    batches, training = [smiles, smiles[:1], smiles[-1:]], list[str]()
    if model.structures:
        training = list(model.training_molecules().smiles[:_TRAINING])
        batches.append(training)
    differences = []
    for batch in batches:
        inputs = _encoded(predictor, batch)
        found = run(inputs.arrays)
        outcomes = predictor.outcomes(batch, _cells(model, len(batch)))
        expected = np.concatenate([each.values for each in outcomes])[inputs.rows]
        differences.append(_difference(model, found, expected))
    kinds = {target.kind == "regression" for target in model.task.targets}
    units = {True: "standard deviations of the labels", False: "probability"}
    report = ExportReport(
        *(Path(), len(smiles) + len(training), float(np.max(differences))),
        " or ".join(units[kind] for kind in sorted(kinds, reverse=True)),
    )
    if not report.difference <= _TOLERANCE:
        raise ModelError(
            f"the exported model differs from molsepnorm's predictions by {report.difference:.2g} "
            f"({report.unit}), where at most {_TOLERANCE:g} is expected; nothing was written. "
            "Please report this"
        )
    return report


def _difference(model: PropertyModel, found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of predictions (B, O); `expected` is on the scale that is
    learned."""
    largest = [0.0]
    for target, its in zip(model.task.targets, model.task.columns(), strict=True):
        values, learned, transform = found[:, its], expected[:, its], target.transformation
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = np.abs(
                (values if transform is None else transform.forward(values)) - learned
            )
        if transform is not None:  # the value in the unit of the table may be 0 or infinity
            difference[values == transform.inverse(learned)] = 0
        scale = target.scale if target.kind == "regression" else 1.0
        largest.append(difference.max(initial=0.0) / scale)
    return float(np.max(largest))  # NaN if any is


def _about(model: PropertyModel, to: str, report: ExportReport) -> dict[str, Any]:
    """Return the content of `model.json`."""
    config, inputs = model.network.config, asdict(model.inputs)
    own = featurize.SIZES[model.featurizer]
    return {
        "molsepnorm": __version__,
        "format": to,
        **({"opset": OPSET} if to == "onnx" else {}),
        "inputs": [
            {"name": name, "type": dtype, "shape": list(shape), "meaning": _MEANING[name]}
            for name, (dtype, shape) in input_shapes(model).items()
        ],
        "output": {"name": "predictions", "type": "float32", "columns": output_columns(model)},
        "encoding": {
            "featurizer": model.featurizer,
            "featurizer_version": own.version,
            "standardize": model.standardize,
            "atom_sizes": list(config.atom_sizes),
            "bond_sizes": list(config.bond_sizes),
            "max_degree": config.max_degree,
            "max_distance": config.max_distance,
            "max_path_length": config.max_path_length,
            "features": {"featurizer": len(own.molecule), **inputs},
        },
        "check": {
            "molecules": report.molecules,
            "largest_difference": report.difference,
            "unit": report.unit,
        },
    }

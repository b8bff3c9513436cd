"""`export_onnx`: a model as a file of ONNX, checked before it is put in place."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.writing import replacing, write_json
from molsepnorm.interop.export.dense import DenseModel
from molsepnorm.interop.export.inputs import (
    INPUTS,
    DenseInputs,
    dense_inputs,
    dynamic_shapes,
    input_shapes,
    require_empty,
)
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.optional import require_package
from molsepnorm.predict import Predictor

_FILE, _ABOUT, _EXAMPLE = "model.onnx", "model.json", "example.npz"
_OPSET = 18
"""Version of ONNX's operators, which onnxruntime 1.14 and later read."""

_TOLERANCE = 1e-3
"""Largest difference between the exported model and the predictor, in standard deviations of the
labels, or of a probability."""

_TRAINING = 64
"""Number of training molecules that are compared."""

Run = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Returns the predictions (B, O) for inputs by name."""

_LONG = "C" * 50
MOLECULES = (
    *("C", "CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "Cn1c(=O)c2c(ncn2C)n(C)c1=O"),
    *("C[C@H](N)C(=O)O", "F/C=C/Cl", "CC(=O)[O-].C[NH3+]", "C1CC2CCC1C2", "N#Cc1ccc(Cl)c(Br)c1"),
    *("CC12CCC3C(CCC4=CC(=O)CCC34C)C1CCC2O", "O=S(=O)(N)c1ccc(F)cc1", _LONG),
)
"""Molecules of 1 to 50 atoms on which an export is traced and checked, with rings, stereo centres,
charges and two fragments. Those that a featuriser cannot read are left out."""


@dataclass(frozen=True)
class ExportReport:
    """The check of an export."""

    file: Path
    molecules: int
    """Number of molecules whose predictions were compared."""
    difference: float
    """Largest difference from `Predictor`, in `unit`."""
    unit: str
    """Values are compared on the scale that is learned, in standard deviations of the training
    labels; probabilities as they are."""


def check_export(folder: Path | str) -> None:
    """Check the packages that the export needs, and the folder.

    Raises:
        ConfigError: a package is missing, or `folder` is the name of a file.
        StorageError: the folder holds files.
    """
    folder = Path(folder)
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require_package(name, "onnx", "the export to ONNX")
    if folder.suffix in (".onnx", ".json"):
        raise ConfigError(
            f"{folder} is the name of a file, and an export is a folder with {_FILE}, {_ABOUT} and "
            f"{_EXAMPLE}: give the name of a folder"
        )
    require_empty(folder)


def export_onnx(model: PropertyModel, folder: Path | str) -> ExportReport:
    """Write a model as ONNX into a new or empty folder.

    It gets `model.onnx`, `model.json`, which describes inputs and outputs, and `example.npz`,
    encoded molecules with their predictions. The file is compared with `Predictor`, on built-in
    molecules and up to 64 training molecules if the model has them. No training molecule is
    written.

    Raises:
        ConfigError: as `check_export`, or the model has no dense form (see `DenseModel`).
        ModelError: the exported file differs from the model.
        StorageError: the folder cannot be written.
    """
    check_export(folder)
    dense = DenseModel(model).cpu()
    predictor = Predictor(model)
    example = dense_inputs(model, MOLECULES, _cells(model, len(MOLECULES)))
    if len(example.rows) < 2:  # a single one would fix the size of a batch
        reason = next(filter(None, example.errors))
        raise ConfigError(
            f"the featuriser '{model.featurizer}' can read {len(example.rows)} of the molecules "
            f"that an export is checked with, and at least 2 are needed: {reason}"
        )
    with replacing(folder, folder=True) as scratch:
        run = write_onnx(dense, example.arrays, scratch / _FILE)
        report = _compared(predictor, run, example, Path(folder) / _FILE)
        np.savez_compressed(
            scratch / _EXAMPLE,
            smiles=np.array([MOLECULES[row] for row in example.rows]),
            predictions=run(example.arrays),
            **example.arrays,  # type: ignore[arg-type]
        )
        write_json(scratch / _ABOUT, _about(model, report))
    return report


def write_onnx(dense: DenseModel, arrays: dict[str, np.ndarray], file: Path) -> Run:
    """Write a model as ONNX, traced with these inputs, and return its runner."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's exporter writes about its own code
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                dense,
                kwargs={name: torch.from_numpy(array) for name, array in arrays.items()},
                dynamo=True,
                opset_version=_OPSET,
                dynamic_shapes=dynamic_shapes(arrays),
                input_names=list(arrays),
                output_names=["predictions"],
                verbose=False,
            )
            assert program is not None
            program.save(file, external_data=False)
    finally:
        logging.disable(level)
    return onnx_runner(file)


def onnx_runner(file: Path | str) -> Run:
    from onnxruntime import InferenceSession

    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda arrays: session.run(None, {name: arrays[name] for name in names})[0]


def _cells(model: PropertyModel, rows: int) -> dict[str, list[str]] | None:
    """Return cells of the model's feature columns: its words, or numbers of the training range;
    None without such columns."""
    found: dict[str, list[str]] = {}
    for column in model.inputs.columns:
        low, high = (1.0 if end is None else end for end in (column.low, column.high))
        numbers = np.linspace(low, high, max(rows, 2))
        cells = column.words or [f"{number:.9g}" for number in numbers]
        found[column.name] = [*islice(cycle(cells), rows)]
    return found or None


def _compared(predictor: Predictor, run: Run, example: DenseInputs, file: Path) -> ExportReport:
    """Compare the exported model with the predictor, in batches and one by one."""
    model = predictor.model
    smiles = [MOLECULES[row] for row in example.rows]
    training = list(model.training_molecules().smiles[:_TRAINING]) if model.structures else []
    differences = []
    for batch in filter(None, (smiles, smiles[:1], smiles[-1:], training)):
        cells = _cells(model, len(batch))
        inputs = dense_inputs(model, batch, cells)
        names = [name for target in model.task.targets for name in target.output_columns]
        frame = predictor.to_frame(batch, cells)
        expected = frame[names].to_numpy(dtype=np.float32)[inputs.rows]
        differences.append(_difference(model, run(inputs.arrays), expected))
    kinds = {"regression": "standard deviations of the labels"}
    units = {kinds.get(target.kind, "probability") for target in model.task.targets}
    unit = " or ".join(sorted(units, reverse=True))
    count = len(smiles) + len(training)
    report = ExportReport(file, count, float(np.max(differences)), unit)
    if not report.difference <= _TOLERANCE:
        raise ModelError(
            f"the exported model differs from molsepnorm's predictions by {report.difference:.2g} "
            f"({report.unit}), where at most {_TOLERANCE:g} is expected; nothing was written. "
            "Please report this"
        )
    return report


def _difference(model: PropertyModel, found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of predictions (B, O), NaN if any is. `expected` is on the
    learned scale."""
    largest = [0.0]
    for target, its in zip(model.task.targets, model.task.columns(), strict=True):
        values, learned = found[:, its], expected[:, its]
        if (transform := target.transformation) is None:
            difference = np.abs(values - learned)
        else:  # the value in the unit of the table may be 0 or infinity
            with np.errstate(divide="ignore", invalid="ignore"):
                difference = np.abs(transform.forward(values) - learned)
            difference[values == transform.inverse(learned)] = 0
        scale = target.scale if target.kind == "regression" else 1.0
        largest.append(difference.max(initial=0.0) / scale)
    return float(np.max(largest))


def _about(model: PropertyModel, report: ExportReport) -> dict[str, Any]:
    config, inputs = model.network.config, asdict(model.inputs)
    own = featurize.SIZES[model.featurizer]
    return {
        "molsepnorm": __version__,
        "format": "onnx",
        "opset": _OPSET,
        "inputs": [
            {"name": name, "type": INPUTS[name][0], "shape": shape, "meaning": INPUTS[name][2]}
            for name, shape in input_shapes(model).items()
        ],
        "output": {"name": "predictions", "type": "float32", "columns": _output_columns(model)},
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


def _output_columns(model: PropertyModel) -> list[dict[str, str]]:
    """Return a description of every column of the predictions."""
    columns: list[dict[str, str]] = []
    for target in model.task.targets:
        own = {"target": target.name, "kind": target.kind}
        if target.kind == "multiclass":
            columns += [
                {"name": name, **own, "meaning": f"probability of {each}"}
                for name, each in zip(target.probability_columns, target.classes, strict=True)
            ]
            continue
        meaning = "value in the unit of the training table"
        if target.kind == "binary":
            meaning = f"probability of {target.positive_class}"
        columns.append({"name": target.prediction_column, **own, "meaning": meaning})
    return columns

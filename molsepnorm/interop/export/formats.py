"""Formats of exported models: how a file is written, and how it is run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.interop.export.predictions import DenseModel
from molsepnorm.optional import require_package

Format = Literal["onnx", "torchscript"]

FORMATS: dict[str, str] = {"onnx": "model.onnx", "torchscript": "model.pt"}
"""Format -> name of the file."""

OPSET = 18
"""Version of ONNX's operators, which onnxruntime 1.14 and later read."""

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

Run = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Returns the predictions (B, O) for inputs by name."""


def require_format(to: str) -> Format:
    """Return the format, after checking that its packages are installed.

    Raises:
        ConfigError: the format is unknown, or a package is missing.
    """
    if to not in FORMATS:
        raise ConfigError(f"unknown format '{to}'. {did_you_mean(to, FORMATS)}")
    for name in _PACKAGES if to == "onnx" else ():
        require_package(name, "onnx", "the export to ONNX")
    return to  # type: ignore[return-value]


def _write_onnx(dense: DenseModel, arrays: Mapping[str, np.ndarray], file: Path) -> Run:
    """Write the model as ONNX, and return the function that runs the file."""
    with _quiet():
        program = torch.onnx.export(
            dense,
            kwargs=_tensors(arrays),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=dynamic_shapes(arrays),
            input_names=list(arrays),
            output_names=["predictions"],
            verbose=False,
        )
        assert program is not None
        program.save(file, external_data=False)
    return onnx_runner(file)


def onnx_runner(file: Path | str) -> Run:
    """Return the function that runs an ONNX file on the CPU."""
    from onnxruntime import InferenceSession

    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        (predictions,) = session.run(None, {name: arrays[name] for name in names})
        return predictions

    return run


def _write_torchscript(dense: DenseModel, arrays: Mapping[str, np.ndarray], file: Path) -> Run:
    """Write the model as TorchScript, and return the function that runs the file."""
    with _quiet(), torch.no_grad():
        tensors = _tensors(arrays)
        traced = torch.jit.trace(dense, example_kwarg_inputs=tensors, check_trace=False)
        torch.jit.save(traced, file)
        loaded = torch.jit.load(file)

    def run(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        with torch.no_grad():
            return loaded(**_tensors(arrays)).numpy()

    return run


def dynamic_shapes(arrays: Mapping[str, Any]) -> dict[str, dict[int, Any]]:
    """Return the dimensions of the inputs that may have any size, for `torch.export.export`."""
    molecules, atoms, bonds = map(torch.export.Dim, ("molecules", "atoms", "bonds"))
    shapes = {
        "atoms": {0: molecules, 1: atoms},
        "degrees": {0: molecules, 1: atoms},
        "mask": {0: molecules, 1: atoms},
        "distances": {0: molecules, 1: atoms, 2: atoms},
        "paths": {0: molecules, 1: atoms, 2: atoms},
        "neighbours": {0: molecules, 1: atoms, 2: bonds},
        "features": {0: molecules},
    }
    return {name: shapes[name] for name in arrays}


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings and the log of torch's exporters, which are about their own code."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


WRITERS: dict[str, Callable[[DenseModel, Mapping[str, np.ndarray], Path], Run]] = {
    "onnx": _write_onnx,
    "torchscript": _write_torchscript,
}
"""Format -> function that writes a model, given inputs to trace it with, and returns the function
that runs the file."""

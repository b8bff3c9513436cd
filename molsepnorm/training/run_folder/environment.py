"""Record what a run began with in `environment.json`: versions, machine, command, data, weights."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ModelError
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.start import LoadedWeights


def environment_record(
    config: TrainConfig, dataset: Dataset, loaded: LoadedWeights | None
) -> dict[str, Any]:
    """Return the content of `environment.json`, with the weights that the run starts from if there
    are any."""
    packages = {}
    for name in ("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic"):
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    start = {} if loaded is None else {**config.finetune.origin(), "loaded_weights": asdict(loaded)}
    return {
        "molsepnorm": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv,
        "data": dataset.digest,
        "warnings": list(dataset.warnings),
        **start,
    }


def recorded_digest(path: Path) -> str:
    """Return the digest of the data from an `environment.json`.

    Raises:
        ModelError: the file is damaged.
    """
    environment = read_json(path)
    recorded = environment.get("data", "") if isinstance(environment, dict) else None
    if not isinstance(recorded, str):
        raise ModelError(f"{path} is damaged: it has no digest of the data")
    return recorded


def recorded_start(path: Path, kind: Any, name: str, default: Any) -> Any:
    """Return an entry of an `environment.json` about the weights that the run started from.

    Raises:
        ModelError: the file is damaged, or the entry is of another type than `kind`.
    """
    entries = dict[str, Any]
    environment = check_types(entries, read_json(path), f"{path} is damaged")
    loaded = check_types(entries, environment.get("loaded_weights", {}), f"{path} is damaged")
    return check_types(kind, loaded.get(name, default), f"{path} is damaged")

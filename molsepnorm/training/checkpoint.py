"""The state from which a run goes on exactly where it was.

One safetensors file: tensors by name, and the plain numbers as JSON in its header, with a digest of
all. Nothing is pickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.reading import check_types
from molsepnorm.files.writing import clear_errors, replacing

__all__ = ["Progress", "load_checkpoint", "save_checkpoint"]

SCHEMA = 3
"""Raised whenever the meaning of the file changes."""

_WITHOUT_DIGEST = 2  # the schema before files held their digest; still read


@dataclass
class Progress:
    """Where a run stands."""

    epoch: int = 0
    """Epochs finished."""
    step_in_epoch: int = 0
    """Steps taken in the epoch that is under way."""
    step: int = 0
    """Steps taken altogether."""
    loss_sum: float = 0.0
    """Of the steps since the last validation, over all labels."""
    loss_count: float = 0.0
    """The sum of their weights: how many labels that were, where all count alike."""
    graphs: int = 0
    """Molecules seen since the last validation."""
    epoch_seconds: float = 0.0
    """Spent on steps since the last validation."""
    seconds: float = 0.0
    """Spent on all steps and validations up to the last validation."""
    epochs: int = 0
    """How many the run shall have."""
    best_score: float | None = None
    best_epoch: int | None = None
    threads: int | None = None
    """Number of CPU threads; checkpoints of earlier versions have none."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and name not in _SIGNED and not 0 <= value < 2**63:
                raise ValueError(f"{name} must be a number from 0 on; got {value!s:.40}")
        if not all(math.isfinite(getattr(self, name) or 0) for name in _SIGNED):
            raise ValueError(f"{' and '.join(_SIGNED)} must be finite")
        if self.epoch > self.epochs or (self.best_epoch or 0) > self.epoch:
            raise ValueError("epoch must not be above epochs, nor best_epoch above epoch")


_SIGNED = ("loss_sum", "best_score")


def save_checkpoint(
    path: Path,
    progress: Progress,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: nn.Module | None,
    random: Mapping[str, Tensor],
    history: bytes = b"",
) -> None:
    """Write the state of training and of random generators, and the history so far, replacing the
    last checkpoint.

    Raises:
        StorageError: the place cannot be written, or the disk is full.
    """
    tensors = _flatten("network", network.state_dict())
    if average is not None:
        tensors |= _flatten("average", average.state_dict())
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= _flatten(f"optimizer.{index}", state)
    tensors |= _flatten("random", random)
    tensors["history"] = torch.from_numpy(np.frombuffer(history, dtype=np.uint8).copy())
    content = json.dumps({"schema": SCHEMA, "progress": asdict(progress)})
    with replacing(path) as scratch:
        write_sealed(scratch, [save(tensors, metadata={"molsepnorm": content, KEY: BLANK})])


def load_checkpoint(
    path: Path,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: nn.Module | None,
) -> tuple[Progress, dict[str, Tensor], bytes | None]:
    """Put the state back in place.

    Returns:
        Where the run stands; the states of its random generators, which are not set yet; and the
        history, which checkpoints of earlier versions lack.

    Raises:
        ModelError: the file is damaged or belongs to another configuration.
        StorageError: it cannot be read.
    """
    damaged = f"{path} is damaged or belongs to another configuration"
    try:
        with clear_errors(path, "read"), safe_open(path, framework="pt") as file:
            content = json.loads(file.metadata()["molsepnorm"])
            if content["schema"] not in (SCHEMA, _WITHOUT_DIGEST):
                raise ModelError(
                    f"{path} was written by another version of molsepnorm (schema "
                    f"{content['schema']}, and this one reads {SCHEMA}): go on with that version, "
                    "or start the run anew in another folder"
                )
            if check_sealed(path) is None and content["schema"] == SCHEMA:
                raise ValueError("it holds no digest")
            progress = check_types(Progress, content["progress"], f"{damaged}: progress")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        weights = _under("network", tensors)
        if converted := weights.keys() - network.state_dict().keys():
            raise ModelError(
                f"{path} was written by another version of molsepnorm, whose network also has "
                f"{min(converted)}: go on with that version, or start the run anew in another "
                "folder"
            )
        network.load_state_dict(weights)
        if average is not None:
            average.load_state_dict(_under("average", tensors))
        saved = optimizer.state_dict()
        count = sum(len(group["params"]) for group in saved["param_groups"])
        states = ((index, _under(f"optimizer.{index}", tensors)) for index in range(count))
        saved["state"] = {index: state for index, state in states if state}
        optimizer.load_state_dict(saved)
        random = _under("random", tensors)
        if not random:
            raise KeyError("random states")
        history = tensors.get("history")
        return progress, random, None if history is None else history.numpy().tobytes()
    except ModelError:
        raise
    except (SafetensorError, RuntimeError, LookupError, ValueError, TypeError) as error:
        raise ModelError(f"{damaged}: {error}. Start the run anew in another folder") from error


def _flatten(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": value.contiguous() for name, value in state.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}

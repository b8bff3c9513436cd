"""The state from which a run continues exactly: a safetensors file with the tensors by name.

Plain numbers are JSON in its header, together with a digest of everything. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from molsepnorm.errors import ConfigError, ModelError, counted
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.reading import check_types
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.training.objectives.objective import Objective
from molsepnorm.training.step import WeightAverage

SCHEMA = 5
"""Version of the format; increased whenever the meaning of the file changes."""
_DAMAGED = "{} is damaged or belongs to another configuration"


@dataclass
class Progress:
    """The position of a run."""

    epoch: int = 0
    """Epochs finished."""
    step_in_epoch: int = 0
    """Steps taken in the current epoch."""
    step: int = 0
    """Steps taken in total."""
    loss_sum: float = 0.0
    """Sum of the losses of all labels since the last validation."""
    loss_count: float = 0.0
    """Sum of the weights of these labels; their number if all weights are 1."""
    graphs: int = 0
    """Molecules seen since the last validation."""
    epoch_seconds: float = 0.0
    """Time of the steps since the last validation."""
    seconds: float = 0.0
    """Time of all steps and validations up to the last validation."""
    epochs: int = 0
    """Epochs in total when the run is finished."""
    best_score: float | None = None
    improved_epoch: int | None = None
    """The epoch of `best_score`."""
    best_epoch: int | None = None
    """The epoch that is kept, the last one with a score close to the best."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """The lines of `history.csv`."""

    def require_longer(self, epochs: int, run: Path) -> None:
        """Refuse a number of epochs that the run has trained for already, unless it is its own."""
        if epochs != self.epochs and epochs <= self.epoch:
            raise ConfigError(
                f"{run} has trained for {counted(self.epoch, 'epoch')}, and --epochs (run.epochs) "
                f"is {epochs}: choose a higher number"
            )


def save_checkpoint(
    path: Path,
    progress: Progress,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None,
    random: Mapping[str, Tensor],
    best: Mapping[str, Tensor],
) -> None:
    """Write the state of training, replacing the checkpoint.

    Args:
        random: the random states.
        best: tensors of the best objective so far.

    Raises:
        StorageError: the path cannot be written, or the disk is full.
    """
    tensors = _flatten("objective/", objective.state_dict())
    if average is not None:
        tensors |= _flatten("average/", average.module.state_dict())
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= _flatten(f"optimizer.{index}/", state)
    tensors |= _flatten("random/", random) | _flatten("best/", best)
    content = json.dumps({"schema": SCHEMA, "progress": asdict(progress)})
    with replacing(path) as scratch:
        write_sealed(scratch, [save(tensors, metadata={"molsepnorm": content, KEY: BLANK})])


def read_progress(path: Path) -> Progress:
    """Return the position of the run that a checkpoint belongs to."""
    with _opened(path) as file:
        return _progress(path, file.metadata())


def load_checkpoint(
    path: Path,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None,
) -> tuple[Progress, dict[str, Tensor], dict[str, Tensor]]:
    """Load the state into the objective, the optimiser and the average.

    Returns:
        The position of the run; the random states, which are not set yet; and the tensors of the
        best objective.

    Raises:
        ModelError: the file is damaged or belongs to another configuration.
        StorageError: it cannot be read.
    """
    with _opened(path) as file:
        progress = _progress(path, file.metadata())
        check_sealed(path)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        objective.load_state_dict(_under("objective/", tensors))
        if average is not None:
            average.module.load_state_dict(_under("average/", tensors))
        saved = optimizer.state_dict()
        count = sum(len(group["params"]) for group in saved["param_groups"])
        states = ((index, _under(f"optimizer.{index}/", tensors)) for index in range(count))
        saved["state"] = {index: state for index, state in states if state}
        optimizer.load_state_dict(saved)
        random = _under("random/", tensors)
        if not random:
            raise KeyError("random states")
        return progress, random, _under("best/", tensors)


def _progress(path: Path, metadata: Mapping[str, str]) -> Progress:
    content = json.loads(metadata["molsepnorm"])
    if content["schema"] != SCHEMA:
        raise ModelError(
            f"{path} was written by another version of molsepnorm (schema {content['schema']}, and "
            f"this one reads {SCHEMA}): continue with that version, or start the run anew in "
            "another folder"
        )
    return check_types(Progress, content["progress"], f"{_DAMAGED.format(path)}: progress")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a checkpoint; errors because of damage become a `ModelError`."""
    try:
        with clear_errors(path, "read"), safe_open(path, framework="pt") as file:
            yield file
    except ModelError:
        raise
    except (SafetensorError, RuntimeError, LookupError, ValueError, TypeError) as error:
        raise ModelError(
            f"{_DAMAGED.format(path)}: {error}. Start the run anew in another folder"
        ) from error


def _flatten(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value.contiguous() for name, value in state.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

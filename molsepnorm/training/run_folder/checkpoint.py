"""The state from which a run continues exactly: tensors by name, and numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.reading import check_types
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.training.objectives.objective import Objective
from molsepnorm.training.step import WeightAverage

SCHEMA = 6  # version of the format; increased whenever the meaning of the file changes
_DAMAGED = "{} is damaged or belongs to another configuration"


@dataclass
class Progress:
    epoch: int = 0  # epochs finished
    step_in_epoch: int = 0
    step: int = 0  # steps taken in total
    # since the last validation: sums of losses and their weights, molecules, and time of the steps
    loss_sum: float = 0.0
    loss_count: float = 0.0
    graphs: int = 0
    epoch_seconds: float = 0.0
    seconds: float = 0.0  # of all steps and validations up to the last validation
    epochs: int = 0  # of the finished run
    best_score: float | None = None
    kept_epoch: int | None = None
    history: list[dict[str, Any]] = field(default_factory=list)  # lines of `history.csv`


def save_checkpoint(
    path: Path,
    progress: Progress,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None,
    random: Mapping[str, Tensor],
    kept: Mapping[str, Tensor],
) -> None:
    """Replace the checkpoint; `kept` are the tensors of the kept objective."""
    tensors = _flatten("objective/", objective.state_dict())
    if average is not None:
        tensors |= _flatten("average/", average.module.state_dict())
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= _flatten(f"optimizer.{index}/", state)
    tensors |= _flatten("random/", random) | _flatten("kept/", kept)
    content = json.dumps({"schema": SCHEMA, "progress": asdict(progress)})
    with replacing(path) as scratch:
        write_sealed(scratch, [save(tensors, metadata={"molsepnorm": content, KEY: BLANK})])


def load_checkpoint(
    path: Path,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None,
) -> tuple[Progress, dict[str, Tensor], dict[str, Tensor]]:
    """Load the state, and return the position of the run, random states, and the kept objective."""
    try:
        with clear_errors(path, "read"), safe_open(path, framework="pt") as file:
            progress = _progress(path, file.metadata())
            check_sealed(path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        objective.load_state_dict(tensors_under("objective/", tensors))
        if average is not None:
            average.module.load_state_dict(tensors_under("average/", tensors))
        saved = optimizer.state_dict()
        count = sum(len(group["params"]) for group in saved["param_groups"])
        states = {index: tensors_under(f"optimizer.{index}/", tensors) for index in range(count)}
        saved["state"] = {index: state for index, state in states.items() if state}
        optimizer.load_state_dict(saved)
        random = tensors_under("random/", tensors)
        if not random:
            raise KeyError("random states")
    except ModelError:
        raise
    except (SafetensorError, RuntimeError, LookupError, ValueError, TypeError) as error:
        raise ModelError(f"{_DAMAGED.format(path)}: {error}. Start a new run") from error
    return progress, random, tensors_under("kept/", tensors)


def _progress(path: Path, metadata: Mapping[str, str]) -> Progress:
    content = json.loads(metadata["molsepnorm"])
    if content["schema"] != SCHEMA:
        raise ModelError(
            f"{path} was written by another version of molsepnorm (schema {content['schema']}, and "
            f"this one reads {SCHEMA}): continue with that version, or start a new run"
        )
    return check_types(Progress, content["progress"], f"{_DAMAGED.format(path)}: progress")


def _flatten(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value.contiguous() for name, value in state.items()}


def tensors_under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

"""Training objectives: the loss of a batch, its validation, and the final scores."""

from __future__ import annotations

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.training.config import OBJECTIVE_SETTINGS, ObjectiveConfig, TrainConfig
from molsepnorm.training.objectives.objective import Examples, Objective
from molsepnorm.training.objectives.pretraining import Pretraining
from molsepnorm.training.objectives.supervised import Supervised

__all__ = ["OBJECTIVES", "Examples", "Objective", "make_objective", "register"]

OBJECTIVES: dict[str, type[Objective]] = {"supervised": Supervised, "pretraining": Pretraining}
"""Classes by the name in `objective.name`; `OBJECTIVE_SETTINGS` has their settings."""


def register(
    name: str, objective: type[Objective], settings: type[ObjectiveConfig] = ObjectiveConfig
) -> None:
    """Add an objective under a new name, which a configuration then selects by `objective.name`."""
    if name in OBJECTIVES:
        raise ConfigError(f"there is already an objective '{name}': choose another name")
    OBJECTIVES[name], OBJECTIVE_SETTINGS[name] = objective, settings


def make_objective(config: TrainConfig, model: PropertyModel, examples: Examples) -> Objective:
    return OBJECTIVES[config.objective.name](model, examples, config).to(examples.labels.device)

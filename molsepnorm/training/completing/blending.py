"""Conditions for blending a random forest with the networks of a run, and its inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.model import SUPERVISED
from molsepnorm.tasks import ExtraInputs
from molsepnorm.training.config import TrainConfig

_MAX_LABELS = 100_000
"""Maximum number of training labels of all targets with which a forest is blended by default."""


def forest_inputs(inputs: ExtraInputs) -> ExtraInputs:
    """Return the inputs of the forest beside a network with these inputs: the columns of the table,
    Morgan counts, and descriptors, which are those of the network if it reads any. Atom pairs,
    which only a kernel head reads, follow them in the inputs of the model."""
    from molsepnorm.molecules.featurize.descriptors import COUNTS, FAST_DESCRIPTORS

    return ExtraInputs(inputs.columns, COUNTS, inputs.descriptors or FAST_DESCRIPTORS)


def blend_problem(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> str | None:
    """Return the reason why no forest can be blended with the network; None if there is none.

    Args:
        config: the configuration of the run.
        dataset: its data.
        inputs: the inputs of the network beside the atoms and bonds.
    """
    if config.objective.name != SUPERVISED:
        return f"the objective {config.objective.name} has no predictions"
    if config.data.dataset is not None or dataset.smiles is None:
        return f"{dataset.name} is not a table with SMILES"
    if not replace(inputs, pairs=0).is_start_of(forest_inputs(inputs)):
        return "data.molecule_features has rdkit without morgan: name both or neither"
    if config.run.blend == "auto" and num_labels(dataset) > _MAX_LABELS:
        return (
            f"there are more than {_MAX_LABELS:,} training labels (--blend forest includes it all "
            "the same)"
        )
    return None


def may_blend(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> bool:
    """Return whether a forest may become a part of the model; arguments as for `blend_problem`.

    The validation molecules may still leave it out.
    """
    allowed = config.run.baseline and config.run.blend != "none"
    return allowed and blend_problem(config, dataset, inputs) is None


def require_blendable(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> None:
    """Check that the run can have the blend that its configuration names.

    Raises:
        ConfigError: `run.blend` is `forest`, and no forest can be blended.
    """
    problem = blend_problem(config, dataset, inputs)
    if config.run.blend == "forest" and problem is not None:
        raise ConfigError(f"run.blend: forest cannot be used, because {problem}")


def num_labels(dataset: Dataset) -> int:
    """Return the number of training labels of all targets."""
    return int(np.isfinite(dataset.labels[dataset.splits["train"]]).sum())

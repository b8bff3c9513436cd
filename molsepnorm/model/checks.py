"""The encoding of molecules that a network reads, and whether the parts of a model fit each other.

Each check raises a `ConfigError` if they do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from molsepnorm.errors import ConfigError, ModelError, counted, did_you_mean
from molsepnorm.model.parts import Part, networks_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration, kind_fits


def encoding_of(config: GraphormerConfig) -> EncodingSpec:
    """Return the encoding of molecules that a network of this architecture needs."""
    return EncodingSpec(
        bond_sizes=config.bond_sizes,
        max_degree=config.max_degree,
        max_distance=config.max_distance,
        max_path_length=config.max_path_length,
        molecule_features=config.molecule_features,
    )


def require_featurizer(
    path: Path, about: Mapping[str, Any], config: GraphormerConfig, reads: ExtraInputs
) -> None:
    """Check that the featuriser is registered, with the version and features of the model.

    Args:
        path: the description of the model, for error messages.
        config: the architecture of a network of the model.
        reads: the inputs that it reads beside the features of the featuriser.

    Raises:
        ModelError: the featuriser or its version is not installed.
        ConfigError: the network reads other features.
    """
    name, version = about["featurizer"], about.get("featurizer_version", "1")
    if name not in featurize.SIZES:
        raise ModelError(
            f"{path}: the model needs the featuriser '{name!s:.80}' (version {version!s:.80}), "
            "which is not registered here: install the package that provides it, or call "
            "molsepnorm.featurize.register with its class before loading the model. "
            f"{did_you_mean(name, featurize.SIZES)}"
        )
    sizes = featurize.SIZES[name]
    if sizes.version != version:
        raise ModelError(
            f"{path}: the model was trained with version {version!s:.80} of the "
            f"featuriser '{name}', and version {sizes.version} is installed: install the former, "
            "or train again"
        )
    if (config.atom_sizes, config.bond_sizes) != (sizes.atoms, sizes.bonds):
        raise ConfigError(f"atom_sizes and bond_sizes are not those of '{name}'")
    if config.molecule_features != len(sizes.molecule) + reads.width:
        raise ConfigError(
            f"molecule_features is {config.molecule_features}, and '{name}' and the other inputs "
            f"have {len(sizes.molecule) + reads.width}"
        )


def require_shares(weights: Sequence[float], count: int) -> None:
    """Check the weights of the parts' predictions: one for each part; they sum to 1."""
    finite = all(math.isfinite(weight) and weight >= 0 for weight in weights)
    if len(weights) != count or not finite or abs(sum(weights) - 1) > 1e-6:
        raise ConfigError(
            f"the mean over {counted(count, 'part')} needs as many weights, which sum to 1; got "
            f"{weights!r:.80}"
        )


def require_fitting(parts: Sequence[Part], task: Task) -> None:
    """Check that the parts have the task's outputs, and that networks read the same graphs."""
    for part in parts:
        if part.outputs != task.outputs:
            raise ConfigError(f"targets of {task.outputs} outputs and {part.outputs} outputs")
    read = {
        (config.atom_sizes, replace(encoding_of(config), molecule_features=0))
        for config in (network.config for network in networks_of(parts))
    }
    if len(read) > 1:
        raise ConfigError("the networks read different features or encodings of molecules")


def require_calibration(calibration: Sequence[Calibration], task: Task) -> None:
    """Check that every target has a calibration of its kind, or that there is none at all."""
    fitting = all(kind_fits(*pair) for pair in zip(task.targets, calibration, strict=False))
    if calibration and (len(calibration) != len(task.targets) or not fitting):
        raise ConfigError("the calibration does not fit the targets")

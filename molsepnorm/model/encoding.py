"""The encoding of molecules that a network reads, and the featuriser that provides it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molsepnorm.errors import ConfigError, ModelError, did_you_mean
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import ExtraInputs


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
    path: Path, about: Mapping[str, Any], config: GraphormerConfig, inputs: ExtraInputs
) -> None:
    """Check that the featuriser is registered, with the version and features of the model.

    Args:
        path: the description of the model, for error messages.
        about: the entries of the description.
        config: the architecture of a network of the model.
        inputs: the inputs beside the features of the featuriser.

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
    own, read = len(sizes.molecule), config.molecule_features
    fits = (config.atom_sizes, config.bond_sizes) == (sizes.atoms, sizes.bonds)
    if not fits or not own <= read <= own + inputs.width:
        raise ConfigError(f"atom_sizes, bond_sizes and molecule_features are not those of '{name}'")
    if config.columns and config.columns != inputs.column_widths:
        raise ConfigError("the network reads other feature columns than the model")

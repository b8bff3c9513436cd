"""Packages that only some features need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from molsepnorm.errors import ConfigError


def require_package(module: str, extra: str, use: str, otherwise: str = "") -> Any:
    """Import a module of a package that an extra of molsepnorm installs.

    Args:
        use: the feature, as subject of the message, such as "a screen".
        otherwise: end of the message, for a way without the package.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{use} needs {package}, which cannot be imported ({error}): pip install "
            f"'molsepnorm[{extra}]'{otherwise}"
        ) from None

"""molsepnorm: molecular property prediction with Graphormer and SepNorm.

SMILES or a named data set become molecular graphs; encodings turn each graph into small integers,
which a store keeps; Graphormer with SepNorm reads batches of them; a task turns its output into
predictions, a loss and a metric.

>>> from molsepnorm import Graphormer, GraphormerConfig, load_config
>>> model = Graphormer(GraphormerConfig(layers=2, norm="sep"))
>>> config = load_config("zinc", overrides={"run.epochs": 5})

Names are loaded when first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from molsepnorm._version import __version__

if TYPE_CHECKING:
    from molsepnorm.errors import MolsepnormError
    from molsepnorm.model import PropertyModel
    from molsepnorm.molecules import encodings, featurize
    from molsepnorm.molecules.molecule import MolGraph
    from molsepnorm.nn import Graphormer, GraphormerConfig
    from molsepnorm.predict import Prediction, Predictor
    from molsepnorm.sepnorm import SepNorm, convert_to_sepnorm
    from molsepnorm.tasks import Target, Task
    from molsepnorm.training import (
        Callback,
        TrainConfig,
        TrainingResult,
        evaluate,
        load_config,
        train,
    )
    from molsepnorm.training.fit import fit
    from molsepnorm.tuning import tune

__all__ = [
    "Callback",
    "Graphormer",
    "GraphormerConfig",
    "MolGraph",
    "MolsepnormError",
    "Prediction",
    "Predictor",
    "PropertyModel",
    "SepNorm",
    "Target",
    "Task",
    "TrainConfig",
    "TrainingResult",
    "__version__",
    "convert_to_sepnorm",
    "encodings",
    "evaluate",
    "featurize",
    "fit",
    "load_config",
    "train",
    "tune",
]

_MODULES = ("encodings", "featurize")
_NAMES = {
    "errors": ("MolsepnormError",),
    "model": ("PropertyModel",),
    "molecules.molecule": ("MolGraph",),
    "nn": ("Graphormer", "GraphormerConfig"),
    "predict": ("Prediction", "Predictor"),
    "sepnorm": ("SepNorm", "convert_to_sepnorm"),
    "tasks": ("Target", "Task"),
    "training": ("Callback", "TrainConfig", "TrainingResult", "evaluate", "load_config", "train"),
    "training.fit": ("fit",),
    "tuning": ("tune",),
}
_HOMES = {name: f"molsepnorm.{home}" for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"molsepnorm.molecules.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'molsepnorm' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

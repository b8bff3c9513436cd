"""Trained models that come with the package, each in a folder of its own, and their cards.

The name of such a model can be given wherever a model folder is expected.
"""

from __future__ import annotations

from molsepnorm.pretrained.card import CARD, ModelCard, Score, Source, read_card, read_exclusions
from molsepnorm.pretrained.shipped import recorded_path, resolve, shipped_models

__all__ = [
    "CARD",
    "ModelCard",
    "Score",
    "Source",
    "read_card",
    "read_exclusions",
    "recorded_path",
    "resolve",
    "shipped_models",
]

"""Statistics of embeddings: whether they collapse, or use their space."""

from molsepnorm.analysis.geometry.analysis import Analysis, ModelOnMolecules, analyze
from molsepnorm.analysis.geometry.measures import (
    alignment,
    effective_rank,
    mean_cosine,
    outlier_share,
    singular_values,
    uniformity,
)

__all__ = [
    "Analysis",
    "ModelOnMolecules",
    "alignment",
    "analyze",
    "effective_rank",
    "mean_cosine",
    "outlier_share",
    "singular_values",
    "uniformity",
]

"""Statistics of embeddings: whether they collapse, or use their space."""

from molsepnorm.analysis.geometry.analysis import (
    Analysis,
    EmbeddingStatistics,
    ModelOnMolecules,
    Run,
    analyze,
)
from molsepnorm.analysis.geometry.correlation import Correlation, correlate
from molsepnorm.analysis.geometry.measures import (
    alignment,
    effective_rank,
    mean_cosine,
    outlier_share,
    principal_map,
    singular_values,
    uniformity,
)

__all__ = [
    "Analysis",
    "Correlation",
    "EmbeddingStatistics",
    "ModelOnMolecules",
    "Run",
    "alignment",
    "analyze",
    "correlate",
    "effective_rank",
    "mean_cosine",
    "outlier_share",
    "principal_map",
    "singular_values",
    "uniformity",
]

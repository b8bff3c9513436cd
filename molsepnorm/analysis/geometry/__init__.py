"""Statistics of embeddings: whether they collapse, or use their space."""

from molsepnorm.analysis.geometry.analysis import (
    AnalysedRun,
    Analysis,
    EmbeddingStatistics,
    ModelOnMolecules,
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
    "AnalysedRun",
    "Analysis",
    "Correlation",
    "EmbeddingStatistics",
    "ModelOnMolecules",
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

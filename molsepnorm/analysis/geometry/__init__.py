"""What embeddings of molecules look like: do they collapse, or do they use their space?"""

from molsepnorm.analysis.geometry.analysis import Analysis, Cloud, Run, Subject, analyze
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
    "Cloud",
    "Correlation",
    "Run",
    "Subject",
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

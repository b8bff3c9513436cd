"""Explanations of predictions: contributions of atoms and fragments."""

from molsepnorm.analysis.explanations.contributions import explain, explain_rows
from molsepnorm.analysis.explanations.explanation import (
    Contributions,
    Explanation,
    FragmentContribution,
    FragmentSummary,
    top_fragments,
)

__all__ = [
    "Contributions",
    "Explanation",
    "FragmentContribution",
    "FragmentSummary",
    "explain",
    "explain_rows",
    "top_fragments",
]

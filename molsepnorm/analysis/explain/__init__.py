"""Explanations of predictions: contributions of atoms and fragments."""

from molsepnorm.analysis.explain.explain import (
    MAX_ATOMS,
    PAIRS,
    explain,
    explain_rows,
    explanations,
)
from molsepnorm.analysis.explain.explanation import (
    Contributions,
    Explanation,
    FragmentContribution,
)
from molsepnorm.analysis.explain.summary import FragmentSummary, top_fragments

__all__ = [
    "MAX_ATOMS",
    "PAIRS",
    "Contributions",
    "Explanation",
    "FragmentContribution",
    "FragmentSummary",
    "explain",
    "explain_rows",
    "explanations",
    "top_fragments",
]

"""The contributions of fragments over many molecules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from molsepnorm.analysis.explanations.explanation import Explanation
from molsepnorm.molecules.featurize.smiles import canonical_smiles


@dataclass(frozen=True)
class FragmentSummary:
    """A fragment that occurs in some molecules of a table, and what it contributes to."""

    smiles: str
    mean: float
    """Mean of its contributions, over all occurrences."""
    spread: float
    """Standard deviation of its contributions; 0 for one occurrence."""
    count: int
    """Number of occurrences."""
    molecules: int
    """Number of different molecules with the fragment; see `canonical_smiles`."""
    unit: str
    """Unit of the contributions, see `Contributions.unit`."""


def top_fragments(
    explanations: Iterable[Explanation], scheme: str, target: str
) -> list[FragmentSummary]:
    """Return all fragments, from the largest to the smallest mean contribution.

    The molecules of a multi-class target are explained for different classes. A fragment has a
    summary for each class.

    Args:
        explanations: the explanations; rows that failed are left out.
        scheme: brics or murcko.
        target: name of the target.
    """
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for each in explanations:
        parts = each.fragments.get(scheme, [])
        molecule = canonical_smiles(each.structure) if parts else ""
        for fragment in parts:
            place = found.setdefault((fragment.smiles, each.targets[target].unit), [])
            place.append((molecule, fragment.contributions[target]))
    summaries = []
    for (smiles, unit), occurrences in found.items():
        names, values = zip(*occurrences, strict=True)
        mean, spread = float(np.mean(values)), float(np.std(values))
        molecules = len(set(names))
        summaries.append(FragmentSummary(smiles, mean, spread, len(values), molecules, unit))
    return sorted(summaries, key=lambda each: (-each.mean, each.smiles, each.unit))

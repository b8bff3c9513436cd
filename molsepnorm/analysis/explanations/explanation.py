"""`Explanation`: the contributions of a molecule's atoms and fragments to a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.tasks import Target


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions to one prediction: base + Σ atoms + Σ inputs = value, up to rounding. Those of
    a further molecule add up to its own contribution: base is 0."""

    unit: str
    """The target, its learned scale, or the log-odds of a class."""
    value: float
    """The prediction in this unit."""
    probability: float | None
    """Predicted probability of the class whose log-odds are explained; None for regression."""
    base: float
    """The prediction for the molecule without its atoms and other inputs."""
    atoms: np.ndarray
    """float64 [N]: contribution of each atom, in the order of `Explanation.structure`."""
    errors: np.ndarray
    """float64 [N]: standard error of each contribution, due to the random orders."""
    inputs: dict[str, float] = field(default_factory=dict)
    """Contributions of the feature columns, by name, and of `all descriptors` together."""

    @property
    def parts(self) -> str:
        """The sums over atoms and over other inputs, as text; empty without other inputs."""
        if not self.inputs:
            return ""
        return f"atoms {self.atoms.sum():+.2g}, other inputs {sum(self.inputs.values()):+.2g}"


@dataclass(frozen=True)
class FragmentContribution:
    """A fragment of a molecule, and the sums of its atoms' contributions."""

    smiles: str
    """See `molsepnorm.molecules.fragments.Fragment`."""
    atoms: tuple[int, ...]
    """In the order of `Explanation.structure`."""
    contributions: Mapping[str, float]
    """By target."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of the predictions for one SMILES, or the reason why there is none."""

    smiles: str
    structure: str
    """`smiles`, or its standard form if the model standardises structures. Contributions are of the
    atoms of `rdkit.Chem.MolFromSmiles(structure)`."""
    error: str | None = None
    """The reason why the row failed."""
    targets: dict[str, Contributions] = field(default_factory=dict)
    """By target; empty if the row failed."""
    fragments: dict[str, list[FragmentContribution]] = field(default_factory=dict)
    """By scheme: brics and murcko. Each atom is in one fragment of a scheme."""
    attention: np.ndarray | None = None
    """float64 [N]: mean attention of the graph token to each atom, over all heads and layers of the
    first network. It is no explanation. None if the row failed."""
    further: dict[str, list[Explanation]] = field(default_factory=dict)
    """By column of further molecules, what the atoms and the descriptors of each component of the
    cell contribute, together the number in `Contributions.inputs`. Columns without embeddings and
    empty cells are left out."""


def unit_of(target: Target, chosen: int = 0) -> str:
    """Return the unit of the contributions to a target, or to one of its classes."""
    if target.kind == "regression":
        return target.learned_name
    name = target.class_names[1 if target.kind == "binary" else chosen]
    return f"log-odds of {target.name} = {name}"


@dataclass(frozen=True)
class FragmentSummary:
    """The contributions of a fragment to a target, over many molecules."""

    smiles: str
    mean: float
    spread: float
    """Standard deviation; 0 for one occurrence."""
    count: int
    """Number of occurrences."""
    molecules: int
    """Number of different molecules with the fragment; see `canonical_smiles`."""
    unit: str
    """See `Contributions.unit`."""


def top_fragments(
    explanations: Iterable[Explanation], scheme: str, target: str
) -> list[FragmentSummary]:
    """Return all fragments, from the largest to the smallest mean contribution.

    A fragment has a summary for each class of a multi-class target that is explained. Rows that
    failed are left out.

    Args:
        scheme: brics or murcko.
    """
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for explanation in explanations:
        parts = explanation.fragments.get(scheme, [])
        molecule = canonical_smiles(explanation.structure) if parts else ""
        for part in parts:
            key = part.smiles, explanation.targets[target].unit
            found.setdefault(key, []).append((molecule, part.contributions[target]))
    summaries = []
    for (smiles, unit), occurrences in found.items():
        molecules, values = zip(*occurrences, strict=True)
        mean, spread = float(np.mean(values)), float(np.std(values))
        count = len(set(molecules))
        summaries.append(FragmentSummary(smiles, mean, spread, len(values), count, unit))
    return sorted(summaries, key=lambda summary: (-summary.mean, summary.smiles, summary.unit))

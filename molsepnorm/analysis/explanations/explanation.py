"""`Explanation`: the contributions of a molecule's atoms and fragments to a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.tasks import Target


@dataclass(frozen=True, eq=False)
class Contributions:
    """The contributions of the parts of a molecule to one prediction.

    base + Σ atoms + Σ inputs = value, up to rounding.
    """

    unit: str
    """Unit of the numbers: the target or its learned scale, or the log-odds of a class."""
    value: float
    """The prediction in this unit."""
    probability: float | None
    """The predicted probability of the class whose log-odds are explained; None for regression."""
    base: float
    """The prediction for the molecule without its atoms and other inputs."""
    atoms: np.ndarray
    """float64 [N]: contribution of each atom, in the order of `Explanation.structure`."""
    errors: np.ndarray
    """float64 [N]: standard error of each contribution, because coalitions are drawn at random."""
    inputs: dict[str, float] = field(default_factory=dict)
    """Contributions of inputs that no atom has: feature columns by name, and
    `all descriptors` together."""

    @property
    def parts(self) -> str:
        """The sums over the atoms and over the other inputs, as text; empty without other
        inputs."""
        if not self.inputs:
            return ""
        return f"atoms {self.atoms.sum():+.2g}, other inputs {sum(self.inputs.values()):+.2g}"


@dataclass(frozen=True)
class FragmentContribution:
    """A fragment of a molecule, and the sum of its atoms' contributions to each target."""

    smiles: str
    """See `molsepnorm.molecules.fragments.Fragment`."""
    atoms: tuple[int, ...]
    """Its atoms, in the order of `Explanation.structure`."""
    contributions: Mapping[str, float]
    """By target."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model predicts what it predicts for one SMILES, or the reason why that is unknown."""

    smiles: str
    structure: str
    """The SMILES whose atoms have the contributions: `smiles`, or its standard form if the model
    standardises structures. The atoms are those of `rdkit.Chem.MolFromSmiles(structure)`."""
    error: str | None = None
    """The reason why the row failed."""
    targets: dict[str, Contributions] = field(default_factory=dict)
    """By target; empty if the row failed."""
    fragments: dict[str, list[FragmentContribution]] = field(default_factory=dict)
    """By scheme: brics and murcko. Each atom is in one fragment of a scheme."""
    attention: np.ndarray | None = None
    """float64 [N]: attention of the graph token to each atom, the mean over all heads and layers of
    the model's first network. It is no explanation. None if the row failed."""


def unit_of(target: Target, chosen: int = 0) -> str:
    """Return the unit of the contributions to a target, or to one of its classes."""
    if target.kind == "regression":
        return target.learned_name
    names = target.classes or ("0", "1")
    name = names[1 if target.kind == "binary" else chosen]
    return f"log-odds of {target.name} = {name}"


@dataclass(frozen=True)
class FragmentSummary:
    """A fragment that occurs in some molecules of a table."""

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

    A fragment has a summary for each class of a multi-class target that is explained.

    Args:
        explanations: the explanations; rows that failed are left out.
        scheme: brics or murcko.
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

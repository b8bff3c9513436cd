"""Standardise structures before they are featurised: salts, charges and tautomers, by RDKit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

from molsepnorm.errors import InvalidMolecule, ModelError
from molsepnorm.files.digests import KEY, json_digest, short_digest
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import cache_folder, write_json

if TYPE_CHECKING:
    from rdkit import Chem
    from rdkit.Chem.MolStandardize.rdMolStandardize import TautomerEnumerator

Level = Literal["none", "salts", "parent", "tautomer"]
"""How far structures are standardised; each level includes the ones before it."""

LEVELS: tuple[Level, ...] = get_args(Level)

_STEPS = 1000
"""Maximum number of tautomers of a molecule, and of transforms that are tried; RDKit's default."""

_ATOM_STEPS = 50_000
"""Maximum number of transforms times atoms. A molecule of 1,000 atoms then takes seconds."""


def standardized(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return the standard form of each SMILES.

    A SMILES that cannot be standardised becomes an empty text that holds the reason (`Unwritten`),
    which featurisers refuse with this reason. At the level `none`, `smiles` itself is returned.
    """
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.smiles import Unwritten

    def standard(text: str) -> str:
        try:
            return standard_smiles(text, level)
        except InvalidMolecule as error:
            return Unwritten(str(error))

    return [standard(text) for text in smiles]


def cached_standard(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return `standardized` SMILES, from the cache if they were computed before."""
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    key = short_digest(json.dumps(smiles))
    path = cache_folder() / f"{key}-{level}-rdkit{RDKIT_VERSION}.standard"
    if path.exists():
        with suppress(ModelError, LookupError, TypeError):  # a damaged file is replaced
            content = read_json(path)
            if json_digest(forms := content["smiles"]) == content[KEY]:
                invalid = [row for row, text in enumerate(forms) if not text]
                again = standardized([smiles[row] for row in invalid], level)  # with the reasons
                for row, text in zip(invalid, again, strict=True):
                    forms[row] = text
                return forms
    forms = standardized(smiles, level)
    write_json(path, {"smiles": forms, KEY: json_digest(forms)})
    return forms


def standard_smiles(smiles: str, level: Level) -> str:
    """Return the canonical SMILES of a standardised molecule, equal for all SMILES of a molecule.

    - none: the molecule as it is.
    - salts: RDKit's cleanup (bonds to metals are cut, functional groups and charges are written in
      one way), and then the largest fragment.
    - parent: also without charges, where protons can be moved.
    - tautomer: also as RDKit's canonical tautomer, without the stereochemistry of atoms and bonds
      that take part in tautomerism. The search ends after 1,000 tautomers or transforms, or
      50,000 / atoms transforms. If it ends early, tautomers may keep different forms.

    >>> standard_smiles("C[NH3+].[Cl-]", "salts"), standard_smiles("C[NH3+].[Cl-]", "parent")
    ('C[NH3+]', 'CN')
    >>> standard_smiles("Oc1ccccn1", "tautomer")
    'O=c1cccc[nH]1'

    Raises:
        InvalidMolecule: as `canonical_smiles`, or RDKit cannot standardise the molecule.

    Source: rdkit.Chem.MolStandardize: FragmentParent, ChargeParent and TautomerEnumerator.
    """
    from rdkit import Chem, rdBase

    from molsepnorm.molecules.featurize.smiles import canonical_mol

    mol = canonical_mol(smiles)
    with rdBase.BlockLogs():
        try:
            return Chem.MolToSmiles(_standard_mol(mol, level))
        except (RuntimeError, ValueError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InvalidMolecule(f"RDKit cannot standardise it: {reason:.80}") from error


def molecule_key(smiles: str, level: Level) -> str:
    """Return the canonical SMILES of a standardised molecule, or the text itself if RDKit cannot
    read it, as for some graphs of OGB's data sets.

    >>> molecule_key("OCC", "none"), molecule_key("C[NH3+].[Cl-]", "parent")
    ('CCO', 'CN')
    """
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    try:
        return canonical_smiles(standardized([smiles], level)[0])
    except InvalidMolecule:
        return smiles


def protomer_key(smiles: str) -> str:
    """Return a text that is the same for the salts, the charged forms and most tautomers of a
    compound: a hash of the largest fragment without bond orders and charges.

    A few other molecules have it too. Tautomers that move a hydrogen from or to a carbon atom have
    different keys.

    >>> protomer_key("Oc1ccccn1.[Na+]") == protomer_key("O=c1cccc[nH]1")
    True

    Source: rdkit.Chem.rdMolHash, HetAtomProtomer.
    """
    from rdkit import rdBase
    from rdkit.Chem import rdMolHash
    from rdkit.Chem.MolStandardize import rdMolStandardize

    from molsepnorm.molecules.featurize.smiles import canonical_mol

    mol = canonical_mol(smiles)
    if "." in smiles:
        with rdBase.BlockLogs():
            mol = rdMolStandardize.LargestFragmentChooser().choose(mol)
    return str(rdMolHash.MolHash(mol, rdMolHash.HashFunction.HetAtomProtomer))


def _standard_mol(mol: Chem.Mol, level: Level) -> Chem.Mol:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    if level == "none":
        return mol
    if level == "salts":
        return rdMolStandardize.FragmentParent(mol)
    parent = rdMolStandardize.ChargeParent(mol)
    if level == "parent":
        return parent
    enumerator = _enumerator()
    enumerator.SetMaxTransforms(min(_STEPS, _ATOM_STEPS // max(1, parent.GetNumAtoms())))
    return enumerator.Canonicalize(parent)


@cache
def _enumerator() -> TautomerEnumerator:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    enumerator = rdMolStandardize.TautomerEnumerator()
    enumerator.SetMaxTautomers(_STEPS)
    return enumerator

"""Check arrays of encoded molecules that were read from a file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec
from molsepnorm.molecules.encodings.paths import NO_BOND, SELF, PathVocabulary


def require_sound(graphs: EncodedGraphs, spec: EncodingSpec, atom_sizes: tuple[int, ...]) -> None:
    """Check that all indices are in range and that the lengths of the arrays match.

    Raises:
        ValueError: an array is wrong; the message names the first problem.
    """
    sizes, degrees, pairs = graphs.sizes, graphs.degrees, graphs.pairs
    if sizes.ndim != 1 or not ((sizes >= 1) & (sizes <= len(degrees))).all():
        raise ValueError("the size of a molecule is out of range")
    num_atoms, num_pairs = int(sizes.sum()), int((sizes**2).sum())
    shapes = (graphs.atoms.shape, degrees.shape, pairs.shape)
    if shapes != ((num_atoms, len(atom_sizes)), (num_atoms,), (num_pairs,)):
        raise ValueError("the number of atoms or pairs does not match the sizes of the molecules")
    if (graphs.atoms.max(axis=0, initial=0) >= atom_sizes).any():
        raise ValueError("an atom feature is out of range")
    max_bonds, largest = graphs.max_bonds, int(degrees.max(initial=0))
    if largest > spec.max_degree:
        raise ValueError("a degree is out of range")
    if type(max_bonds) is not int or not largest <= max_bonds <= int(sizes.max(initial=0)):
        raise ValueError("the largest number of bonds of an atom is out of range")
    if pairs.min(initial=0) < 0 or pairs.max(initial=0) >= len(graphs.paths):
        raise ValueError("a pair has a path that does not exist")
    features = np.zeros((len(sizes), 0)) if graphs.features is None else graphs.features
    if features.shape != (len(sizes), spec.molecule_features) or not np.isfinite(features).all():
        raise ValueError("molecule-level features are missing or not finite")
    _require_sound_paths(graphs.paths, spec)


def _require_sound_paths(paths: PathVocabulary, spec: EncodingSpec) -> None:
    parents, bonds, depths = paths.parents, paths.bonds, paths.depths
    if not len(parents) == len(bonds) == len(depths) > SELF:
        raise ValueError("the numbers of parents, bonds and distances of the paths differ")
    if depths[: SELF + 1].tolist() != [-1] * SELF + [0] or depths[-1] > spec.max_distance:
        raise ValueError("the distance of a path is out of range")
    if not all(later - earlier in (0, 1) for earlier, later in pairwise(depths[SELF:].tolist())):
        raise ValueError("paths are not in the order of their distances")
    parents, bonds, depths = parents[SELF + 1 :], bonds[SELF + 1 :], depths[SELF + 1 :]
    if not ((parents >= SELF) & (parents < np.arange(len(parents)) + SELF + 1)).all():
        raise ValueError("a path extends one that does not exist")
    if (paths.depths[parents] != depths - 1).any():
        raise ValueError("a path extends one of another distance")
    labelled = depths <= spec.max_path_length
    if not (
        (bonds < spec.num_bond_labels) & np.where(labelled, bonds >= 0, bonds == NO_BOND)
    ).all():
        raise ValueError("the bond of a path is out of range")

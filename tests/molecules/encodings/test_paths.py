"""The vocabulary of paths: its order, its levels, and how parts of it become one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.molecules.encodings.encoding import EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import (
    GRAPH_TOKEN,
    NO_BOND,
    PADDING,
    SELF,
    UNREACHABLE,
    PathMerger,
    PathVocabulary,
)


def vocabulary(sequences: list[tuple[int, ...]]) -> PathVocabulary:
    """The canonical one with these paths; NO_BOND stands for a bond that is not told."""
    needed = {path[:end] for path in sequences for end in range(len(path) + 1)}
    ordered = sorted(needed, key=lambda path: (len(path), path))
    code = {path: SELF + place for place, path in enumerate(ordered)}
    levels = []
    for depth in range(1, len(ordered[-1]) + 1):
        paths = [path for path in ordered if len(path) == depth]
        levels.append(
            (
                np.array([code[path[:-1]] for path in paths]),
                np.array([path[-1] for path in paths]),
            )
        )
    return PathVocabulary.from_levels(levels)


def same(one: PathVocabulary, other: PathVocabulary) -> bool:
    return all(
        getattr(one, name).dtype == getattr(other, name).dtype
        and np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("parents", "bonds", "depths")
    )


PATHS = st.lists(st.lists(st.integers(0, 3), max_size=5).map(tuple), min_size=1, max_size=12)


@given(data=st.data())
def test_codes_are_in_canonical_order(molgraphs, data):
    """By distance first, then bond by bond; bonds are untold just beyond the longest path;
    and a parent's code is below its children's."""
    graphs = data.draw(st.lists(molgraphs(max_atoms=40), min_size=1, max_size=3))
    paths = encode(graphs, EncodingSpec((3,), max_distance=6, max_path_length=3)).paths
    codes = range(SELF, len(paths))
    words = [(int(paths.depths[code]), paths.bonds_along(code)) for code in codes]
    assert words == sorted(words)
    assert (paths.parents[SELF + 1 :] < np.arange(SELF + 1, len(paths))).all()
    assert (paths.depths[SELF + 1 :] == paths.depths[paths.parents[SELF + 1 :]] + 1).all()
    assert ((paths.bonds[SELF + 1 :] == NO_BOND) == (paths.depths[SELF + 1 :] > 3)).all()


@given(data=st.data())
def test_the_bonds_of_all_paths_are_those_along_each(molgraphs, data):
    spec = EncodingSpec((3,), max_path_length=4)
    paths = encode([data.draw(molgraphs(max_atoms=30))], spec).paths
    bonds = paths.bonds_of_all()
    assert bonds.shape[1] <= 4
    for code in range(len(paths)):
        along = paths.bonds_along(code)
        assert bonds[code].tolist() == along + [NO_BOND] * (bonds.shape[1] - len(along))


@pytest.mark.parametrize(
    ("code", "bonds"),
    [
        *((code, []) for code in (PADDING, GRAPH_TOKEN, UNREACHABLE, SELF)),
        (SELF + 1, [2]),
        (SELF + 2, [2, 0]),
        (SELF + 3, [2, 0]),
    ],
)
def test_the_bonds_along_a_path(code, bonds):
    assert vocabulary([(2, 0, NO_BOND)]).bonds_along(code) == bonds


@given(parts=st.lists(PATHS, min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_merging_does_not_depend_on_the_order_or_the_cut(parts, seed):
    """Whatever the chunks and their order: the vocabulary of all paths, and every code moved to
    where its own sequence of bonds stands."""
    expected = vocabulary([path for part in parts for path in part])
    for order in (np.arange(len(parts)), np.random.default_rng(seed).permutation(len(parts))):
        merger = PathMerger()
        chunks = [vocabulary(parts[i]) for i in order]
        provisional = [merger.add(chunk) for chunk in chunks]
        merged, final = merger.finish()
        assert same(merged, expected)
        assert sorted(final.tolist()) == list(range(len(expected)))
        for chunk, numbers in zip(chunks, provisional, strict=True):
            assert numbers.dtype == final.dtype == np.int32
            assert final[numbers[: SELF + 1]].tolist() == list(range(SELF + 1))
            for code in range(SELF + 1, len(chunk)):
                new = final[numbers[code]]
                assert merged.depths[new] == chunk.depths[code]
                assert merged.bonds_along(new) == chunk.bonds_along(code)

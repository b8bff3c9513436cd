"""A store holds exactly what was put in, however it came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.store import GraphStore, Rejected
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph

SPEC = EncodingSpec((3, 2), max_degree=7, max_distance=9, max_path_length=4)
REJECTED = (Rejected(3, "C(", "ünlesbar"),)
ARRAYS = ("sizes", "atoms", "degrees", "pairs", "rows")


def chunks_of(graphs: list[MolGraph], chunk: int) -> Iterator[tuple[EncodedGraphs, np.ndarray]]:
    for start in range(0, len(graphs), chunk):
        part = graphs[start : start + chunk]
        yield encode(part, SPEC), np.arange(start, start + len(part)) * 2


@given(data=st.data(), chunk=st.integers(1, 5))
def test_a_store_is_what_encoding_all_molecules_at_once_gives(molgraphs, data, chunk):
    """Every array and the digest, in any cut, although codes are numbered in another order."""
    graphs = data.draw(st.lists(molgraphs(40, (3, 2), (28, 5)), min_size=1, max_size=5))
    store = GraphStore.of(chunks_of(graphs, chunk), REJECTED, SPEC, "zinc")
    together = encode(graphs, SPEC)
    for name in ("sizes", "atoms", "degrees", "pairs", "max_bonds"):
        np.testing.assert_array_equal(getattr(store, name), getattr(together, name))
    for name in ("parents", "bonds", "depths"):
        assert getattr(store.paths, name).dtype == getattr(together.paths, name).dtype
        np.testing.assert_array_equal(getattr(store.paths, name), getattr(together.paths, name))
    assert store.rows.tolist() == list(range(0, 2 * len(graphs), 2))
    assert (store.encoding, store.featurizer, store.rejected) == (SPEC, "zinc", REJECTED)
    types = [str(getattr(store, name).dtype) for name in ARRAYS]
    assert types == ["int64", "uint8", "uint8", "uint16", "int64"]
    whole = GraphStore.of([(together, store.rows)], REJECTED, SPEC, "zinc")
    other = GraphStore.of([(together, store.rows + 1)], REJECTED, SPEC, "zinc")
    assert store.digest == whole.digest != other.digest


@pytest.mark.parametrize(("size", "dtype"), [(65_535, "uint16"), (65_536, "int32")])
def test_codes_are_wide_enough_for_the_vocabulary(wide_codes, size, dtype):
    """The largest code survives on both sides of the switch."""
    encoded = wide_codes(size)
    store = GraphStore.of([(encoded, np.arange(2))], (), SPEC, "zinc")
    assert len(store.paths) == size
    assert store.pairs.dtype == dtype
    assert store.pairs.tolist() == encoded.pairs.tolist()

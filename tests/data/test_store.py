"""A store gives back exactly what was put in, however it came, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.store import SCHEMA, GraphStore, Rejected
from molsepnorm.errors import StorageError
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph

SPEC = EncodingSpec((3, 2), max_degree=7, max_distance=9, max_path_length=4)
REJECTED = (Rejected(3, "C(", "ünlesbar"),)
ARRAYS = ("sizes", "atoms", "degrees", "pairs", "rows")
PARTS = ("parents", "bonds", "depths")


def chunks_of(graphs: list[MolGraph], chunk: int) -> Iterator[tuple[EncodedGraphs, np.ndarray]]:
    for start in range(0, len(graphs), chunk):
        part = graphs[start : start + chunk]
        yield encode(part, SPEC), np.arange(start, start + len(part)) * 2


def write(path: Path, graphs: list[MolGraph], chunk: int) -> GraphStore:
    return GraphStore.write(path, chunks_of(graphs, chunk), REJECTED, SPEC, "zinc")


@pytest.fixture
def graphs(label) -> list[MolGraph]:
    shapes = [nx.path_graph(12), nx.cycle_graph(6), nx.empty_graph(1), nx.cubical_graph()]
    return [label(shape, seed, (3, 2)) for seed, shape in enumerate(shapes)]


@pytest.fixture
def path(tmp_path: Path, graphs) -> Path:
    """A store of four molecules, alone in its folder."""
    write(tmp_path / "some.store", graphs, chunk=3)
    return tmp_path / "some.store"


@given(data=st.data(), chunk=st.integers(1, 5))
def test_a_store_is_what_encoding_all_molecules_at_once_gives(
    tmp_path_factory, molgraphs, data, chunk
):
    """Every array, in any cut, in a file and in memory."""
    graphs = data.draw(st.lists(molgraphs(40, (3, 2), (28, 5)), min_size=1, max_size=5))
    in_file = write(tmp_path_factory.mktemp("store") / "a", graphs, chunk)
    in_memory = GraphStore.in_memory(chunks_of(graphs, chunk), REJECTED, SPEC, "zinc")
    together = encode(graphs, SPEC)
    for store in (in_file, in_memory):
        for name in ("sizes", "atoms", "degrees", "pairs", "max_bonds"):
            np.testing.assert_array_equal(getattr(store, name), getattr(together, name))
        for name in PARTS:
            assert getattr(store.paths, name).dtype == getattr(together.paths, name).dtype
            np.testing.assert_array_equal(getattr(store.paths, name), getattr(together.paths, name))
        assert store.rows.tolist() == list(range(0, 2 * len(graphs), 2))
        assert (store.encoding, store.featurizer, store.rejected) == (SPEC, "zinc", REJECTED)
    types = [str(getattr(in_file, name).dtype) for name in ARRAYS]
    assert types == ["int64", "uint8", "uint8", "uint16", "int64"]
    other = GraphStore.in_memory([(together, in_memory.rows + 1)], REJECTED, SPEC, "zinc")
    assert other.digest != in_memory.digest


@given(data=st.data())
def test_the_file_does_not_depend_on_the_chunks(tmp_path_factory, molgraphs, data):
    """Byte for byte, although codes are numbered in another order while the chunks come."""
    graphs = data.draw(st.lists(molgraphs(30, (3, 2)), min_size=2, max_size=6))
    folder = tmp_path_factory.mktemp("store")
    for chunk in (1, 2, len(graphs)):
        write(folder / str(chunk), graphs, chunk)
    assert len({file.read_bytes() for file in folder.iterdir()}) == 1


def test_it_is_a_safetensors_file(path):
    """The public library reads the same arrays, so this package is not needed for them."""
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = safetensors.load_file(path)
    store = GraphStore.open(path)
    expected = {name: getattr(store, name) for name in ARRAYS}
    expected |= {f"path_{name}": getattr(store.paths, name) for name in PARTS}
    assert sorted(arrays) == sorted(expected)
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize(("size", "dtype"), [(65_535, "uint16"), (65_536, "int32")])
def test_codes_are_wide_enough_for_the_vocabulary(tmp_path, wide_codes, size, dtype):
    """The largest code survives on both sides of the switch."""
    encoded = wide_codes(size)
    store = GraphStore.write(tmp_path / "a", [(encoded, np.arange(2))], (), SPEC, "zinc")
    assert len(store.paths) == size
    assert store.pairs.dtype == dtype
    assert store.pairs.tolist() == encoded.pairs.tolist()


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_leaves_the_folder_as_it_was(tmp_path, tree, graphs, failure):
    write(tmp_path / "a", graphs[:1], chunk=1)
    before = tree(tmp_path)

    def chunks():
        yield from chunks_of(graphs, 2)
        raise failure

    with pytest.raises(type(failure)):
        GraphStore.write(tmp_path / "a", chunks(), (), SPEC, "zinc")
    assert tree(tmp_path) == before


DEEP = (100_000).to_bytes(8, "little") + b"[" * 100_000


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x02" + b"\0" * 7 + b"[]", DEEP])
def test_something_else_is_no_store(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(StorageError, match=f"a is damaged or no graph store of schema {SCHEMA}"):
        GraphStore.open(tmp_path / "a")


def test_a_store_that_is_cut_or_has_another_schema_is_refused(path):
    content = path.read_bytes()
    schemas = [json.dumps(json.dumps({"schema": n})[:-1])[1:-1].encode() for n in (SCHEMA, 9)]
    assert schemas[0] in content
    cut = (content[:length] for length in range(0, len(content), 61))
    for damaged in (*cut, content[:-1], content + b"\0", content.replace(*schemas)):
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=f"is damaged or no graph store of schema {SCHEMA}"):
            GraphStore.open(path)


@pytest.mark.claim(
    "One changed byte in a store, a model folder or a checkpoint is detected or has no effect."
)
def test_a_changed_byte_is_noticed_wherever_it_is(path):
    """A sample of the bytes of the length, the header and every array."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = [
        *range(8),
        *rng.choice(range(8, start), 200),
        *rng.choice(range(start, len(content)), 300),
    ]
    for place in map(int, places):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(StorageError, match="some.store is damaged or no graph store of schema"):
            GraphStore.open(path)

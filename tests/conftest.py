"""Fixtures for all tests: real data, a separate cache, random molecules, a disk that fills up.

`datasets`, `cache`, `small_disk` and `tree` are places, `benchmarks` the folder of that name, whose
modules can be imported while it is used; `label`, `molgraphs` and `wide_codes` make molecules:

    @given(data=st.data())
    def test_something(molgraphs, data):
        graph = data.draw(molgraphs(max_atoms=12))
"""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each worker, set before torch is imported
    os.environ["OMP_NUM_THREADS"] = "1"

import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.encodings.paths import SELF, PathVocabulary
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.pretrained.card import ModelCard
from molsepnorm.training.completing import baseline
from support import set_zinc_sizes, write_model_with_card

# A fixed number of threads, so that training repeats to the bit.
os.environ.setdefault("OMP_NUM_THREADS", str(torch.get_num_threads()))

# Every run has the same examples, so a failure comes from the code.
settings.register_profile(
    "molsepnorm",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("molsepnorm")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", action="store_true", help="list the claims and run no test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("claims"):
        return
    claims: dict[str, str] = {}
    for item in items:
        for mark in item.iter_markers("claim"):
            claims.setdefault(mark.args[0], item.nodeid.partition("[")[0])
    print("\n".join(f"{claim}\n    {test}" for claim, test in claims.items()))
    items.clear()


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The folder of real data sets; without it the test is skipped."""
    folder = os.environ.get("MOLSEPNORM_DATA")
    if not folder:
        pytest.skip("set MOLSEPNORM_DATA to the folder of real data sets")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache for this session, so that none of the user's is read or written."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOLSEPNORM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_baselines() -> Iterator[Callable[..., Any]]:
    """Runs in this process have no baseline, since its forest takes longer than a tiny network."""
    real = baseline.fit_baseline
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baseline, "fit_baseline", lambda *_: None)
        yield real


@pytest.fixture
def baselines(no_baselines: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a test have their baseline, a forest of twelve trees."""
    monkeypatch.setattr(baseline, "fit_baseline", no_baselines)
    monkeypatch.setattr(baseline, "TREES", 12)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelCard:
    """The card of a tiny model that takes the place of the models in the package."""
    monkeypatch.setattr("molsepnorm.pretrained._FOLDER", tmp_path / "shipped")
    torch.manual_seed(0)
    return write_model_with_card(tmp_path / "shipped" / "molsepnorm-tiny")


@pytest.fixture
def small_zinc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data folder with zinc-full, of twelve small molecules in each split."""
    set_zinc_sizes(monkeypatch, (12, 12, 12))
    (tmp_path / "raw" / "zinc").mkdir(parents=True)
    for number, split in enumerate(("train", "val", "test")):
        with gzip.open(tmp_path / "raw" / "zinc" / f"{split}.csv.gz", "wt") as file:
            rows = (f"{'C' * n}{'O' * number}Cl,{n - number}\n" for n in range(1, 13))
            file.write("smiles,y\n" + "".join(rows))
    return tmp_path / "raw"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 kB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Everything below a folder: name -> content, None for folders."""

    def look(folder: Path) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
            for path in sorted(folder.rglob("*"))
        }

    return look


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """benchmarks/: its modules can be imported as its commands do it, and are gone afterwards."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    names = {path.stem for path in folder.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def label() -> Callable[..., MolGraph]:
    """A graph into a molecule, `label(shape, seed=0, bond_sizes=(3,), variety=None)`."""
    return _label


@pytest.fixture(scope="session")
def wide_codes() -> Callable[[int], EncodedGraphs]:
    """`wide_codes(size)`: two molecules, and a vocabulary of `size` codes whose last one occurs."""

    def make(size: int) -> EncodedGraphs:
        onward = np.arange(size - SELF - 1 - 300)  # after 300 bonds from the start
        levels = [(np.full(300, SELF), np.arange(300)), (SELF + 1 + onward // 300, onward % 300)]
        return EncodedGraphs(
            sizes=np.array([2, 1]),
            atoms=np.zeros((3, 1), dtype=np.uint8),
            degrees=np.zeros(3, dtype=np.uint8),
            pairs=np.array([SELF, size - 1, 32_768, SELF, SELF], dtype=np.int32),
            paths=PathVocabulary.from_levels(levels),
            max_bonds=1,
        )

    return make


@pytest.fixture(scope="session")
def molgraphs() -> Callable[..., st.SearchStrategy[MolGraph]]:
    """A strategy, `molgraphs(max_atoms=200, bond_sizes=(3,), atom_sizes=(28,))`."""
    return _molgraphs


def _label(
    shape: nx.Graph,
    seed: int = 0,
    bond_sizes: tuple[int, ...] = (3,),
    atom_sizes: tuple[int, ...] = (28,),
    variety: int | None = None,
) -> MolGraph:
    """A molecule of that shape: random features; atoms, bonds and their directions shuffled.

    Args:
        shape: its atoms and bonds.
        seed: of all that is random.
        bond_sizes: how many values each bond feature has.
        atom_sizes: how many values each atom feature has.
        variety: use no more than this many values of each bond feature, so that paths tie.
    """
    rng = np.random.default_rng(seed)
    number = dict(zip(shape.nodes, rng.permutation(len(shape)).tolist(), strict=True))
    bonds = np.array([[number[a], number[b]] for a, b in shape.edges], dtype=int).reshape(-1, 2)
    bonds = rng.permuted(rng.permutation(bonds), axis=1)
    values = [min(size, variety or size) for size in bond_sizes]
    return MolGraph(
        rng.integers(0, atom_sizes, (len(shape), len(atom_sizes))),
        bonds,
        rng.integers(0, values, (len(bonds), len(values))),
    )


@st.composite
def _molgraphs(
    draw: st.DrawFn,
    max_atoms: int = 200,
    bond_sizes: tuple[int, ...] = (3,),
    atom_sizes: tuple[int, ...] = (28,),
) -> MolGraph:
    """Single atoms, chains, rings, cages, complete graphs, trees, salts, and anything else."""
    shapes = _shapes(max_atoms)
    if max_atoms > 1 and draw(st.integers(0, 4)) == 0:
        shape = nx.disjoint_union(draw(_shapes(max_atoms // 2)), draw(_shapes(max_atoms // 2)))
    else:
        shape = draw(shapes)
    seed, variety = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([None, 1, 2]))
    return _label(shape, seed, bond_sizes, atom_sizes, variety)


def _shapes(max_atoms: int) -> st.SearchStrategy[nx.Graph]:
    """Connected and disconnected graphs. A cage, a ladder or a complete graph stays small, as it
    has very many shortest paths or bonds."""
    shapes = [st.just(nx.empty_graph(1)), st.integers(1, max_atoms).map(nx.path_graph)]
    if max_atoms >= 4:
        shapes += [
            st.integers(2, max_atoms // 2).map(lambda half: nx.cycle_graph(2 * half)),
            st.integers(3, max_atoms).map(nx.cycle_graph),
            st.integers(2, min(max_atoms, 16)).map(nx.complete_graph),
            st.integers(2, min(max_atoms // 2, 8)).map(nx.ladder_graph),
            st.integers(3, max_atoms - 1).map(nx.star_graph),
            st.builds(
                nx.gnp_random_graph,
                st.integers(2, min(max_atoms, 24)),
                st.sampled_from([0.1, 0.2, 0.4]),
                st.integers(0, 2**32 - 1),
            ),
            st.builds(
                nx.random_labeled_tree,
                st.integers(2, min(max_atoms, 60)),
                seed=st.integers(0, 2**32 - 1),
            ),
        ]
    if max_atoms >= 8:
        shapes.append(st.just(nx.cubical_graph()))  # cubane
    if max_atoms >= 20:
        shapes.append(st.just(nx.dodecahedral_graph()))  # dodecahedrane
    return st.one_of(shapes)

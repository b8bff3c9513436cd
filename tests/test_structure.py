"""The package as a whole: imports point one way, cost nothing, and public names exist."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import molsepnorm
from structure import FILES, MAY_IMPORT, RDKIT, external, imports, module_of, part_of


def test_every_room_is_listed():
    """A new room must be added to `MAY_IMPORT`."""
    assert {part_of(module_of(path)) for path in FILES} <= set(MAY_IMPORT)


def test_rooms_do_not_import_each_other_in_a_circle():
    done: set[str] = set()
    while rest := set(MAY_IMPORT) - done:
        free = {part for part in rest if MAY_IMPORT[part] - {part} <= done}
        assert free, f"these import each other: {rest}"
        done |= free


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_one_way(path):
    part = part_of(module_of(path))
    ours = {part_of(name) for name in imports(path) if name.split(".")[0] == "molsepnorm"}
    assert ours <= MAY_IMPORT[part] | {part}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_rdkit_and_ogb_each_have_one_home(path):
    module = module_of(path)
    if module != "molsepnorm.data.datasets.ogb":
        assert "ogb" not in external(path)
    if not module.startswith(RDKIT):
        assert "rdkit" not in external(path)


def test_the_network_reads_nothing_of_molecules_but_their_codes():
    files = [path for path in FILES if part_of(module_of(path)) == "nn"]
    ours = {name for path in files for name in imports(path) if ".molecules" in name}
    assert ours == {"molsepnorm.molecules.encodings.paths"}


@pytest.mark.parametrize(
    "place",
    [
        "errors",
        "files.writing",
        "molecules.molecule",
        "molecules.encodings",
        "data.store",
    ],
)
def test_everything_up_to_the_store_needs_numpy_alone(place):
    """Stores are made and read without loading torch."""
    prefix = f"molsepnorm.{place}"
    files = [path for path in FILES if f"{module_of(path)}.".startswith(f"{prefix}.")]
    assert files
    allowed = {"molsepnorm", "numpy", *sys.stdlib_module_names}
    assert set().union(*map(external, files)) <= allowed


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import molsepnorm; dir(molsepnorm); molsepnorm.__version__",
        "import molsepnorm; molsepnorm.MolGraph, molsepnorm.encodings, molsepnorm.featurize",
        "from molsepnorm.data import store",
    ],
)
def test_importing_loads_nothing_heavy(statement):
    heavy = {"torch", "rdkit", "pandas", "ogb", "torch_geometric", "sklearn", "scipy", "pydantic"}
    assert not loaded_after(statement) & heavy


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_public_names_exist(path):
    if path.name == "__main__.py":
        pytest.skip("it runs when imported")
    module = importlib.import_module(module_of(path))
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_package_s_names_lead_to_their_homes():
    for name in molsepnorm.__all__:
        value = getattr(molsepnorm, name)
        assert name == "__version__" or getattr(value, "__name__", name).endswith(name)
    assert set(molsepnorm.__all__) <= set(dir(molsepnorm))
    with pytest.raises(AttributeError, match="module 'molsepnorm' has no attribute 'Graformer'"):
        _ = molsepnorm.Graformer

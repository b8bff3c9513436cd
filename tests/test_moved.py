"""Import paths of version 0.1 refer to today's modules."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

import molsepnorm

MOVED = {
    "molsepnorm.encodings": "molsepnorm.molecules.encodings",
    "molsepnorm.encodings.paths": "molsepnorm.molecules.encodings.paths",
    "molsepnorm.encodings.transform": "molsepnorm.interop.transform",
    "molsepnorm.featurize": "molsepnorm.molecules.featurize",
    "molsepnorm.featurize.pyg": "molsepnorm.molecules.featurize.pyg",
    "molsepnorm.featurize.smiles": "molsepnorm.molecules.featurize.smiles",
}


@pytest.mark.parametrize("old", MOVED)
def test_both_names_refer_to_the_same_module(old):
    module = import_module(MOVED[old])
    assert import_module(old) is module
    assert module.__name__ == module.__spec__.name == MOVED[old]


def test_attributes_of_the_package_refer_to_the_same_modules():
    assert molsepnorm.featurize is import_module("molsepnorm.molecules.featurize")
    assert molsepnorm.encodings is import_module("molsepnorm.molecules.encodings")


@pytest.mark.parametrize("name", ["featurize.absent", "encodings.absent", "absent"])
def test_an_unknown_submodule_raises_the_usual_error(name):
    with pytest.raises(
        ModuleNotFoundError, match=f"^No module named 'molsepnorm.{name}'$"
    ) as error:
        import_module(f"molsepnorm.{name}")
    assert error.value.name == f"molsepnorm.{name}"


def test_objects_are_pickled_under_either_name():
    spec = molsepnorm.encodings.EncodingSpec((3,))
    content = pickle.dumps(spec, protocol=0)  # text, in which the name can be replaced
    assert pickle.loads(content) == spec
    old = content.replace(b"molsepnorm.molecules.encodings", b"molsepnorm.encodings")
    assert old != content and pickle.loads(old) == spec

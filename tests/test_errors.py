"""The tree of errors."""

from __future__ import annotations

import pytest

from molsepnorm import errors
from molsepnorm.errors import (
    ConfigError,
    DataError,
    InvalidMolecule,
    ModelError,
    MolsepnormError,
    StorageError,
    did_you_mean,
)

CLASSES = [ConfigError, DataError, InvalidMolecule, ModelError, StorageError]


@pytest.mark.parametrize("kind", CLASSES)
def test_one_root_catches_them_all(kind):
    with pytest.raises(MolsepnormError, match=r"^what went wrong$"):
        raise kind("what went wrong")


def test_the_exit_code_tells_a_wrong_request_from_a_failure():
    assert {kind.__name__: kind.exit_code for kind in [MolsepnormError, *CLASSES]} == {
        "MolsepnormError": 1,
        "ConfigError": 2,
        "DataError": 1,
        "InvalidMolecule": 1,
        "ModelError": 1,
        "StorageError": 1,
    }


def test_they_are_what_python_would_raise_too():
    assert issubclass(ConfigError, ValueError)
    assert issubclass(InvalidMolecule, DataError)
    assert issubclass(DataError, ValueError)
    assert issubclass(StorageError, OSError)


def test_every_class_is_public():
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == set(errors.__all__) - {"did_you_mean", "prefixed"}


def test_the_nearest_name_is_offered_and_all_are_listed_in_order():
    message = did_you_mean("smilse", ["target", "smiles", "id"])
    assert message == "Did you mean 'smiles'? Known: id, smiles, target."


def test_nothing_is_offered_where_nothing_is_near():
    assert did_you_mean("zzz", ("b", "a")) == "Known: a, b."


def test_known_names_may_be_read_only_once():
    assert did_you_mean("on", iter(["one", "two"])) == "Did you mean 'one'? Known: one, two."

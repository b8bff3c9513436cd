"""Hostile settings are refused at once, with a reason."""

from __future__ import annotations

import io

import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config
from molsepnorm.training.recipes import parse_yaml

HOSTILE = {
    "date": ("2024-13-45", "month must be in 1..12"),
    "digits": ("9" * 5000, "Exceeds the limit"),
    "NUL": ("a\0b", "special characters are not allowed"),
    "object": ("!!python/object/apply:os.system [ls]", "line 1, column 1: could not determine"),
    "key": ("? [a]\n: 1", "unhashable key"),
    "tag alone": ("!!timestamp", "groupdict"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_in_one_line(tmp_path, name):
    """With the name of their file."""
    text, message = HOSTILE[name]
    with pytest.raises(ValueError, match=message) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml is not valid YAML: "):
        load_config("zinc", config=tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.layers", 257),
        ("model.width", 10_000_000),
        ("model.pair_walks", 10**6),
        ("optim.lr", float("inf")),
        ("run.epochs", 10**9),
        ("run.batch_size", 10**9),
        ("run.seed", 2**63),
    ],
)
def test_numbers_have_an_upper_bound(name, value):
    with pytest.raises(ConfigError, match=f"{name}.*(at most|less than or equal|finite number)"):
        load_config("zinc", overrides={name: value})


@pytest.mark.parametrize("source", [io.StringIO("smiles,y\nC,1\n"), 3, b"x.csv", "", "a\0b"])
def test_a_source_that_is_no_name_is_refused(source):
    with pytest.raises(ConfigError, match="source must be a name or a path; got"):
        load_config(source)


def test_a_network_too_large_for_memory_is_refused():
    sizes = {"model.layers": 256, "model.width": 16_384, "model.ffn_width": 16_384}
    with pytest.raises(ConfigError, match=r"about 412,316,860,416 parameters in its"):
        load_config("zinc", overrides={**sizes, "model.heads": 8})


def test_overrides_must_be_a_dictionary():
    with pytest.raises(ConfigError, match="overrides must be a dictionary of settings, such as"):
        load_config("zinc", overrides="data.targets=logS")
    with pytest.raises(ConfigError, match="unknown setting '1': settings are named"):
        load_config("zinc", overrides={1: 2})


def test_random_split_settings_are_refused_if_the_split_is_given(tmp_path):
    """A saved configuration, which has every setting, still loads."""
    seed = {"data.split_seed": 5}
    with pytest.raises(ConfigError, match="data.split_seed and data.splits_column both .* are dra"):
        load_config("data/demo.csv", overrides={"data.splits_column": "part", **seed})
    ranked = {"data.split_type": "scaffold-ogb"}
    with pytest.raises(ConfigError, match=r"data.split_seed has no effect, .* is not random"):
        load_config("data/demo.csv", overrides={**ranked, **seed})
    config = load_config("data/demo.csv", overrides={**ranked, "data.split": [0.6, 0.2, 0.2]})
    config.changed(seed).save(tmp_path / "c.yaml")
    assert load_config(config=tmp_path / "c.yaml").data.split_seed == 5

"""Hostile settings are refused at once, with a reason."""

from __future__ import annotations

import io

import pytest
import yaml

from molsepnorm.errors import ConfigError
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.training import load_config
from molsepnorm.training.parsing import parse_yaml, shown

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\n"
HOSTILE = {
    "date": ("2024-13-45", "month must be in 1..12"),
    "integer": ("!!int x", "invalid literal"),
    "float": ("!!float x", "could not convert"),
    "digits": ("9" * 5000, "Exceeds the limit|thousands of digits"),
    "hexadecimal": ("0x" + "f" * 6000, "thousands of digits"),
    "nested lists": ("[" * 2000 + "]" * 2000, "more than 20 levels"),
    "open lists": ("[" * 90_000, "more than 20 levels"),
    "nested sections": ("\n".join(" " * i + f"a{i}:" for i in range(300)), "more than 20 levels"),
    "aliases": (BOMB, r"line 2: aliases \(\*name\) are not supported"),
    "itself": ("&a [*a]", "aliases"),
    "NUL": ("a\0b", r"the character '\\x00' does not belong there"),
    "length": ("a" * 1_000_001, "1,000,001 characters; at most 1,000,000"),
    "object": ("!!python/object/apply:os.system [ls]", "line 1, column 1: could not determine"),
    "syntax": ("[1, 2", "line 1, column 6: expected"),
    "key": ("? [a]\n: 1", "unhashable key"),
    "name twice": ("run: {epochs: 1, epochs: 2}", "line 1, column 18: 'epochs' is given twice"),
    "section twice": ("run: {}\noptim: {}\n'run': {}", "line 3, column 1: 'run' is given twice"),
    "tag alone": ("!!timestamp", "groupdict"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_in_one_line(name):
    text, message = HOSTILE[name]
    with pytest.raises(ValueError, match=message) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_ordinary_values_are_read_as_by_pyyaml():
    for text in ("1", "1e-3", "0.5", "yes", "null", "", "a", "[1, [2, {a: b}]]", "a: {b: 1}"):
        assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_name(tmp_path, name):
    path = tmp_path / "c.yaml"
    path.write_text(HOSTILE[name][0])
    with pytest.raises(ConfigError, match=r"c\.yaml is not valid YAML: "):
        load_config("zinc", config=path)


def test_a_very_large_file_is_not_read(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_bytes(b"#" * 4_000_001)
    with pytest.raises(ConfigError, match="is too large for a file of settings: 4,000,001 bytes"):
        load_config("zinc", config=path)


def test_a_section_needs_a_name(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("1: {a: 2}")
    with pytest.raises(ConfigError, match="must have sections with settings"):
        load_config("zinc", config=path)


def test_long_values_are_shortened_in_messages():
    assert shown("x") == "'x'"
    assert len(shown("x" * 10_000)) < 210
    assert shown(1 << 20_000) == "a very large int"
    with pytest.raises(ConfigError) as caught:
        load_config("zinc", overrides={"run.budget": "x" * 10_000})
    assert len(str(caught.value)) < 1000


LARGE = {
    "model.layers": 257,
    "model.width": 10_000_000,
    "model.ffn_width": 10**9,
    "model.heads": 10_000,
    "model.max_degree": 256,
    "model.max_distance": 256,
    "model.node_walks": 10**6,
    "model.pair_walks": 10**6,
    "model.resistance_kernels": 10**6,
    "model.pair_hidden": 10**6,
    "optim.lr": float("inf"),
    "optim.final_lr": 1e9,
    "optim.weight_decay": float("nan"),
    "optim.clip_norm": 1e30,
    "run.epochs": 10**9,
    "run.batch_size": 10**9,
    "run.max_groups": 10**9,
    "run.max_pairs": 10**15,
    "run.patience": 10**9,
    "run.seed": 2**63,
    "run.validate_every": 10**9,
}


@pytest.mark.parametrize("name", LARGE)
def test_every_number_has_an_upper_bound(name):
    with pytest.raises(ConfigError, match=f"{name}.*(at most|less than or equal|finite number)"):
        load_config("zinc", overrides={name: LARGE[name]})


@pytest.mark.parametrize("name", ["split_seed", "folds", "fold"])
def test_every_data_number_has_an_upper_bound(name):
    with pytest.raises(ConfigError, match=f"data.{name}.*less than or equal"):
        load_config("x.csv", overrides={f"data.{name}": 2**63})


def test_a_network_too_large_for_memory_is_refused():
    with pytest.raises(ConfigError, match=r"about 412,316,860,416 parameters in its"):
        GraphormerConfig(layers=256, width=16_384, ffn_width=16_384, heads=8)


class DataFrame:
    """A stand-in for pandas' class."""


@pytest.mark.parametrize("source", [io.StringIO("smiles,y\nC,1\n"), DataFrame(), 3, b"x.csv", []])
def test_a_source_of_another_type_is_refused(source):
    with pytest.raises(ConfigError, match="source must be a name or a path; got .*to a file first"):
        load_config(source)
    with pytest.raises(ConfigError, match="config must be a name or a path; got"):
        load_config("zinc", config=source)


@pytest.mark.parametrize("source", ["", "  ", "a\0b", "smiles,y\n" * 1000])
def test_an_impossible_name_is_refused(source):
    with pytest.raises(ConfigError, match="source must be a name or a path; got"):
        load_config(source)


@pytest.mark.parametrize("overrides", ["data.targets=logS", [1], {"model.layers"}])
def test_overrides_must_be_a_dictionary(overrides):
    with pytest.raises(ConfigError, match="overrides must be a dictionary of settings, such as"):
        load_config("zinc", overrides=overrides)
    with pytest.raises(ConfigError, match="unknown setting '1': settings are named"):
        load_config("zinc", overrides={1: overrides})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("targets", {"a", "b"}),
        ("targets", frozenset("ab")),
        ("ignore_columns", {"a"}),
        ("split", {0.8, 0.15, 0.05}),
        ("classes", {"a": {"x", "y"}}),
    ],
)
def test_a_set_is_refused_because_it_has_no_order(name, value):
    with pytest.raises(ConfigError, match=f"data.{name}.*: a set has no order: write a list"):
        load_config("data/demo.csv", overrides={f"data.{name}": value})


@pytest.mark.parametrize(
    ("name", "value"), [("splits_column", "part"), ("splits_file", "splits.json")]
)
def test_random_split_settings_are_refused_if_the_split_is_given(tmp_path, name, value):
    """A saved configuration, which has every setting, still loads."""
    named = {f"data.{name}": value}
    for other, given in (("split_seed", 5), ("split", [0.6, 0.2, 0.2])):
        with pytest.raises(ConfigError, match=f"data.{other} and data.{name} both .* are drawn"):
            load_config("data/demo.csv", overrides={**named, f"data.{other}": given})
    timed = {"data.split_type": "time", "data.time_column": "date"}
    with pytest.raises(ConfigError, match=r"data.split_seed has no effect, .* is not random"):
        load_config("data/demo.csv", overrides={**timed, "data.split_seed": 5})
    ranked = {"data.split_type": "scaffold-ogb"}
    with pytest.raises(ConfigError, match=r"data.split_seed has no effect, .* is not random"):
        load_config("data/demo.csv", overrides={**ranked, "data.split_seed": 5})
    config = load_config("data/demo.csv", overrides={**ranked, "data.split": [0.6, 0.2, 0.2]})
    config.changed({"data.split_seed": 5}).save(tmp_path / "c.yaml")
    assert load_config(config=tmp_path / "c.yaml").data.split_seed == 5


def test_only_the_error_of_a_source_mentions_files():
    with pytest.raises(ConfigError, match=r"preset must be a name or a path; got builtins.list$"):
        load_config("zinc", preset=["mini"])


def test_a_path_has_a_maximum_length():
    for path in ("a\0b", "a" * 5000):
        with pytest.raises(ConfigError, match=r"data.table: a path has at most 4096 characters"):
            load_config(overrides={"data.table": path})

"""Configurations are combined in a fixed order, and invalid settings give clear errors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from molsepnorm.data.datasets import NAMES
from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import config_folder, load_config

RECIPES = sorted({*config_folder().glob("*.yaml")} - {config_folder() / "tune.yaml"})
PRESETS = ("mini", "slim", "base")


def _write(folder, text: str):
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads(path):
    """mini, slim and base are presets; the recipes of tables, structures and ogbg need a source."""
    if path.stem in PRESETS:
        config = load_config("zinc", preset=path.stem)
    elif path.stem == "table":
        config = load_config("my.csv")
    elif path.stem == "scratch":
        config = load_config("my.csv", overrides={"finetune.start": "none"})
    elif path.stem == "pretrain":
        config = load_config(config=path, overrides={"data.structures": ["my.smi"]})
    elif path.stem == "ogbg":
        config = load_config("ogbg-molhiv")
    else:
        config = load_config(config=path)
    written = yaml.safe_load(path.read_text(encoding="utf-8")).get("model", {})
    assert {key: asdict(config.model)[key] for key in written} == written
    assert path.read_text(encoding="utf-8").startswith("#")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("optim.lr", 0, "optim.lr: .*greater than 0; got 0"),
        ("optim.decay", "step", "optim.decay: .*'linear', 'cosine' or 'constant'; got 'step'"),
        ("data.split", [0.7, 0.2, 0.1], "data.split is for tables: zinc has its own"),
        ("data.featurizer", "ecfp", "data.featurizer: unknown featuriser 'ecfp'. Known: ogb"),
        ("data.table", "x.csv", "name one source: a data set"),
        ("model.width", 30, "model.width must be a multiple of model.heads.*Try width=32"),
        ("run.epochs", True, "run.epochs is a number; got True"),
        ("optim.lrr", 1, r"unknown setting 'optim.lrr'. Did you mean 'lr'\? Known: class_weight"),
        ("modle.layers", 1, r"unknown setting 'modle.layers'.*Did you mean 'model'\?"),
        ("model.outputs", 2, "model.outputs follows from the data and cannot be set"),
    ],
)
def test_an_invalid_value_gives_a_clear_error(name, value, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_config("zinc", overrides={name: value})
    assert "pydantic" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_errors_are_reported_at_once():
    """Each error has a line of its own."""
    with pytest.raises(ConfigError) as caught:
        load_config("zinc", overrides={"optim.lr": 0, "run.epochs": -1, "data.sede": 1})
    assert len(str(caught.value).splitlines()) == 3


def test_later_arguments_override_earlier_ones(tmp_path):
    """The order is file, source, preset, single settings."""
    path = _write(
        tmp_path,
        "data: {table: old.csv, split_seed: 5}\n"
        "model: {layers: 3, width: 40}\n"
        "optim: {lr: 0.5}\nrun: {epochs: 7}\n",
    )
    alone = load_config(config=path)
    assert (alone.model.layers, alone.model.width, alone.optim.lr) == (3, 40, 0.5)
    everything = load_config(
        "new.csv", config=path, preset="slim", overrides={"model.layers": 2, "optim.lr": 0.25}
    )
    assert str(everything.data.table) == "new.csv"
    assert everything.data.split_seed == 5
    assert (everything.model.layers, everything.model.width) == (2, 80)
    assert (everything.optim.lr, everything.run.epochs) == (0.25, 7)


@pytest.mark.parametrize("source", ["my.csv", "zinc", "ogbg-molhiv"])
def test_a_file_changes_only_the_settings_that_it_names(tmp_path, source):
    path = _write(tmp_path, "run: {epochs: 7}\n")
    changed = load_config(source, config=path)
    assert changed == load_config(source, overrides={"run.epochs": 7})
    pairs = _write(tmp_path, "model: {layers: 2}\nfinetune: {start: none}\n")
    other = {"model.layers": 2, "finetune.start": "none"}
    assert load_config(source, config=pairs) == load_config(source, overrides=other)


def test_1e_3_is_a_number(tmp_path):
    """PyYAML reads 1e-3 as a text."""
    path = _write(tmp_path, "data: {dataset: zinc}\noptim: {lr: 1e-3, ema: null, clip_norm: ~}\n")
    config = load_config(config=path)
    assert (config.optim.lr, config.optim.ema, config.optim.clip_norm) == (1e-3, None, None)


def test_a_network_too_large_for_memory_is_refused():
    sizes = {"model.layers": 256, "model.width": 16_384, "model.ffn_width": 16_384}
    with pytest.raises(ConfigError, match=r"about 412,316,860,416 parameters in its"):
        load_config("zinc", overrides={**sizes, "model.heads": 8})


@pytest.mark.parametrize(
    ("source", "dataset", "table"),
    [
        ("zinc", "zinc", None),
        ("my.csv", None, "my.csv"),
        ("unheard-of", "unheard-of", None),
        (Path("zinc"), None, "zinc"),
    ],
)
def test_a_source_is_a_name_or_a_file(source, dataset, table):
    """A path is a file even if a data set has its name."""
    config = load_config(source)
    assert config.data.dataset == dataset
    assert (config.data.table and str(config.data.table)) == table
    setting = "data.dataset" if table is None else "data.table"
    assert load_config(overrides={setting: dataset or table}) == config


@pytest.mark.parametrize("name", NAMES)
def test_a_named_data_set_uses_the_recipe_of_itself_or_its_family(name):
    """The recipe for tables has a featuriser and a split, which named sets refuse."""
    config = load_config(name)
    recipe = "ogbg" if name.startswith("ogbg-") else name
    written = yaml.safe_load((config_folder() / f"{recipe}.yaml").read_text(encoding="utf-8"))
    assert config.data == type(config.data)(dataset=name)
    assert config.run.epochs == written["run"]["epochs"]
    assert asdict(config.model)["layers"] == written["model"]["layers"]


def test_a_saved_configuration_loads_unchanged(tmp_path):
    for source, overrides in (
        ("zinc", {}),
        ("/a folder/tablé.csv", {"data.targets": ["y", "yes", "1"], "optim.lr": 1e-7}),
        (
            "/elsewhere/table.tsv",
            {
                "data.task_type": {"y": "multiclass", "n": "regression"},
                "data.classes": {"y": ["no", "1e3", "null", "~"]},
                "data.smiles_column": '"SMILES, canonical",solvent',
                "data.splits_file": "/elsewhere/splits.json",
                "data.fold": 3,
                "optim.class_weight": "balanced",
            },
        ),
    ):
        config = load_config(source, overrides=overrides)
        config.save(tmp_path / "deep" / "config.yaml")
        again = load_config(config=tmp_path / "deep" / "config.yaml")
        assert again == config
        assert isinstance(again, TrainConfig)


def test_a_saved_configuration_works_from_any_folder(tmp_path, monkeypatch):
    """A run can be resumed from another folder."""
    monkeypatch.chdir(tmp_path)
    overrides = {"data.data_dir": "raw", "data.splits_file": "splits.json"}
    config = load_config("my.csv", overrides=overrides)
    config.save(tmp_path / "config.yaml")
    data = load_config(config=tmp_path / "config.yaml").data
    assert (data.table, data.data_dir) == (tmp_path / "my.csv", tmp_path / "raw")
    assert data.splits_file == tmp_path / "splits.json"
    assert data == config.resolved().data
    assert config.resolved().resolved() == config.resolved() != config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim: [", "mine.yaml is not valid YAML: "),
        ("- a\n- b\n", "mine.yaml must have sections with settings.*Sections: data, model, "),
        ("data: {dataset: zinc}\noptimiser: {lr: 1}", "unknown setting 'optimiser'.*'optim'"),
        ("", "name one source: a data set"),
        (b"data: {table: \xe9.csv}", "mine.yaml is not valid YAML"),
        ("!!python/object/apply:os.system [ls]", "line 1, column 1: could not determine"),
        (None, "cannot read .*mine.yaml: there is no such file"),
    ],
)
def test_a_malformed_file_gives_a_clear_error(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((ConfigError, StorageError), match=message) as caught:
        load_config(config=path)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "preset", "start"),
    [
        ({}, None, "molsepnorm-assays"),
        ({"run.epochs": 3, "model.dropout": 0.1}, None, "molsepnorm-assays"),
        ({"finetune.start": "none"}, None, None),
        ({"finetune.start": None}, None, None),
        ({"model.layers": 2}, None, None),
        ({"data.featurizer": "zinc"}, None, None),
        ({}, "slim", None),
    ],
)
def test_a_table_starts_from_the_model_of_the_package(settings, preset, start):
    """It does not if a setting names another architecture or other features."""
    config = load_config("my.csv", preset=preset, overrides=settings)
    assert config.finetune.start == (start and Path(start))
    recipe = "scratch" if start is None else "table"
    written = yaml.safe_load((config_folder() / f"{recipe}.yaml").read_text(encoding="utf-8"))
    assert config.optim.lr == written["optim"]["lr"]
    assert (config.model.local == "gine") == (start is not None)


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

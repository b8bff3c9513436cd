"""A run that starts from another run: its standardisation, its targets and its split."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, counted
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training import evaluate, load_config, train, train_replicates
from molsepnorm.training.start import require_same_meaning, trained_on_before
from runs import split_rows, stop_at
from support import Recorder

ONE = {"run.epochs": 1}


def _rows(path: Path) -> list[str]:
    return path.read_text().splitlines()[1:]


def test_molecules_that_the_start_was_trained_on_are_counted(configure, tmp_path, table):
    """Whatever their spelling, also in a run that is resumed without the start, and in a run that
    starts from this one."""
    start = train(configure(ONE), tmp_path / "start").folder
    trained = [_rows(table)[row] for row in split_rows(start)["train"]]
    more = tmp_path / "more.csv"
    new = [f"{'C' * n}Br,{n}.5,1" for n in range(1, 16)]
    again = [f"[CH3]{row[1:]}" for row in trained[:9]]  # every molecule begins with a carbon
    more.write_text("\n".join(["smiles,y,active", *new, *again]) + "\n")
    config = configure({**ONE, "data.table": more, "finetune.start": str(start)})
    spy = Recorder()
    train(config, tmp_path / "run", callback=[spy, stop_at(1)])
    splits = split_rows(tmp_path / "run")
    scored = {
        canonical_smiles(_rows(more)[row].partition(",")[0])
        for split in ("val", "test")
        for row in splits[split]
    }
    known = scored & {canonical_smiles(row.partition(",")[0]) for row in trained}
    assert known
    (said,) = (each for each in spy.dataset.warnings if "was trained on" in each)
    assert f"{start} was trained on {counted(len(known), 'molecule')} of the validation" in said
    table.rename(tmp_path / "gone.csv")
    metrics = train(folder=tmp_path / "run", resume=True).metrics
    assert metrics["molecules_trained_on_before"] == len(known)
    assert "training started from was trained on" in evaluate(tmp_path / "run", config.data).leak

    third = configure({**ONE, "data.table": more, "finetune.start": str(tmp_path / "run")})
    train(third, tmp_path / "third", callback=[spy, stop_at(1)])
    (said,) = (each for each in spy.dataset.warnings if "was trained on" in each)
    assert f"was trained on {len(known)} " in said  # by the first run, not by the second
    (start / "model" / TRAINING_FILE).unlink()
    train(third, tmp_path / "fourth", callback=[spy, stop_at(1)])
    (said,) = (each for each in spy.dataset.warnings if "cannot be compared" in each)
    assert str(start) in said  # the first run


@pytest.mark.parametrize("known", [1, 9])
def test_a_start_that_knows_the_scored_molecules_is_replaced(configure, tmp_path, known):
    """By `finetune.otherwise`, if it knows more than 5 % of them; a resumed run stays with it. The
    same benchmark again trains nothing."""
    models = {}
    for name in ("first", "second"):
        config = configure(ONE | {"run.seed": len(name)})
        models[name] = train(config, tmp_path / name).folder / "model"
    trained = PropertyModel.from_pretrained(models["first"]).training_molecules().smiles
    rows = [(f"{'C' * n}Br", "train" if n < 20 else "test") for n in range(1, 60)]
    rows[-known:] = [(text, "test") for text in trained[:known]]
    rows[:5] = [(text, "val") for text, _ in rows[:5]]
    table = tmp_path / "more.csv"
    lines = [f"{text},{number % 7}.5,{split}" for number, (text, split) in enumerate(rows)]
    table.write_text("\n".join(["smiles,y,split", *lines]) + "\n")
    settings = {"data.table": table, "data.splits_column": "split", "model.dropout": 0.2}
    config = configure({**ONE, **settings, "finetune.start": str(models["first"])})
    config = config.changed({"finetune.otherwise": str(models["second"])})
    spy, run = Recorder(), tmp_path / "run"
    train(config, run, callback=[spy, stop_at(1)])
    written = load_config(config=run / "config.yaml")
    used = "second" if known == 9 else "first"
    assert written.finetune.start == models[used]
    assert written.model.dropout == 0.2
    assert written.finetune.weights_sha256 == weights_digest(models[used])
    replaced = [text for text in spy.dataset.warnings if "training starts from" in text]
    assert len(replaced) == (known == 9)
    metrics = train(folder=run, resume=True).metrics  # both models have the same training rows
    assert metrics.get("molecules_trained_on_before", 0) == known
    first, again = (train_replicates(config, tmp_path / "series", seeds=[0]) for _ in range(2))
    assert first.runs == again.runs
    train(config.changed({"run.ensemble": 2}), tmp_path / "ensemble", callback=spy)
    for folder in (tmp_path / "ensemble", tmp_path / "ensemble" / "members" / "2"):
        assert load_config(config=folder / "config.yaml").finetune.start == models[used]
    assert len([text for text in spy.warnings if "training starts from" in text]) == (known == 9)


@pytest.mark.parametrize(
    ("levels", "known_by"), [(("none", "parent"), "run"), (("parent", "none"), "model")]
)
def test_molecules_are_compared_at_the_higher_level(trained, tmp_path, table, levels, known_by):
    """As the model that standardises them reads them, and without salts, in any form. A molecule
    that RDKit cannot read does not prevent it: some of OGB's graphs have such a SMILES."""
    start = trained(ONE | {"data.standardize": levels[0]}).folder
    trained = _rows(table)[split_rows(start)["train"][0]].partition(",")[0]
    if known_by == "model":
        start = shutil.copytree(start / "model", tmp_path / "model")
    dataset = SimpleNamespace(
        smiles=["F[Al](F)(F)(F)(F)(F)(F)F", "FCCCCCBr", f"{trained}.Cl"],
        store=SimpleNamespace(rows=np.arange(3)),
        splits={"val": np.array([0, 1]), "test": np.array([2])},
    )
    assert trained_on_before(dataset, start, levels[1]) == [f"{trained}.Cl"]


def _start(target: Target) -> PropertyModel:
    task = Task((target,), "loss")
    network = Graphormer(GraphormerConfig(layers=1, width=8, heads=2, outputs=task.outputs))
    return PropertyModel.of(network, "zinc", task)


@pytest.mark.parametrize(
    ("old", "new", "option", "named"),
    [
        (
            *(Target("c_nM", "regression", transform="pic50"), Target("c_nM", "regression")),
            *("--transform c_nM=pic50", {"transform": {"c_nM": "none"}}),
        ),
        (
            *(Target("a", "binary"), Target("a", "regression")),
            *("--task-type a=binary", {"task_type": "regression"}),
        ),
        (
            Target("a", "multiclass", classes=("x", "y", "z")),
            Target("a", "multiclass", classes=("x", "y")),
            *("--set 'data.classes={a: [x, y, z]}'", {"classes": {"a": ["x", "y"]}}),
        ),
    ],
)
def test_a_target_keeps_its_meaning_or_is_named(old, new, option, named):
    """Otherwise the output weights would be lost without a word."""
    start, targets = _start(old), (new, Target("b", "regression"))
    with pytest.raises(ConfigError, match=re.escape(f"with other settings: add {option} to")):
        require_same_meaning(start, targets, DataConfig(table="x.csv"), "runs/a")
    require_same_meaning(start, targets, DataConfig(table="x.csv", **named), "runs/a")
    require_same_meaning(start, (old,), DataConfig(table="x.csv"), "runs/a")


def test_the_standardisation_of_the_start_is_kept_unless_it_is_set(configure, tmp_path):
    table = configure().data.table
    model = _start(Target("y", "regression"))
    model = PropertyModel.of(model.network, "zinc", model.task, standardize="parent")
    model.save_pretrained(tmp_path / "model")
    start = {"finetune.start": str(tmp_path / "model")}
    assert load_config(table, overrides=start).data.standardize == "parent"
    other = {**start, "data.standardize": "salts"}
    assert load_config(table, overrides=other).data.standardize == "salts"
    assert load_config(table, overrides={"finetune.start": "none"}).data.standardize == "none"

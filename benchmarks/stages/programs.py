"""Whole commands: their start-up, their speed on a table, and the memory of all their processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from commands import OURS, Usage, measured, run, script
from interleaved import Row, Target, Work, compare, interleave
from lower_bounds import parse_on_all_cores
from peers import PeerMissing, chemprop
from settings import Settings

from stages.common import (
    PREPARE,
    chemprop_model,
    full_zinc,
    slim_model,
    table_model,
    validation_csv,
    zinc_table,
)

__all__ = ["memory", "predict", "prepare", "scaling", "startup"]

_MODELS = {"slim": "SLIM on ZINC's features", "table": "the model of table.yaml"}
_FIRST_BATCH = """
import molsepnorm
from molsepnorm import model, training
from molsepnorm.data import datasets
from molsepnorm.data.batching.collate import GraphTensors

config = molsepnorm.load_config({name!r})
spec = model.encoding_of(training.run.architecture(config))
GraphTensors.of(datasets.load(config.data, spec).store).cut([0, 1, 2])
"""
_TRAIN = """
import itertools, sys
import molsepnorm
from molsepnorm.data import datasets
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.predict.inference import predict
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.nn import Graphormer
from molsepnorm.tasks import Target, Task
from molsepnorm.training.run import architecture

config, steps = molsepnorm.load_config({name!r}), itertools.count(1)
molsepnorm.train(config, sys.argv[1], stop=lambda: next(steps) >= {steps})
network = architecture(config)
dataset = datasets.load(config.data, encoding_of(network))
task = Task((Target("y", "regression"),), "mae")
model = PropertyModel(Graphormer(network), dataset.store.featurizer, task)
predict(model, GraphTensors.of(dataset.store), dataset.splits["val"])
"""
"""Training that stops after some steps, then validation, in one process."""
_PREPARE_TABLE = """
import sys
from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.molecules.encodings import EncodingSpec

config = DataConfig(table=sys.argv[1], targets=("y",), featurizer="zinc")
datasets.load(config, EncodingSpec((3,)))
"""
_SAMPLED = "private pages of all processes and shared ones once, sampled"


def _working(command: Sequence[str], folder: Path, units: int, **environment: str) -> Work:
    def work(number: int) -> int:
        run(command, folder, **environment)
        return units

    return work


def _ours(model: Path, table: Path, out: Path) -> list[str]:
    files = ["--model", str(model), "--input", str(table), "--output", str(out)]
    return [OURS, "predict", *files]


def predict(settings: Settings) -> list[Row]:
    """Predict ZINC's validation molecules with two of our models and chemprop's default."""
    folder, csv = settings.folder("predict"), validation_csv(settings)
    smiles = pd.read_csv(csv)["smiles"].tolist()
    commands = {
        "slim": _ours(slim_model(settings), csv, folder / "slim.csv"),
        "table": _ours(table_model(settings), csv, folder / "table.csv"),
    }
    remark, peer_name = f"{len(smiles):,} rows", ""
    try:
        program = chemprop.executable(settings.chemprop)
        peer_name = chemprop.version(program)
        model = chemprop_model(settings, program)
        commands["peer"] = chemprop.predict(program, model, csv, folder / "peer.csv")
        commands["fast peer"] = [*commands["peer"], *chemprop.fast_features(program)]
    except PeerMissing as missing:
        remark += f"; no peer: {missing}"
    one_row = folder / "one.csv"
    one_row.write_text("smiles\nCCO\n")
    for command in commands.values():  # warm up
        run([str(one_row) if word == str(csv) else word for word in command], folder)
    works = {name: _working(given, folder, len(smiles)) for name, given in commands.items()}
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        parse_on_all_cores(pool, smiles[:100])
        works["bound"] = lambda number: parse_on_all_cores(pool, smiles)
        rates = interleave(works, settings.plan(min_rounds=3, warm_ups=0, round_seconds=0.0))
    rows = [
        Row(
            f"molsepnorm predict, {what}",
            "molecules/s",
            rates[name],
            rates.get("peer", ()),
            peer_name,
            "chemprop predict, its default model and options",
            rates["bound"],
            f"RDKit's MolFromSmiles of all rows, {cores} processes that have started before",
            Target("ratio", 4),
            remark,
        )
        for name, what in _MODELS.items()
    ]
    if fast := rates.get("fast peer"):
        what, work = f"{rows[0].what}, beside C++ features", "--use-cuikmolmaker-featurization"
        work = f"chemprop predict {work}"
        rows.append(replace(rows[0], what=what, peer=fast, peer_work=work, target=None))
    return rows


def startup(settings: Settings) -> list[Row]:
    """Time the help, the prediction of one molecule, and a data set whose store exists."""
    folder = settings.folder("startup")
    name, cache = full_zinc(settings)
    one_row = folder / "one.csv"
    one_row.write_text("smiles\nCCO\n")
    peer_help: list[str] = []
    peer_predict: list[str] = []
    peer_name = remark = ""
    try:
        program = chemprop.executable(settings.chemprop)
        peer_name, peer_help = chemprop.version(program), [str(program), "--help"]
        model = chemprop_model(settings, program)
        peer_predict = chemprop.predict(program, model, one_row, folder / "peer.csv")
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    predict = [OURS, "predict", "--model", str(slim_model(settings)), "--smiles", "CCO"]
    first_batch = script(_FIRST_BATCH.format(name=name))
    stages = (
        ("molsepnorm --help", [OURS, "--help"], peer_help, "import click", None),
        ("predicting one molecule", predict, peer_predict, "import torch, rdkit.Chem", None),
        (f"second start on {name}, to the first batch", first_batch, [], "import torch", 2),
    )
    rows = []
    for what, ours, peer, bound, target in stages:
        commands = {"ours": ours, "peer": peer, "bound": script(bound)}
        works = {
            who: _working(command, folder, 1, MOLSEPNORM_CACHE=str(cache))
            for who, command in commands.items()
            if command
        }
        row = compare(
            works,
            settings.plan(seconds=12, min_rounds=3, max_rounds=15, round_seconds=0),
            what=what,
            unit="s",
            peer_name=peer_name,
            peer_work="the same, for its default model",
            bound_name=f"python -c '{bound}'",
            target=Target("ours", target) if target else None,
            remark=remark,
        )
        rows.append(row)
    return rows


def prepare(settings: Settings) -> list[Row]:
    """Read full ZINC from its csv.gz files into a store, once."""
    name = "zinc" if settings.quick else "zinc-full"
    cache = settings.folder(f"cache-{name}")
    shutil.rmtree(cache)
    cache.mkdir()
    usage = measured(script(PREPARE.format(name=name)), cache, MOLSEPNORM_CACHE=str(cache))
    splits = ("train", "val", "test")
    smiles = [text for split in splits for text in zinc_table(settings, split)["smiles"]]
    smiles = smiles[: settings.count(len(smiles), 12_000)]
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        parse_on_all_cores(pool, smiles[:1000])
        begun = time.perf_counter()
        parse_on_all_cores(pool, smiles)
        bound = time.perf_counter() - begun
    return [
        Row(
            f"{name} from its files to a store",
            "s",
            [usage.seconds],
            bound=[bound],
            bound_name=f"RDKit's MolFromSmiles of {len(smiles):,} SMILES, {cores} processes",
            remark=f"{len(smiles):,} molecules",
        ),
        _memory(f"the same, peak memory of {name}", usage, 3),
    ]


def memory(settings: Settings) -> list[Row]:
    """Measure training and validating on full ZINC, and predicting ZINC's validation molecules."""
    (name, cache), steps = full_zinc(settings), settings.count(48, 4)
    folder, csv = settings.folder("memory"), validation_csv(settings)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [*script(_TRAIN.format(name=name, steps=steps)), str(Path(scratch) / "run")]
        training = measured(command, Path(scratch), MOLSEPNORM_CACHE=str(cache))
    row = _memory(f"peak memory of {steps} training steps and validation, {name}", training, 2)
    ours = measured(_ours(slim_model(settings), csv, folder / "o.csv"), folder)
    predicting = _memory("peak memory of predicting the CSV", ours, None)
    try:
        program = chemprop.executable(settings.chemprop)
        model = chemprop_model(settings, program)
        peer = measured(chemprop.predict(program, model, csv, folder / "peer.csv"), folder)
        version = chemprop.version(program)
        return [row, replace(predicting, peer=[peer.memory], peer_name=version)]
    except PeerMissing as missing:
        return [row, replace(predicting, remark=f"{_SAMPLED}; no peer: {missing}")]


def _memory(what: str, usage: Usage, max_gib: float | None) -> Row:
    target = None if max_gib is None else Target("ours", max_gib)
    return Row(what, "GiB", [usage.memory], target=target, remark=_SAMPLED)


def scaling(settings: Settings) -> list[Row]:
    """Predict and prepare tables of three sizes, each once, for the cost per molecule and memory.

    The time of two hundred rows, for the start, is subtracted."""
    folder, cache = settings.folder("scaling"), settings.folder("scaling") / "cache"

    def table(rows: int) -> Path:
        """Repeat ZINC's validation molecules."""
        if not (path := folder / f"{rows}.csv").exists():
            part = zinc_table(settings, "val")
            repeated = pd.concat([part] * (rows // len(part) + 1), ignore_index=True)
            repeated[:rows].to_csv(path, index=False)
        return path

    def preparing(rows: int) -> Usage:
        shutil.rmtree(cache, ignore_errors=True)
        command = [*script(_PREPARE_TABLE), str(table(rows))]
        return measured(command, folder, MOLSEPNORM_CACHE=str(cache))

    def predicting(rows: int) -> Usage:
        return measured(_ours(slim_model(settings), table(rows), folder / "predicted.csv"), folder)

    first, *others = (500, 1_000) if settings.quick else (10_000, 100_000, 1_000_000)
    rows = []
    for what, work in (("predict", predicting), ("prepare a table", preparing)):
        start = work(200)
        usages = {size: work(size) for size in (first, *others)}
        cost = {s: 1e6 * (usages[s].seconds - start.seconds) / (s - 200) for s in usages}
        peak = {size: usage.memory for size, usage in usages.items()}
        for size, usage in usages.items():
            for label, unit, values in (
                ("", "µs a molecule", cost),
                (": peak memory", "GiB", peak),
            ):
                row = Row(
                    f"{what}, {size:,} rows{label}",
                    unit,
                    [values[size]],
                    [values[first]] if size != first else (),
                    f"ours at {first:,} rows",
                    target=Target("growth", 0.1) if size != first else None,
                    remark=f"{usage.seconds:,.0f} s in all",
                )
                rows.append(row)
    return rows

"""Whole commands: their start-up and their speed on a table."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from commands import OURS, run, script
from interleaved import Row, Target, Work, compare, interleave
from lower_bounds import parse_on_all_cores
from peers import PeerMissing, chemprop

from stages import Settings
from stages.common import chemprop_model, default_model, slim_model, validation_csv

__all__ = ["predict", "startup"]

_MODELS = {"slim": "SLIM on ZINC's features", "default": "the default model of a table"}


def _running(command: Sequence[str], folder: Path, units: int) -> Work:
    def work(number: int) -> int:
        run(command, folder)
        return units

    return work


def predict(settings: Settings) -> list[Row]:
    """Predict ZINC's validation molecules with two of our models and chemprop's default."""
    folder, csv = settings.folder("predict"), validation_csv(settings)
    smiles = pd.read_csv(csv)["smiles"].tolist()
    models = {"slim": slim_model(settings), "default": default_model(settings)}
    commands = {
        name: [OURS, "predict", f"--model={model}", "-i", str(csv), "-o", f"{name}.csv"]
        for name, model in models.items()
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
    works = {name: _running(given, folder, len(smiles)) for name, given in commands.items()}
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        parse_on_all_cores(pool, smiles[:100])
        works["bound"] = lambda number: parse_on_all_cores(pool, smiles)
        rates = interleave(works, settings.plan(min_rounds=3, warm_ups=0, round_seconds=0.0))
    rows = [
        Row(
            f"predict, {what}",
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
        work = "chemprop predict --use-cuikmolmaker-featurization"
        changes = {"peer": fast, "peer_work": work, "target": Target("ratio", 2.5)}
        rows += [replace(row, what=f"{row.what}, beside C++ features", **changes) for row in rows]
    return rows


def startup(settings: Settings) -> list[Row]:
    """Time the help and the prediction of one molecule."""
    folder = settings.folder("startup")
    one_row = folder / "one.csv"
    one_row.write_text("smiles\nCCO\n")
    predict = [OURS, "predict", "--model", str(slim_model(settings)), "--smiles", "CCO"]
    stages = {
        "molsepnorm --help": {"ours": [OURS, "--help"], "bound": script("import click")},
        "predicting one molecule": {"ours": predict, "bound": script("import torch, rdkit.Chem")},
    }
    peer_name = remark = ""
    try:
        program = chemprop.executable(settings.chemprop)
        peer_name, model = chemprop.version(program), chemprop_model(settings, program)
        peers = (
            [str(program), "--help"],
            chemprop.predict(program, model, one_row, folder / "peer.csv"),
        )
        for commands, peer in zip(stages.values(), peers, strict=True):
            commands["peer"] = peer
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    return [
        compare(
            {name: _running(command, folder, 1) for name, command in commands.items()},
            settings.plan(seconds=12, min_rounds=3, max_rounds=15, round_seconds=0),
            what=what,
            unit="s",
            peer_name=peer_name,
            peer_work="the same, for its default model",
            bound_name=f"python -c '{commands['bound'][-1]}'",
            remark=remark,
        )
        for what, commands in stages.items()
    ]

"""Predicting a CSV file from the command line, all cores, start-up and all."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace

import pandas as pd
from commands import OURS, run
from floors import parse_on_all_cores
from peers import PeerMissing, chemprop
from settings import Settings
from turns import Asked, Row, Work, in_turns

from stages.models import chemprop_model, slim, table_model, validation_csv

__all__ = ["predict"]

_ASKED = 4
_MODELS = {"slim": "SLIM on ZINC's features", "table": "the model of table.yaml"}


def predict(settings: Settings) -> list[Row]:
    """Two of our models and chemprop's default, on ZINC's validation molecules."""
    folder, csv = settings.folder("predict"), validation_csv(settings)
    smiles = pd.read_csv(csv)["smiles"].tolist()
    one_row = folder / "one.csv"
    one_row.write_text("smiles\nCCO\n")

    def working(command: list[str]) -> Work:
        warm = [str(one_row) if word == str(csv) else word for word in command]
        run(warm, folder)

        def work(turn: int) -> int:
            run(command, folder)
            return len(smiles)

        return work

    def ours(model: str, name: str) -> Work:
        files = ["--model", model, "--input", str(csv), "--output", str(folder / f"{name}.csv")]
        return working([OURS, "predict", *files])

    contestants = {
        "slim": ours(str(slim(settings)), "slim"),
        "table": ours(str(table_model(settings)), "table"),
    }
    remark, peer_name = f"{len(smiles):,} rows", ""
    try:
        program = chemprop.executable(settings.chemprop)
        peer_name = chemprop.version(program)
        model = chemprop_model(settings, program)
        command = chemprop.predict(program, model, csv, folder / "peer.csv")
        contestants["peer"] = working(command)
        contestants["fast peer"] = working([*command, *chemprop.fast_features(program)])
    except PeerMissing as missing:
        remark += f"; no peer: {missing}"
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        parse_on_all_cores(pool, smiles[:100])
        contestants["floor"] = lambda turn: parse_on_all_cores(pool, smiles)
        rates = in_turns(contestants, settings.plan(least=3, warm_ups=0, turn_seconds=0.0))
    rows = [
        Row(
            "predict",
            f"molsepnorm predict, {what}",
            "molecules/s",
            rates[name],
            rates.get("peer", ()),
            peer_name,
            "chemprop predict, its default model and options",
            rates["floor"],
            f"RDKit's MolFromSmiles of all rows, {cores} processes that wait for it",
            Asked("ratio", _ASKED),
            remark,
        )
        for name, what in _MODELS.items()
    ]
    if "fast peer" in rates:
        rows += [_beside_fast_peer(rows[0], rates["fast peer"])]
    return rows


def _beside_fast_peer(row: Row, rates: list[float]) -> Row:
    """The same beside chemprop with an option that its users have to know."""
    return replace(
        row,
        what=f"{row.what}, beside C++ features",
        peer=rates,
        peer_work="chemprop predict --use-cuikmolmaker-featurization",
        asked=None,
    )

"""Peak memory of whole jobs, and the time that preparing full ZINC takes. One turn each."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from pathlib import Path

from commands import OURS, Usage, measured, script
from floors import parse_on_all_cores
from molecules import zinc_table
from peers import PeerMissing, chemprop
from settings import Settings
from turns import Asked, Row

from stages.models import PREPARE, chemprop_model, full_zinc, slim, validation_csv

__all__ = ["memory", "prepare"]

_TRAIN = """
import itertools, sys
import molsepnorm
from molsepnorm import datasets
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.predict.inference import predict
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.nn import Graphormer
from molsepnorm.tasks import Target, Task
from molsepnorm.training import StopWhen
from molsepnorm.training.run import architecture

config, steps = molsepnorm.load_config({name!r}), itertools.count(1)
molsepnorm.train(config, sys.argv[1], callback=StopWhen(lambda: next(steps) >= {steps}))
network = architecture(config)
dataset = datasets.load(config.data, encoding_of(network))
task = Task((Target("y", "regression"),), "mae")
model = PropertyModel(Graphormer(network), dataset.store.featurizer, task)
predict(model, GraphTensors.of(dataset.store), dataset.splits["val"])
"""
"""Training that is stopped after some steps, then validation, in one process."""


def prepare(settings: Settings) -> list[Row]:
    """Full ZINC from its csv.gz files to a store that training reads."""
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
        floor = time.perf_counter() - begun
    return [
        Row(
            "prepare",
            f"{name} from its files to a store",
            "s",
            [usage.seconds],
            floor=[floor],
            floor_name=f"RDKit's MolFromSmiles of {len(smiles):,} SMILES, {cores} processes",
            remark=f"{len(smiles):,} molecules",
        ),
        _row("prepare", f"the same, peak memory of {name}", usage, 3),
    ]


def memory(settings: Settings) -> list[Row]:
    """Training and validating on full ZINC, and predicting ZINC's validation molecules."""
    name, cache = full_zinc(settings)
    steps = settings.count(48, 4)
    with tempfile.TemporaryDirectory(dir=settings.folder("memory")) as scratch:
        command = [*script(_TRAIN.format(name=name, steps=steps)), str(Path(scratch) / "run")]
        training = measured(command, Path(scratch), MOLSEPNORM_CACHE=str(cache))
    return [
        _row(
            "memory", f"peak memory of {steps} training steps and validation, {name}", training, 2
        ),
        _predicting(settings),
    ]


def _predicting(settings: Settings) -> Row:
    folder, csv = settings.folder("memory"), validation_csv(settings)
    files = ["--model", str(slim(settings)), "--input", str(csv), "--output", str(folder / "o.csv")]
    ours, what = measured([OURS, "predict", *files], folder), "peak memory of predicting the CSV"
    try:
        program = chemprop.executable(settings.chemprop)
        model = chemprop_model(settings, program)
        peer = measured(chemprop.predict(program, model, csv, folder / "peer.csv"), folder)
        return _row("memory", what, ours, None, peer, chemprop.version(program))
    except PeerMissing as missing:
        return _row("memory", what, ours, None, why=f"; no peer: {missing}")


def _row(
    stage: str,
    what: str,
    ours: Usage,
    most: float | None,
    peer: Usage | None = None,
    peer_name: str = "",
    why: str = "",
) -> Row:
    return Row(
        stage,
        what,
        "GiB",
        [ours.memory],
        [peer.memory] if peer else (),
        peer_name,
        asked=None if most is None else Asked("ours", most),
        remark=f"private pages of all processes and shared ones once, sampled{why}",
    )

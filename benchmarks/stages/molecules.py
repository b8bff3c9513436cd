"""From SMILES to features and to a store of encoded molecules, on one core."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from environment import data_folder
from interleaved import Row, Target, Work, compare
from lower_bounds import copying, parse
from peers import PeerMissing, hf_graphormer

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets.cached import cached_store
from molsepnorm.molecules import featurize
from stages import Settings
from stages.common import SLIM_ENCODING, on_one_core, zinc_table

__all__ = ["encode", "features", "features_ogb"]

_BOUND = "RDKit's MolFromSmiles on the same texts, one core"
_OF_PEER = 500  # molecules of a round of the peer, which take it a second


def features(settings: Settings) -> list[Row]:
    """Read a CSV of ZINC's SMILES into a store file, as training from a table does first."""
    on_one_core()
    folder = settings.folder("features")
    table = zinc_table("train", settings.count(10_000, 1_000))
    table.to_csv(folder / "molecules.csv", index=False)
    config = DataConfig(table=folder / "molecules.csv", targets=("y",), featurizer="zinc")
    os.environ["MOLSEPNORM_CACHE"] = str(folder / "cache")
    smiles = table["smiles"].tolist()

    def ours(number: int) -> int:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return len(datasets.load(config, SLIM_ENCODING).store)

    row = compare(
        {"ours": ours, "bound": lambda number: parse(smiles)},
        settings.plan(min_rounds=3),
        what="CSV of SMILES to store, ZINC's features, one core",
        unit="molecules/s",
        bound_name=_BOUND,
        target=Target("share", 0.6),
    )
    return [row]


def features_ogb(settings: Settings) -> list[Row]:
    """Compute OGB's features of every tenth molecule of molhiv, beside `ogb.utils.smiles2graph`."""
    on_one_core()
    os.environ["OUTDATED_IGNORE"] = "1"
    from ogb.utils import smiles2graph
    from rdkit import Chem, rdBase

    every = pd.read_csv(data_folder() / "ogbg_molhiv" / "mapping" / "mol.csv.gz")["smiles"]
    smiles = every.tolist()[:: settings.count(10, 100)]

    def all_by(make: Callable[[str], Any]) -> Work:
        def work(number: int) -> int:
            for text in smiles:
                make(text)
            return len(smiles)

        return work

    with rdBase.BlockLogs():
        smiles = [text for text in smiles if Chem.MolFromSmiles(text) is not None]
        row = compare(
            {
                "ours": all_by(featurize.get("ogb")),
                "peer": all_by(smiles2graph),
                "bound": lambda number: parse(smiles),
            },
            settings.plan(seconds=6),
            what="SMILES of molhiv to OGB's features, one core",
            unit="molecules/s",
            peer_name=f"ogb {version('ogb')}",
            peer_work="smiles2graph",
            bound_name=_BOUND,
            target=Target("ratio", 2),
        )
    return [row]


def encode(settings: Settings) -> list[Row]:
    """Encode graphs into a store, beside transformers' preprocessing of single molecules."""
    on_one_core()
    folder = settings.folder("encode")
    os.environ["MOLSEPNORM_CACHE"] = str(folder)
    table = zinc_table("train", settings.count(10_000, 1_000))
    read = featurize.get("zinc")
    molecules = [(row, read(smiles)) for row, smiles in enumerate(table["smiles"])]

    def make_store() -> Path:
        shutil.rmtree(folder)
        return cached_store("bench", "zinc", SLIM_ENCODING, molecules).path

    num_bytes = make_store().stat().st_size
    copy, each = copying(num_bytes), num_bytes / len(molecules)

    def ours(number: int) -> int:
        make_store()
        return len(molecules)

    works: dict[str, Work] = {"ours": ours}
    remark = f"the peer on {_OF_PEER} of them in a round"
    try:
        preprocess = hf_graphormer.preprocessor()
        items = [hf_graphormer.raw_item(graph, 0.0) for _, graph in molecules]

        def peer(number: int) -> int:
            for i in (np.arange(_OF_PEER) + number * _OF_PEER) % len(items):
                preprocess(items[i])
            return _OF_PEER

        works["peer"] = peer
    except PeerMissing as missing:
        remark = f"no peer: {missing}"

    def bound(number: int) -> int:
        copy()
        return len(molecules)

    row = compare(
        {**works, "bound": bound},
        settings.plan(seconds=8),
        what="graphs to store, one core",
        unit="molecules/s",
        peer_name=hf_graphormer.NAME,
        peer_work="preprocess_item, which writes no file",
        bound_name=f"copying the store's {each:,.0f} bytes a molecule in memory",
        target=Target("ratio", 20),
        remark=remark,
    )
    return [row]

"""From SMILES to features and to a store of encoded molecules, on one core."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pandas as pd
import torch
from environment import data_folder
from interleaved import Row, Target, Work, compare
from lower_bounds import parse

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.molecules import featurize
from stages import Settings
from stages.common import SLIM_ENCODING, zinc_table

__all__ = ["features", "features_ogb"]

_BOUND = "RDKit's MolFromSmiles on the same texts, one core"


def _on_one_core() -> None:
    """Keep this process on the first core that it may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)


def features(settings: Settings) -> list[Row]:
    """Read a CSV of ZINC's SMILES into a store file, as training from a table does first."""
    _on_one_core()
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
    _on_one_core()
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

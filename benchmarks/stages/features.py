"""From SMILES: to a store of encoded molecules, and to OGB's features alone. One core."""

from __future__ import annotations

import gzip
import os
import shutil
from importlib.metadata import version

import pandas as pd
from floors import parse
from molecules import SLIM_ENCODING, on_one_core, zinc_table
from settings import Settings
from turns import Asked, Row, Work, in_turns

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.molecules import featurize

__all__ = ["ogb", "zinc"]

_FLOOR = "RDKit's MolFromSmiles on the same texts, one core"


def zinc(settings: Settings) -> list[Row]:
    """A CSV of ZINC's SMILES to a store file, as training from a table does it first."""
    on_one_core()
    folder = settings.folder("features")
    table = zinc_table(settings, "train", settings.count(10_000, 1_000))
    table.to_csv(folder / "molecules.csv", index=False)
    config = DataConfig(table=folder / "molecules.csv", targets=("y",), featurizer="zinc")
    os.environ["MOLSEPNORM_CACHE"] = str(folder / "cache")
    smiles = table["smiles"].tolist()

    def ours(turn: int) -> int:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return len(datasets.load(config, SLIM_ENCODING).store)

    contestants: dict[str, Work] = {"ours": ours, "floor": lambda turn: parse(smiles)}
    rates = in_turns(contestants, settings.plan(least=3))
    return [
        Row(
            "features",
            "CSV of SMILES to store, ZINC's features, one core",
            "molecules/s",
            rates["ours"],
            floor=rates["floor"],
            floor_name=_FLOOR,
            asked=Asked("share", 0.6),
        )
    ]


def ogb(settings: Settings) -> list[Row]:
    """Every tenth molecule of molhiv to OGB's features, beside `ogb.utils.smiles2graph`."""
    on_one_core()
    os.environ["OUTDATED_IGNORE"] = "1"
    from ogb.utils import smiles2graph
    from rdkit import Chem, rdBase

    with gzip.open(settings.data / "ogbg_molhiv" / "mapping" / "mol.csv.gz") as file:
        every = settings.count(10, 100)
        smiles = pd.read_csv(file)["smiles"].tolist()[::every]
    read = featurize.get("ogb")

    def all_by(make: object) -> Work:
        def work(turn: int) -> int:
            for text in smiles:
                make(text)  # type: ignore[operator]
            return len(smiles)

        return work

    with rdBase.BlockLogs():
        smiles = [text for text in smiles if Chem.MolFromSmiles(text) is not None]
        contestants = {
            "ours": all_by(read),
            "peer": all_by(smiles2graph),
            "floor": lambda turn: parse(smiles),
        }
        rates = in_turns(contestants, settings.plan(seconds=6))
    return [
        Row(
            "features-ogb",
            "SMILES of molhiv to OGB's features, one core",
            "molecules/s",
            rates["ours"],
            rates["peer"],
            f"ogb {version('ogb')}",
            "smiles2graph",
            rates["floor"],
            _FLOOR,
            Asked("ratio", 2),
        )
    ]

"""From molecular graphs to a store file, on one core."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from floors import copying
from molecules import SLIM_ENCODING, on_one_core, zinc_table
from peers import PeerMissing, hf_graphormer
from settings import Settings
from turns import Asked, Row, Work, in_turns

from molsepnorm.data.datasets.cached import cached_store
from molsepnorm.molecules import featurize

__all__ = ["encode"]

_OF_PEER = 500  # molecules of a turn, which take it a second


def encode(settings: Settings) -> list[Row]:
    """Our encoding beside transformers' preprocessing, which it does molecule by molecule."""
    on_one_core()
    folder = settings.folder("encode")
    os.environ["MOLSEPNORM_CACHE"] = str(folder)
    table = zinc_table(settings, "train", settings.count(10_000, 1_000))
    read = featurize.get("zinc")
    molecules = [(row, read(smiles)) for row, smiles in enumerate(table["smiles"])]

    def make_store() -> Path:
        shutil.rmtree(folder)
        return cached_store("bench", "zinc", SLIM_ENCODING, molecules).path

    num_bytes = make_store().stat().st_size
    copy = copying(num_bytes)

    def ours(turn: int) -> int:
        make_store()
        return len(molecules)

    def floor(turn: int) -> int:
        copy()
        return len(molecules)

    contestants: dict[str, Work] = {"ours": ours, "floor": floor}
    remark = f"the peer on {_OF_PEER} of them in a turn"
    try:
        preprocess = hf_graphormer.preprocessor()
        items = [hf_graphormer.raw_item(each.graph, each.labels[0]) for each in molecules]

        def peer(turn: int) -> int:
            places = (np.arange(_OF_PEER) + turn * _OF_PEER) % len(items)
            for place in places:
                preprocess(items[place])
            return len(places)

        contestants = {"ours": ours, "peer": peer, "floor": floor}
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    rates = in_turns(contestants, settings.plan(seconds=8))
    return [
        Row(
            "encode",
            "graphs to store, one core",
            "molecules/s",
            rates["ours"],
            rates.get("peer", ()),
            hf_graphormer.NAME,
            "preprocess_item, which writes no file",
            rates["floor"],
            f"copying the store's {num_bytes / len(molecules):,.0f} bytes a molecule in memory",
            Asked("ratio", 20),
            remark,
        )
    ]

"""Molecules that several stages measure with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from settings import Settings
from torch import Tensor

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["SLIM_ENCODING", "Sample", "on_one_core", "sample", "zinc_table"]

SLIM_ENCODING = EncodingSpec(bond_sizes=(3,))
"""What Graphormer-SLIM reads of ZINC: paths of 20 bonds."""

_SEED = 0


class Sample(NamedTuple):
    """Random training molecules of ZINC, in batches."""

    graphs: list[MolGraph]
    labels: Tensor  # (G, 1)
    batches: Sequence[np.ndarray]
    """Places of each batch's molecules among `graphs`."""

    def tensors(self) -> GraphTensors:
        """The molecules encoded for SLIM."""
        return GraphTensors.of(encode(self.graphs, SLIM_ENCODING))

    def of(self, batch: np.ndarray, values: Sequence[Any]) -> list[Any]:
        """What a batch has of one value per molecule."""
        return [values[place] for place in batch]


def zinc_table(settings: Settings, split: str, rows: int | None = None) -> pd.DataFrame:
    """`smiles` and `y` of a split of full ZINC, all rows or a random draw."""
    table = pd.read_csv(settings.data / "zinc" / f"{split}.csv.gz")
    return table if rows is None else table.sample(rows, random_state=_SEED)


def sample(settings: Settings, batches: int, size: int = 256) -> Sample:
    """So many batches of that size; the same molecules in every run."""
    torch.manual_seed(_SEED)
    table = zinc_table(settings, "train", batches * size)
    read = featurize.get("zinc")
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32)[:, None]
    places = np.arange(batches * size).reshape(batches, size)
    return Sample([read(smiles) for smiles in table["smiles"]], labels, list(places))


def on_one_core() -> None:
    """Keep this process on the first core that it may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)

"""ZINC: penalised logP of drug-like molecules; the 12,000 that papers report on, or all.

Sources, in this order: raw files of `torch_geometric.datasets.ZINC` or `{train,val,test}.csv.gz`
under the data folder, files downloaded before, a download. These have graphs with the benchmark's
28 labels; other features need SMILES, which only the tables hold.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from molsepnorm import featurize
from molsepnorm.datasets.dataset import (
    SPLITS,
    Dataset,
    LabelledGraph,
    cache_folder,
    cached_store,
)
from molsepnorm.encodings.encode import EncodingSpec
from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.files import clear_errors, fingerprint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INDICES", "RAW_FILES", "SETS", "TABLES", "ZincSet", "find_files", "load_zinc"]

_TARGET = "penalised_logp"
INDICES = tuple(f"{split}.index" for split in SPLITS)
RAW_FILES = (*(f"{split}.pickle" for split in SPLITS), *INDICES)
TABLES = tuple(f"{split}.csv.gz" for split in SPLITS)


class ZincSet(NamedTuple):
    """One of the sets that ZINC is known as."""

    label: str
    about: str
    featurizer: str
    sizes: tuple[int, int, int]
    """Molecules of each of `SPLITS`."""


_SUBSET, _FULL = (10_000, 1_000, 1_000), (220_011, 24_445, 5_000)
SETS = {
    "zinc": ZincSet("ZINC, the 12,000-molecule subset", "the 12,000 of papers", "zinc", _SUBSET),
    "zinc-full": ZincSet("ZINC, all 250,000 molecules", "all", "zinc", _FULL),
    "zinc-rich": ZincSet(
        "ZINC, the 12,000-molecule subset, with richer features than the benchmark's",
        "the 12,000, from SMILES",
        "rich",
        _SUBSET,
    ),
}


def load_zinc(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load one of `SETS`.

    Raises:
        DataError: the files are neither here nor to be downloaded, or hold too few molecules.
    """
    about, counts = SETS[name], dict.fromkeys(SPLITS, 0)
    folder = None
    if name == "zinc-rich":
        folder = find_files(data_dir, "zinc", (*TABLES, *INDICES))
        if folder is None:
            looked = f"not in {data_dir}" if data_dir else "in no data folder"
            raise DataError(
                f"{name} is made of SMILES, which are not downloaded and {looked}.\n{_SMILES}"
            )
        key = f"{name}-{fingerprint(*(folder / file for file in (*TABLES, *INDICES)))}"
    elif name == "zinc-full":
        folder = find_files(data_dir, "zinc", TABLES)
        if folder is not None:
            key = f"csv-{fingerprint(*(folder / file for file in TABLES))}"
    if folder is not None:
        molecules = _from_csv(name, folder, counts)
    else:
        folder = find_files(data_dir, "ZINC/raw", RAW_FILES)
        key = fingerprint(*(folder / file for file in RAW_FILES)) if folder else "downloaded"
        key = f"{name}-{key}"
        molecules = _through_pyg(name, data_dir, folder, key, counts)
    store = cached_store(key, about.featurizer, encoding, (_TARGET,), molecules, {"splits": counts})

    counts = store.notes["splits"]
    ends = np.cumsum([counts[split] for split in SPLITS])
    parts = np.split(np.arange(len(store)), ends[:-1])
    return Dataset(about.label, store, ("regression",), dict(zip(SPLITS, parts, strict=True)))


def find_files(data_dir: Path | None, under: str, names: tuple[str, ...]) -> Path | None:
    """The first folder in or below the data folder that holds all these files."""
    if data_dir is None:
        return None
    for folder in (data_dir / under, data_dir / Path(under).name, data_dir):
        if all((folder / name).is_file() for name in names):
            return folder
    return None


def _from_csv(name: str, folder: Path, counts: dict[str, int]) -> Iterator[LabelledGraph]:
    """Molecules from `smiles,y` tables; `counts` is filled in as they are read."""
    from molsepnorm.tables import locate, read_chunks, require_column

    about = SETS[name]
    featurizer = featurize.get(about.featurizer)
    row = 0
    for split, size, file in zip(SPLITS, about.sizes, TABLES, strict=True):
        path = folder / file
        chunks = read_chunks(path) if name == "zinc-full" else _subset(path, split, size)
        for chunk in chunks:
            for column in ("smiles", "y"):
                require_column(chunk.columns, column, path)
            graphs = featurizer.stream(chunk["smiles"])
            for index, graph, y in zip(chunk.index, graphs, chunk["y"], strict=True):
                try:
                    if isinstance(graph, InvalidMolecule):
                        raise graph
                    yield LabelledGraph(row, graph, (float(y),))
                except ValueError as error:  # no number, or no molecule
                    raise DataError(f"{locate(path, index)}: {error}") from None
                row += 1
            counts[split] += len(chunk)


def _subset(path: Path, split: str, size: int) -> Iterator[pd.DataFrame]:
    """The rows of a table that its index file names, in that order."""
    from molsepnorm.tables import read_table

    table, listed = read_table(path), path.with_name(f"{split}.index")
    with clear_errors(listed, "read"):
        numbers = listed.read_text(encoding="utf-8", errors="replace").replace(",", " ").split()
    rows = [int(number) for number in numbers if number.isdecimal() and int(number) < len(table)]
    if not len({*rows}) == len(numbers) == size:
        raise DataError(
            f"{listed} should list {size:,} different rows of {path.name}, numbers from 0 to "
            f"{len(table) - 1:,}; of its {len(numbers):,} entries {len({*rows}):,} are such. "
            f"{_SMILES}"
        )
    yield table.iloc[rows]


def _through_pyg(
    name: str, data_dir: Path | None, raw: Path | None, key: str, counts: dict[str, int]
) -> Iterator[LabelledGraph]:
    """Molecules of PyG's data set; its bonds are labelled from 1, ours from 0."""
    from torch_geometric.datasets import ZINC

    from molsepnorm.featurize.pyg import from_data

    root = cache_folder() / "pyg" / (key if raw else "ZINC")
    if raw:  # PyG writes beside its raw files, and the data folder may be read-only
        with clear_errors(root, "write"):
            (root / "raw").mkdir(parents=True, exist_ok=True)
            for file in RAW_FILES:
                link = root / "raw" / file
                if not link.exists():
                    link.symlink_to((raw / file).resolve())
    row = 0
    for split, expected in zip(SPLITS, SETS[name].sizes, strict=True):
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # PyG announces each step
                part = ZINC(str(root), subset=name == "zinc", split=split)
        except (OSError, RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
            reason = " ".join(str(error).split())
            if raw:
                raise DataError(f"{raw} cannot be read as ZINC: {reason}.\n{_WHERE}") from error
            looked = f"not in {data_dir}" if data_dir else "in no data folder"
            raise DataError(
                f"ZINC is {looked}, and downloading it from {ZINC.url} failed: {reason}.\n{_WHERE}"
            ) from error
        if len(part) != expected:
            raise DataError(
                f"{name} should have {expected:,} molecules in its {split} split, and the files "
                f"in {raw or root} give {len(part):,}. {_WHERE}"
            )
        for data in part:
            yield LabelledGraph(row, from_data(data, bond_offset=1), data.y.tolist())
            row += 1
        counts[split] = len(part)


_WHERE = (
    "Put train.pickle, val.pickle, test.pickle (from molecules.zip of the benchmarking-gnns "
    "project) and its train.index, val.index, test.index into DIR/ZINC/raw and give --data-dir "
    "DIR, or set MOLSEPNORM_DATA=DIR."
)
_SMILES = (
    "Put train.csv.gz, val.csv.gz, test.csv.gz (all molecules, in columns smiles and y) and "
    "train.index, val.index, test.index (the rows of the 12,000, counted from 0) into DIR/zinc and "
    "give --data-dir DIR, or set MOLSEPNORM_DATA=DIR."
)

"""ZINC: penalised logP of drug-like molecules; the 12,000 that papers report on, or all.

Sources, in this order: raw files of `torch_geometric.datasets.ZINC` or `{train,val,test}.csv.gz`
under the data folder, files downloaded before, a download.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path

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
from molsepnorm.tables import locate, read_chunks, require_column

__all__ = ["FEATURIZER", "OFFICIAL", "RAW_FILES", "TABLES", "find_files", "load_zinc"]

FEATURIZER = "zinc"

_TARGET = "penalised_logp"
RAW_FILES = tuple(f"{split}.{kind}" for kind in ("pickle", "index") for split in SPLITS)
TABLES = tuple(f"{split}.csv.gz" for split in SPLITS)
OFFICIAL = {"zinc": (10_000, 1_000, 1_000), "zinc-full": (220_011, 24_445, 5_000)}


def load_zinc(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load "zinc" (the subset) or "zinc-full".

    Raises:
        DataError: the files are neither here nor to be downloaded, or hold too few molecules.
    """
    folder = find_files(data_dir, "zinc", TABLES) if name == "zinc-full" else None
    if folder is not None:
        files = [folder / file for file in TABLES]
        key, counts = f"csv-{fingerprint(*files)}", dict.fromkeys(SPLITS, 0)
        molecules = _from_csv(files, counts)
    else:
        folder = find_files(data_dir, "ZINC/raw", RAW_FILES)
        key = fingerprint(*(folder / file for file in RAW_FILES)) if folder else "downloaded"
        key, counts = f"{name}-{key}", dict.fromkeys(SPLITS, 0)
        molecules = _through_pyg(name, data_dir, folder, key, counts)
    store = cached_store(key, FEATURIZER, encoding, (_TARGET,), molecules, {"splits": counts})

    counts = store.notes["splits"]
    ends = np.cumsum([counts[split] for split in SPLITS])
    parts = np.split(np.arange(len(store)), ends[:-1])
    label = "ZINC, the 12,000-molecule subset" if name == "zinc" else "ZINC, all 250,000 molecules"
    return Dataset(label, store, ("regression",), dict(zip(SPLITS, parts, strict=True)))


def find_files(data_dir: Path | None, under: str, names: tuple[str, ...]) -> Path | None:
    """The first folder in or below the data folder that holds all these files."""
    if data_dir is None:
        return None
    for folder in (data_dir / under, data_dir / Path(under).name, data_dir):
        if all((folder / name).is_file() for name in names):
            return folder
    return None


def _from_csv(files: list[Path], counts: dict[str, int]) -> Iterator[LabelledGraph]:
    """Molecules from `smiles,y` tables; `counts` is filled in as they are read."""
    zinc = featurize.get(FEATURIZER)
    row = 0
    for split, path in zip(SPLITS, files, strict=True):
        for chunk in read_chunks(path):
            for column in ("smiles", "y"):
                require_column(chunk.columns, column, path)
            graphs = zinc.stream(chunk["smiles"])
            for index, graph, y in zip(chunk.index, graphs, chunk["y"], strict=True):
                try:
                    if isinstance(graph, InvalidMolecule):
                        raise graph
                    yield LabelledGraph(row, graph, (float(y),))
                except ValueError as error:  # no number, or no molecule
                    raise DataError(f"{locate(path, index)}: {error}") from None
                row += 1
            counts[split] += len(chunk)


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
    for split, expected in zip(SPLITS, OFFICIAL[name], strict=True):
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

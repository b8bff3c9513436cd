"""ZINC: penalised logP of drug-like molecules, the 12,000 of the benchmark or all.

Sources, in this order: `{train,val,test}.csv.gz` with columns smiles and y in DIR/zinc (for
zinc-full), the raw files of `torch_geometric.datasets.ZINC` in DIR/ZINC/raw, a download.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.data.datasets.named import NamedSet, complete_folder, download
from molsepnorm.data.store import GraphStore, graphs_of
from molsepnorm.data.tables import read_table
from molsepnorm.data.tables.columns import require_column
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import DataError, InvalidMolecule, prefixed
from molsepnorm.files.writing import cache_folder, clear_errors
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import Target

_LOGP = "penalised logP of drug-like molecules"
_ZINC = partial(NamedSet, tasks=1, kind="regression", metric="mae")
SETS = {
    "zinc": _ZINC(f"{_LOGP}, the 12,000 of papers", 12_000, featurizer="zinc"),
    "zinc-full": _ZINC(f"{_LOGP}, all", 249_456, featurizer="zinc"),
}
SIZES = {"zinc": (10_000, 1_000, 1_000), "zinc-full": (220_011, 24_445, 5_000)}  # train, val, test
INDICES = tuple(f"{split}.index" for split in SPLITS)
PICKLES = (*(f"{split}.pickle" for split in SPLITS), *INDICES)
TABLES = tuple(f"{split}.csv.gz" for split in SPLITS)
_TARGET = Target("penalised_logp", "regression")
_GRAPHS = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"  # as in PyTorch Geometric
_ROWS = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
)
_FIELDS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")
_ADVICE = (
    f"Put {', '.join(PICKLES)} (from molecules.zip of the benchmarking-gnns project, with its "
    "lists of rows) into DIR/ZINC/raw and give --data-dir DIR, or set MOLSEPNORM_DATA=DIR"
)


def find(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a set's raw files: DIR/zinc, DIR/ZINC/raw or an earlier download; errors
    are as in `complete_folder`."""
    raw = [cache_folder() / "zinc" / "molecules"]
    if data_dir is not None:
        raw.insert(0, data_dir / "ZINC" / "raw")
        if name == "zinc-full" and complete_folder([data_dir / "zinc"], TABLES, _ADVICE):
            return data_dir / "zinc"
    return complete_folder(raw, PICKLES, _ADVICE)


def load_named(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load one of `SETS`. It is a `DataError` if the files are missing and cannot be downloaded, or
    hold too few molecules."""
    folder = find(name, data_dir)
    if folder is None:
        urls = {"molecules.zip": _GRAPHS, **{f"molecules/{n}": f"{_ROWS}/{n}" for n in INDICES}}
        folder = cache_folder() / "zinc" / "molecules"
        download(folder.parent, urls, [f"molecules/{file}" for file in PICKLES], _ADVICE)
    read_part = _read_table if (folder / TABLES[0]).is_file() else _read_pickle
    parts = [read_part(name, folder, split) for split in SPLITS]
    graphs = chain.from_iterable(graphs for graphs, _ in parts)
    labels = np.concatenate([labels for _, labels in parts])[:, None].astype(np.float32)
    store = GraphStore.encode(enumerate(graphs), (), encoding, SETS[name].featurizer)
    ends = np.cumsum([len(part) for _, part in parts])
    splits = dict(zip(SPLITS, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    return Dataset(f"{name}, {len(store):,} molecules", store, labels, (_TARGET,), splits)


def _read_table(name: str, folder: Path, split: str) -> tuple[Iterator[MolGraph], np.ndarray]:
    path = folder / f"{split}.csv.gz"
    table = read_table(path)
    for column in ("smiles", "y"):
        require_column(table.columns, column, path)
    # public lists of SMILES may lack some molecules
    table = table.iloc[_rows(name, path, split, len(table), may_lack=0.01)]
    labels = pd.to_numeric(table["y"], errors="coerce").to_numpy()
    if not np.isfinite(labels).all():
        raise DataError(f"{path}, column 'y': a label is not a finite number")

    def molecules() -> Iterator[MolGraph]:
        graphs = graphs_of(table["smiles"].tolist(), SETS[name].featurizer)
        for row, graph in zip(table.index, graphs, strict=True):
            if isinstance(graph, InvalidMolecule):
                raise DataError(f"{locate(path, row)}: {graph}")
            yield graph

    return molecules(), labels


def _rows(name: str, path: Path, split: str, length: int, may_lack: float = 0) -> Sequence[int]:
    """Return the rows of a split in a file: all, or those that the file beside it lists."""
    size = SIZES[name][SPLITS.index(split)]
    if name == "zinc-full":
        if abs(length - size) > may_lack * size:
            raise DataError(
                f"{name} should have {size:,} molecules in its {split} split, and {path} has "
                f"{length:,}. {_ADVICE}"
            )
        return range(length)
    listed = path.with_name(f"{split}.index")
    with clear_errors(listed, "read"):
        text = listed.read_text(encoding="utf-8", errors="replace")
    try:
        rows = list(map(int, text.replace(",", " ").split()))
    except ValueError:
        rows = []
    if not (len({*rows}) == len(rows) == size and set(rows) <= set(range(length))):
        raise DataError(
            f"{listed} should list {size:,} different rows of {path.name}, whole numbers from 0 to "
            f"{length - 1:,}"
        )
    return rows


def _read_pickle(name: str, folder: Path, split: str) -> tuple[Iterable[MolGraph], np.ndarray]:
    """Read a raw file; PyTorch Geometric's class would run the calls in a pickle."""
    path = folder / f"{split}.pickle"
    with clear_errors(path, "read"), open(path, "rb") as file:
        try:
            molecules = _Unpickler(file).load()
        except OSError:
            raise
        except Exception as error:  # of any kind, in a damaged file
            raise DataError(f"{path} cannot be read as ZINC: {error}") from None
    if not isinstance(molecules, list):
        raise DataError(f"{path} cannot be read as ZINC: it holds no list")
    graphs, labels = [], []
    for row in _rows(name, path, split, len(molecules)):
        with prefixed(f"{path}, molecule {row:,}, counted from 0"):
            graph, label = _molecule(molecules[row])
        graphs.append(graph)
        labels.append(label)
    return graphs, np.array(labels)


class _Unpickler(pickle.Unpickler):
    """Reads lists, dictionaries and tensors; nothing else that a file names is called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"it calls {module}.{name}, which no file of ZINC does; nothing in it was run"
            )
        return _ADMITTED[module, name]


_STORAGES = {b"Char": np.int8, b"Byte": np.uint8, b"Long": np.int64, b"Float": np.float32}


def _array(content: bytes, offset: int, shape: Any, strides: Any, *_: Any) -> np.ndarray:
    """Return the tensor that `torch.save` wrote. Its numbers are the last bytes, after their count.
    `torch.load` takes a hundred times as long, which is minutes for 250,000 molecules."""
    kind = next((kind for name, kind in _STORAGES.items() if name + b"Storage" in content), None)
    if kind is None:
        raise pickle.UnpicklingError("a tensor has another type")
    array = np.empty(shape, kind)
    start = len(content) - array.nbytes
    count = int.from_bytes(content[start - 8 : start], "little")
    contiguous = tuple(stride // array.itemsize for stride in array.strides)
    if array.size and (count, offset, tuple(strides)) != (array.size, 0, contiguous):
        raise pickle.UnpicklingError("a tensor is a part of another one")
    return np.frombuffer(content, kind, array.size, start).reshape(shape)


_ADMITTED = {
    ("torch._utils", "_rebuild_tensor_v2"): _array,
    ("torch.storage", "_load_from_bytes"): lambda content: memoryview(content).tobytes(),
    ("collections", "OrderedDict"): OrderedDict,
}


def _molecule(content: object) -> tuple[MolGraph, float]:
    fields = [content.get(name) for name in _FIELDS] if isinstance(content, dict) else []
    tensors = [field for field in fields if isinstance(field, np.ndarray)]
    shapes = [tensor.shape for tensor in tensors]
    if len(shapes) < 3 or shapes != [(len(tensors[0]),), (len(tensors[0]),) * 2, (1,)]:
        raise InvalidMolecule(f"{', '.join(_FIELDS)} should have shapes [N], [N, N] and [1]")
    atoms, orders, label = tensors
    if (orders != orders.T).any() or not np.isfinite(label).all():
        raise InvalidMolecule("bond_type should be symmetric, and the label finite")
    bonds = np.argwhere(np.triu(orders))
    kinds = orders[tuple(bonds.T)].astype(np.int64) - 1  # from 1 in the file
    return MolGraph(atoms[:, None], bonds, kinds[:, None]), float(label.item())

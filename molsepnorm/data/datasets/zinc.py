"""ZINC: penalised logP of drug-like molecules, the 12,000 of the benchmark or all.

Sources, in this order: `{train,val,test}.csv.gz` in DIR/zinc (for zinc-full), the raw files of
`torch_geometric.datasets.ZINC` in DIR/ZINC/raw, files downloaded before, a download. The raw files
hold graphs with the benchmark's 28 atom labels; other features need SMILES, which only the tables
hold.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from molsepnorm.data.datasets.cached import NamedContent, cached_set, complete_folder, download
from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.files.writing import cache_folder, clear_errors
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import Target
from molsepnorm.tasks.metrics import Kind

_TARGET = Target("penalised_logp", "regression")
INDICES = tuple(f"{split}.index" for split in SPLITS)
PICKLES = (*(f"{split}.pickle" for split in SPLITS), *INDICES)
TABLES = tuple(f"{split}.csv.gz" for split in SPLITS)
_GRAPHS = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"  # as in PyTorch Geometric
_ROWS = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
)
_FIELDS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


class ZincSet(NamedTuple):
    """A version of ZINC."""

    label: str
    about: str
    """Description for the user."""
    featurizer: str
    sizes: tuple[int, int, int]
    """Number of molecules in each of `SPLITS`."""
    tables: tuple[str, ...] = ()
    """Files of SMILES that are read in place of the raw files, if they are there."""
    tasks: int = 1
    kind: Kind = "regression"
    metric: str = "mae"

    @property
    def molecules(self) -> int:
        """Number of molecules."""
        return sum(self.sizes)


_LOGP = "penalised logP of drug-like molecules"
_SUBSET, _ALL = (10_000, 1_000, 1_000), (220_011, 24_445, 5_000)
SETS = {
    "zinc": ZincSet(
        "ZINC, the 12,000-molecule subset", f"{_LOGP}, the 12,000 of papers", "zinc", _SUBSET
    ),
    "zinc-full": ZincSet("ZINC, all 250,000 molecules", f"{_LOGP}, all", "zinc", _ALL, TABLES),
    "zinc-rich": ZincSet(
        "ZINC, the 12,000-molecule subset, with richer features than the benchmark's",
        f"{_LOGP}, the 12,000, from SMILES",
        "rich",
        _SUBSET,
        (*TABLES, *INDICES),
    ),
}


def _advice(name: str) -> str:
    files, under = PICKLES, "ZINC/raw"
    what = "from molecules.zip of the benchmarking-gnns project, with its lists of rows"
    if name == "zinc-rich":
        files, under = SETS[name].tables, "zinc"
        what = "all molecules, in columns smiles and y, and the rows of the 12,000, from 0"
    return (
        f"Put {', '.join(files)} ({what}) into DIR/{under} and give --data-dir DIR, or set "
        "MOLSEPNORM_DATA=DIR"
    )


def find(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a set's raw files: DIR/zinc, DIR/ZINC/raw or an earlier download; errors
    are as in `complete_folder`."""
    given = [] if data_dir is None else [data_dir]
    if tables := SETS[name].tables:
        folder = complete_folder([each / "zinc" for each in given], tables, _advice(name))
        if folder is not None or name == "zinc-rich":
            return folder
    raw = [*(each / "ZINC" / "raw" for each in given), cache_folder() / "zinc" / "molecules"]
    return complete_folder(raw, PICKLES, _advice(name))


def load_named(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load one of `SETS`; arguments as for `ogb.load_named`.

    Raises:
        DataError: the files are missing and cannot be downloaded, or hold too few molecules.
    """
    about, folder = SETS[name], find(name, data_dir)
    if folder is None and name == "zinc-rich":
        raise DataError(
            f"{name} is made of SMILES, which cannot be downloaded, and there are none in "
            f"{data_dir or 'a data folder'}. {_advice(name)}"
        )
    if folder is None:
        urls = {"molecules.zip": _GRAPHS, **{f"molecules/{n}": f"{_ROWS}/{n}" for n in INDICES}}
        folder = cache_folder() / "zinc" / "molecules"
        needed = [f"molecules/{file}" for file in PICKLES]
        download(folder.parent, urls, needed, _advice(name))
    from_tables = (folder / TABLES[0]).is_file()
    files = [folder / file for file in (about.tables if from_tables else PICKLES)]
    read = partial(_read_tables if from_tables else _read_pickles, name, folder)
    store, labels, splits = cached_set(name, files, about.featurizer, encoding, read)
    return Dataset(about.label, store, labels, (_TARGET,), splits)


def _read_tables(name: str, folder: Path) -> NamedContent:
    """Read tables with columns smiles and y."""
    from molsepnorm.data.tables import locate, read_table, require_column

    parts: dict[Path, pd.DataFrame] = {}
    for split, size in zip(SPLITS, SETS[name].sizes, strict=True):
        path = folder / f"{split}.csv.gz"
        table = read_table(path)
        for column in ("smiles", "y"):
            require_column(table.columns, column, path)
        if name == "zinc-rich":
            table = table.iloc[_listed(path, split, len(table), size)]
        if abs(len(table) - size) > size // 100:  # public lists of SMILES may lack some
            raise DataError(
                f"{name} should have {size:,} molecules in its {split} split, and {path} has "
                f"{len(table):,}: it is not a table of ZINC"
            )
        parts[path] = table

    def graphs() -> Iterator[MolGraph]:
        featurizer = featurize.get(SETS[name].featurizer)
        for path, table in parts.items():
            for row, graph in zip(table.index, featurizer.stream(table["smiles"]), strict=True):
                if isinstance(graph, InvalidMolecule):
                    raise DataError(f"{locate(path, row)}: {graph}")
                yield graph

    return NamedContent(graphs(), _labels(parts), _consecutive(map(len, parts.values())))


def _labels(parts: Mapping[Path, pd.DataFrame]) -> np.ndarray:  # (G, 1)
    labels = [pd.to_numeric(table["y"], errors="coerce").to_numpy() for table in parts.values()]
    for path, column in zip(parts, labels, strict=True):
        if not np.isfinite(column).all():
            raise DataError(f"{path}, column 'y': a label is not a finite number")
    return np.concatenate(labels)[:, None]


def _consecutive(sizes: Iterable[int]) -> dict[str, np.ndarray]:
    ends = np.cumsum([*sizes])
    return dict(zip(SPLITS, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))


def _listed(path: Path, split: str, length: int, size: int) -> list[int]:
    """Return the rows of a file that the index file beside it lists."""
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


def _read_pickles(name: str, folder: Path) -> NamedContent:
    """Read the raw files.

    PyTorch Geometric's class is not used, because it runs the calls in a pickle.
    """
    graphs: list[MolGraph] = []
    labels: list[float] = []
    for split, size in zip(SPLITS, SETS[name].sizes, strict=True):
        path = folder / f"{split}.pickle"
        molecules = _read_pickle(path)
        if len(molecules) < size or (name == "zinc-full" and len(molecules) > size):
            raise DataError(
                f"{name} should have {size:,} molecules in its {split} split, and {path} has "
                f"{len(molecules):,}. {_advice(name)}"
            )
        rows = _listed(path, split, len(molecules), size) if name == "zinc" else range(size)
        for row in rows:
            try:
                graph, label = _molecule(molecules[row])
            except InvalidMolecule as error:
                raise DataError(
                    f"{path}, molecule {row:,}, counted from 0, cannot be read as ZINC: {error}"
                ) from None
            graphs.append(graph)
            labels.append(label)
    return NamedContent(graphs, np.array(labels)[:, None], _consecutive(SETS[name].sizes))


class _Unpickler(pickle.Unpickler):
    """Reads lists, dictionaries and tensors; nothing else that a file names is called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"it calls {module}.{name}, which no file of ZINC does. The file may be an attack; "
                "nothing in it was run"
            )
        return _ADMITTED[module, name]


_ADMITTED = {
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    ("torch.storage", "_load_from_bytes"): lambda content: torch.load(
        io.BytesIO(content), weights_only=True
    ),
    ("collections", "OrderedDict"): OrderedDict,
}


def _read_pickle(path: Path) -> list[Any]:
    """Return the list in a pickle; a `DataError` if it calls what no tensor needs, is damaged, or
    holds no list."""
    with clear_errors(path, "read"), open(path, "rb") as file:
        try:
            molecules = _Unpickler(file).load()
        except OSError:
            raise
        except Exception as error:  # of any kind: instructions that do not fit each other
            raise DataError(f"{path} cannot be read as ZINC: {error}") from None
    if not isinstance(molecules, list):
        raise DataError(f"{path} cannot be read as ZINC: it holds no list")
    return molecules


def _molecule(content: object) -> tuple[MolGraph, float]:
    """Return the graph and the label of a molecule."""
    found = [content.get(name) if isinstance(content, dict) else None for name in _FIELDS]
    tensors = [tensor.numpy() for tensor in found if isinstance(tensor, torch.Tensor)]
    shapes = [tensor.shape for tensor in tensors]
    if len(shapes) < 3 or shapes != [(len(tensors[0]),), (len(tensors[0]),) * 2, (1,)]:
        raise InvalidMolecule(f"{', '.join(_FIELDS)} should have shapes [N], [N, N] and [1]")
    atoms, orders, label = tensors
    if (orders != orders.T).any() or not np.isfinite(label).all():
        raise InvalidMolecule("bond_type should be symmetric, and the label finite")
    bonds = np.argwhere(np.triu(orders))
    kinds = orders[tuple(bonds.T)].astype(np.int64) - 1  # from 1 in the file
    return MolGraph(atoms[:, None], bonds, kinds[:, None]), float(label.item())

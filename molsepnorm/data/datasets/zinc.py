"""ZINC: penalised logP of drug-like molecules, the 12,000 of the benchmark or all.

Sources, in this order: raw files of `torch_geometric.datasets.ZINC` or `{train,val,test}.csv.gz`
under the data folder, files downloaded before, a download. The raw files hold graphs with the
benchmark's 28 atom labels; other features need SMILES, which only the tables hold.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from molsepnorm.data.datasets.cached import LabelledGraph, cached_set
from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import cache_folder, clear_errors, replacing
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import Target

if TYPE_CHECKING:
    import pandas as pd

_TARGET = Target("penalised_logp", "regression")
INDICES = tuple(f"{split}.index" for split in SPLITS)
RAW_FILES = (*(f"{split}.pickle" for split in SPLITS), *INDICES)
TABLES = tuple(f"{split}.csv.gz" for split in SPLITS)
_FIELDS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")
_NUMBER = re.compile(r"[0-9]{1,9}")


class ZincSet(NamedTuple):
    """A version of ZINC."""

    label: str
    about: str
    featurizer: str
    sizes: tuple[int, int, int]
    """Number of molecules in each of `SPLITS`."""


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
        DataError: the files are missing and cannot be downloaded, or hold too few molecules.
    """
    about: ZincSet = SETS[name]
    splits: dict[str, Sequence[int]] = {}
    folder = None
    if name == "zinc-rich":
        folder = find_files(data_dir, "zinc", (*TABLES, *INDICES))
        if folder is None:
            looked = f"not in {data_dir}" if data_dir else "in no data folder"
            raise DataError(
                f"{name} is made of SMILES, which cannot be downloaded and are {looked}.", _SMILES
            )
        key = f"{name}-{_of_tables(folder, (*TABLES, *INDICES))}"
    elif name == "zinc-full":
        folder = find_files(data_dir, "zinc", TABLES)
        if folder is not None:
            key = f"csv-{_of_tables(folder, TABLES)}"
    if folder is not None:
        molecules = _from_csv(name, folder, splits)
    else:
        folder = find_files(data_dir, "ZINC/raw", RAW_FILES)
        key = short_digest(*(folder / file for file in RAW_FILES)) if folder else "downloaded"
        key = f"{name}-{key}"
        molecules = _from_pickles(name, folder, data_dir, splits)
    store, labels = cached_set(key, about.featurizer, encoding, 1, molecules, splits)
    return Dataset(about.label, store, labels.values, (_TARGET,), labels.splits)


def _of_tables(folder: Path, names: Sequence[str]) -> str:
    """Return a digest of tables of SMILES, and of the version of RDKit, which reads them."""
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    return short_digest(*(folder / name for name in names), RDKIT_VERSION)


def find_files(data_dir: Path | None, under: str, names: tuple[str, ...]) -> Path | None:
    """Return the first folder in or below the data folder that holds all these files."""
    if data_dir is None:
        return None
    for folder in (data_dir / under, data_dir / Path(under).name, data_dir):
        if all((folder / name).is_file() for name in names):
            return folder
    return None


def _from_csv(name: str, folder: Path, splits: dict[str, Sequence[int]]) -> Iterator[LabelledGraph]:
    """Yield molecules of `smiles,y` tables; `splits` is filled as they are read."""
    from molsepnorm.data.tables import locate, read_chunks, require_column

    about = SETS[name]
    featurizer = featurize.get(about.featurizer)
    row = 0
    for split, size, file in zip(SPLITS, about.sizes, TABLES, strict=True):
        path, start = folder / file, row
        chunks = read_chunks(path) if name == "zinc-full" else _subset(path, split, size)
        for chunk in chunks:
            for column in ("smiles", "y"):
                require_column(chunk.columns, column, path)
            graphs = featurizer.stream(chunk["smiles"])
            for index, graph, y in zip(chunk.index, graphs, chunk["y"], strict=True):
                try:
                    if isinstance(graph, InvalidMolecule):
                        raise graph
                    label = float(y)
                    if not np.isfinite(label):
                        raise ValueError(f"the label is {y}, which is not a finite number")
                    yield LabelledGraph(row, graph, (label,))
                except ValueError as error:  # an invalid number or molecule
                    raise DataError(f"{locate(path, index)}: {error}") from None
                row += 1
        require_size(name, split, path, row - start)
        splits[split] = range(start, row)


def require_size(name: str, split: str, path: Path, found: int) -> None:
    """Raise a `DataError` if a table's number of molecules is not that of a split. Public lists of
    SMILES may lack one in a hundred."""
    size = SETS[name].sizes[SPLITS.index(split)]
    if abs(found - size) > size // 100:
        raise DataError(
            f"{name} should have {size:,} molecules in its {split} split, and {path} has "
            f"{found:,}: it is not a table of ZINC. {_TABLES}"
        )


def _subset(path: Path, split: str, size: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a table that its index file lists, in that order."""
    from molsepnorm.data.tables import read_table

    table = read_table(path)
    yield table.iloc[_listed(path, split, len(table), size, _SMILES)]


def _listed(path: Path, split: str, length: int, size: int, advice: str) -> list[int]:
    """Return the rows of a file that the index file beside it lists."""
    listed = path.with_name(f"{split}.index")
    with clear_errors(listed, "read"):
        numbers = listed.read_text(encoding="utf-8", errors="replace").replace(",", " ").split()
    rows = [int(number) for number in numbers if _NUMBER.fullmatch(number) and int(number) < length]
    if not len({*rows}) == len(numbers) == size:
        raise DataError(
            f"{listed} should list {size:,} different rows of {path.name}, numbers from 0 to "
            f"{length - 1:,}; of its {len(numbers):,} entries {len({*rows}):,} are such. {advice}"
        )
    return rows


def _from_pickles(
    name: str, raw: Path | None, data_dir: Path | None, splits: dict[str, Sequence[int]]
) -> Iterator[LabelledGraph]:
    """Yield molecules of the raw files, which are downloaded if need be.

    PyTorch Geometric's class is not used, because it runs the calls in a pickle.
    """
    raw = raw or _download(data_dir)
    row = 0
    for split, expected in zip(SPLITS, SETS[name].sizes, strict=True):
        path = raw / f"{split}.pickle"
        try:
            molecules = _read_pickle(path)
        except pickle.UnpicklingError as error:
            raise DataError(f"{path} cannot be read as ZINC: {error}.", _WHERE) from None
        if len(molecules) < expected or (name != "zinc" and len(molecules) > expected):
            raise DataError(
                f"{name} should have {expected:,} molecules in its {split} split, and the files "
                f"in {raw} give {len(molecules):,}. {_WHERE}"
            )
        splits[split] = range(row, row + expected)
        rows: Sequence[int] = range(expected)
        if name == "zinc":
            rows = _listed(path, split, len(molecules), expected, _WHERE)
        for number in rows:
            try:
                graph, label = _molecule(molecules[number])
            except InvalidMolecule as error:
                raise DataError(
                    f"{path}, molecule {number:,}, counted from 0, cannot be read as ZINC: "
                    f"{error}.",
                    _WHERE,
                ) from None
            yield LabelledGraph(row, graph, (label,))
            row += 1


class _Unpickler(pickle.Unpickler):
    """Reads lists, dictionaries and tensors; nothing else that a file names is called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"it calls {module}.{name}, and ZINC's files hold nothing but lists, dictionaries, "
                "numbers and tensors. The file may be an attack; nothing in it was run"
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
    """Return the list in a pickle.

    Raises:
        UnpicklingError: the file calls what no tensor needs, is damaged, or holds no list.
        StorageError: it cannot be read.
    """
    with clear_errors(path, "read"), open(path, "rb") as file:
        try:
            molecules = _Unpickler(file).load()
        except (OSError, pickle.UnpicklingError):
            raise
        except Exception as error:  # of any kind: instructions that do not fit each other
            raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from None
    if not isinstance(molecules, list):
        raise pickle.UnpicklingError(f"it holds no list but {type(molecules).__name__}")
    return molecules


def _molecule(content: object) -> tuple[MolGraph, float]:
    """Return the graph and the label of a molecule."""
    found = [content.get(name) if isinstance(content, dict) else None for name in _FIELDS]
    tensors = [tensor for tensor in found if isinstance(tensor, torch.Tensor)]
    if len(tensors) < len(_FIELDS):
        raise InvalidMolecule(f"it should have tensors {', '.join(_FIELDS)}")
    atoms, orders, label = (tensor.numpy() for tensor in tensors)
    if atoms.ndim != 1 or orders.shape != 2 * atoms.shape or label.size != 1:
        raise InvalidMolecule(
            f"{', '.join(_FIELDS)} should have shapes [N], [N, N] and [1]; got "
            f"{list(atoms.shape)}, {list(orders.shape)} and {list(label.shape)}"
        )
    if (orders != orders.T).any() or not np.isfinite(label).all():
        raise InvalidMolecule("bond_type should be symmetric, and the label finite")
    bonds = np.argwhere(np.triu(orders))
    kinds = orders[tuple(bonds.T)].astype(np.int64) - 1  # from 1 in the file
    graph = MolGraph(atoms[:, None], bonds, kinds[:, None])
    sizes = featurize.SIZES["zinc"]
    if atoms.max() >= sizes.atoms[0] or orders.max() > sizes.bonds[0]:
        raise InvalidMolecule(
            f"atom_type should lie in 0 … {sizes.atoms[0] - 1} and bond_type in "
            f"0 … {sizes.bonds[0]}; found {atoms.max()} and {orders.max()}"
        )
    return graph, float(label.item())


def _download(data_dir: Path | None) -> Path:
    """Return the folder of the raw files, downloaded by PyTorch Geometric unless they exist."""
    from torch_geometric.datasets import ZINC

    root = cache_folder() / "pyg" / "ZINC"
    found = find_files(root.parent, "ZINC/raw", RAW_FILES)
    if found is not None:
        return found
    with replacing(root, folder=True) as scratch:
        (scratch / "raw").mkdir()
        source = object.__new__(ZINC)  # without reading the files
        source.root = str(scratch)
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # PyG prints each step
                source.download()
        except (OSError, RuntimeError, zipfile.BadZipFile) as error:
            looked = f"not in {data_dir}" if data_dir else "in no data folder"
            raise DataError(
                f"ZINC is {looked}, and downloading it from {ZINC.url} failed: "
                f"{' '.join(str(error).split())}.",
                _WHERE,
            ) from error
    return root / "raw"


_WHERE = (
    "Put train.pickle, val.pickle, test.pickle (from molecules.zip of the benchmarking-gnns "
    "project) and its train.index, val.index, test.index into DIR/ZINC/raw and give --data-dir "
    "DIR, or set MOLSEPNORM_DATA=DIR."
)
_TABLES = (
    "Put train.csv.gz, val.csv.gz, test.csv.gz (all molecules, in columns smiles and y) into "
    "DIR/zinc and give --data-dir DIR, or set MOLSEPNORM_DATA=DIR."
)
_SMILES = (
    "Put train.csv.gz, val.csv.gz, test.csv.gz (all molecules, in columns smiles and y) and "
    "train.index, val.index, test.index (the rows of the 12,000, counted from 0) into DIR/zinc and "
    "give --data-dir DIR, or set MOLSEPNORM_DATA=DIR."
)

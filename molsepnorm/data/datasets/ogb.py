"""The ogbg-mol* sets of the Open Graph Benchmark: OGB's molecules, labels, splits and scores.

The graphs are made from the SMILES, as in `predict`. OGB's own graphs have chirality tags that
depend on how a SMILES is written; they are used, without the tags, only for molecules that RDKit
cannot read.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.data.datasets.named import NamedSet, complete_folder, download
from molsepnorm.data.store import GraphStore, graphs_of
from molsepnorm.errors import DataError, InvalidMolecule, prefixed
from molsepnorm.files.writing import cache_folder
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.registry import CHIRALITY
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import Target

_RAW = ("num-node-list", "num-edge-list", "node-feat", "edge", "edge-feat", "graph-label")
_PARTS = ("train", "valid", "test")  # in the order of `SPLITS`
_MAPPING = "mapping/mol.csv.gz"  # names of the labels, and SMILES
_FILES = (
    *(f"raw/{file}.csv.gz" for file in _RAW),
    *(f"split/scaffold/{part}.csv.gz" for part in _PARTS),
    _MAPPING,
)
_set = partial(NamedSet, featurizer="ogb")
SETS = {
    "ogbg-molhiv": _set("inhibits HIV replication", 41_127, 1, "binary", "roc_auc"),
    "ogbg-molpcba": _set("activity in PubChem's assays", 437_929, 128, "binary", "pr_auc"),
    "ogbg-molbace": _set("inhibits beta-secretase 1", None, 1, "binary", "roc_auc"),
    "ogbg-molbbbp": _set("crosses the blood-brain barrier", None, 1, "binary", "roc_auc"),
    "ogbg-molclintox": _set("approved; failed for toxicity", None, 2, "binary", "roc_auc"),
    "ogbg-molmuv": _set("virtual screening, rare actives", None, 17, "binary", "pr_auc"),
    "ogbg-molsider": _set("side effects of drugs, by organ", None, 27, "binary", "roc_auc"),
    "ogbg-moltox21": _set("toxicity in the Tox21 assays", None, 12, "binary", "roc_auc"),
    "ogbg-moltoxcast": _set("toxicity in ToxCast's assays", None, 617, "binary", "roc_auc"),
    "ogbg-molesol": _set("solubility in water, log mol/L", None, 1, "regression", "rmse"),
    "ogbg-molfreesolv": _set("hydration energy, kcal/mol", None, 1, "regression", "rmse"),
    "ogbg-mollipo": _set("lipophilicity, log D at pH 7.4", None, 1, "regression", "rmse"),
    "ogbg-molchembl": _set("activity in ChEMBL's assays", None, 1310, "binary", "roc_auc"),
}
"""Tasks and metrics are those of `master.csv` in the ogb package; files with another number of
molecules than OGB's web page states are refused."""


def archive_of(name: str) -> str:
    """Return the name of a set's archive, and of the folder in it."""
    return "lipophilicity" if name == "ogbg-mollipo" else name.removeprefix("ogbg-mol")


def url_of(name: str) -> str:
    """Return the address of a set's archive, as in OGB's `master.csv`."""
    base = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
    return f"{base}/{archive_of(name)}.zip"


def _advice(name: str) -> str:
    return (
        f"Unpack {url_of(name)}, put its folders raw, split and mapping into "
        f"DIR/{name.replace('-', '_')} and give --data-dir DIR, or set MOLSEPNORM_DATA=DIR"
    )


def find(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a set's raw files: DIR/ogbg_molhiv, or that of an earlier download;
    errors are as in `complete_folder`."""
    folders = [] if data_dir is None else [data_dir / name.replace("-", "_")]
    return complete_folder([*folders, _cache(name)], _FILES, _advice(name))


def _cache(name: str) -> Path:
    return cache_folder() / "ogb" / name.replace("-", "_") / archive_of(name)


def load_named(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load one of `SETS` with its official split. It is a `DataError` if the files in `data_dir`
    are missing and cannot be downloaded, or do not fit together."""
    about, folder = SETS[name], find(name, data_dir)
    if folder is None:
        folder = _cache(name)
        files = [f"{folder.name}/{file}" for file in _FILES]
        download(folder.parent, {"archive.zip": url_of(name)}, files, _advice(name))
    header = _table(folder, _MAPPING, nrows=0).columns
    smiles = _table(folder, _MAPPING, usecols=["smiles"], dtype=str, keep_default_na=False)
    listed = smiles["smiles"].tolist()
    graphs, labels, splits = read_content(name, folder, listed)
    store = GraphStore.encode(enumerate(graphs), (), encoding, about.featurizer)
    targets = tuple(column for column in header if column not in ("smiles", "mol_id"))
    if len(targets) != about.tasks:
        targets = tuple(f"task_{i + 1}" for i in range(about.tasks))
    return Dataset(
        name=f"{name}, {len(store):,} molecules",
        store=store,
        labels=labels,
        targets=tuple(Target(target, about.kind) for target in targets),
        splits=splits,
        smiles=listed,
        source_smiles=listed,
        metric=about.metric,
        evaluator=partial(official_score, name),
    )


def official_score(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the score of OGB's `Evaluator` from predictions and labels (G, T), NaN where missing:
    the mean over the tasks, for binary ones over those with both classes. It is NaN without labels
    or such tasks, or if a prediction is not finite."""
    present = ~np.isnan(labels)
    both_classes = (labels == 1).any(axis=0) & (labels == 0).any(axis=0)
    is_binary = SETS[name].kind == "binary"
    defined = both_classes.any() if is_binary else present.any(axis=0).all()
    if not defined or not np.isfinite(predictions[present]).all():
        return float("nan")
    os.environ.setdefault("OUTDATED_IGNORE", "1")  # no message about newer versions of ogb
    from ogb.graphproppred import Evaluator

    evaluator = Evaluator(name)
    both = {"y_true": labels.astype(np.float64), "y_pred": predictions.astype(np.float64)}
    return float(evaluator.eval(both)[evaluator.eval_metric])


def read_content(
    name: str, folder: Path, smiles: list[str]
) -> tuple[Iterator[MolGraph], np.ndarray, dict[str, np.ndarray]]:
    """Return the molecules, the labels (float32 [G, T]) and the splits from the raw files; a file
    that cannot be read or does not fit the others or the SMILES is a `DataError`."""
    about = SETS[name]
    num_atoms, num_bonds = (_numbers(folder, file, np.int64)[:, 0] for file in _RAW[:2])
    atoms = _numbers(folder, "node-feat", np.float32).astype(np.int64)
    atoms[:, CHIRALITY] = 0  # it depends on the order of writing
    bonds = _numbers(folder, "edge", np.int32)
    bond_features = _numbers(folder, "edge-feat", np.float32).astype(np.int64)
    labels = _numbers(folder, "graph-label", np.float32)
    parts = [_table(folder, f"split/scaffold/{part}.csv.gz", header=None)[0] for part in _PARTS]
    number = about.molecules or len(smiles)
    lengths = {len(smiles), len(num_atoms), len(num_bonds), len(labels)}
    bond_counts = {len(bonds), len(bond_features)}
    if not (
        lengths == {number}
        and labels.shape[1] == about.tasks
        and len(atoms) == num_atoms.sum()
        and bond_counts == {num_bonds.sum()}
        and sorted(pd.concat(parts)) == list(range(number))
    ):
        raise DataError(
            f"the files in {folder} do not fit together: {name} has {number:,} molecules with "
            f"{about.tasks} labels each, every one in one part of the split. {_advice(name)}"
        )

    def graphs() -> Iterator[MolGraph]:
        first_atom, first_bond = np.cumsum(num_atoms) - num_atoms, np.cumsum(num_bonds) - num_bonds
        for row, graph in enumerate(graphs_of(smiles, about.featurizer)):
            if isinstance(graph, InvalidMolecule):
                of_atoms = slice(first_atom[row], first_atom[row] + num_atoms[row])
                of_bonds = slice(first_bond[row], first_bond[row] + num_bonds[row])
                with prefixed(f"{folder}, molecule {row} ({smiles[row]}), counted from 0"):
                    graph = MolGraph(atoms[of_atoms], bonds[of_bonds], bond_features[of_bonds])
            yield graph

    splits = {split: part.to_numpy(np.int64) for split, part in zip(SPLITS, parts, strict=True)}
    return graphs(), labels, splits


def _numbers(folder: Path, file: str, dtype: type[np.number]) -> np.ndarray:  # (rows, columns)
    options = {"header": None, "dtype": dtype, "skip_blank_lines": False}
    return _table(folder, f"raw/{file}.csv.gz", **options).to_numpy()


def _table(folder: Path, file: str, **options: Any) -> pd.DataFrame:
    try:
        return pd.read_csv(folder / file, **options)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{folder / file} cannot be read as a file of OGB: {reason}. Unpack the archive again"
        ) from error

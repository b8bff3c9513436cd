"""The ogbg-mol* sets of the Open Graph Benchmark: OGB's molecules, labels, splits and scores.

The graphs are made from the SMILES, as in `predict`. The chirality tags of OGB's own graphs depend
on the order in which a SMILES is written. These graphs are used, without the tags, only for
molecules that RDKit cannot read.

Sources, in this order: OGB's raw files under the data folder, files downloaded before, a download.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from molsepnorm.data.datasets.cached import LabelledGraph, cached_set
from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.data.datasets.ogb import package
from molsepnorm.data.datasets.ogb.files import OgbFiles
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, did_you_mean
from molsepnorm.files.digests import short_digest
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.featurize.registry import CHIRALITY
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks import Target

FEATURIZER = "ogb"


@dataclass(frozen=True)
class OgbSet:
    """Properties of a set, as OGB states them."""

    name: str
    num_tasks: int
    kind: Literal["binary", "regression"]
    metric: Literal["roc_auc", "pr_auc", "rmse"]
    """Mean over the tasks; OGB's names are rocauc, ap and rmse."""
    molecules: int | None
    """Number of molecules, if OGB's web page states it; files with another number are refused."""
    about: str
    """Description for the user."""


SETS = {
    each.name: each
    for each in (
        OgbSet("ogbg-molhiv", 1, "binary", "roc_auc", 41_127, "inhibits HIV replication"),
        OgbSet("ogbg-molpcba", 128, "binary", "pr_auc", 437_929, "activity in PubChem's assays"),
        OgbSet("ogbg-molbace", 1, "binary", "roc_auc", None, "inhibits beta-secretase 1"),
        OgbSet("ogbg-molbbbp", 1, "binary", "roc_auc", None, "crosses the blood-brain barrier"),
        OgbSet("ogbg-molclintox", 2, "binary", "roc_auc", None, "approved; failed for toxicity"),
        OgbSet("ogbg-molmuv", 17, "binary", "pr_auc", None, "virtual screening, rare actives"),
        OgbSet("ogbg-molsider", 27, "binary", "roc_auc", None, "side effects of drugs, by organ"),
        OgbSet("ogbg-moltox21", 12, "binary", "roc_auc", None, "toxicity in the Tox21 assays"),
        OgbSet("ogbg-moltoxcast", 617, "binary", "roc_auc", None, "toxicity in ToxCast's assays"),
        OgbSet("ogbg-molesol", 1, "regression", "rmse", None, "solubility in water, log mol/L"),
        OgbSet("ogbg-molfreesolv", 1, "regression", "rmse", None, "hydration energy, kcal/mol"),
        OgbSet("ogbg-mollipo", 1, "regression", "rmse", None, "lipophilicity, log D at pH 7.4"),
        OgbSet("ogbg-molchembl", 1310, "binary", "roc_auc", None, "activity in ChEMBL's assays"),
    )
}
"""Tasks and metrics are those of `master.csv` in the ogb package."""


def load_ogb(name: str, data_dir: Path | None, encoding: EncodingSpec) -> Dataset:
    """Load a set with its official split: every molecule of it, missing labels as NaN.

    Args:
        name: one of `SETS`.
        data_dir: folder of the set: DIR/ogbg_molhiv, DIR/ogbg_molhiv_pyg or DIR.
        encoding: the encoding of the store.

    Raises:
        ConfigError: there is no set of that name.
        DataError: the files are missing and cannot be downloaded, or do not fit together.
        StorageError: a file cannot be read, or the cache cannot be written.
    """
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    about = _about(name)
    files = OgbFiles.locate(name, data_dir)
    splits: dict[str, Sequence[int]] = {}
    store, labels = cached_set(
        f"{name}-{short_digest(*files.paths, RDKIT_VERSION)}",
        FEATURIZER,
        encoding,
        about.num_tasks,
        _molecules(about, files, splits),
        splits,
    )
    return Dataset(
        name=f"{name}, {len(store):,} molecules",
        store=store,
        labels=labels.values,
        targets=tuple(Target(task, about.kind) for task in files.targets(about.num_tasks)),
        splits=labels.splits,
        smiles=files.smiles,
        metric=about.metric,
        evaluator=partial(official_score, name),
    )


def official_score(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the score of OGB's `Evaluator`: the mean over the tasks, each over its labels.

    ROC-AUC and average precision leave out tasks without both classes. The score is NaN if it is
    undefined: no labels, no task with both classes, or a prediction that is not finite.

    Args:
        name: one of `SETS`.
        predictions: (G, T), for binary tasks increasing with the probability.
        labels: (G, T), NaN where missing.

    Raises:
        ConfigError: there is no set of that name.
        DataError: the shapes are not (G, T) with the set's number of tasks.
    """
    about = _about(name)
    if predictions.shape != labels.shape or labels.shape[1:] != (about.num_tasks,):
        raise DataError(
            f"{name} is scored on predictions and labels of shape [molecules, {about.num_tasks}]; "
            f"got {list(predictions.shape)} and {list(labels.shape)}"
        )
    present = ~np.isnan(labels)
    both_classes = (labels == 1).any(axis=0) & (labels == 0).any(axis=0)
    defined = both_classes.any() if about.kind == "binary" else present.any(axis=0).all()
    if not defined or not np.isfinite(predictions[present]).all():
        return float("nan")
    return package.evaluate(name, predictions.astype(np.float64), labels.astype(np.float64))


def _about(name: str) -> OgbSet:
    if name not in SETS:
        raise ConfigError(f"unknown OGB set '{name}'. {did_you_mean(name, SETS)}")
    return SETS[name]


def _molecules(
    about: OgbSet, files: OgbFiles, splits: dict[str, Sequence[int]]
) -> Iterator[LabelledGraph]:
    """Yield every molecule; `splits` is filled with the first one."""
    num_atoms, num_bonds = (
        files.read(files.raw(file), np.int64)[:, 0] for file in ("num-node-list", "num-edge-list")
    )
    smiles = files.smiles
    expected = len(num_atoms) if about.molecules is None else about.molecules
    for source, number in (
        (files.raw("num-node-list"), len(num_atoms)),
        (files.raw("num-edge-list"), len(num_bonds)),
        (files.mapping, len(smiles)),
    ):
        if number != expected:
            raise files.refusal(
                f"{source} has {number:,} rows, and {about.name} has {expected:,} molecules"
            )
    splits.update(_official_split(files, expected))
    end_atom, end_bond = np.cumsum(num_atoms), np.cumsum(num_bonds)
    atoms = _features(files, "node-feat", end_atom[-1], SIZES[FEATURIZER].atoms)
    atoms[:, CHIRALITY] = 0  # it depends on the order of writing
    bonds = files.read(files.raw("edge"), np.int32, end_bond[-1])
    bond_features = _features(files, "edge-feat", end_bond[-1], SIZES[FEATURIZER].bonds)
    labels = files.read(files.raw("graph-label"), np.float32, expected)  # (G, T)
    if labels.shape[1] != about.num_tasks:
        raise files.refusal(
            f"{files.raw('graph-label')} has {labels.shape[1]} labels for each molecule, and "
            f"{about.name} has {about.num_tasks}"
        )
    for row, graph in enumerate(featurize.get(FEATURIZER).stream(smiles)):
        if isinstance(graph, InvalidMolecule):
            of_atoms = slice(end_atom[row] - num_atoms[row], end_atom[row])
            of_bonds = slice(end_bond[row] - num_bonds[row], end_bond[row])
            try:
                graph = MolGraph(atoms[of_atoms], bonds[of_bonds], bond_features[of_bonds])
            except InvalidMolecule as error:
                raise files.refusal(
                    f"{files.folder}, molecule {row} ({smiles[row]}), counted from 0: {error}"
                ) from None
        yield LabelledGraph(row, graph, labels[row])


def _features(files: OgbFiles, file: str, rows: int, sizes: Sequence[int]) -> np.ndarray:
    """Return the features of all atoms or bonds as uint8 indices into tables of these sizes."""
    values = files.read(files.raw(file), np.float32, rows)
    fits = values.shape[1] == len(sizes)
    if not fits or (values != np.clip(np.rint(values), 0, np.array(sizes) - 1)).any():
        raise files.refusal(
            f"{files.raw(file)} should have {len(sizes)} columns of whole numbers, each below "
            f"{', '.join(map(str, sizes))}: these are not OGB's features"
        )
    return values.astype(np.uint8)


def _official_split(files: OgbFiles, number: int) -> dict[str, list[int]]:
    parts = dict(zip(SPLITS, files.split, strict=True))
    if sorted(row for part in parts.values() for row in part) != list(range(number)):
        sizes = " / ".join(f"{len(part):,}" for part in parts.values())
        raise files.refusal(
            f"{files.folder}/split/scaffold should have each number from 0 to {number - 1:,} once, "
            f"in train, valid or test, and its {sizes} numbers are not"
        )
    return parts

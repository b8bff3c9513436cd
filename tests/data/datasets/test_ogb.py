"""The ogbg-mol* sets: small ones in OGB's raw layout and the real molhiv, through OGB's class."""

from __future__ import annotations

import gzip
import math
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from molsepnorm.data.datasets import ogb
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.datasets.ogb import SETS, load_named, official_score
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import DataError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.tasks import Target

SPEC = EncodingSpec(bond_sizes=featurize.SIZES["ogb"].bonds, max_path_length=5)
SMILES = [
    *("CCO", "[Na+]", "c1ccccc1O", "C", "F/C=C/F", "[Na+].[Cl-]", "CC(=O)[O-]", "N#N", "C1CC1C"),
    *("c1ccc2[nH]ccc2c1", "CS(=O)(=O)C", "O=C=O", "C[N+](C)(C)C", "BrCCBr", "[He]", "CC=CC#N"),
    *("OC1CCCCC1", "c1ccsc1", "F[C@H](O)C", "NC(=O)c1ccncc1", "[2H]O", "C[Si](C)C", "P", "II"),
]
CHIRAL = SMILES.index("F[C@H](O)C")
OFFICIAL = dict(SETS)


def _write(path: Path, rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, header=False, index=False, compression="gzip")


def _labels(name: str, number: int = len(SMILES)) -> np.ndarray:  # (G, T)
    """Random ones; where there are several tasks, about a third is missing."""
    rng = np.random.default_rng(number)
    shape = (number, SETS[name].tasks)
    if SETS[name].kind == "regression":
        return rng.normal(size=shape)
    labels = rng.integers(0, 2, shape).astype(float)
    if shape[1] > 1:
        labels[rng.random(shape) < 0.35] = np.nan
    return labels


def _make(folder: Path, name: str, missing: str = "nan") -> np.ndarray:
    """A folder as OGB unpacks it, of `SMILES`: train 60 %, the rest in halves, all in random order.
    Gives the labels. Its chirality tags depend on the order of writing."""
    from ogb.utils.mol import smiles2graph

    graphs = [smiles2graph(text) for text in SMILES]
    labels = _labels(name)
    tables = {
        "num-node-list": [graph["num_nodes"] for graph in graphs],
        "num-edge-list": [len(graph["edge_feat"]) // 2 for graph in graphs],
        "node-feat": np.concatenate([graph["node_feat"] for graph in graphs]),
        "edge": np.concatenate([graph["edge_index"].T[::2] for graph in graphs]),
        "edge-feat": np.concatenate([graph["edge_feat"][::2] for graph in graphs]),
    }
    for file, table in tables.items():
        _write(folder / "raw" / f"{file}.csv.gz", table)
    pd.DataFrame(labels).to_csv(
        folder / "raw" / "graph-label.csv.gz", header=False, index=False, na_rep=missing
    )
    order = np.random.default_rng(1).permutation(len(SMILES))
    ends = [len(SMILES) * 6 // 10, len(SMILES) * 8 // 10]
    for part, rows in zip(("train", "valid", "test"), np.split(order, ends), strict=True):
        _write(folder / "split" / "scaffold" / f"{part}.csv.gz", rows)
    mapping = pd.DataFrame(labels, columns=[f"assay {i}" for i in range(labels.shape[1])])
    mapping = mapping.assign(smiles=SMILES, mol_id=[f"CID{i}" for i in range(len(SMILES))])
    (folder / "mapping").mkdir()
    mapping.to_csv(folder / "mapping" / "mol.csv.gz", index=False)
    return labels


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache per test, and sets of any size."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    for name, about in SETS.items():
        monkeypatch.setitem(SETS, name, about._replace(molecules=None))
    return tmp_path / "cache"


@pytest.fixture
def tox21(tmp_path):
    """A folder of a small moltox21, within a data folder."""
    _make(tmp_path / "data" / "ogbg_moltox21", "ogbg-moltox21")
    return tmp_path / "data" / "ogbg_moltox21"


def _load(folder: Path):
    return load_named("ogbg-moltox21", folder.parent, SPEC)


def _arrays(store):
    return {name: getattr(store, name) for name in ("sizes", "atoms", "degrees", "pairs")} | {
        "parents": store.paths.parents,
        "bonds": store.paths.bonds,
    }


def test_the_table_of_sets_is_ogb_s():
    master = pd.read_csv(
        Path(find_spec("ogb").origin).parent / "graphproppred" / "master.csv",
        index_col=0,
        keep_default_na=False,
    )
    assert set(SETS) == {name for name in master if name.startswith("ogbg-mol")}
    metric_of = {"roc_auc": "rocauc", "pr_auc": "ap", "rmse": "rmse"}
    for name, about in SETS.items():
        assert ogb.url_of(name) == master[name]["url"]
        assert ogb.archive_of(name) == master[name]["download_name"]
        assert str(about.tasks) == master[name]["num tasks"]
        assert metric_of[about.metric] == master[name]["eval metric"]
        assert about.kind in master[name]["task type"]
        assert master[name]["split"] == "scaffold"
        assert master[name]["add_inverse_edge"] == "True"  # so each bond is two edges


@pytest.mark.claim(
    "The graphs of OGB data sets are those of their SMILES, so the predictions of a run equal"
    " those of its model."
)
@pytest.mark.parametrize(
    ("name", "missing"),
    [("ogbg-molpcba", "nan"), ("ogbg-molesol", "nan"), ("ogbg-moltox21", "")],
)
def test_a_small_set_is_loaded_as_it_was_written(tmp_path, name, missing, capfd):
    """Graphs of single atoms and of salts included: as encoded from the SMILES, labels, split."""
    labels = _make(tmp_path / "data" / name.replace("-", "_"), name, missing=missing)
    dataset = load_named(name, tmp_path / "data", SPEC)
    assert capfd.readouterr() == ("", "")

    targets = tuple(f"assay {i}" for i in range(SETS[name].tasks))
    graphs = [featurize.get("ogb")(text) for text in SMILES]
    expected = _arrays(GraphStore.encode(enumerate(graphs), (), SPEC, "ogb"))
    for key, array in _arrays(dataset.store).items():
        np.testing.assert_array_equal(array, expected[key], err_msg=key)
    np.testing.assert_array_equal(dataset.labels, labels.astype(np.float32))
    assert dataset.evaluator(labels, labels) == official_score(name, labels, labels)
    assert np.isnan(dataset.labels).any() == (name != "ogbg-molesol")
    assert dataset.targets == tuple(Target(target, SETS[name].kind) for target in targets)
    assert dataset.metric == SETS[name].metric
    assert list(dataset.smiles) == SMILES
    assert dataset.store.rows.tolist() == list(range(len(SMILES)))
    assert dataset.store.featurizer == "ogb"
    assert dataset.name == f"{name}, 24 molecules"

    order = np.random.default_rng(1).permutation(len(SMILES)).tolist()
    assert tuple(dataset.splits) == SPLITS
    assert [part.tolist() for part in dataset.splits.values()] == [
        order[:14],
        order[14:19],
        order[19:],
    ]


def test_a_molecule_that_rdkit_cannot_read_has_ogb_s_graph_without_chirality_tags(tox21):
    path = tox21 / "mapping" / "mol.csv.gz"
    table = pd.read_csv(path)
    table.loc[CHIRAL, "smiles"] = "C1CC"
    table.to_csv(path, index=False)
    store = _load(tox21).store
    start = int(store.sizes[:CHIRAL].sum())
    atoms = store.atoms[start : start + int(store.sizes[CHIRAL])].tolist()
    assert [row[0] for row in atoms] == [8, 5, 7, 5]  # F, C, O and C, as they are written
    assert [row[1] for row in atoms] == [0, 0, 0, 0]


@pytest.mark.claim(
    "OGB data sets have the official counts and splits and are scored by OGB's evaluator."
)
def test_molhiv_has_the_official_numbers(datasets):
    """Number of molecules, and of positives in each split."""
    folder = ogb.find("ogbg-molhiv", datasets)
    smiles = ["C"] * OFFICIAL["ogbg-molhiv"].molecules
    _, labels, splits = ogb.read_content("ogbg-molhiv", folder, smiles)
    assert [len(part) for part in splits.values()] == [32_901, 4_113, 4_113]
    assert [labels[part].sum() for part in splits.values()] == [1_232, 81, 130]


def _refused(folder: Path, match: str):
    with pytest.raises(DataError, match=match) as caught:
        _load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("file", ["raw/edge", "raw/graph-label", "split/scaffold/test"])
@pytest.mark.parametrize("which", ["fewer", "more"])
def test_rows_that_are_missing_or_left_over(tox21, file, which):
    path = tox21 / f"{file}.csv.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    lines = lines[:-1] if which == "fewer" else [*lines, lines[0]]
    path.write_bytes(gzip.compress(b"".join(lines)))
    _refused(tox21, "do not fit together: ogbg-moltox21 has 24 molecules with 12 labels each")


@pytest.mark.parametrize("file", ["raw/node-feat", "mapping/mol"])
@pytest.mark.parametrize("damage", ["cut", b"<html>404</html>", gzip.compress(b"", mtime=0)])
def test_damaged_files_are_named(tox21, file, damage):
    path = tox21 / f"{file}.csv.gz"
    path.write_bytes(path.read_bytes()[:-9] if damage == "cut" else damage)
    _refused(tox21, f"{path} cannot be read as a file of OGB")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """An archive as OGB's server has it, in a place of this machine."""
    _make(tmp_path / "server" / "tox21", "ogbg-moltox21")
    path = tmp_path / "server" / "tox21.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted((tmp_path / "server" / "tox21").rglob("*.csv.gz")):
            file.write(each, each.relative_to(tmp_path / "server"))
    monkeypatch.setattr(ogb, "url_of", lambda name: path.as_uri())
    return path


def test_a_set_is_downloaded_once(archive, tmp_path, own_cache, capfd):
    (tmp_path / "empty").mkdir()
    first = load_named("ogbg-moltox21", tmp_path / "empty", SPEC)
    archive.unlink()
    again = load_named("ogbg-moltox21", None, SPEC)
    assert again.store.digest == first.store.digest
    assert [path.name for path in (own_cache / "ogb").iterdir()] == ["ogbg_moltox21"]
    assert list(first.smiles) == SMILES
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["cut", "other files"])
def test_a_download_that_fails_leaves_nothing(archive, own_cache, damage):
    why = "downloading file:.* failed: .* Unpack .* into DIR/ogbg_moltox21"
    if damage == "other files":
        why = "tox21.zip lacks tox21/raw/num-node-list"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("tox21/raw/edge.csv.gz", b"")
    else:
        archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(DataError, match=why):
        load_named("ogbg-moltox21", None, SPEC)
    assert not list((own_cache / "ogb").iterdir())


@pytest.mark.parametrize("name", ["ogbg-moltox21", "ogbg-molmuv", "ogbg-mollipo"])
def test_the_official_score_is_scikit_learn_s_mean_over_the_tasks(name):
    """Over those that have both classes, each over the labels that are present."""
    labels = _labels(name, 60)
    if SETS[name].tasks > 1:
        labels[:, 0], labels[:, 1] = np.where(np.isnan(labels[:, 0]), np.nan, 0), np.nan
    predictions = np.random.default_rng(3).normal(size=labels.shape)
    predictions[np.isnan(labels)] = np.nan  # whatever is predicted there
    score = {
        "roc_auc": metrics.roc_auc_score,
        "pr_auc": metrics.average_precision_score,
        "rmse": lambda *both: math.sqrt(metrics.mean_squared_error(*both)),
    }[SETS[name].metric]
    each = []
    for truth, guess in zip(labels.T, predictions.T, strict=True):
        present = ~np.isnan(truth)
        if SETS[name].kind == "regression" or len(set(truth[present])) == 2:
            each.append(score(truth[present], guess[present]))
    for dtype in (np.float32, np.float64):
        got = official_score(name, predictions.astype(dtype), labels.astype(dtype))
        assert got == pytest.approx(np.mean(each), rel=1e-6)

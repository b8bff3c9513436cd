"""A screen has the rows of `predict`, however it was filtered, cut, stopped and continued."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import ConfigError, DataError, ModelError, StorageError
from molsepnorm.files.lock import locked
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict import Predictor, TableRows, predict_rows
from molsepnorm.predict.screening import ScreenOptions, ScreenProgress, screen
from molsepnorm.predict.screening.screen import Work
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.inputs import ExtraInputs, FeatureColumn
from support import SMALL, far_from_initial

from .conftest import rows_of

TARGETS = (
    Target("y", "regression", mean=1.0, scale=2.0),
    Target("active", "binary"),
    Target("group", "multiclass", classes=("a", "b", "c")),
)


@pytest.fixture
def library(molecules, tmp_path) -> list[Path]:
    """Three files of 60, 25 and 40 rows, with four invalid SMILES."""
    (tmp_path / "lib").mkdir()
    paths = [tmp_path / "lib" / name for name in ("a.parquet", "b.csv", "c.csv.gz")]
    tables = molecules(60, (3, 59)), molecules(25, (0,)), molecules(40, (39,))
    tables[0].to_parquet(paths[0], row_group_size=13, index=False)
    tables[1].to_csv(paths[1], index=False)
    tables[2].to_csv(paths[2], index=False)
    return paths


@pytest.fixture(scope="module")
def expected(molecules, predictor) -> pd.DataFrame:
    """The rows of `library` with their predictions, and where they come from."""
    tables = molecules(60, (3, 59)), molecules(25, (0,)), molecules(40, (39,))
    for table, first in zip(tables, (1, 2, 2), strict=True):
        table["source_row"] = np.arange(len(table)) + first
    table = pd.concat(tables, ignore_index=True)
    found = predictor.to_frame(table["smiles"].tolist())
    assert found["y_pred"].std() > 0.05
    return table.assign(y_pred=found["y_pred"].astype(float), error=found["error"])


def same_rows(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Compare the rows, their order and their predictions."""
    names = ["zinc_id", "smiles", "source_row"]
    assert found[names].values.tolist() == wanted[names].values.tolist()
    np.testing.assert_allclose(found["y_pred"], wanted["y_pred"], rtol=1e-4, atol=1e-5)


@pytest.mark.claim(
    "A screen writes the rows of predict, none lost and none twice, also after kills and with"
    " a full disk."
)
def test_rows_equal_those_of_predict(screened, library, expected, tmp_path):
    """The parts have the valid rows of all files, in their order; rejected rows have the reason."""
    found = screened(library)
    assert [*found] == ["smiles", "zinc_id", "source_file", "source_row", "y_pred"]
    same_rows(found, expected[expected["error"].isna()])
    assert [*dict.fromkeys(found["source_file"])] == [str(path) for path in library]
    rejected = rows_of(tmp_path / "out" / "rejected")
    failed = expected[expected["error"].notna()]
    assert [*rejected] == ["smiles", "zinc_id", "source_file", "source_row", "error"]
    names = ["zinc_id", "source_row", "error"]
    assert rejected[names].values.tolist() == failed[names].values.tolist()
    assert len(rejected) == 4


def test_all_columns_equal_those_of_predict(small_model, screened, molecules, tmp_path):
    """Values of several targets, as `predict_rows` writes them to Parquet."""
    table = molecules(50, (7,))
    table.to_csv(tmp_path / "a.csv", index=False)
    predictor = Predictor(small_model(*TARGETS), processes=2, alerts=True)
    found = screened([tmp_path / "a.csv"], by=predictor)
    rows = TableRows([table.astype(str)], "smiles", "a")
    predict_rows(predictor, rows, tmp_path / "p.parquet")
    wanted = pd.read_parquet(tmp_path / "p.parquet").query("error == ''").reset_index(drop=True)
    assert [*found.columns[4:]] == [*predictor.columns] == [*wanted.columns[4:-1]]
    for name in found.columns[4:]:
        if wanted[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5)
        else:
            assert found[name].tolist() == wanted[name].tolist()


def test_a_filter_keeps_the_rows_that_pandas_keeps(screened, library, expected):
    median = float(expected["y_pred"].median())
    found = screened(
        library,
        filter=f"y > {median:.4f} and price < 3 and zinc_id != 'Z5'",
        columns=["zinc_id", "price"],
    )
    wanted = expected.query(f"y_pred > {median:.4f} and price < 3 and zinc_id != 'Z5'")
    assert 10 < len(wanted) < 60
    same_rows(found, wanted)


def test_a_cell_that_is_no_number_is_rejected_and_a_blank_one_is_missing(
    screened, molecules, tmp_path
):
    table = molecules(6).astype({"price": object})
    table.loc[2, "price"], table.loc[4, "price"] = "on request", ""
    table.to_csv(tmp_path / "a.csv", index=False)
    found = screened([tmp_path / "a.csv"], filter="price >= 0", columns=["zinc_id", "price"])
    assert found["zinc_id"].tolist() == ["Z0", "Z1", "Z3", "Z5"]
    rejected = rows_of(tmp_path / "out" / "rejected")
    assert rejected["error"].tolist() == ["the filter needs a number in price: 'on request'"]
    assert rejected["source_row"].tolist() == [4]


def test_a_filter_reads_the_decimal_commas_of_the_input(screened, tmp_path):
    """A point then groups thousands; without --decimal that would be a guess."""
    path = tmp_path / "a.csv"
    path.write_text("smiles;price\nCCO;0,5\nCCC;2,5\nCCN;1.234\n")
    options = {"filter": "price > 2", "columns": ["price"]}
    found = screened([path], reading=ReadOptions(decimal=","), **options)
    assert found["price"].tolist() == ["2,5", "1.234"]
    with pytest.raises(DataError, match="line 4, column 'price': '1.234' may be 1.234 or 1234"):
        screened([path], into="guess", **options)


@pytest.mark.parametrize(("top", "ascending"), [(5, True), (1000, False)])
def test_the_best_rows_are_the_first_of_all_rows_sorted(
    screened, library, expected, tmp_path, top, ascending
):
    """Each molecule occurs several times. Of equal rows, the first are kept."""
    options = {"top": top, "ascending": ascending, "columns": ["zinc_id", "price"]}
    screened(library, **options, filter="price != 0.5")
    valid = expected[expected["error"].isna() & (expected["price"] != 0.5)]
    values = valid["y_pred"].round(5)  # equal molecules differ by rounding in other batches
    order = values.sort_values(ascending=ascending, kind="stable").index[:top]
    best = pd.read_parquet(tmp_path / "out" / "top.parquet")
    np.testing.assert_allclose(best["y_pred"], valid.loc[order, "y_pred"], rtol=1e-4, atol=1e-5)
    text = pd.read_csv(tmp_path / "out" / "top.csv")
    assert [*text] == [*best]
    assert text["zinc_id"].tolist() == best["zinc_id"].tolist()
    np.testing.assert_allclose(text["y_pred"], best["y_pred"], rtol=1e-5)
    assert best["y_pred"].is_monotonic_decreasing or ascending


POTENCY = Target("ic50_nM", "regression", mean=6.0, transform="pic50:nM")


def test_a_pic50_target_ranks_the_most_potent_first(small_model, screened, molecules, tmp_path):
    """Without `by`, which equals the smallest concentrations; the manifest names the column."""
    molecules(20).to_csv(tmp_path / "a.csv", index=False)
    predictor = Predictor(small_model(POTENCY))
    every = screened([tmp_path / "a.csv"], by=predictor, into="all")
    for into, options, ranked in (
        ("default", {}, "ic50_nM_pic50_pred, largest first"),
        ("learned", {"by": "ic50_nM_pic50"}, "ic50_nM_pic50_pred, largest first"),
        ("unit", {"by": "ic50_nM", "ascending": True}, "ic50_nM_pred, smallest first"),
        ("weakest", {"by": "ic50_nM", "ascending": False}, "ic50_nM_pred, largest first"),
    ):
        given = ScreenOptions(top=3, rows_per_part=7, **options)
        result = screen(predictor, [str(tmp_path / "a.csv")], tmp_path / into, given)
        assert result.ranked_by == ranked
        assert json.loads((tmp_path / into / "manifest.json").read_text())["ranked_by"] == ranked
        best = pd.read_parquet(tmp_path / into / "top.parquet")["ic50_nM_pred"]
        values = every["ic50_nM_pred"]
        wanted = values.nlargest(3) if into == "weakest" else values.nsmallest(3)
        np.testing.assert_allclose(best, wanted, rtol=1e-4)


def test_a_model_with_feature_columns_reads_them_from_every_file(screened, molecules, tmp_path):
    """They are not carried unless they are named."""
    inputs = ExtraInputs((FeatureColumn("price"),))
    config = GraphormerConfig(**{**SMALL, "outputs": 1, "molecule_features": inputs.width})
    task = Task((Target("y", "regression"),), "mae")
    predictor = Predictor(PropertyModel.of(far_from_initial(config), "zinc", task, inputs=inputs))
    table = molecules(40)
    table.to_parquet(tmp_path / "a.parquet", index=False)
    table.to_csv(tmp_path / "b.csv", index=False, sep=";")
    found = screened(sorted(tmp_path.glob("[ab].*")), by=predictor)
    wanted = predictor.to_frame(table["smiles"].tolist(), {"price": table["price"].tolist()})
    assert wanted["y_pred"].std() > 0.05
    values = wanted["y_pred"].tolist() * 2
    np.testing.assert_allclose(found["y_pred"], values, rtol=1e-4, atol=1e-4)
    assert "price" not in found


# --- stopped and continued ------------------------------------------------------------------------


def count_work(monkeypatch) -> list[str]:
    """Return a list to which the name of each task that is done is added."""
    done, real = [], Work.__call__

    def counted(self, task):
        done.append(task.name)
        return real(self, task)

    monkeypatch.setattr(Work, "__call__", counted)
    return done


def stopped_after(parts: int, predictor, library, folder, top=None):
    """Start a screen that is interrupted after this many parts."""

    def stop(progress: ScreenProgress) -> None:
        if progress.parts == parts:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        given, options = [str(path) for path in library], ScreenOptions(top=top, rows_per_part=7)
        screen(predictor, given, folder, options, on_progress=stop)


@pytest.mark.parametrize("top", [None, 4])
def test_finished_parts_are_not_computed_again(
    predictor, screened, library, tmp_path, monkeypatch, tree, top
):
    screened(library, into="undisturbed", top=top)
    every = tree(tmp_path / "undisturbed")
    stopped_after(5, predictor, library, tmp_path / "out", top)
    done = count_work(monkeypatch)
    seen = []
    given = [str(path) for path in library]
    options = ScreenOptions(top=top, rows_per_part=7)
    result = screen(predictor, given, tmp_path / "out", options, on_progress=seen.append)
    assert (seen[0].parts, seen[0].rows) == (5, 35)
    assert len(done) == len(set(done)) == len(seen) - 1 == result.parts - 5
    assert (result.rows, result.rejected, result.kept) == (125, 4, top or 121)
    assert tree(tmp_path / "out") == every
    done.clear()
    assert screen(predictor, given, tmp_path / "out", options) == result
    assert done == []


def test_a_part_that_is_damaged_or_deleted_is_computed_again(
    predictor, screened, library, tmp_path, tree, monkeypatch
):
    before = screened(library)
    every = tree(tmp_path / "out")
    parts = tmp_path / "out" / "parts"
    (parts / "00000-0000000.parquet").unlink()
    (parts / "00000-0000001.parquet").write_bytes(b"PAR1")
    done = count_work(monkeypatch)
    pd.testing.assert_frame_equal(screened(library), before)
    assert done == ["00000-0000000", "00000-0000001"]
    assert tree(tmp_path / "out") == every


def _screen_slowly(predictor, library, folder, options):
    real = Work.__call__

    def slow(self, task):
        time.sleep(0.01)
        return real(self, task)

    Work.__call__ = slow
    torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
    screen(predictor, library, folder, options)


@pytest.mark.skipif(sys.platform != "linux", reason="the screen is forked")
def test_a_screen_that_is_killed_again_and_again_loses_nothing(
    small_model, screened, library, tmp_path
):
    """SIGKILL at random moments; then the folder equals that of a screen that was not disturbed."""
    undisturbed = screened(library, into="undisturbed", rows_per_part=2)
    predictor = Predictor(small_model(), processes=2)
    options, given = ScreenOptions(rows_per_part=2), [str(path) for path in library]
    context = multiprocessing.get_context("fork")
    chance, parts, killed = np.random.default_rng(0), tmp_path / "out" / "parts", 0
    for _ in range(60):
        process = context.Process(
            target=_screen_slowly, args=(predictor, given, tmp_path / "out", options)
        )
        process.start()
        before = len(list(parts.glob("*"))) if parts.exists() else 0
        wanted = before + int(chance.integers(0, 12))
        until = time.monotonic() + 20
        while process.is_alive() and time.monotonic() < until:
            if parts.exists() and len(list(parts.glob("*.parquet"))) >= wanted:
                time.sleep(chance.random() * 0.02)
                break
            time.sleep(0.002)
        process.kill()
        process.join()
        if process.exitcode == 0:
            break
        killed += 1
    assert process.exitcode == 0
    assert killed >= 4
    pd.testing.assert_frame_equal(screened(library, rows_per_part=2), undisturbed)
    assert len(list((tmp_path / "out" / "rejected").glob("*.parquet"))) == 4
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert sum(each["rows"] for each in content["parts"].values()) == 125
    leftovers = [path for path in (tmp_path / "out").rglob(".*") if path.name != ".lock"]
    assert leftovers == []


def test_only_one_process_screens_into_a_folder(screened, library, tmp_path):
    with (
        locked(tmp_path / "out", "screening"),
        pytest.raises(ConfigError, match=rf"\({os.getpid()} on .* is screening into .*out: wait"),
    ):
        screened(library)


# --- refused --------------------------------------------------------------------------------------


def test_another_model_or_other_files_or_options_are_refused(
    screened, small_model, library, molecules, tmp_path, tree
):
    screened(library)
    every = tree(tmp_path / "out")
    with pytest.raises(ConfigError, match="holds a screen with another filter .None, now y > 0."):
        screened(library, filter="y > 0")
    with pytest.raises(ConfigError, match="out holds a screen with another model. Start"):
        screened(library, by=Predictor(small_model(seed=1)))
    with pytest.raises(ConfigError, match="a screen with other files"):
        screened(library[:2])
    with pytest.raises(ConfigError, match="a screen with other files"):
        screened(library[::-1])
    assert tree(tmp_path / "out") == every
    molecules(26).to_csv(library[1], index=False)
    with pytest.raises(ConfigError, match="a screen with another file .*b.csv, or it"):
        screened(library)


def test_a_screen_continues_after_an_upgrade(predictor, screened, library, tmp_path, monkeypatch):
    stopped_after(5, predictor, library, tmp_path / "out")
    monkeypatch.setattr("molsepnorm.model.folder.__version__", "99.0")
    assert len(screened(library)) == 121


def test_a_folder_with_something_else_is_refused(screened, library, tmp_path, tree):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="out exists, is not empty and holds no manifest.json"):
        screened(library)
    assert tree(tmp_path / "out") == {"mine.txt": b"mine"}
    (tmp_path / "out" / "manifest.json").write_text('{"short_name": "a web app"}')
    with pytest.raises(ModelError, match="manifest.json is damaged, or is not the manifest of a"):
        screened(library)


def test_options_that_are_impossible_are_refused(small_model, library, tmp_path):
    several = Predictor(small_model(*TARGETS))
    for options, message in (
        ({"top": 3, "by": "smiles"}, "by: 'smiles' is no column of predicted numbers.*active"),
        ({"top": 3}, "the targets y, active, group: choose the one"),
    ):
        with pytest.raises(ConfigError, match=message):
            given, chosen = [str(path) for path in library], ScreenOptions(**options)
            screen(several, given, tmp_path / "out", chosen)
    assert not (tmp_path / "out").exists()


# --- failures in the middle -----------------------------------------------------------------------


def test_finished_parts_stay_when_a_file_is_damaged(screened, library, expected, tmp_path):
    """After the file is replaced by the good one, the screen goes on."""
    good = library[0].read_bytes()
    column = pq.ParquetFile(library[0]).metadata.row_group(2).column(1)
    first = column.dictionary_page_offset
    damaged = bytearray(good)
    damaged[first : first + column.total_compressed_size] = b"x" * column.total_compressed_size
    library[0].write_bytes(damaged)
    times = os.stat(library[0])
    with pytest.raises(DataError, match="a.parquet cannot be read as Parquet"):
        screened(library)
    finished = len(list((tmp_path / "out" / "parts").iterdir()))
    assert 0 < finished < 9
    library[0].write_bytes(good)
    os.utime(library[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    same_rows(screened(library), expected[expected["error"].isna()])


def test_finished_parts_stay_when_the_disk_is_full(
    predictor, molecules, small_disk, tmp_path, monkeypatch
):
    molecules(400).to_csv(tmp_path / "a.csv", index=False)
    options = ScreenOptions(rows_per_part=20)
    with pytest.raises(StorageError, match="the disk is full: free some space"):
        screen(predictor, [str(tmp_path / "a.csv")], small_disk / "out", options)
    parts = small_disk / "out" / "parts"
    assert 3 < len(list(parts.glob("*.parquet"))) < 20
    assert list(parts.glob(".*")) == []
    os.system(f"mount -o remount,size=1m {small_disk}")
    done = count_work(monkeypatch)
    finished = {path.stem for path in parts.iterdir()}
    result = screen(predictor, [str(tmp_path / "a.csv")], small_disk / "out", options)
    assert (result.rows, result.parts) == (400, 20)
    assert not finished & set(done)

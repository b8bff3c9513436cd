"""`molsepnorm share`: what is in the archive, and what is not."""

from __future__ import annotations

import csv
import getpass
import json
import platform
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

from molsepnorm.errors import ConfigError
from molsepnorm.training.results.share import share

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
FILES = [f"model/{name}" for name in ("config.json", "model.safetensors", "README.md")]
FILES += ["metrics.json", "config.yaml"]
STRUCTURES = "model/training_molecules.safetensors"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, ok, tiny, write_table):
    """A folder with secret.csv, and a run on it that starts from another run; the tests change
    copies of it."""
    folder = tmp_path_factory.mktemp("share") / "project-x"
    folder.mkdir()
    table = write_table(folder / "secret.csv", y=NUMBERS, a=[0, 1, 0, 0, 1, 1, 0])
    with open(table, "a") as file:
        file.write("C1CCnotamolecule,1,1\n")
    data = ("train", "--data", table, "--split", "0.4,0.3,0.3")
    ok(*data, "--targets", "a", *tiny, "-o", folder / "start")
    more = ("--from", folder / "start", "--epochs", "0", "-o", folder / "run")
    ok(*data, "--targets", "y", *more)
    (folder / "run" / "notes.txt").write_text("mine")
    return folder


@pytest.fixture
def copied(workspace, tmp_path):
    """A copy of the run that may be changed."""
    shutil.copytree(workspace / "run", tmp_path / "run")
    return tmp_path / "run"


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def unpacked(archive: Path) -> Path:
    """The folder of an archive."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(archive.parent)
    return archive.with_suffix("")


def test_the_archive_has_the_model_and_nothing_confidential(workspace, ok, tmp_path):
    """No structure, label, path, host or user, in any byte; the output names every file and what
    the model reveals: it is the probe alone, which compares with training molecules."""
    printed = ok("models", "share", workspace / "run", tmp_path / "good.zip")
    found = contents(tmp_path / "good.zip")
    assert {*found} == {f"good/{name}" for name in FILES}
    with open(workspace / "secret.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    everything = b"\n".join(found.values())
    words = [row["smiles"] for row in rows if len(row["smiles"]) >= 5]
    assert len(words) > 15
    for word in (*words, str(workspace), str(Path.home()), platform.node()):
        assert word.encode() not in everything, word
    assert b"/" + getpass.getuser().encode() not in everything
    included, _, rest = printed.partition("Left out:")
    for path in (workspace / "run").rglob("*"):
        name = path.relative_to(workspace / "run").as_posix()
        if path.is_file():
            assert f"  {name}\n" in (included if name in FILES else rest)
    assert "  notes.txt\n" in rest
    (splits,) = json.loads((workspace / "run" / "splits.json").read_text())
    assert f" {len(splits['train']) + len(splits['val'])} training molecules" in printed


def test_settings_and_scores_are_complete_but_for_paths(workspace, tmp_path):
    share(workspace / "run", tmp_path / "good.zip")
    found, run = contents(tmp_path / "good.zip"), workspace / "run"
    for name, read, places in (
        ("config.yaml", yaml.safe_load, {"data": "table", "finetune": "start"}),
        ("metrics.json", json.loads, {}),
    ):
        shared, own = read(found[f"good/{name}"]), read((run / name).read_text())
        for section, key in places.items():
            assert shared[section].pop(key) == Path(own[section].pop(key)).name
        assert shared == own


def test_the_training_molecules_are_optional(workspace, copied, ok, refused, tmp_path):
    """By default they are left out, and the output, the card and predict say so."""
    with open(copied / "model" / "README.md", "ab") as file:
        file.write(b"caf\xe9\n")  # edited in another encoding
    assert STRUCTURES in ok("models", "share", copied, tmp_path / "a.zip").partition("Left out:")[2]
    ok("models", "share", copied, tmp_path / "b.zip", "--training-structures")
    one, other = contents(tmp_path / "a.zip"), contents(tmp_path / "b.zip")
    assert {*other} == {f"b/{name}" for name in (*FILES, STRUCTURES)}
    assert other[f"b/{STRUCTURES}"] == (copied / STRUCTURES).read_bytes()
    card = (copied / "model/README.md").read_bytes()
    assert other["b/model/README.md"] == card
    lines = [*zip(card.splitlines(), one["a/model/README.md"].splitlines(), strict=True)]
    ((before, after),) = [pair for pair in lines if pair[0] != pair[1]]
    assert b"not included" not in before and b"not included" in after
    given = ("--smiles", "CCO", "--domain")
    assert "in_domain" in ok("predict", "--model", unpacked(tmp_path / "b.zip"), *given)
    message = refused("predict", "--model", unpacked(tmp_path / "a.zip"), *given)
    assert "does not have its training molecules" in message and "shared" in message
    (copied / STRUCTURES).unlink()
    message = refused("models", "share", copied, tmp_path / "c.zip", "--training-structures")
    assert "does not have its training molecules" in message


def test_an_archive_is_replaced_with_force_only(workspace, refused, tmp_path, monkeypatch):
    """And as a whole."""
    given = ("models", "share", workspace / "run", tmp_path / "a.zip")
    (tmp_path / "a.zip").write_text("mine")
    assert "a.zip exists: choose another name, or replace it with --force" in refused(*given)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    assert "the disk is full" in refused(*given, "--force", code=1)
    assert (tmp_path / "a.zip").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_only_finished_runs_are_shared(workspace, copied, refused, tmp_path):
    for folder in (workspace / "run" / "model", tmp_path / "no"):
        message = refused("models", "share", folder, tmp_path / "a.zip", code=1)
        assert "is not the folder of a finished run" in message
    (copied / "model" / "README.md").unlink()
    assert "has no model card" in refused("models", "share", copied, tmp_path / "a.zip", code=1)
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tested on CCCCC1CC1, too", "holds the SMILES CCCCC1CC1"),
        ("see /home/ann/assays.csv", "holds the path /home/ann/assays.csv"),
        ('"C:\\Users\\ann\\a.csv"', "holds the path C:\\Users"),
        ("(\\\\server\\share", "holds the path \\\\server"),
        ("https://example.org/a/b, mg/L and km/h, N/C(=C/C)O, 1/2, and/or, s: /", None),
    ],
)
def test_a_file_with_a_structure_or_a_path_is_refused(copied, tmp_path, text, message):
    """Even if a user wrote it into the card."""
    with open(copied / "model" / "README.md", "a") as file:
        file.write(f"\n{text}")
    if message is None:
        assert share(copied, tmp_path / "a.zip").searched
        return
    with pytest.raises(ConfigError) as caught:
        share(copied, tmp_path / "a.zip")
    assert message in str(caught.value) and "model/README.md" in str(caught.value)
    assert not (tmp_path / "a.zip").exists()


def test_structures_are_recognised_without_the_table(workspace, copied, tmp_path):
    """From the files of the run."""
    text = (copied / "config.yaml").read_text().replace("secret.csv", "gone.csv")
    (copied / "config.yaml").write_text(text)
    searched = share(workspace / "run", tmp_path / "a.zip").searched
    assert share(copied, tmp_path / "b.zip").searched == searched
    (copied / "rejected.csv").unlink()
    assert share(copied, tmp_path / "c.zip").searched == searched - 1


def test_the_models_of_an_ensemble_are_optional(ok, tiny, write_table, tmp_path):
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    options = ("--targets", "y", *tiny, "--ensemble", 2, "-o", tmp_path / "run")
    ok("train", "--data", table, *options)
    members = [f"members/{n}/{name}" for n in (1, 2) for name in FILES if name[:5] == "model"]
    structures = [f"{start}{STRUCTURES}" for start in ("", "members/1/", "members/2/")]
    for options, names in (
        ((), FILES),
        (("--models",), [*FILES, *members]),
        (("--models", "--training-structures"), [*FILES, *members, *structures]),
    ):
        ok("models", "share", tmp_path / "run", tmp_path / "a.zip", "--force", *options)
        assert {*contents(tmp_path / "a.zip")} == {f"a/{name}" for name in names}
    model = unpacked(tmp_path / "a.zip") / "members" / "2"
    ok("predict", "--model", model, "--smiles", "CCO")

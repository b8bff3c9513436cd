"""`molsepnorm share`: what is in the archive, and what is not."""

from __future__ import annotations

import csv
import getpass
import io
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
FILES = ["model/config.json", "model/model.safetensors", "model/README.md", "metrics.json"]
FILES.append("config.yaml")
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


def test_the_archive_has_the_model_and_nothing_confidential(workspace, ok, tmp_path):
    """No structure, label, path, host or user, in any byte; the output names every file."""
    printed = ok("share", workspace / "run", tmp_path / "good.zip")
    found = contents(tmp_path / "good.zip")
    assert list(found) == [f"good/{name}" for name in FILES]
    with open(workspace / "secret.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    everything = b"\n".join(found.values())
    words = [row["smiles"] for row in rows if len(row["smiles"]) >= 5]
    assert len(words) > 15
    for word in (*words, str(workspace), str(Path.home()), platform.node()):
        assert word.encode() not in everything, word
    user = getpass.getuser().encode()
    assert b"/" + user not in everything
    included, _, rest = printed.partition("Left out:")
    assert all(name in included for name in FILES)
    for path in (workspace / "run").rglob("*"):
        name = path.relative_to(workspace / "run").as_posix()
        if path.is_file() and name not in FILES:
            assert f"  {name} " in rest
    assert "notes.txt" in rest and "not a file of molsepnorm" in rest
    assert f"none of {len({*words})} SMILES" in printed


def test_what_the_model_reveals_is_printed(workspace, ok, tmp_path):
    """The run is the probe alone, which compares molecules with those of the training and
    validation splits."""
    printed = ok("share", workspace / "run", tmp_path / "good.zip")
    (splits,) = json.loads((workspace / "run" / "splits.json").read_text())
    molecules = len(splits["train"]) + len(splits["val"])
    assert f"holds {molecules} training molecules in encoded form" in printed
    assert printed.count("can test whether a known molecule is among them") == 1


def test_settings_and_scores_are_complete_but_for_paths(workspace, tmp_path):
    share(workspace / "run", tmp_path / "good.zip")
    found = contents(tmp_path / "good.zip")
    shared = yaml.safe_load(found["good/config.yaml"])
    own = yaml.safe_load((workspace / "run" / "config.yaml").read_text())
    assert shared["data"].pop("table") == "secret.csv"
    assert shared["finetune"].pop("start") == "start"
    del own["data"]["table"], own["finetune"]["start"]
    assert shared == own
    shared = json.loads(found["good/metrics.json"])
    own = json.loads((workspace / "run" / "metrics.json").read_text())
    assert shared["start"].pop("model") == "start"
    del own["start"]["model"]
    assert shared == own
    own = (workspace / "run/model/README.md").read_text().splitlines()
    card = found["good/model/README.md"].decode().splitlines()
    different = [pair for pair in zip(own, card, strict=True) if pair[0] != pair[1]]
    assert len(different) == 1
    assert "holds the SMILES, the fingerprints and the labels" in different[0][0]
    assert "is not included, so `predict --domain` cannot be used" in different[0][1]


def test_the_training_molecules_are_optional(workspace, ok, refused, tmp_path):
    """By default they are left out, and the output, the card and predict say so."""
    printed = ok("share", workspace / "run", tmp_path / "a.zip")
    included, _, rest = printed.partition("Left out:")
    assert STRUCTURES not in included and f"  {STRUCTURES} " in rest
    assert "training_molecules.safetensors, with the structures and labels" in rest
    assert "holds the SMILES" not in printed
    printed = ok("share", workspace / "run", tmp_path / "b.zip", "--training-structures")
    included, _, rest = printed.partition("Left out:")
    assert STRUCTURES in included and f"  {STRUCTURES} " not in rest
    assert "holds the SMILES, the fingerprints and the labels of all training molecules" in rest
    assert "its other files none of " in rest
    one, other = contents(tmp_path / "a.zip"), contents(tmp_path / "b.zip")
    assert {*other} - {f"b/{name}" for name in FILES} == {f"b/{STRUCTURES}"}
    assert other[f"b/{STRUCTURES}"] == (workspace / "run" / STRUCTURES).read_bytes()
    assert other["b/model/README.md"] == (workspace / "run/model/README.md").read_bytes()
    assert b"holds the SMILES" not in one["a/model/README.md"]
    for name in ("a", "b"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as file:
            file.extractall(tmp_path)
    found = ok("predict", "--model", tmp_path / "b", "--smiles", "CCO", "--domain")
    assert "in_domain" in found
    message = refused("predict", "--model", tmp_path / "a", "--smiles", "CCO", "--domain")
    assert "does not have its training molecules" in message and "shared" in message


def test_training_molecules_that_are_not_there_cannot_be_shared(copied, refused, tmp_path):
    (copied / STRUCTURES).unlink()
    given = ("share", copied, tmp_path / "a.zip", "--training-structures")
    assert "does not have its training molecules" in refused(*given)
    assert not (tmp_path / "a.zip").exists()


def test_an_edited_card_in_another_encoding_is_shared(copied, ok, tmp_path):
    with open(copied / "model" / "README.md", "ab") as file:
        file.write(b"caf\xe9\n")
    ok("share", copied, tmp_path / "a.zip")
    assert contents(tmp_path / "a.zip")["a/model/README.md"].endswith(b"caf\xe9\n")


def test_an_unpacked_archive_predicts_like_the_run(workspace, ok, tmp_path):
    share(workspace / "run", tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip") as file:
        file.extractall(tmp_path)
    values = []
    for model in (workspace / "run", tmp_path / "good", tmp_path / "good" / "model"):
        text = ok("predict", "--model", model, "--smiles", "CCO")
        values.append(next(csv.DictReader(io.StringIO(text)))["y_pred"])
    assert values[0] and len(set(values)) == 1


def test_the_same_run_gives_the_same_archive(workspace, tmp_path):
    """Without the time or the user's rights on the files."""
    share(workspace / "run", tmp_path / "a.zip")
    first = (tmp_path / "a.zip").read_bytes()
    share(workspace / "run", tmp_path / "a.zip", force=True)
    assert (tmp_path / "a.zip").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_an_existing_file_is_replaced_with_force_only(workspace, ok, refused, tmp_path):
    (tmp_path / "a.zip").write_text("mine")
    message = refused("share", workspace / "run", tmp_path / "a.zip")
    assert "a.zip exists: choose another name, or replace it with --force" in message
    assert (tmp_path / "a.zip").read_text() == "mine"
    ok("share", workspace / "run", tmp_path / "a.zip", "--force")
    assert contents(tmp_path / "a.zip")


def test_a_failed_write_leaves_the_old_archive(workspace, refused, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.zip").write_text("mine")
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    message = refused("share", workspace / "run", tmp_path / "a.zip", "--force", code=1)
    assert "the disk is full" in message
    assert (tmp_path / "a.zip").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_only_finished_runs_are_shared(copied, refused, tmp_path):
    (copied / "metrics.json").unlink()
    message = refused("share", copied, tmp_path / "a.zip", code=1)
    assert "is not the folder of a finished run: it needs config.yaml and metrics.json" in message
    assert "is not the folder" in refused("share", copied / "model", tmp_path / "a.zip", code=1)
    assert "is not the folder" in refused("share", tmp_path / "no", tmp_path / "a.zip", code=1)
    assert not (tmp_path / "a.zip").exists()


def test_a_run_without_a_card_gets_one_by_resuming(copied, ok, refused, tmp_path):
    (copied / "model" / "README.md").unlink()
    message = refused("share", copied, tmp_path / "a.zip", code=1)
    command = f"molsepnorm train --resume {copied} writes it"
    assert f"has no model card: {command}" in message
    ok("train", "--resume", copied)
    ok("share", copied, tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tested on CCCCC1CC1, too", "holds the SMILES CCCCC1CC1"),
        ('"CCCC(=O)O"', "holds the SMILES CCCC(=O)O"),
        ("`C1CCnotamolecule`", "holds the SMILES C1CCnotamolecule"),
        ("see /home/ann/assays.csv", "holds the path /home/ann/assays.csv"),
        ('"C:\\Users\\ann\\a.csv"', "holds the path C:\\Users"),
        ("(\\\\server\\share", "holds the path \\\\server"),
    ],
)
def test_a_file_with_a_structure_or_a_path_is_refused(copied, tmp_path, text, message):
    """Even if a user wrote it into the card."""
    with open(copied / "model" / "README.md", "a") as file:
        file.write(text)
    with pytest.raises(ConfigError) as caught:
        share(copied, tmp_path / "a.zip")
    assert message in str(caught.value) and "model/README.md" in str(caught.value)
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize(
    "text", ["https://example.org/a/b", "mg/L and km/h", "N/C(=C/C)O", "1/2", "and/or", "s: /"]
)
def test_other_slashes_are_no_paths(copied, tmp_path, text):
    with open(copied / "model" / "README.md", "a") as file:
        file.write(f"\n{text}\n")
    assert share(copied, tmp_path / "a.zip").path.exists()


def test_structures_are_recognised_without_the_table(workspace, copied, tmp_path):
    """From the files of the run."""
    text = (copied / "config.yaml").read_text().replace("secret.csv", "gone.csv")
    text = text.replace("smiles_column: smiles", "smiles_column: structure")
    (copied / "config.yaml").write_text(text)
    (copied / "rejected.csv").write_text("line,structure,reason\n9,C1CCnotanother,unclosed\n")
    one = share(workspace / "run", tmp_path / "a.zip").searched
    assert share(copied, tmp_path / "b.zip").searched == one  # one rejected row for another
    (copied / "rejected.csv").unlink()
    assert share(copied, tmp_path / "c.zip").searched == one - 1


def test_class_names_that_are_training_structures_are_refused(
    ok, refused, tiny, write_table, tmp_path
):
    table = write_table(tmp_path / "data.csv", product=["CCC(=O)O", "CCCN"])
    ok("train", "--data", table, "--targets", "product", *tiny, "-o", tmp_path / "run")
    message = refused("share", tmp_path / "run", tmp_path / "a.zip")
    assert "model/config.json holds the SMILES CCC(=O)O" in message
    assert "rename the column, class or file" in message


def test_the_models_of_an_ensemble_are_optional(ok, tiny, write_table, tmp_path):
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    options = ("--targets", "y", *tiny, "--ensemble", 2, "-o", tmp_path / "run")
    ok("train", "--data", table, *options)
    ok("share", tmp_path / "run", tmp_path / "a.zip")
    assert set(contents(tmp_path / "a.zip")) == {f"a/{name}" for name in FILES}
    ok("share", tmp_path / "run", tmp_path / "b.zip", "--models")
    models = [f"b/members/{n}/{name}" for n in (1, 2) for name in FILES if name[:5] == "model"]
    assert set(contents(tmp_path / "b.zip")) == {*(f"b/{name}" for name in FILES), *models}
    with zipfile.ZipFile(tmp_path / "b.zip") as file:
        file.extractall(tmp_path)
    ok("predict", "--model", tmp_path / "b" / "members" / "2", "--smiles", "CCO")
    more = ("--models", "--training-structures")
    ok("share", tmp_path / "run", tmp_path / "c.zip", *more)
    added = [f"c/{start}{STRUCTURES}" for start in ("", "members/1/", "members/2/")]
    assert {*contents(tmp_path / "c.zip")} - {each.replace("b/", "c/", 1) for each in models} == {
        *(f"c/{name}" for name in FILES),
        *added,
    }

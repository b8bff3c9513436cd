"""The applicability domain, intervals and sets of classes through the command line."""

from __future__ import annotations

import csv

import pytest

from molsepnorm.model.training_molecules import TRAINING_FILE

from .conftest import TINY, read_rows

ADDED = [
    *("similarity", "in_domain", "nearest_smiles"),
    *("y_expected_error", "y_nearest", "active_expected_error", "active_nearest"),
]


@pytest.fixture(scope="module")
def workspace(ok, tmp_path_factory):
    """data.csv with a number and a class, two runs on it with different splits, and one without
    training structures."""
    folder = tmp_path_factory.mktemp("domain")
    table = folder / "data.csv"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "active"])
        for length in range(1, 21):
            for end, value in (("O", -1.0), ("Cl", 0.9), ("N", 0.2)):
                writer.writerow(["C" * length + end, 0.5 * length + value, int(length > 9)])
    given = ("train", "-q", "--data", table, "--targets", "y,active", *TINY, "--no-baseline")
    for seed in (1, 2):
        ok(*given, "--split-seed", seed, "-o", folder / f"run-{seed}")
    ok(*given, "--no-training-structures", "-o", folder / "secret")
    return folder


def test_columns_are_added_to_every_row(ok, workspace):
    """The nearest training molecule has the values of the table."""
    given = ("predict", "--model", workspace / "run-1", "-i", workspace / "data.csv")
    given = (*given, "--smiles-column", "smiles", "--processes", "1")
    plain, near = read_rows(ok(*given)), read_rows(ok(*given, "--domain"))
    assert [*near[0]] == [*[*plain[0]][:-1], *ADDED, "error"]
    with open(workspace / "data.csv", newline="") as file:
        table = {row["smiles"]: row for row in csv.DictReader(file)}
    for before, after in zip(plain, near, strict=True):
        assert before == {name: after[name] for name in before}
        nearest = table[after["nearest_smiles"]]
        assert float(after["y_nearest"]) == float(nearest["y"])
        assert after["active_nearest"] == nearest["active"]
        assert after["in_domain"] in ("yes", "no") and 0 < float(after["similarity"]) <= 1


def test_a_failed_row_has_no_nearest_molecule(ok, workspace):
    given = ("predict", "--model", workspace / "run-1", "--smiles", "C1CC", "--smiles", "FC1CC1")
    one, other = read_rows(ok(*given, "--domain", "--uncertainty", "--level", "0.5"))
    assert [one[name] for name in ADDED] == [""] * 7 and "unclosed ring" in one["error"]
    assert other["in_domain"] == "no" and other["y_low"]
    names = [*other]
    assert names.index("active_set") < names.index("similarity") < names.index("error")


def test_several_models_have_the_molecules_of_all(ok, workspace):
    """Every molecule that one of them was trained on has the similarity 1."""
    models = [part for seed in (1, 2) for part in ("--model", workspace / f"run-{seed}")]
    smiles = {row["smiles"] for seed in (1, 2) for row in trained_on(workspace / f"run-{seed}")}
    assert len(smiles) > len(trained_on(workspace / "run-1"))
    given = [part for text in sorted(smiles) for part in ("--smiles", text)]
    found = read_rows(ok("predict", *models, *given, "--domain", "--processes", "1"))
    assert {row["similarity"] for row in found} == {"1"}
    assert {row["in_domain"] for row in found} == {"yes"}


def trained_on(run):
    with open(run / "predictions_train.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_models_without_training_molecules_are_refused_before_the_table_is_read(
    refused, workspace, tmp_path
):
    given = ("-i", tmp_path / "missing.csv", "--domain")
    secret = ("--model", workspace / "secret")
    message = refused("predict", *secret, *given)
    assert "does not have its training molecules" in message
    assert "(--no-training-structures)" in message
    message = refused("predict", *secret, "--model", workspace / "run-1", *given)
    assert "does not have its training molecules" in message
    message = refused("predict", "--model", "molsepnorm-small", *given)
    assert "pre-trained without targets" in message
    assert not (workspace / "secret" / "model" / TRAINING_FILE).exists()


def test_levels_that_are_impossible_are_refused(refused, workspace):
    given = ("predict", "--model", workspace / "run-1", "--smiles", "CCO")
    assert "add --uncertainty" in refused(*given, "--level", "0.5")
    refused(*given, "--uncertainty", "--level", "1")
    message = refused(*given, "--uncertainty", "--level", "0.99")
    assert "needs 99 labelled validation molecules" in message

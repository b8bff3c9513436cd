"""Which columns are targets where none is named: the choice is made, or left to the user."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors

from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets.columns import parse_columns
from molsepnorm.data.datasets.labels import read_labels
from molsepnorm.errors import OpenChoice

SMILES = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "Cl", "c1ccccc1", "C(=O)O")]
NUMBERS = [f"{0.37 * row % 5:.2f}" for row in range(len(SMILES))]
OTHERS = [f"{0.53 * row % 7:.2f}" for row in range(len(SMILES))]
LABELS = [f"{row % 2}" for row in range(len(SMILES))]
WORDS = ["wild type" if row % 3 else "mutant" for row in range(len(SMILES))]
NAMES = [f"compound {row}" for row in range(len(SMILES))]
COUNTS = [f"{row % 4}" for row in range(len(SMILES))]


def read(columns: dict[str, list[str]], strict: bool = True, **settings):
    table = pd.DataFrame({"smiles": SMILES, **columns}, dtype=object)
    return of_table(table, strict, **settings)


def of_table(table: pd.DataFrame, strict: bool = True, **settings):
    config = DataConfig(table=Path("my.csv"), **settings)
    return read_labels(parse_columns([table], config), config, strict)


def options(columns: dict[str, list[str]], **settings) -> tuple[str, list[list[str]]]:
    """The message and the options of an open choice."""
    with pytest.raises(OpenChoice) as caught:
        read(columns, **settings)
    return str(caught.value), caught.value.options


@pytest.mark.parametrize(
    "columns",
    [
        {f"NR-{number}": LABELS for number in range(12)},
        {"mol_id": NAMES, "FDA_APPROVED": LABELS, "CT_TOX": LABELS},
        {"Class": LABELS, "pIC50": NUMBERS, "scaffold_split": WORDS},
        {"Compound ID": NAMES, "mu": NUMBERS, "alpha": OTHERS},
        {"num": [str(row) for row in range(len(SMILES))], "name": NAMES, "p_np": LABELS},
        {"penalised_logp": NUMBERS, "rule_4_400": LABELS},
    ],
)
def test_tables_of_labels_have_all_of_them_as_targets(columns):
    """Tox21, ClinTox, BACE, QM9, BBBP, and the demonstration table."""
    labels = read(columns)
    assert labels.names == tuple(
        name for name, cells in columns.items() if cells in (NUMBERS, OTHERS, LABELS)
    )
    assert labels.warnings[0].startswith("The targets are all columns of numbers")


@pytest.mark.parametrize(
    "name",
    [
        *("MW", "Molecular Weight", "cLogP", "TPSA", "Polar Surface Area", "HBD", "H-Bond Donors"),
        *("Number of Rings", "HeavyAtomCount", "ESOL predicted solubility", "batch_id", "fold"),
        *("year", "temperature"),
    ],
)
def test_names_of_computed_properties_leave_the_choice_open(name):
    message, found = options({name: NUMBERS, "pIC50": NUMBERS})
    assert f"{name}: named like" in message
    assert found == [["--targets", "pIC50"]]


@pytest.mark.parametrize("name", ["logS", "solubility", "weighted", "Ki", "clearance", "pKa"])
def test_names_of_measured_properties_do_not(name):
    assert read({name: OTHERS, "pIC50": NUMBERS}).names == (name, "pIC50")


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda number: 10 ** (9 - number), id="IC50 and pIC50"),
        pytest.param(lambda number: round(0.238 * number, 2), id="rounded"),
    ],
)
def test_numbers_computed_from_each_other_leave_the_choice_open(convert):
    numbers = [f"{4 + 0.137 * row:.3f}" if row % 5 else "" for row in range(len(SMILES))]
    others = [f"{convert(float(cell)):.6g}" if cell else "3.3" for cell in numbers]
    message, found = options({"one": others, "pIC50": numbers})
    assert "one, pIC50: the same order of molecules" in message
    assert found == [["--targets", "one"], ["--targets", "pIC50"], ["--targets", "one,pIC50"]]


@pytest.mark.parametrize(("descriptor", "digits"), [("MolWt", 1), ("MolLogP", 2), ("TPSA", 2)])
def test_values_of_a_descriptor_are_recognised(descriptor, digits):
    """Under any name, and in the digits of usual tables. Rows without a value or without a valid
    SMILES do not matter."""
    function = getattr(Descriptors, descriptor)
    smiles = [f"{'N' * (row % 3)}{text}" for row, text in enumerate(SMILES)]
    table = {
        "x": [f"{function(Chem.MolFromSmiles(text)):.{digits}f}" for text in smiles],
        "y": NUMBERS,
    }
    table["x"][3] = ""
    frame = pd.DataFrame({"smiles": smiles, **table}, dtype=object)
    frame.loc[5, "smiles"] = "C1CC"
    with pytest.raises(OpenChoice, match=f"x: equal to RDKit's descriptor {descriptor}"):
        of_table(frame)
    only = frame[["smiles", "x"]]
    assert of_table(only).names == ("x",)
    with pytest.raises(OpenChoice) as caught:
        of_table(only.assign(verdict=WORDS))
    assert caught.value.options == [["--targets", "verdict"]]
    frame.loc[4, "x"] = "0.5"
    assert of_table(frame).names == ("x", "y")


@pytest.mark.parametrize("cells", [("37.2%", "5 %"), ("12.3±0.2", "1±1"), ("12 h", "3 h")])
def test_numbers_with_units_are_candidates(cells):
    """The only column of numbers would otherwise be the target without a word."""
    units = [cells[row % 2] for row in range(len(SMILES))]
    message, found = options({"mp": NUMBERS, "inhibition": units})
    assert f"inhibition: some cells are not numbers, such as '{cells[0]}'" in message
    assert [choice for _, choice in found] == ["mp", "inhibition", "mp,inhibition"]
    assert read({"mp": NUMBERS, "temperature": units}).names == ("mp",)


@pytest.mark.parametrize("cells", [("12a", "3D"), ("2021-05-03", "2021-05-04"), ("64-17-5", "A1")])
def test_texts_that_begin_with_a_number_are_words(cells):
    words = [cells[row % 2] for row in range(len(SMILES))]
    assert read({"mp": NUMBERS, "sample": words}).names == ("mp",)


def test_the_user_decides():
    columns = {"MW": NUMBERS, "fold": COUNTS, "y, log": NUMBERS, "kind": WORDS}
    assert options(columns)[1] == [["--set", 'data.targets=["y, log"]']]
    assert read(columns, targets=["MW", "fold"]).names == ("MW", "fold")
    assert read(columns, ignore_columns=["MW", "fold"]).names == ("y, log",)
    assert read({"MW": NUMBERS, "z": NUMBERS}, strict=False).names == ("MW", "z")

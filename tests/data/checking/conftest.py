"""Tables to check."""

import csv

import pytest


@pytest.fixture
def write(tmp_path):
    """`write(rows, header)` makes my.csv of texts."""

    def make(rows, header="smiles,y"):
        with open(tmp_path / "my.csv", "w", newline="") as file:
            csv.writer(file).writerows([header.split(","), *rows])
        return tmp_path / "my.csv"

    return make

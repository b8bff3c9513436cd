"""A table is the same data set however it is written, with any two options."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.molecules.encodings import EncodingSpec

OGB = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
NUMBERS = ("y", "w", "se", "T")
NANOMOLAR = {"nM": 1.0, "uM": 1e3}
ROWS = 48


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Every molecule twice, numbers beyond 1,000, blanks in all columns of numbers, and one SMILES
    that cannot be read."""
    draw = random.Random(0)
    words = {
        "relation": ("", "=", ">", "<"),
        "unit": ("nM", "uM"),
        "solvent": ("water", "DMSO"),
        "second": ("O", "CCO", "CS(C)=O"),
        "batch": "ABCDEF",
        "part": ("train", "train", "val", "test"),
        "state": ("low", "mid", "high"),
    }
    smiles = [f"C1{'C' * n}C1{end}" for n in range(1, 13) for end in "ON"] * 2
    rows = pd.DataFrame({"smiles": smiles, "compound_id": [f"m{i}" for i in range(ROWS)]})
    for name, choices in words.items():
        rows[name] = draw.choices(choices, k=ROWS)
    rows["day"] = [f"20{draw.randint(10, 23)}-05-{draw.randint(10, 28)}" for _ in range(ROWS)]
    for name, largest in zip(NUMBERS, (9000, 3, 0.5, 1500), strict=True):
        rows[name] = [round(draw.uniform(0.001, 1) * largest, 3) for _ in range(ROWS)]
        rows.loc[draw.randrange(1, ROWS), name] = np.nan
    rows.loc[0, "smiles"] = "C1CC"
    return rows.assign(relation=rows["relation"].where(rows["y"].notna(), ""))


@pytest.fixture(scope="module")
def plain(table, tmp_path_factory) -> Callable[[dict[str, Any]], pd.DataFrame]:
    """`plain(settings)`: the content of the table as a CSV with plain numbers."""
    path, known = tmp_path_factory.mktemp("plain") / "plain.csv", dict[str, pd.DataFrame]()
    text(table).to_csv(path)

    def read(settings: dict[str, Any]) -> pd.DataFrame:
        key = str(settings)
        known[key] = known[key] if key in known else content(path, settings)
        return known[key]

    return read


OPTIONS: list[dict[str, Any]] = [
    {"relation_column": "relation"},
    {"unit_column": "unit"},
    {"weight_column": "w"},
    {"error_column": {"y": "se"}},
    {"feature_columns": ["T"]},
    {"feature_columns": ["solvent", "second:molecule"]},
    {"transform": {"y": "log10"}},
    {"transform": {"y": "pic50:nM"}},
    {"limits": {"y": [900.0, 5000.0]}},
    {"duplicates": "mean"},
    {"targets": ["y", "state"]},
    {"split_type": "scaffold"},
    {"split_type": "time", "time_column": "day"},
    {"splits_column": "part"},
    {"split_by": "batch"},
    {"folds": 3, "fold": 1},
]
IMPOSSIBLE = (  # the settings contradict each other, or columns of the table do not allow both
    {"duplicates", "splits_column"},
    {"duplicates", "feature_columns"},
    {"duplicates", "time_column"},
    {"duplicates", "split_by"},
    {"split_type", "splits_column"},
    {"split_type", "split_by"},
    {"splits_column", "split_by"},
    {"time_column", "folds"},
    {"relation_column", "targets"},
    {"unit_column", "targets"},
)
PAIRS = [
    {**one, **other}
    for one, other in combinations([{}, *OPTIONS], 2)
    if not one.keys() & other.keys() and not any(pair <= {*one, *other} for pair in IMPOSSIBLE)
]


def text(rows: pd.DataFrame, mark: str = ".", *, grouped: bool = False) -> pd.DataFrame:
    """The numbers as text with this decimal mark, and with points between thousands."""

    def written(number: float) -> str:
        if np.isnan(number):
            return ""
        whole, _, rest = f"{number:.10g}".partition(".")
        if grouped and len(whole) > 3:
            whole = f"{whole[:-3]}.{whole[-3:]}"
        return f"{whole}{mark}{rest}" if rest else whole

    return rows.assign(**{name: rows[name].map(written) for name in NUMBERS})


def sdf(rows: pd.DataFrame, path: Path) -> None:
    with Chem.SDWriter(str(path)) as writer:
        for row in text(rows).to_dict("records"):
            mol = Chem.MolFromSmiles(row.pop("smiles")) or Chem.Mol()
            for name, cell in row.items():
                mol.SetProp(name, cell)
            writer.write(mol)


def bounds(rows: pd.DataFrame, mark: str) -> pd.DataFrame:
    """The relations before the numbers."""
    cells = text(rows, mark, grouped=mark == ",")
    return cells.assign(y=rows["relation"].replace("=", "") + cells["y"])


Way = tuple[str, Callable[[pd.DataFrame, Path], object], dict[str, Any]]
WAYS: list[Way] = [
    ("a.tsv.gz", lambda t, p: p.write_bytes(gzip.compress(text(t).to_csv(sep="\t").encode())), {}),
    ("a.xlsx", lambda t, p: t.to_excel(p, index=False), {"decimal": ","}),
    ("a.parquet", lambda t, p: t.to_parquet(p), {"decimal": ","}),
    ("a.sdf", sdf, {}),
    ("commas.csv", lambda t, p: text(t, ",").to_csv(p, sep=";"), {"decimal": ","}),
    ("groups.csv", lambda t, p: text(t, ",", grouped=True).to_csv(p, sep=";"), {"decimal": ","}),
    (
        "latin.csv",
        lambda t, p: text(t.replace("uM", "µM")).to_csv(p, encoding="cp1252"),
        {"encoding": "cp1252"},
    ),
    (
        "title.csv",
        lambda t, p: p.write_text(f"Assays,2021\n\n{text(t).to_csv()}"),
        {"header_row": 3},
    ),
    ("order.csv", lambda t, p: text(t)[sorted(t)].to_csv(p), {}),
    (
        "blank.csv",
        lambda t, p: text(t).replace({name: {"": "n/a"} for name in NUMBERS}).to_csv(p),
        {},
    ),
    ("number.csv", lambda t, p: t.fillna({"y": -999}).to_csv(p), {"missing_values": ["-999"]}),
    ("bounds.csv", lambda t, p: bounds(t, ".").to_csv(p), {"relation_column": "none"}),
    (
        "both.csv",
        lambda t, p: bounds(t, ",").to_csv(p, sep=";"),
        {"relation_column": "none", "decimal": ","},
    ),
    (
        "unit.csv",
        lambda t, p: t.assign(
            **{name: t[name] * t["unit"].map(NANOMOLAR) for name in ("y", "se")}
        ).to_csv(p),
        {"unit_column": "none"},
    ),
]
NEEDS = {"bounds.csv": "relation_column", "both.csv": "relation_column", "unit.csv": "unit_column"}


def content(path: Path, settings: dict[str, Any]) -> pd.DataFrame:
    """Everything that a model would see of each row."""
    declared = {"targets": ["y"], "relation_column": "none", "unit_column": "none"}
    found = load(DataConfig(table=path, **{**declared, **settings}), OGB)
    rows = pd.DataFrame(index=found.store.rows)
    rows["smiles"] = [Chem.CanonSmiles(cell) for cell in found.smiles_of(slice(None))]
    columns = {"weights": found.weights, "groups": found.groups, "together": found.together}
    columns |= {f"label {i}": labels for i, labels in enumerate(found.labels.T)}
    columns |= {f"bound {i}": signs for i, signs in enumerate(found.bound_signs.T)}
    columns |= {"error": None if found.errors is None else found.errors[:, 0]}
    for name, cells in found.columns.items():
        numbers = pd.to_numeric(pd.Series(cells).replace("n/a", ""), errors="coerce")
        columns[name] = numbers.to_numpy() if numbers.notna().any() else cells
    rows = rows.assign(**columns, split="", merged=-1)
    for split, graphs in found.splits.items():
        rows.iloc[graphs, rows.columns.get_loc("split")] = split
    for entry in found.merged:
        rows.loc[entry.row, "merged"] = entry.into
    rows.attrs = {
        "rejected": [entry.row for entry in found.rejected],
        "ids": found.identifiers["compound_id"],
        "classes": [target.classes for target in found.targets],
    }
    return rows


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_a_table_is_the_same_data_set_however_it_is_written(table, plain, tmp_path, way):
    name, write, more = way
    write(table, tmp_path / name)
    pairs = [each for each in PAIRS if NEEDS.get(name, "") in ("", *each)]
    for settings in random.Random(WAYS.index(way) % 4).sample(pairs, 5):
        expected = plain(settings)
        found = content(tmp_path / name, {**settings, **more})
        pd.testing.assert_frame_equal(
            found, expected, rtol=1e-5, check_dtype=False, obj=str(settings)
        )
        assert found.attrs == expected.attrs

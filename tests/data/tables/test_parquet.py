"""Parquet reads as the CSV of the same table would."""

from __future__ import annotations

import datetime
import decimal
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.tables import read_table
from molsepnorm.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def _cells(tmp_path: Path, values: list, kind=None) -> list[str]:
    pq.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "x.parquet")
    return read_table(tmp_path / "x.parquet")["x"].tolist()


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.int64(), [0, -7, None, 2**53 + 1], ["0", "-7", "", "9007199254740993"]),
        (pa.float64(), [0.1, 1.0, -2.5, None, math.nan], ["0.1", "1", "-2.5", "", ""]),
        (pa.float32(), [0.1, 3.0], ["0.1", "3"]),
        (pa.bool_(), [True, False, None], ["true", "false", ""]),
        (pa.string(), ["CCO", "", None, "nan", " ä\n"], ["CCO", "", "", "nan", " ä\n"]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a"], ["a", "b", "", "a"]),
        (pa.decimal128(5, 2), [decimal.Decimal("1.50"), None], ["1.50", ""]),
        (pa.date32(), [datetime.date(2020, 1, 31), None], ["2020-01-31", ""]),
        (pa.duration("us"), [datetime.timedelta(hours=1.5), None], ["1:30:00", ""]),
        (pa.list_(pa.int64()), [[1, 2], None], ["[1, 2]", ""]),
    ],
    ids=str,
)
def test_values_as_text(tmp_path, kind, values, texts):
    assert _cells(tmp_path, values, kind) == texts


@given(numbers=st.lists(st.floats(allow_nan=False), min_size=1), wide=st.booleans())
def test_numbers_are_read_back_as_they_were(tmp_path_factory, numbers, wide):
    kind = np.float64 if wide else np.float32
    with np.errstate(over="ignore"):
        values = np.array(numbers, dtype=kind)
    cells = _cells(tmp_path_factory.mktemp("numbers"), values.tolist(), pa.from_numpy_dtype(kind))
    assert (np.array([kind(cell) for cell in cells]) == values).all()


def test_an_unnamed_index_of_pandas_is_no_column(tmp_path):
    """Or it would be taken for a target; one that has a name is kept."""
    table = pd.DataFrame({"smiles": ["C", "CC"]}, index=[5, 3])
    table.to_parquet(tmp_path / "x.parquet")
    assert list(read_table(tmp_path / "x.parquet").columns) == ["smiles"]
    table.rename_axis("id").to_parquet(tmp_path / "y.parquet")
    assert read_table(tmp_path / "y.parquet")["id"].tolist() == ["5", "3"]


def test_damaged_files(tmp_path):
    """Empty, something else, cut off, or with a hole inside."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"smiles": [f"{'C' * (i % 50)}" for i in range(9000)]}), buffer)
    good = buffer.getvalue()
    hole = good[:300] + bytes(200) + good[500:]
    for content in (b"", b"smiles,y\nC,1\n", b"PAR1" * 30, good[:-100], good[100:], hole):
        (tmp_path / "x.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"x\.parquet cannot be read as Parquet: \w+"):
            read_table(tmp_path / "x.parquet")

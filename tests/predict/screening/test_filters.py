"""Conditions equal those of pandas, and nothing else is accepted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.predict.screening.filters import Filter, FilterColumns

KINDS = {
    "logS_pred": "number",
    "similarity": "number",
    "class_pred": "text",
    "in_domain": "yes/no",
    "active_pred": "probability",
    "id": "cell",
    "price": "cell",
    "log P": "cell",
}
COLUMNS = FilterColumns(
    KINDS,
    {"logS": "logS_pred", "class": "class_pred", "active": "active_pred"},
    {"class_pred": ("low", "high")},
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    number = np.where(rng.random(200) < 0.1, np.nan, rng.integers(-6, 3, 200))
    return pd.DataFrame(
        {
            "logS_pred": number,
            "similarity": rng.random(200).astype(np.float32),
            "class_pred": rng.choice(np.array(["low", "high", ""], dtype=object), 200),
            "in_domain": rng.random(200) < 0.5,
            "id": np.array([f"Z{row % 5}" for row in range(200)], dtype=object),
            "price": np.where(np.arange(200) % 9 == 0, np.nan, np.arange(200) % 7),
            "log P": rng.integers(0, 3, 200).astype(float),
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        "logS_pred > -4 and similarity > 0.3",
        "logS_pred > -4 or similarity > 0.3 and not class_pred == 'low'",
        "(logS_pred > -4 or similarity > 0.3) and not (class_pred == 'low')",
        "logS_pred != -2",
        "-4 <= logS_pred < -1",
        "-1 > logS_pred >= -4 and 0.1 < similarity < 0.9",
        "in_domain == False",
        "class_pred != 'low' and id == \"Z3\"",
        "price < 3 and price != 1",
        "`log P` == 1 and price > +2",
        "similarity < price",
        "(logS_pred > -4) & (similarity + price / 10 > 0.3)",
    ],
)
def test_a_condition_chooses_the_rows_that_pandas_chooses(table, text):
    chosen = Filter(text, COLUMNS)(table)
    expected = table.astype({"similarity": float}).query(text)
    assert table.index[chosen].tolist() == expected.index.tolist()
    assert len(expected) not in (0, len(table))


@pytest.mark.parametrize("sign", ["\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"])
def test_names_that_python_normalises_are_found(sign):
    name = "IC50_\N{MICRO SIGN}M"
    columns = FilterColumns(
        {f"{name}_pred": "number", f"{name}_low": "number"}, {name: f"{name}_pred"}
    )
    table = pd.DataFrame({f"{name}_pred": [4.0, 6], f"{name}_low": [1.0, 0]})
    assert Filter(f"IC50_{sign}M > 5", columns)(table).tolist() == [False, True]
    assert Filter(f"0 < IC50_{sign}M_low", columns)(table).tolist() == [True, False]
    assert Filter(f"`{name}` > 5", columns)(table).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("logX > -4", "there is no column 'logX'. Did you mean 'logS'?"),
        ("logS = -4", "cannot be read"),
        ("logS > 'a'", "compares a number with a text"),
        ("class_pred == 'hig'", "'class_pred' has no class 'hig'. Did you mean 'high'?"),
        ("0 != `active_pred`", "'active_pred' is a probability, which hardly"),
        ("__import__('os').system('x')", "there is no column '__import__'"),
        ("logS.to_csv('x.csv')", "may not call functions"),
    ],
)
def test_anything_else_is_refused(text, message):
    with pytest.raises(ConfigError) as caught:
        Filter(text, COLUMNS)
    assert message in str(caught.value)


def test_a_name_with_two_meanings_is_refused():
    columns = FilterColumns({"logS": "cell", "logS_pred": "number"}, {"logS": "logS_pred"})
    with pytest.raises(ConfigError, match="a column of the input and a target: write 'logS_pred'"):
        Filter("logS > -4", columns)

"""Splits by time: what is a time, where the splits meet, and that ties stay together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.datasets.splitters import read_times, split_by_time


def order_of(cells):
    times, odd = read_times(cells)
    assert len(odd) == 0
    return np.argsort(times, kind="stable").tolist()


def test_dates_of_every_length_are_ordered():
    """A year or a month stands for its first moment."""
    cells = [
        "2021-05-03",
        "2021",
        " 2021-05 ",
        "2021-05-03T14:30:00Z",
        "2020-12-31",
        "2021-05-03T16:00:00+02:00",  # 14:00 UTC
        "1850-01-01",
        "2021-05-03 14:15",
    ]
    assert order_of(cells) == [6, 4, 1, 2, 0, 5, 7, 3]


def test_numbers_are_ordered_as_numbers():
    assert order_of(["10", "9", "-2.5", "1e3", "20210503"]) == [2, 1, 0, 3, 4]
    assert order_of(["05.2021", "17.5"]) == [0, 1]
    assert order_of(["20201231", "20200131"]) == [1, 0]
    assert order_of(["1125", "930", "1250"]) == [1, 0, 2]
    assert order_of(["1.25", "2.50", "10.50"]) == [0, 1, 2]
    assert order_of(["1.190", "2.201", "3.203", "0.5"]) == [3, 0, 1, 2]


@pytest.mark.parametrize(
    ("cells", "time_format"),
    [
        (["03/05/2021", "12/01/2020", "04/05/2021"], "%d/%m/%Y"),
        (["5-Mar-21", "01-Jan-20", "6-Mar-21"], "%d-%b-%y"),
        (["052021", "122020", "062021"], "%m%Y"),
        (["44319", "9000", "52015"], "number"),
    ],
)
def test_times_of_a_declared_format(cells, time_format):
    times, odd = read_times([*cells, "", "x"], time_format)
    assert np.argsort(times[:3]).tolist() == [1, 0, 2]
    assert np.isnan(times[3:]).all()
    assert odd.tolist() == [4]


def test_empty_cells_have_no_time():
    for cells in (["2021-05-03", "", " ", "n/a", "NA"], ["7", "", "NaN", "null", "na"]):
        times, odd = read_times(cells)
        assert [math.isnan(time) for time in times] == [False, True, True, True, True]
        assert len(odd) == 0
    assert np.isnan(read_times(["", ""])[0]).all()


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (["2021-05-03", "03/05/2021", "May 2021"], [1, 2]),
        (["1", "2", "three"], [2, 0, 1]),  # the word is the reason, so it comes first
        (["2021-02-30", "2021-02-28"], [0]),
        (["5", "inf"], [1, 0]),
        (["05.2021", "", "11.2020"], [0, 2]),
        (["03052021", "31122020"], [0, 1]),
        (["202105", "201912"], [0, 1]),
        (["2021.10", "2021.02"], [0, 1]),
        (["01.19", "", "11.20"], [0, 2]),
        (["050319", "171120", "230419"], [0, 1, 2]),
        (["2021.2", "", "2021.10"], [0, 2]),  # October is not before February
        (["072019", "52015", "122013"], [0, 1, 2]),
        (["2019", "20150510"], [0, 1]),
        (["202105", "20210503"], [0, 1]),
        (["2021111", "2021112"], [0, 1]),  # 1 November or 11 January
        (["010721", "010520", "011220"], [0, 1, 2]),  # always the first day of a month
        (["201231", "200131", "200213"], [0, 1, 2]),  # days may come first
    ],
)
def test_other_cells_are_not_times(cells, odd):
    assert read_times(cells)[1].tolist() == odd


@given(
    times=st.lists(st.one_of(st.integers(0, 12), st.just(math.nan)), max_size=40),
    shares=st.sampled_from([(0.8, 0.1), (0.5, 0.25), (0.2, 0.3)]),
)
def test_a_split_equals_one_row_after_the_other(times, shares):
    """The oldest first; a molecule of the same time as the one before stays with it."""
    known = sorted((time, i) for i, time in enumerate(times) if not math.isnan(time))
    num_train, num_val = (int(share * len(known)) for share in shares)
    expected = [[], [], []]
    part = 0
    for place, (time, i) in enumerate(known):
        if place and time != known[place - 1][0]:
            part = (place >= num_train) + (place >= num_train + num_val)
        expected[part].append(i)
    found = split_by_time(np.array(times, dtype=float), num_train, num_val)
    assert [part.tolist() for part in found] == expected

"""Damaged or invalid JSON files are refused."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from molsepnorm.errors import ModelError
from molsepnorm.files.reading import check_types, read_json


@dataclass
class Point:
    x: int
    y: float
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must be 0 or more")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.json is damaged: Expecting value"),
        (b"\xff", "a.json is damaged: .*utf-8"),
        (b"[" * 200_000, "a.json is damaged: its brackets are nested too deeply"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        read_json(tmp_path / "a.json")


def test_values_of_the_right_types_are_converted():
    assert check_types(Point, {"x": 1, "y": 2, "names": ["a"]}, "p") == Point(1, 2.0, ("a",))
    assert check_types(dict[str, float | None], {"a": None, "b": 1}, "p") == {"a": None, "b": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": True, "y": 2}, "p: x: .*valid integer"),
        ({"x": 1, "y": 2, "names": [3]}, r"p: names\.0: .*valid string"),
        ({"x": -1, "y": 2}, "p: x must be 0 or more"),
    ],
)
def test_the_message_names_the_entry(content, message):
    with pytest.raises(ModelError, match=f"^{message}"):
        check_types(Point, content, "p")

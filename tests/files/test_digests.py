"""Digests detect any changed bit."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from molsepnorm.files.digests import (
    BLANK,
    KEY,
    check_sealed,
    json_digest,
    short_digest,
    write_sealed,
)


def _sealed(path, **metadata: str) -> str:
    """Write a file and return its digest."""
    arrays = {"a": np.arange(300_000, dtype=np.float32), "b": np.zeros(0)}
    write_sealed(path, [save(arrays, metadata={**metadata, KEY: BLANK})])
    digest = check_sealed(path)
    assert digest is not None
    return digest


def test_the_digest_is_that_of_the_file_with_a_blank(tmp_path):
    """The safetensors library reads the file."""
    digest = _sealed(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    assert content.count(digest.encode()) == 1
    assert hashlib.sha256(content.replace(digest.encode(), BLANK.encode())).hexdigest() == digest
    assert load_file(tmp_path / "a")["a"][-1] == 299_999


def test_other_metadata_that_resemble_a_digest_are_ignored(tmp_path):
    fake = f'"{KEY}": "{"1" * 64}"'
    assert _sealed(tmp_path / "a", aaa=fake, zzz=fake) != "1" * 64


@pytest.mark.parametrize("content", [save({"a": np.arange(3)}), b""])
def test_a_file_without_a_digest_is_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match="it holds no digest"):
        check_sealed(tmp_path / "a")


def test_a_short_digest_depends_on_contents_not_names(tmp_path):
    """And on the order and the boundaries of the parts."""
    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    one.write_bytes(b"abc" * 700_000)  # more than is read at once
    same.write_bytes(b"abc" * 700_000)
    other.write_bytes(b"abc" * 699_999 + b"abd")
    assert short_digest(one) == short_digest(same)
    parts = [(one,), (other,), (one, "x"), ("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ()]
    assert len({short_digest(*each) for each in parts}) == len(parts)
    assert json_digest({"a": 1, "b": [1.5]}) == json_digest({"b": [1.5], "a": 1})
    assert json_digest({"a": "1"}) != json_digest({"a": 1})

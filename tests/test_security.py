"""Nothing in the package runs code from a file, opens a shell or writes a page without a policy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
import yaml

from molsepnorm.errors import ConfigError
from molsepnorm.training.recipes import _Loader, load_config
from structure import FILES, ROOT

DANGERS = re.compile(
    r"import (cPickle|cloudpickle|dill|joblib|marshal|pickle|pty|shelve)\b.*"
    r"|__import__|compile|eval|exec|builtins\..*|pickle\.(loads?|dumps?|Unpickler)|.*\.(read|to)_pickle"
    r"|os\.(system|popen|exec.*|spawn.*)|tempfile\.mktemp|ssl\._create_unverified_context"
    r"|torch\.(load|jit\.load|package\..*)|np\.load|yaml\.(load|full_load|unsafe_load).*"
    r"|(shell|allow_pickle)=(?!False).*|verify=False"
)
"""Imports, calls and their keywords that may run code from a file or the network."""
KNOWN = {
    # its reader calls no function that a file names: see tests/data/datasets/test_zinc.py
    "data/datasets/zinc.py": ["import pickle"],
    # its loader makes plain values only, see below
    "training/recipes.py": ["yaml.load"],
    # errors are copied to find out if a process can send them; no file is read
    "workers.py": ["import pickle", "pickle.dumps", "pickle.loads"],
}
"""Findings that are safe."""


def _names(text: str) -> Iterator[str]:
    """Yield every import, call and keyword of a source text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"import {each.name}" for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"import {node.module}"
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.keyword):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_file_runs_code_from_a_file(path):
    found = sorted(filter(DANGERS.fullmatch, _names(path.read_text(encoding="utf-8"))))
    assert found == KNOWN.get(path.relative_to(ROOT).as_posix(), [])


def test_a_configuration_makes_plain_values_only(tmp_path):
    """`_Loader` refuses every tag that names a Python object."""
    assert issubclass(_Loader, yaml.SafeLoader)
    marker = tmp_path / "marker"
    path = tmp_path / "config.yaml"
    path.write_text(f"data: !!python/object/apply:os.mkdir ['{marker}']\n")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load_config(config=path)
    assert not marker.exists()


def test_every_page_has_the_frame_with_the_policy():
    """No other file has a whole page, so that none is without a content security policy. That of
    the server is in its headers."""
    files = [*FILES, *ROOT.rglob("*.html")]
    whole = {path for path in files if "<html" in path.read_text(encoding="utf-8").lower()}
    assert whole == {ROOT / "files" / "page.html", ROOT / "serve" / "page.html"}


def test_no_source_file_has_a_script_or_loads_one():
    for path in [*FILES, *ROOT.rglob("*.html")]:
        text = path.read_text(encoding="utf-8").lower()
        if path.parent.name == "serve":  # its page loads the script of its own server
            continue
        assert "<script" not in text and "javascript:" not in text, path

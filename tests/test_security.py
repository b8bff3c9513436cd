"""Nothing in the package runs code from a file, opens a shell or writes a page without a policy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
import yaml
from structure import FILES, ROOT

from molsepnorm.errors import ConfigError
from molsepnorm.training.recipes import _Loader, load_config

_MODULES = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "pty", "shelve"}
_KNOWN = {
    # its reader calls no function that a file names: see tests/data/datasets/test_zinc.py
    "data/datasets/zinc.py": ["import pickle"],
    # errors are copied to find out if a process can send them; no file is read
    "workers.py": ["import pickle", "pickle.dumps", "pickle.loads"],
}
"""Findings that are safe."""
_BUILTINS = {"__import__", "compile", "eval", "exec"}
_CALLS = {
    *("os.system", "os.popen", "tempfile.mktemp"),
    *("torch.jit.load", "torch.package.PackageImporter"),
    *("yaml.full_load", "yaml.full_load_all", "yaml.load_all", "yaml.unsafe_load"),
    *("yaml.unsafe_load_all", "ssl._create_unverified_context"),
}
_METHODS = {"read_pickle", "to_pickle"}


def _dangers(text: str) -> Iterator[str]:
    """Yield a description of each dangerous import and call in a source text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found = {each.name.partition(".")[0] for each in node.names}
            yield from (f"import {name}" for name in found & _MODULES)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _MODULES:
            yield f"import {node.module}"
        if isinstance(node, ast.Call):
            yield from _dangers_of(ast.unparse(node.func), node)


def _dangers_of(name: str, call: ast.Call) -> Iterator[str]:
    """Yield a description of each danger of a call."""
    given = {each.arg: ast.unparse(each.value) for each in call.keywords}
    positional = [ast.unparse(each) for each in call.args]
    start, _, last = name.rpartition(".")
    if name in _BUILTINS | _CALLS or last in _METHODS or start == "builtins":
        yield name
    if start == "os" and last.startswith(("exec", "spawn")):
        yield name
    if start == "pickle" and last in {"load", "loads", "dump", "dumps", "Unpickler"}:
        yield name
    if given.get("shell", "False") != "False":
        yield f"{name} with a shell"
    if name == "np.load":
        given.setdefault("allow_pickle", *positional[2:3] or ["False"])
    if given.get("allow_pickle", "False") != "False":
        yield f"{name} with pickles"
    if given.get("verify") == "False":
        yield f"{name} without certificates"
    if name == "torch.load" and given.get("weights_only") != "True":
        yield "torch.load of any object"
    if name == "yaml.load" and given.get("Loader", *positional[1:2]) != "_Loader":
        yield "yaml.load of any object"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_file_runs_code_from_a_file(path):
    found = sorted(_dangers(path.read_text(encoding="utf-8")))
    assert found == _KNOWN.get(path.relative_to(ROOT).as_posix(), [])


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
    """No other module writes a whole page, so that none is without a content security policy."""
    whole = [path for path in FILES if "<html" in path.read_text(encoding="utf-8").lower()]
    assert whole == [ROOT / "files" / "page.py"]


def test_no_source_file_has_a_script_or_loads_one():
    for path in FILES:
        text = path.read_text(encoding="utf-8").lower()
        assert "<script" not in text and "javascript:" not in text, path

"""Break the package on purpose, one line at a time, and print whether the tests notice.

    python benchmarks/mutations.py               every mutation
    python benchmarks/mutations.py schedule ema  mutations whose description has one of these words
    python benchmarks/mutations.py --docs        write the table of docs/correctness.md

mutations.yaml lists the mutations. Each one replaces a text that must occur exactly once in its
file, in a copy of the checkout, and runs a few tests there. The tests first run on the unchanged
copy, where all must pass. A mutation is *caught* if a test fails and *survived* if all pass; an
*error* is a text that is not found, or tests that could not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

CHECKOUT = Path(__file__).parents[1]
COPIED = ("molsepnorm", "tests", "configs", "data", "pyproject.toml", "README.md")
DOCS = CHECKOUT / "docs" / "correctness.md"
HEAD = "| what is broken | in | test that fails | outcome |\n| --- | --- | --- | --- |"


class Mutation(NamedTuple):
    """One line to break."""

    what: str
    """Description for readers."""
    file: str
    """Path within the package."""
    old: str
    new: str
    tests: list[str]
    """At least one of these tests must fail."""

    def row(self, outcome: str = "caught") -> str:
        """Return the line of the table."""
        names = ", ".join(f"`{test}`" for test in self.tests)
        return f"| {self.what} | `{self.file}` | {names} | {outcome} |"


MUTATIONS = [
    Mutation(**entry)
    for entry in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
]


def main(words: list[str]) -> int:
    if words == ["--docs"]:
        before = DOCS.read_text(encoding="utf-8").partition(HEAD)[0]
        table = "\n".join([HEAD, *(mutation.row() for mutation in MUTATIONS)])
        DOCS.write_text(f"{before}{table}\n", encoding="utf-8")
        return 0
    chosen = [m for m in MUTATIONS if not words or any(w in m.what for w in words)]
    if not chosen:
        print(f"no description of a mutation contains {' or '.join(words)}")
        return 2
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="molsepnorm-mutations-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source, ignore = CHECKOUT / name, shutil.ignore_patterns("__pycache__")
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=ignore)
            else:
                shutil.copy(source, copy / name)
        # nothing compiled is kept: a file restored within the same second would look unchanged
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        _require_copy(copy, environment)
        every = sorted({test for mutation in chosen for test in mutation.tests})
        if (code := _run(copy, every, environment)) != 0:
            print(f"the tests do not pass on the unchanged package (pytest: {code})")
            return 2
        outcomes = [_mutate(copy, mutation, environment) for mutation in chosen]
    print(HEAD)
    print("\n".join(m.row(outcome) for m, outcome in zip(chosen, outcomes, strict=True)))
    counts = {kind: outcomes.count(kind) for kind in sorted({*outcomes, "caught"})}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"\n{len(outcomes)} mutations: {summary} ({time.perf_counter() - begun:.0f} s)")
    return 0 if counts["caught"] == len(outcomes) else 1


def _mutate(copy: Path, mutation: Mutation, environment: dict[str, str]) -> str:
    """Break the copy, run the tests, restore it."""
    path = copy / "molsepnorm" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"error: its text occurs {text.count(mutation.old)} times"
    broken = text.replace(mutation.old, mutation.new)
    if "torch." in mutation.new and "import torch\n" not in broken:
        broken = broken.replace("\nfrom torch", "\nimport torch\nfrom torch", 1)
    try:
        path.write_text(broken, encoding="utf-8")
        code = _run(copy, mutation.tests, environment)
    finally:
        path.write_text(text, encoding="utf-8")
    outcome = {0: "survived", 1: "caught"}.get(code, f"error: pytest ended with {code}")
    print(f"{outcome:10}{mutation.what}", file=sys.stderr)
    return outcome


def _run(copy: Path, tests: list[str], environment: dict[str, str]) -> int:
    """Return pytest's exit code: 0 all passed, 1 a test failed, others mean that none ran."""
    command = [sys.executable, "-m", "pytest", "-x", "--no-header", "--tb=no", *tests]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if done.returncode == 0 and " passed" not in done.stdout:
        return 5  # all tests were skipped
    return done.returncode


def _require_copy(copy: Path, environment: dict[str, str]) -> None:
    """Check that Python imports the copy, not a checkout that is installed in editable mode."""
    command = [sys.executable, "-c", "import molsepnorm; print(molsepnorm.__file__)"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=True)
    if Path(os.fsdecode(done.stdout).strip()).parent.resolve() != (copy / "molsepnorm").resolve():
        raise SystemExit(f"{os.fsdecode(done.stdout)} is imported, not the copy in {copy}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

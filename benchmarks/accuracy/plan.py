"""The plan: which runs are to be made, in order.

::

    defaults: {budget: 4m, seeds: [0]}          # of every entry that does not say otherwise
    runs:
      - name: ema-0.9999
        why: the average of 0.999 forgets within an epoch
        set: {optim.ema: 0.9999}
      - name: base
        seeds: [0, 1, 2]
        config: configs/zinc.yaml
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accuracy.log import Logged

__all__ = ["PLAN", "Entry", "read_plan"]

PLAN = Path(__file__).with_name("plan.yaml")

_OPTIONS = ("dataset", "config", "preset", "budget", "epochs", "threads", "why")
_KEYS = ("name", "set", "seeds", "tries", *_OPTIONS)


@dataclass(frozen=True)
class Entry:
    """One run to be made."""

    name: str
    seed: int
    arguments: tuple[str, ...]
    """Of run.py, after the name."""
    tries: int = 1
    """It is given up once it failed so often."""

    @property
    def told(self) -> str:
        return f"{self.name} seed {self.seed}"

    def done(self, log: Sequence[Logged]) -> bool:
        """Whether the log has it, or it failed as often as it may."""
        mine = [run for run in log if (run.name, run.seed) == (self.name, self.seed)]
        return any(run.error is None for run in mine) or len(mine) >= self.tries


def read_plan(path: Path = PLAN) -> list[Entry]:
    """The runs in order: all seeds of the first entry, then those of the next.

    Raises:
        ValueError: it is not a plan.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as a plan: {error}") from None
    if isinstance(content, list):
        content = {"runs": content}
    content = content if isinstance(content, dict) else {"": content}
    runs, defaults = content.get("runs") or [], content.get("defaults") or {}
    whole = isinstance(runs, list) and isinstance(defaults, dict)
    if not whole or not set(content) <= {"runs", "defaults"}:
        raise ValueError(f"{path} must be a list of runs, or have 'defaults' and 'runs'")
    entries = []
    for number, given in enumerate(runs, start=1):
        where = f"{path}, run {number}"
        name = given.get("name") if isinstance(given, dict) else None
        if not re.fullmatch(r"\w[\w.=+-]*", str(name or "")):
            raise ValueError(f"{where} must have a name such as slower-ema; got {name!r}")
        entries += _entries({**defaults, **given}, defaults.get("set") or {}, where)
    wanted: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        if entry != wanted.setdefault((entry.name, entry.seed), entry):
            raise ValueError(f"{path} has {entry.told} twice, with different settings")
    return list(wanted.values())


def _entries(given: dict[str, Any], shared: dict[str, Any], where: str) -> list[Entry]:
    """One for each seed."""
    where = f"{where} ({given['name']})"
    if unknown := [key for key in given if key not in _KEYS]:
        raise ValueError(f"{where}: unknown key '{unknown[0]}'. Known: {', '.join(_KEYS)}")
    own, seeds, tries = given.get("set") or {}, given.get("seeds", [0]), given.get("tries", 1)
    if not isinstance(own, dict) or not isinstance(shared, dict):
        raise ValueError(f"{where}: set must look like {{optim.lr: 0.001}}")
    if not isinstance(seeds, list) or not all(isinstance(n, int) for n in [*seeds, tries]):
        raise ValueError(f"{where}: seeds must look like [0, 1], and tries like 2")
    arguments = []
    for name, value in {**shared, **own}.items():
        arguments += ["--set", f"{name}={json.dumps(value)}"]
    for key in _OPTIONS:
        if given.get(key) is not None:
            arguments += [f"--{key}", str(given[key])]
    return [
        Entry(str(given["name"]), seed, ("--seed", str(seed), *arguments), tries) for seed in seeds
    ]

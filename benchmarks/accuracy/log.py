"""The log: a line of JSON for each run, appended when the run ends and never changed."""

from __future__ import annotations

import fcntl
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["LOG", "Curve", "Logged", "append", "read", "short"]

LOG = Path(__file__).with_name("log.jsonl")

_POINTS = 300  # of a curve, at most: some 10 kB
_TEXT = 2000  # characters of an error, at most


@dataclass(frozen=True)
class Curve:
    """A run's validations; of very many, evenly chosen ones and always the best and the last."""

    epoch: list[int]
    """Finished by then."""
    seconds: list[float]
    """Since the run began, with loading the data, measuring the speed and validations."""
    train_loss: list[float | None]
    """Mean since the validation before, in the units of the loss; None where it is not a number."""
    val: list[float | None]
    """The metric on the validation split."""

    def thinned(self, best: int | None, most: int = _POINTS) -> Curve:
        """The same in at most so many points, the one of the epoch `best` among them."""
        count = len(self.epoch)
        every = math.ceil(count / max(most - 2, 1)) or 1
        kept = [
            place
            for place in range(count)
            if place % every == 0 or place == count - 1 or self.epoch[place] == best
        ]
        return Curve(**{name: [values[i] for i in kept] for name, values in asdict(self).items()})


@dataclass(frozen=True)
class Logged:
    """A run that ended, well or not."""

    name: str
    """Of what was tried; runs of one name differ in their seeds alone."""
    seed: int
    why: str
    """What it was to show."""
    date: str
    """When it began, in UTC."""
    commit: str
    changed_tree: bool
    """Whether the package or the recipes differed from that commit."""
    code: str
    """A hash of the package's source: two runs of one hash ran the same code."""
    machine: str
    threads: int
    torch: str
    dataset: str
    changed: dict[str, Any]
    """Settings that are not those of the data set's recipe, by their dotted names; no seed."""
    config: dict[str, Any]
    """The whole configuration as it was asked for."""
    parameters: int | None
    """None where the run failed before the network was made; so the figures below."""
    metric: str | None
    """By which the best epoch is chosen; `val` and `test` are in its units."""
    planned: int | None
    """Epochs that the schedule was made for."""
    epochs: int
    """Epochs that were finished."""
    graphs_per_second: float | None
    """In training, validations aside."""
    seconds: float
    """Of the whole run, from loading the data to the score on test."""
    curve: Curve
    val: float | None
    """The best validation."""
    best_epoch: int | None
    test: float | None
    """Of the best epoch's model; looked at once, and only by a run that came to its end."""
    test_interval_95: list[float | None] | None
    """Bootstrap over the test molecules."""
    error: str | None
    """Why it did not come to its end; None where it did."""


def short(value: float | None, digits: int = 5) -> float | None:
    """To so many significant digits; None for what is not finite.

    >>> short(0.123456789), short(1234.56, 3), short(float("nan"))
    (0.12346, 1230.0, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def append(run: Logged, path: Path = LOG) -> None:
    """Add a line; several processes may do so at once."""
    content = asdict(run)
    content["curve"] = asdict(run.curve.thinned(run.best_epoch))
    if run.error is not None and len(run.error) > _TEXT:
        content["error"] = f"{run.error[: _TEXT // 2]} … {run.error[-_TEXT // 2 :]}"
    line = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        end = file.seek(0, os.SEEK_END)
        if end:  # a line that a full disk cut off ends here
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path = LOG) -> list[Logged]:
    """All runs in the order in which they ended; none where there is no log.

    Raises:
        ValueError: a line is not one of the log.
    """
    if not path.exists():
        return []
    runs = []
    with open(path, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # no half-written line
        for number, line in enumerate(file, start=1):
            try:
                content = json.loads(line)
                runs.append(Logged(**{**content, "curve": Curve(**content["curve"])}))
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}, line {number} is no run of this log ({error}): mend or remove it"
                ) from None
    return runs

"""Print the log as a Markdown table with a row for each name.

    python benchmarks/accuracy/table.py                          # every name, in the log's order
    python benchmarks/accuracy/table.py base ema-0.9999          # these, in this order
    python benchmarks/accuracy/table.py --prefix ema- --against base

Scores are mean ± unbiased standard deviation (number of seeds) over finished runs; epochs, speed
and time are means. --against shows the settings that differ from that name's, and adds the mean
difference of the validation scores over common seeds, with its 95 % interval (paired t) for two or
more seeds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402
from table import difference, line, mean_sd  # noqa: E402

from accuracy.log import LOG, Logged, read  # noqa: E402

__all__ = ["Variant", "differing", "markdown", "selected", "variants"]

_HEAD = (
    *("name", "what changed", "validation", "test"),
    *("parameters", "epochs", "graphs/s", "minutes"),
)
_ERROR = 60  # characters of an error that are shown


@dataclass(frozen=True)
class Variant:
    """The runs of one name."""

    name: str
    runs: list[Logged]
    """One for each seed: the last one that finished, or else the last one."""

    @property
    def finished(self) -> list[Logged]:
        return [run for run in self.runs if run.error is None]

    @property
    def shown(self) -> Logged:
        """The run whose settings and figures represent all."""
        return [*self.runs, *self.finished][-1]

    @property
    def scored_on(self) -> tuple[str, str | None]:
        """Data set and metric, within which scores are comparable."""
        return self.shown.dataset, self.shown.metric

    def values(self, name: str) -> dict[int, float]:
        """Return a figure of the finished runs that have it, by seed."""
        values = {run.seed: getattr(run, name) for run in self.finished}
        return {seed: value for seed, value in values.items() if value is not None}

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure; None if no run has it."""
        values = self.values(name).values()
        return statistics.fmean(values) if values else None


def variants(log: Sequence[Logged]) -> list[Variant]:
    """Group runs by name, in the order in which the names first occur."""
    by_name: dict[str, dict[int, Logged]] = {}
    for run in log:
        seeds = by_name.setdefault(run.name, {})
        if run.error is None or run.seed not in seeds or seeds[run.seed].error is not None:
            seeds[run.seed] = run
    return [Variant(name, list(seeds.values())) for name, seeds in by_name.items()]


def differing(run: Logged, other: Logged | None) -> dict[str, Any]:
    """Return the settings of a run that differ from another's, or by default from the recipe's.

    A setting that only one of the two versions had counts if it differed from the recipe's.
    """
    if other is None:
        return dict(run.changed)
    mine, theirs = _flat(run.config), _flat(other.config)
    found = {
        name: value
        for name, value in mine.items()
        if (theirs[name] != value if name in theirs else name in run.changed)
    }
    unknown = {name: "default" for name in other.changed if name in theirs and name not in mine}
    return {**found, **unknown}


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, settings in config.items()
        for key, value in settings.items()
    }


def selected(rows: Sequence[Variant], names: Sequence[str] = (), prefix: str = "") -> list[Variant]:
    """Return the rows of these names, by default all, whose names begin with the prefix.

    Raises:
        ValueError: there is no run of a name.
    """
    known = {row.name: row for row in rows}
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"no run is named '{missing[0]}'. Known: {', '.join(known)}")
    some = [known[name] for name in names] if names else list(rows)
    return [row for row in some if row.name.startswith(prefix)]


def markdown(rows: Sequence[Variant], against: Variant | None = None) -> str:
    """Return a table for each data set and metric."""
    parts: dict[tuple[str, str | None], list[Variant]] = {}
    for row in rows:
        parts.setdefault(row.scored_on, []).append(row)
    text = []
    for (dataset, metric), some in parts.items():
        base = against if against and against.scored_on == (dataset, metric) else None
        head = [*_HEAD, *([f"validation minus {base.name}'s"] if base else [])]
        lines = [line(head), line(["---"] * len(head)), *(line(_cells(row, base)) for row in some)]
        text.append("\n".join([f"{dataset}, {metric or 'no score'}:", "", *lines]))
    return "\n\n".join(text)


def _cells(row: Variant, against: Variant | None) -> list[str]:
    run, words = row.shown, {None: "null", True: "true", False: "false"}
    changed = differing(run, against.shown if against else None)
    if run.config["run"]["budget"] is not None:
        changed.pop("run.epochs", None)  # without effect
    speed, seconds, epochs = (row.mean(n) for n in ("graphs_per_second", "seconds", "epochs"))
    cells = [
        row.name,
        ", ".join(
            f"{name}={words[value] if value is None or isinstance(value, bool) else value}"
            for name, value in changed.items()
        ),
        mean_sd(row.values("val")) + _failed(row),
        mean_sd(row.values("test")),
        "" if run.parameters is None else f"{run.parameters:,}",
        "" if epochs is None else f"{epochs:,.0f}",
        "" if speed is None else f"{speed:,.0f}",
        "" if seconds is None else f"{seconds / 60:.1f}",
    ]
    if against is not None:
        both = row.values("val"), against.values("val")
        cells.append("" if row.name == against.name else difference(*both))
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]


def _failed(row: Variant) -> str:
    """Describe the runs that did not finish."""
    failed = [run for run in row.runs if run.error is not None]
    if not failed or row.finished:
        return f"; {len(failed)} failed" if failed else ""
    run, error = failed[-1], failed[-1].error or ""
    best = "" if run.val is None else f", best {run.val:.4f}"
    return f"failed after {run.epochs} epochs{best}: {error[:_ERROR]}{'…' * (len(error) > _ERROR)}"


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1)
@click.option("--prefix", default="", help="Beginning of the names to show.")
@click.option("--against", metavar="NAME", help="Name to compare the others with.")
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
def main(
    names: tuple[str, ...],
    prefix: str,
    against: str | None,
    log: Path,
) -> None:
    try:
        every = variants(read(log))
        rows = selected(every, names, prefix)
        base = selected(every, [against])[0] if against else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not rows:
        raise click.UsageError(f"{log} has no run of a name that begins with '{prefix}'")
    click.echo(markdown(rows, base))


if __name__ == "__main__":
    main()

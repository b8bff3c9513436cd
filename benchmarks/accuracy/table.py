"""Prints the log as a Markdown table, a row for each name, and draws the validation curves.

    python benchmarks/accuracy/table.py                          # every name, in the log's order
    python benchmarks/accuracy/table.py base ema-0.9999          # these, in this order
    python benchmarks/accuracy/table.py --prefix ema- --against base --sort val
    python benchmarks/accuracy/table.py --prefix ema- --plot ema.png

Scores are mean ± unbiased standard deviation (number of seeds), over runs that came to their end;
so are epochs, speed and time. With --against the settings told are those that differ from that
name's, and the last column has the mean difference of validation over common seeds, with its 95 %
interval (paired t) where there are two or more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402

from accuracy.log import LOG, read  # noqa: E402
from accuracy.summary import Spread, Tried, differing, higher_is_better, tried  # noqa: E402
from molsepnorm.training.ablation import Difference  # noqa: E402

__all__ = ["chosen", "markdown"]

_HEAD = (
    *("name", "what changed", "validation", "test"),
    *("parameters", "epochs", "graphs/s", "minutes"),
)
_ERROR = 60  # characters shown of one


def markdown(rows: Sequence[Tried], against: Tried | None = None) -> str:
    """A table for each data set and metric."""
    parts: dict[tuple[str, str | None], list[Tried]] = {}
    for row in rows:
        parts.setdefault(row.scored_on, []).append(row)
    text = []
    for (dataset, metric), some in parts.items():
        base = against if against and against.scored_on == (dataset, metric) else None
        head = [*_HEAD, *([f"validation, less {base.name}'s"] if base else [])]
        lines = [_line(head), _line(["---"] * len(head))]
        lines += [_line(_cells(row, base)) for row in some]
        text.append("\n".join([f"{dataset}, {metric or 'no score'}:", "", *lines]))
    return "\n\n".join(text)


def chosen(
    rows: Sequence[Tried], names: Sequence[str] = (), prefix: str = "", sort: str = "given"
) -> list[Tried]:
    """Rows by their names, in that order, or by the beginning of their names.

    Args:
        rows: all.
        names: none for every one.
        prefix: of the names.
        sort: `given`, or by `val` or `test`, the best first and what has no score last.

    Raises:
        ValueError: there is no run of a name.
    """
    known = {row.name: row for row in rows}
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"no run is named '{missing[0]}'. Known: {', '.join(known)}")
    some = [known[name] for name in names] if names else list(rows)
    some = [row for row in some if row.name.startswith(prefix)]
    return some if sort == "given" else sorted(some, key=lambda row: _rank(row, sort))


def _rank(row: Tried, split: Any) -> tuple[bool, float]:
    spread = row.spread(split)
    if spread is None:
        return True, 0.0
    return False, -spread.mean if higher_is_better(row.shown.metric) else spread.mean


def _cells(row: Tried, against: Tried | None) -> list[str]:
    run, parameters = row.shown, row.shown.parameters
    changed = differing(run, against.shown if against else None)
    if run.config["run"]["budget"] is not None:
        changed.pop("run.epochs", None)  # without effect
    told = ", ".join(f"{name}={_value(value)}" for name, value in changed.items())
    speed, seconds = row.mean("graphs_per_second"), row.mean("seconds")
    epochs = row.mean("epochs")
    cells = [
        row.name,
        told,
        _spread(row.spread("val")) + _failed(row),
        _spread(row.spread("test")),
        "" if parameters is None else f"{parameters:,}",
        "" if epochs is None else f"{epochs:,.0f}",
        "" if speed is None else f"{speed:,.0f}",
        "" if seconds is None else f"{seconds / 60:.1f}",
    ]
    if against is not None:
        cells.append(_difference(None if row.name == against.name else row.less(against, "val")))
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _value(value: object) -> str:
    """As `--set` takes it, but for a list."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    if spread.sd is None:
        return f"{spread.mean:.4f}"
    return f"{spread.mean:.4f} ± {spread.sd:.4f} ({spread.count})"


def _failed(row: Tried) -> str:
    """What is to be said of runs that did not come to their end."""
    failed = [run for run in row.runs if run.error is not None]
    if not failed:
        return ""
    if row.finished:
        return f"; {len(failed)} failed"
    run = failed[-1]
    error = run.error or ""
    reached = "" if run.val is None else f", best {run.val:.4f}"
    return (
        f"failed after {run.epochs} epochs{reached}: {error[:_ERROR]}{'…' * (len(error) > _ERROR)}"
    )


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return ""
    if difference.interval is None:
        return f"{difference.mean:+.4f}"
    low, high = difference.interval
    return f"{difference.mean:+.4f} ({low:+.4f} to {high:+.4f})"


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1)
@click.option("--prefix", default="", help="Names that begin so.")
@click.option("--against", metavar="NAME", help="What the others are compared with.")
@click.option("--sort", type=click.Choice(["given", "val", "test"]), default="given")
@click.option("--plot", "picture", type=click.Path(path_type=Path), metavar="FILE.png")
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
def main(
    names: tuple[str, ...],
    prefix: str,
    against: str | None,
    sort: str,
    picture: Path | None,
    log: Path,
) -> None:
    try:
        every = tried(read(log))
        rows = chosen(every, names, prefix, sort)
        base = chosen(every, [against])[0] if against else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not rows:
        raise click.UsageError(f"{log} has no run of a name that begins with '{prefix}'")
    click.echo(markdown(rows, base))
    if picture is not None:
        from accuracy.curves import draw

        try:
            draw(rows, picture)
        except ImportError:
            raise click.UsageError("--plot needs matplotlib: pip install matplotlib") from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()

"""Adds finished runs of an ablation or a series to the log, or any run's folder.

    python benchmarks/accuracy/add.py runs/zinc-ablation --prefix norms- --why "which norm"

Names are the folders above the seeds (norms-shared, norms-sep), or the run's own. Run it in the
checkout that trained them: commit and hash of the source are that checkout's.
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402
from where import machine  # noqa: E402

from accuracy.log import LOG, Curve, Logged, append, read, short  # noqa: E402
from accuracy.trial import described, interval, source  # noqa: E402
from molsepnorm.training import load_config  # noqa: E402
from molsepnorm.training.folder import RunFolder  # noqa: E402


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--prefix", default="", help="Of the names.")
@click.option("--why", default="", help="What the runs are to show.")
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
def main(folders: tuple[Path, ...], prefix: str, why: str, log: Path) -> None:
    there = {(run.name, run.seed) for run in read(log)}
    for metrics in sorted(path for folder in folders for path in folder.rglob("metrics.json")):
        run = logged(metrics.parent, prefix, why)
        if (run.name, run.seed) in there:
            click.echo(f"{run.name} seed {run.seed} is in the log already")
            continue
        append(run, log)
        click.echo(f"{run.name} seed {run.seed}: val {run.val}, test {run.test}")


def logged(folder: Path, prefix: str, why: str) -> Logged:
    """A finished run's folder as a line of the log."""
    run = RunFolder(folder)
    config = load_config(config=run.config)
    metrics, environment = _json(run.metrics), _json(run.environment)
    metric = metrics["chosen_by"]
    with open(run.history, newline="") as file:
        epochs = list(csv.DictReader(file))
    scores = [short(float(epoch[f"val_{metric}"])) for epoch in epochs]
    trained = [float(epoch["seconds"]) for epoch in epochs]
    graphs = sum(
        float(epoch["graphs_per_second"]) * seconds
        for epoch, seconds in zip(epochs, trained, strict=True)
    )
    is_one_of_several = folder.name.startswith("seed-")
    begun = datetime.fromtimestamp(run.config.stat().st_mtime, timezone.utc)
    return Logged(
        name=prefix + (folder.parent.name if is_one_of_several else folder.name),
        seed=metrics["seed"],
        why=why,
        date=begun.isoformat(" ", "minutes").removesuffix("+00:00"),
        **source(),
        machine=machine(),
        threads=environment["threads"],
        torch=environment["packages"]["torch"],
        **described(config),
        parameters=metrics["parameters"],
        metric=metric,
        planned=metrics["epochs"],
        epochs=int(epochs[-1]["epoch"]),
        graphs_per_second=short(graphs / sum(trained)),
        seconds=metrics["seconds"],
        curve=Curve(
            epoch=[int(epoch["epoch"]) for epoch in epochs],
            seconds=_running_sums(trained),
            train_loss=[short(float(epoch["train_loss"])) for epoch in epochs],
            val=scores,
        ),
        val=short(metrics["val"][metric]),
        best_epoch=metrics["best_epoch"],
        test=short(metrics["test"][metric]),
        test_interval_95=interval(metrics, metric),
        error=None,
    )


def _running_sums(seconds: list[float]) -> list[float]:
    """Of training alone: a folder does not tell how long the rest took."""
    total, sums = 0.0, []
    for each in seconds:
        total += each
        sums.append(round(total, 3))
    return sums


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

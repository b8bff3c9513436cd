"""Trains once and adds a line to the log, whatever comes of it.

    python benchmarks/accuracy/run.py slim-ema --set optim.ema=0.9999 --budget 4m --why "slower EMA"

Takes the options of `molsepnorm train`; without a data set it is ZINC's subset. A configuration
that cannot be had is not logged (exit status 2), a run that fails is (exit status 1). Ctrl-C leaves
no line; SIGTERM ends the run after its step and logs what it had reached.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402

from accuracy.log import LOG, append  # noqa: E402
from molsepnorm.cli.options import (  # noqa: E402
    configuration,
    recipe_options,
    setting_options,
)


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("name")
@setting_options("data.dataset", "data.table", "data.data_dir")
@recipe_options
@setting_options("model", "optim", "run", without=["run.seed"])
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--why", default="", help="What the run is to show.")
@click.option("--threads", type=int, default=1, show_default=True)
@click.option("--runs", type=click.Path(path_type=Path), help="Scratch folder. [default: a cache]")
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
def main(name: str, why: str, threads: int, runs: Path | None, log: Path, **given: Any) -> None:
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is imported
        os.environ[variable] = str(threads)
    from molsepnorm.errors import MolsepnormError

    if not (given["dataset"] or given["data"] or given["config"]):
        given["dataset"] = "zinc"
    try:
        config = configuration(given)
    except MolsepnormError as error:
        raise click.UsageError(str(error)) from None

    import torch

    from accuracy.trial import trial
    from molsepnorm.data.datasets.dataset import cache_folder

    torch.set_num_threads(threads)
    asked: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("SIGTERM"))
    tell = lambda line: click.echo(line)  # noqa: E731 - flushes each line
    runs = runs or cache_folder() / "accuracy"
    run = trial(config, name, why, runs, tell=tell, stopped_by=lambda: asked[0] if asked else None)
    append(run, log)
    told = run.error or f"val {run.val} at epoch {run.best_epoch}, test {run.test}"
    click.echo(f"{name} seed {run.seed}: {told}; {run.seconds:.0f} s", err=bool(run.error))
    sys.exit(1 if run.error else 0)


if __name__ == "__main__":
    main()

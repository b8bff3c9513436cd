"""The command `python -m benchmarks.kills`; see the package."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path

import click
import torch

from benchmarks.kills.campaign import Campaign, Case
from benchmarks.kills.commands import COMMANDS, prepare
from benchmarks.kills.faults import FAULTS
from molsepnorm.training.completing import baseline


@click.command()
@click.option("--kills", type=int, default=5, help="Cases per command and fault.")
@click.option("--seed", type=int, default=0, help="Random seed of the moments.")
@click.option("--command", "names", multiple=True, type=click.Choice(list(COMMANDS)))
@click.option("--fault", "faults", multiple=True, type=click.Choice(FAULTS))
@click.option("--at", type=float, help="The moment of one case, in place of random ones.")
def main(
    kills: int, seed: int, names: tuple[str, ...], faults: tuple[str, ...], at: float | None
) -> None:
    """Disturb commands at random moments, and list what is not as if they had not been."""
    torch.set_num_threads(1)
    for module in ("cli.predict", "cli.train", "training.report", "tuning"):
        import_module(f"molsepnorm.{module}")  # a fork starts with what is imported already
    # on a slow machine the forest would have fewer trees, and the files would differ
    baseline._MIN_SECONDS = float("inf")
    chosen = {name: COMMANDS[name] for name in names or COMMANDS}
    with tempfile.TemporaryDirectory(prefix="molsepnorm-kills-") as folder:
        work = Path(folder).resolve()
        prepare(work)
        campaign = Campaign(work, chosen, seed)
        for number in range(1 if at is not None else kills):
            for name in chosen:
                for fault in faults or FAULTS:
                    moment = campaign.moment(name, fault, number) if at is None else at
                    if case := campaign.try_case(name, fault, moment):
                        _print(case)
    print(campaign.table())
    stages = Counter(f"{case.command}: {case.stage}" for case in campaign.cases)
    print("\nLast file operation before the fault:")
    print("\n".join(f"{count:5} {stage}" for stage, count in sorted(stages.items())))
    sys.exit(1 if any(case.found for case in campaign.cases) else 0)


def _print(case: Case) -> None:
    at = f"{case.at:.3f}" if case.fault == "time" else f"{case.at:.0f}"
    print(f"{case.command} --fault {case.fault} --at {at}: {case.ended} at {case.stage}")
    for each in case.found:
        print(f"    {each}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

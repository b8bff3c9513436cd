"""Train networks without labels by contrastive learning (SimCSE), one per norm and seed.

    python benchmarks/geometry/contrastive.py --seeds 0-2 -o runs/contrastive
    molsepnorm analyze --model runs/contrastive --dataset zinc -o runs/contrastive/geometry

Network, batches and schedule are those of slim.yaml, without the average of the weights. The norms
are those of `molsepnorm ablate --vary norm=...`. Each run folder is OUTPUT/NORM/seed-N; its model
is the best by validation loss; its read-out was not trained. Finished runs are not repeated.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parents[1])]  # this checkout's package

import click  # noqa: E402

from molsepnorm.cli.options import seeds_option  # noqa: E402
from molsepnorm.training import ablate, load_config  # noqa: E402


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option("--norms", default="shared,sep,sep-ln", show_default=True)
@seeds_option
@click.option("--epochs", type=int, default=20, show_default=True)
@click.option("--temperature", type=float, default=0.05, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(norms: str, seeds: list[int], epochs: int, temperature: float, output: Path) -> None:
    settings = {
        "objective.name": "pretraining",
        "objective.descriptors": 0,
        "objective.fingerprint": 0,
        "objective.contrastive": 1,
        "objective.temperature": temperature,
        "run.epochs": epochs,
        "optim.ema": None,
    }
    config = load_config(config=HERE / "slim.yaml", overrides=settings)
    ablate(config, output, {"norm": norms.split(",")}, seeds=seeds)


if __name__ == "__main__":
    main()

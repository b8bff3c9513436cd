"""`molsepnorm pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    configuration,
    option,
    output_option,
    recipe_options,
    setting_options,
)
from molsepnorm.cli.train import run_training


@click.command(cls=GroupedCommand)
@option(
    "--data",
    "files",
    heading="Data",
    type=FILE,
    multiple=True,
    help="File with SMILES: CSV, TSV, Parquet, SDF or .smi; may be repeated.",
)
@option(
    "--teacher",
    heading="Data",
    type=FILE,
    help="Parquet file, or folder of them, with embeddings of these molecules by another model, in "
    "the columns smiles and embedding.",
)
@setting_options("data.smiles_column", "data.featurizer", "data.on_invalid")
@recipe_options
@setting_options(
    "model", "optim.lr", "run", without=("run.metric", "run.baseline", "run.blend", "run.refit")
)
@output_option("Folder of the run. [default: runs/<name>-<number>]")
@option(
    "--resume",
    type=FILE,
    help="Continue the run in this folder; with a higher --epochs, train it for longer.",
)
@option("-q", "--quiet", is_flag=True, help="Print only the final scores.")
@click.pass_context
def pretrain(
    ctx: click.Context,
    files: tuple[Path, ...],
    teacher: Path | None,
    output: Path | None,
    resume: Path | None,
    quiet: bool,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """Train a model on structures without labels, as a start for `train --from`.

    The weights of the losses are settings: objective.teacher, objective.descriptors,
    objective.fingerprint and objective.contrastive.

    \b
    molsepnorm pretrain --data molecules.smi --output runs/pretrained
    molsepnorm pretrain --data molecules.smi --teacher vectors.parquet
    molsepnorm pretrain --data a.csv --data b.parquet --set objective.contrastive=1 --epochs 5
    molsepnorm pretrain --resume runs/pretrained
    molsepnorm train --data my.csv --targets logS --from runs/pretrained
    """
    config = None
    if resume is None:
        from molsepnorm.training.recipes import config_folder

        if not files:
            raise click.UsageError("name the molecules: --data FILE")
        options["config"] = options["config"] or config_folder() / "pretrain.yaml"
        given: dict[str, Any] = {"data.structures": [str(file) for file in files]}
        if teacher is not None:
            given |= {"objective.teacher": 1.0, "objective.teacher_vectors": str(teacher)}
        config = configuration({**options, "settings": {**given, **settings}})
    run_training(ctx, config, output, resume, quiet)

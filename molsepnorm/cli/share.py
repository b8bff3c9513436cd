"""`molsepnorm share`."""

from __future__ import annotations

from pathlib import Path

import click

from molsepnorm.cli.console import one_line, say
from molsepnorm.cli.options import FILE, GroupedCommand, option


@click.command(cls=GroupedCommand)
@click.argument("run", type=FILE)
@click.argument("archive", type=FILE)
@option("--models", is_flag=True, help="Include the models of an ensemble's members.")
@option(
    "--training-structures",
    is_flag=True,
    help="Include structures and labels of the training molecules, which predict --domain needs.",
)
@option("--force", is_flag=True, help="Replace an existing archive.")
def share(run: Path, archive: Path, models: bool, training_structures: bool, force: bool) -> None:
    """Pack a trained model for others, without structures, labels and paths.

    With --training-structures it includes structures and labels of the training molecules.

    RUN is the folder of a finished run, and ARCHIVE the zip file to write. It holds the model, its
    card, the scores and the configuration. Unpack it, and give its folder to predict.

    \b
    molsepnorm share runs/logS-1 logS.zip
    unzip logS.zip
    molsepnorm predict --model logS --smiles CCO
    """
    from molsepnorm.training.results.share import share as pack

    found = pack(run, archive, models=models, training_structures=training_structures, force=force)
    sections = {
        "In the archive:": found.included,
        "Left out:": found.left_out,
        "What the model reveals about its training molecules:": found.revealed,
    }
    for title, lines in sections.items():
        say("\n  ".join([title, *map(one_line, lines)]))
    others = "its other files none" if training_structures else "none"
    say(f"The archive has no absolute path, and {others} of {found.searched:,} SMILES of the run.")
    say(f"Archive: {archive}")

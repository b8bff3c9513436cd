"""`molsepnorm ensemble`."""

from __future__ import annotations

from pathlib import Path

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import FILE, GroupedCommand, option, output_option
from molsepnorm.cli.sources import refuse_repeated
from molsepnorm.errors import counted


@click.command(cls=GroupedCommand)
@click.argument("models", nargs=-1, required=True, type=FILE)
@output_option("Folder of the joined model.", required=True)
@option("--force", is_flag=True, help="Replace an existing model.")
def ensemble(models: tuple[Path, ...], output: Path, force: bool) -> None:
    """Join trained models into one model, which predicts their mean.

    MODELS are folders of runs or of models with the same targets and inputs. Predictions of the
    joined model have their standard deviation over the networks as <target>_spread. To train an
    ensemble from a table, use molsepnorm train --ensemble.

    \b
    molsepnorm ensemble runs/logS-1 runs/logS-2 --output models/logS
    """
    from molsepnorm.model import PropertyModel, join, require_new_model

    refuse_repeated(models)
    require_new_model(output, force)
    joined = join([PropertyModel.from_pretrained(folder) for folder in models])
    joined.save_pretrained(output)
    networks = counted(len(joined.networks), "network")
    say(f"{networks} of {counted(len(models), 'model')}. Model: {output}")

"""`molsepnorm convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import FILE, GroupedCommand, option, output_option


@click.command(cls=GroupedCommand)
@click.argument("checkpoint", type=FILE)
@output_option("Folder of the model.", required=True)
@option(
    "--featurizer",
    metavar="[zinc|ogb]",
    help="Atom and bond features of the checkpoint. [default: zinc if its atom table is too small "
    "for OGB's features]",
)
@option(
    "--max-path-length",
    type=int,
    help="The checkpoint's multi_hop_max_dist. [default: from the config.json beside the weights]",
)
@option(
    "--atom-shift",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="First row of the atom embedding table: 2 for weights of the reference implementation "
    "that were copied to transformers.",
)
@option("--force", is_flag=True, help="Replace an existing model.")
def convert(checkpoint: Path, output: Path, force: bool, **options: Any) -> None:
    """Import the weights of another Graphormer.

    CHECKPOINT is a model folder of transformers, or a .safetensors or torch file of its Graphormer.
    Prints a summary, and saves the origin of every tensor as conversion.json in the model folder.

    \b
    molsepnorm convert my-graphormer/ --output models/mine
    molsepnorm convert my-graphormer/ --featurizer ogb --atom-shift 2 --output models/mine
    """
    from molsepnorm.files.writing import write_json
    from molsepnorm.interop.graphormer_weights import convert as import_checkpoint
    from molsepnorm.model import require_new_model

    require_new_model(output, force)  # before the conversion
    model, found = import_checkpoint(checkpoint, **options)
    model.save_pretrained(output)
    write_json(output / "conversion.json", found.to_json())
    say(f"{found}\n\nModel: {output}")

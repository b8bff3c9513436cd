"""`molsepnorm convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import FILE, GroupedCommand, option, output_option, split_names


@click.command(cls=GroupedCommand)
@click.argument("checkpoint", type=FILE)
@option(
    "--from",
    "source",
    required=True,
    metavar="[hf|graphormer-v1]",
    help="Program that wrote the checkpoint.",
)
@output_option("Folder of the model.", required=True)
@option(
    "--featurizer",
    help="Atom and bond features of the checkpoint: zinc or ogb. [default: found from the size "
    "of its atom table; required if that is the default size of transformers]",
)
@option(
    "--target",
    "targets",
    callback=split_names,
    help="Names of the outputs, separated by commas. [default: y, or y1, y2, …; none for hf, "
    "whose head is not imported]",
)
@option(
    "--kind",
    type=click.Choice(["regression", "binary"]),
    default="regression",
    help="Kind of the outputs: values, or logits of yes.",
)
@option(
    "--max-path-length",
    type=int,
    help="The checkpoint's multi_hop_max_dist. [default: as stored in the checkpoint]",
)
@option(
    "--atom-shift",
    type=int,
    help="First row of the atom embedding table: 2 for weights of the reference's second release "
    "that were copied to transformers. [default: 3 for hf, 2 for graphormer-v1]",
)
@option("--force", is_flag=True, help="Replace an existing model.")
def convert(source: str, checkpoint: Path, output: Path, force: bool, **options: Any) -> None:
    """Import the weights of another Graphormer.

    CHECKPOINT is a .safetensors or torch file, or a model folder of transformers. Prints what was
    imported, what was not, and the difference between the outputs of both networks, and saves it as
    conversion.json in the model folder.

    \b
    molsepnorm convert --from graphormer-v1 zinc.pt --max-path-length 20 -o models/zinc
    molsepnorm convert --from hf my-graphormer/ --featurizer ogb -o models/mine
    """
    from molsepnorm.files.writing import write_json
    from molsepnorm.interop.graphormer_weights import convert as import_checkpoint
    from molsepnorm.model import require_new_model

    require_new_model(output, force)  # before the conversion
    model, report = import_checkpoint(source, checkpoint, **options)
    model.save_pretrained(output)
    write_json(output / "conversion.json", report.to_json())
    say(f"{report}\n\nModel: {output}")

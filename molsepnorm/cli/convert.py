"""`molsepnorm convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import PLACE, split_names

__all__ = ["convert"]


@click.command()
@click.argument("checkpoint", type=PLACE)
@click.option(
    "--from", "source", required=True, help="What wrote the checkpoint: hf or graphormer-v1."
)
@click.option("-o", "--output", required=True, type=PLACE, help="The model folder.")
@click.option(
    "--featurizer",
    help="What its atoms and bonds are: zinc or ogb. [default: by the size of its tables]",
)
@click.option(
    "--target",
    "targets",
    callback=split_names,
    help="Names of its outputs, separated by commas. [default: y, or y1, y2, …]",
)
@click.option(
    "--kind",
    type=click.Choice(["regression", "binary"]),
    default="regression",
    help="Whether its outputs are values or logits of yes.",
)
@click.option(
    "--max-path-length",
    type=int,
    help="Its multi_hop_max_dist. [default: as the checkpoint says]",
)
@click.option(
    "--atom-shift",
    type=int,
    help="Where its atom table begins: 2 for weights of the reference's second release that were "
    "copied to transformers. [default: 3 for hf, 2 for graphormer-v1]",
)
def convert(source: str, checkpoint: Path, output: Path, **options: Any) -> None:
    """Import the weights of another Graphormer.

    CHECKPOINT is a .safetensors or torch file, or a folder of transformers. What was imported,
    what was not, and how far both networks' results are apart is printed, and kept in
    conversion.json in the model folder.

    \b
    molsepnorm convert --from graphormer-v1 zinc.pt --max-path-length 20 -o models/zinc
    molsepnorm convert --from hf my-graphormer/ --featurizer ogb -o models/mine
    """
    from molsepnorm.files.writing import write_json
    from molsepnorm.interop.graphormer_weights import convert as import_checkpoint
    from molsepnorm.model import require_replaceable

    require_replaceable(output)  # before the work
    model, report = import_checkpoint(source, checkpoint, **options)
    model.save_pretrained(output)
    write_json(output / "conversion.json", report.to_json())
    say(f"{report}\n\nModel: {output}")

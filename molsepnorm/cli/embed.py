"""`molsepnorm embed`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from molsepnorm.cli.options import GroupedCommand, model_option, option, output_option
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import (
    check_sources,
    load_predictor,
    molecules_of,
    report,
    source_options,
)
from molsepnorm.files.tables import check_embeddings_output

if TYPE_CHECKING:
    from molsepnorm.data.tables import ReadOptions
    from molsepnorm.devices import Precision


@click.command(cls=GroupedCommand)
@model_option
@source_options
@output_option("File: .parquet, .csv or .tsv; the last two also with .gz.", required=True)
@option("--atoms", is_flag=True, help="Also write the embeddings of the atoms; Parquet only.")
@option(
    "--layer",
    type=int,
    metavar="N",
    help="Layer of the embeddings; default: the input of the head.",
)
def embed(
    model_folder: Path,
    smiles: tuple[str, ...],
    source: Path | None,
    options: ReadOptions,
    output: Path,
    atoms: bool,
    layer: int | None,
    on_invalid: Literal["keep", "fail"],
    device: str,
    precision: Precision,
    processes: int | None,
) -> None:
    """Write embeddings of molecules, from a file, --smiles or standard input.

    The embedding of a molecule is the input of the network's head, or with --layer the read-out of
    one layer. Standard input has one SMILES per line, or is a CSV. The output keeps all rows, their
    order and all columns, and adds the column embedding (in a CSV or TSV embedding_0,
    embedding_1, …). Failed rows have the reason in the column error.

    \b
    molsepnorm embed --model runs/zinc-1 --input my.csv --output embeddings.parquet
    molsepnorm embed --model runs/zinc-1 --smiles CCO --atoms --output ethanol.parquet
    """
    check_sources(smiles, source, output)
    with stop_on_signal(lambda: False):
        check_embeddings_output(output, atoms)
        predictor = load_predictor([model_folder], device, processes, precision)
        from molsepnorm.predict import embed_rows

        features = predictor.model.inputs.names
        name, chunks = molecules_of(smiles, source, options, features)
        rows, failed = embed_rows(
            predictor,
            chunks,
            output,
            smiles_column=options.smiles_column,
            source=name,
            atoms=atoms,
            layer=layer,
            on_invalid=on_invalid,
        )
    report(rows, failed, output, "embedded")

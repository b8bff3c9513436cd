"""`molsepnorm models export`: models for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    models_option,
    option,
    output_option,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import load_predictor, table_options
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.data.tables.formats import ReadOptions

_SHOWN = 5  # rejected rows that are printed


@click.command(cls=GroupedCommand)
@models_option
@option(
    "--encode",
    "source",
    heading="Molecules",
    type=FILE,
    help="Write the molecules of this file as inputs of the exported model: CSV, TSV, Parquet, "
    "Excel, SDF or .smi, optionally compressed. By default the model is written.",
)
@table_options
@output_option("Folder to write.", required=True)
def export(
    model_folders: tuple[Path, ...],
    source: Path | None,
    options: ReadOptions,
    output: Path,
) -> None:
    """Write a model as ONNX, which maps tensors to predictions.

    The folder has model.onnx, model.json, which describes the inputs and outputs, and example.npz.
    The file is compared with `molsepnorm predict` before it is put in place. With
    --encode, molecules are written as inputs of an exported model, 64 to a file.

    \b
    molsepnorm models export --model runs/logS --output logS-onnx
    molsepnorm models export --model runs/logS --encode my.csv --output my-encoded
    """
    if source is None and options != type(options)():
        raise click.UsageError("--smiles-column and other options on tables belong to --encode")
    with stop_on_signal():
        if source is None:
            _export(model_folders, output)
        else:
            _encode(model_folders, source, options, output)


def _export(folders: tuple[Path, ...], output: Path) -> None:
    from molsepnorm.interop.export import check_export, export_onnx

    check_export(output)  # before the model is loaded
    model = load_predictor(folders, "cpu", 1, "fp32").model
    report = export_onnx(model, output)
    say(f"Model: {report.file}")
    say(
        f"Largest difference from molsepnorm predict on {report.molecules} molecules: "
        f"{report.difference:.1e} ({report.unit})"
    )


def _encode(folders: tuple[Path, ...], source: Path, options: ReadOptions, output: Path) -> None:
    from molsepnorm.interop.export import encode_table

    model = load_predictor(folders, "cpu", 1, "fp32").model
    found = encode_table(model, source, output, options)
    for line in found.rejected[:_SHOWN]:
        say(f"Left out: {line}", err=True)
    if others := len(found.rejected[_SHOWN:]):
        say(f"Left out: {counted(others, 'other row')}", err=True)
    say(f"{counted(found.molecules, 'molecule')} in {counted(found.files, 'file')}: {output}")

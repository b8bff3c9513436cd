"""`molsepnorm predict`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

import click

from molsepnorm.cli.options import model_option

__all__ = ["predict"]


@click.command()
@model_option
@click.option("--smiles", multiple=True, help="A SMILES; may be repeated.")
@click.option(
    "-i",
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="A table with SMILES (CSV, TSV, Parquet), an SDF or a .smi file, compressed or not.",
)
@click.option("--smiles-column", "--smiles-columns", default="smiles", help="Its column of SMILES.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write the CSV. [default: stdout]",
)
@click.option(
    "--on-invalid",
    type=click.Choice(["keep", "fail"]),
    default="keep",
    help="Keep a row that cannot be read, with the reason, or stop at it.",
)
@click.option("--device", default="cpu", help="cpu, cuda, …")
def predict(
    model_folder: Path,
    smiles: tuple[str, ...],
    source: Path | None,
    smiles_column: str,
    output: Path | None,
    on_invalid: Literal["keep", "fail"],
    device: str,
) -> None:
    """Predict from SMILES: given here, in a file, or one per line on standard input.

    Rows, their order and all columns are kept; <target>_pred is added, and where a row failed
    the reason in the column error.

    \b
    molsepnorm predict --model runs/zinc-1 --smiles CCO --smiles c1ccccc1
    molsepnorm predict --model runs/zinc-1 --input my.csv --output predicted.csv
    cut -d, -f1 my.csv | molsepnorm predict --model runs/zinc-1
    """
    from molsepnorm.predict import Predictor, predict_rows
    from molsepnorm.tables import read_chunks

    if smiles and source:
        raise click.UsageError("--smiles and --input are both sources: give one of them")
    if not smiles and not source and sys.stdin.isatty():
        raise click.UsageError("nothing to predict: give --smiles, --input, or SMILES on stdin")
    predictor = Predictor.from_pretrained(model_folder, device)
    name = str(source or ("--smiles" if smiles else "standard input"))
    table = source or _as_csv(smiles or _lines(sys.stdin), smiles_column)
    with _opened(output) as out:
        rows, failed = predict_rows(
            predictor,
            read_chunks(table, name, smiles_column=smiles_column),
            out,
            smiles_column=smiles_column,
            source=name,
            on_invalid=on_invalid,
        )
    if output or failed:
        where = f" to {output}" if output else ""
        failures = f"; {failed:,} could not be predicted, see the column error" if failed else ""
        click.echo(f"{rows:,} rows{where}{failures}", err=True)


def _lines(stream: TextIO) -> tuple[str, ...]:
    return tuple(line.rstrip("\n") for line in stream)


def _as_csv(lines: tuple[str, ...], column: str) -> TextIO:
    """SMILES, or a CSV whose first line names the column, as a CSV to read."""
    if not any(line.strip() for line in lines):
        raise click.UsageError("nothing to predict: standard input holds no SMILES")
    if column in next(csv.reader([lines[0].removeprefix("\ufeff")])):
        return io.StringIO("\n".join(lines).removeprefix("\ufeff"))
    quoted = ('"' + line.replace('"', '""') + '"' for line in (column, *lines))
    return io.StringIO("\n".join(quoted))


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its place only once it is whole."""
    from molsepnorm.files import replacing

    if output is None:
        yield sys.stdout
        sys.stdout.flush()  # so that a full disk is told here, not at the interpreter's end
        return
    with replacing(output) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        yield file

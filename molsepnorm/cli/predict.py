"""`molsepnorm predict`."""

from __future__ import annotations

import csv
import gc
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

import click

from molsepnorm.cli.console import escaped, say
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    model_option,
    option,
    output_option,
    setting_options,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.errors import DataError, StorageError

if TYPE_CHECKING:
    from molsepnorm.predict.inference import Precision

_CHUNK_LINES = 1024  # lines of standard input that are predicted together


def _check_encoding(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """A callback: refuse texts that cannot be written to the output."""
    for text in texts:
        if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise click.BadParameter(f"{text!a} is not in the terminal's encoding, or not UTF-8")
    return texts


@click.command(cls=GroupedCommand)
@model_option
@option(
    "--smiles",
    heading="Molecules",
    multiple=True,
    callback=_check_encoding,
    help="SMILES of a molecule; may be repeated.",
)
@option(
    "-i",
    "--input",
    "source",
    type=FILE,
    help="File with SMILES: CSV, TSV, Parquet, SDF or .smi, optionally compressed.",
)
@setting_options("data.smiles_column", defaults=True)
@option(
    "--on-invalid",
    type=click.Choice(["keep", "fail"]),
    default="keep",
    help="Keep a row with an invalid SMILES and give the reason, or fail.",
)
@setting_options("run.device", "run.precision", defaults=True)
@option(
    "--processes",
    type=click.IntRange(min=1, max=1024),
    help="Number of worker processes; 1 runs everything in the main process. "
    "[default: one per core]",
)
@output_option("CSV file. [default: standard output]")
def predict(
    model_folder: Path,
    smiles: tuple[str, ...],
    source: Path | None,
    smiles_column: str,
    output: Path | None,
    on_invalid: Literal["keep", "fail"],
    device: str,
    precision: Precision,
    processes: int | None,
) -> None:
    """Predict the properties of molecules, from a file, --smiles or standard input.

    Standard input has one SMILES per line, or is a CSV. The output keeps all rows, their order and
    all columns, and adds <target>_pred. Failed rows have the reason in the column error.

    \b
    molsepnorm predict --model runs/zinc-1 --smiles CCO --smiles c1ccccc1
    molsepnorm predict --model runs/zinc-1 --input my.csv --output predicted.csv
    cut -d, -f1 my.csv | molsepnorm predict --model runs/zinc-1
    """
    if smiles and source:
        raise click.UsageError("--smiles and --input are both sources: give one of them")
    if not smiles and not source and sys.stdin.isatty():
        raise click.UsageError("nothing to predict: give --smiles, --input, or SMILES on stdin")
    with stop_on_signal(lambda: False):
        # Importing the libraries makes about 100,000 objects that live until the process ends. To
        # search them for garbage takes a quarter of the time of predicting one SMILES.
        gc.disable()
        try:
            from molsepnorm.predict import Predictor, predict_rows

            predictor = Predictor.from_pretrained(
                model_folder, device, processes or _cores(), precision
            )
        finally:
            gc.freeze()
            gc.enable()
        if source:
            from molsepnorm.data.tables import read_chunks

            name = str(source)
            chunks: Iterable[Any] = read_chunks(source, smiles_column=smiles_column)
        elif smiles:
            name, chunks = "--smiles", [{smiles_column: smiles}]
        else:
            name = "standard input"
            chunks = _chunks(sys.stdin, name, smiles_column)
        with _opened(output) as out:
            rows, failed = predict_rows(
                predictor,
                chunks,
                out,
                smiles_column=smiles_column,
                source=name,
                on_invalid=on_invalid,
            )
    if output or failed:
        written = f" to {output}" if output else ""
        failures = f"; {failed:,} could not be predicted, see the column error" if failed else ""
        say(f"{rows:,} rows{written}{failures}", err=True)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunks(stream: TextIO, name: str, column: str) -> Iterator[Any]:
    """Yield rows of a stream: a CSV whose header has the column, or one SMILES per line."""
    try:
        first = stream.readline().removeprefix("\ufeff")
        # the csv module refuses fields longer than its limit
        short = len(first) < csv.field_size_limit()
        names = next(csv.reader([first]), []) if short else first.strip().split(",")
        if column in names:
            from molsepnorm.data.tables import read_chunks

            table = cast(TextIO, _PutBack(first, stream))
            yield from read_chunks(table, name, smiles_column=column)
            return
        start = [first]
        while start[-1].isspace():
            start.append(stream.readline())
        if not start[-1]:
            raise click.UsageError("nothing to predict: standard input holds no SMILES")
        lines = (line.rstrip("\n") for line in chain(start, stream))
        while chunk := list(islice(lines, _CHUNK_LINES)):
            yield {column: chunk}
    except UnicodeDecodeError as error:
        raise DataError(f"{name} cannot be read as SMILES: {error}. Save it as UTF-8") from None


class _PutBack:
    """A stream with its first line put back."""

    def __init__(self, first: str, rest: TextIO) -> None:
        self._lines = chain([first], iter(rest.readline, ""))
        self.read = rest.read

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def readline(self, size: int = -1) -> str:
        return next(self._lines, "")


class _Terminal(io.TextIOBase):
    """Standard output on a terminal, with control characters escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced only when it is complete."""
    from molsepnorm.files.writing import replacing

    if output is None:
        yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
        sys.stdout.flush()  # so that a full disk raises here, not when the interpreter exits
        return
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    with replacing(output) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        yield file

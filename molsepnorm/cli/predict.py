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
from molsepnorm.cli.options import PLACE, device_option, model_option, precision_option
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.errors import DataError, StorageError

if TYPE_CHECKING:
    from molsepnorm.predict.inference import Precision

__all__ = ["predict"]

_LINES = 1024  # of standard input, read together


def _encodable(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """A callback: texts that can be written to the output."""
    for text in texts:
        if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise click.BadParameter(f"{text!a} is not in the terminal's encoding, or not UTF-8")
    return texts


@click.command()
@model_option
@click.option("--smiles", multiple=True, callback=_encodable, help="A SMILES; may be repeated.")
@click.option(
    "-i",
    "--input",
    "source",
    type=PLACE,
    help="A table with SMILES (CSV, TSV, Parquet), an SDF or a .smi file, compressed or not.",
)
@click.option("--smiles-column", "--smiles-columns", default="smiles", help="Its column of SMILES.")
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="Where to write the CSV. [default: stdout]",
)
@click.option(
    "--on-invalid",
    type=click.Choice(["keep", "fail"]),
    default="keep",
    help="Keep a row that cannot be read, with the reason, or stop at it.",
)
@device_option
@precision_option
@click.option(
    "--processes",
    type=click.IntRange(min=1, max=1024),
    help="Processes that share the work; 1 for none but this. [default: one per core]",
)
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
    """Predict from SMILES: given here, in a file, or one per line on standard input.

    Rows, their order and all columns are kept; <target>_pred is added, and where a row failed
    the reason in the column error.

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
        with _lasting():
            from molsepnorm.predict import Predictor, predict_rows

            predictor = Predictor.from_pretrained(
                model_folder, device, processes or _cores(), precision
            )
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
        where = f" to {output}" if output else ""
        failures = f"; {failed:,} could not be predicted, see the column error" if failed else ""
        say(f"{rows:,} rows{where}{failures}", err=True)


@contextmanager
def _lasting() -> Iterator[None]:
    """What is made within lasts until the process ends. Libraries make some hundred thousand
    objects; searching them for garbage, now and at the end, takes a quarter of the time of
    predicting one SMILES."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _cores() -> int:
    """Those that this process may use, of a batch system's node perhaps a few."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunks(stream: TextIO, name: str, column: str) -> Iterator[Any]:
    """SMILES line by line, or a CSV whose first line names the column, as they come."""
    try:
        first = stream.readline().removeprefix("\ufeff")
        # a longer line may hold a field that is too long for the csv module
        short = len(first) < csv.field_size_limit()
        names = next(csv.reader([first]), []) if short else first.strip().split(",")
        if column in names:
            from molsepnorm.data.tables import read_chunks

            table = cast(TextIO, _PutBack(first, stream))
            yield from read_chunks(table, name, smiles_column=column)
            return
        lines: Iterator[str] = (
            line.rstrip("\n") for line in chain([first] if first else [], stream)
        )
        blank: list[str] = []
        for line in lines:
            if line.strip():
                lines = chain(blank, [line], lines)
                break
            blank.append(line)
        else:
            raise click.UsageError("nothing to predict: standard input holds no SMILES")
        while chunk := list(islice(lines, _LINES)):
            yield {column: chunk}
    except UnicodeDecodeError as error:
        raise DataError(f"{name} cannot be read as SMILES: {error}. Save it as UTF-8") from None


class _PutBack(io.TextIOBase):
    """A stream whose first line was read already."""

    def __init__(self, first: str, rest: TextIO) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        first, self._first = self._first, ""
        return first or self._rest.readline(-1 if size is None else size)

    def read(self, size: int | None = -1) -> str:
        first, self._first = self._first, ""
        return first or self._rest.read(-1 if size is None else size)


class _Terminal(io.TextIOBase):
    """Standard output where a person reads it, and no cell may be obeyed."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its place only once it is whole."""
    from molsepnorm.files.writing import replacing

    if output is None:
        yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
        sys.stdout.flush()  # so that a full disk is told here, not at the interpreter's end
        return
    if output.is_dir():  # also where it has no name, as in "."
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    with replacing(output) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        yield file

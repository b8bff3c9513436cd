"""The molecules that a command predicts, embeds or explains, and the model that it loads."""

from __future__ import annotations

import csv
import gc
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import say
from molsepnorm.errors import ConfigError, DataError, counted
from molsepnorm.files.writing import is_encodable

if TYPE_CHECKING:
    import pandas as pd

    from molsepnorm.data.tables.formats import ReadOptions
    from molsepnorm.devices import Precision
    from molsepnorm.predict import Predictor, TableRows
    from molsepnorm.pretrained.card import ModelCard

_LEVEL = 0.9  # of intervals, by default
_CHUNK_LINES = 1024  # of standard input, read together


@dataclass(frozen=True)
class Molecules:
    """The values of `source_options`."""

    smiles: tuple[str, ...]
    source: Path | None
    options: ReadOptions
    on_invalid: Literal["keep", "fail"]
    device: str
    precision: Precision
    processes: int | None

    def check(self, output: Path | None) -> None:
        """Raise an error unless there is one source, which the output does not replace."""
        if self.smiles and self.source:
            raise click.UsageError("--smiles and --input are both sources: give one of them")
        if not self.smiles and not self.source and sys.stdin.isatty():
            raise click.UsageError("no molecules: give --smiles, --input, or SMILES on stdin")
        if self.source is None or output is None or not output.exists():
            return
        if self.source.exists() and output.samefile(self.source):
            raise ConfigError(f"{output} is the table that is read: choose another output file")

    def predictor(self, folders: Sequence[Path], **options: Any) -> Predictor:
        """Load a model, or the mean of several; see `load_predictor`."""
        options |= {"device": self.device, "precision": self.precision}
        return load_predictor(folders, self.processes, **options)

    def rows(self, predictor: Predictor) -> TableRows:
        """Return the table of molecules."""
        from molsepnorm.predict import TableRows
        from molsepnorm.predict.encode import require_further

        require_further(predictor.model.inputs, self.options.further)
        features = predictor.model.inputs.names  # columns whose decimal commas are read
        column = self.options.smiles_column
        if self.source is not None:
            from molsepnorm.data.tables import read_chunks

            name = str(self.source)
            chunks = read_chunks(self.source, options=self.options, numbers=features)
        elif self.smiles:
            name = "--smiles"
            chunks = _lists([[*self.smiles]], name, column)
        else:
            name = "standard input"
            if self.options.encoding is not None and isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(encoding=self.options.encoding)
            chunks = _chunks(sys.stdin, name, self.options, features)
        return TableRows(chunks, column, name, self.on_invalid)


def _check_encoding(_: Any, __: Any, texts: tuple[str, ...]) -> tuple[str, ...]:
    """A callback that refuses texts that cannot be written to the output."""
    for text in texts:
        if not is_encodable(text):
            raise click.BadParameter(f"{text!a} is not in the terminal's encoding, or not UTF-8")
    return texts


processes_option = cli.option(
    "--processes",
    type=click.IntRange(min=1, max=1024),
    help="Number of worker processes; 1 runs everything in the main process. "
    "[default: one per core]",
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options from --smiles to --processes; the command gets them as `molecules`."""

    @cli.option(
        "--smiles",
        heading="Molecules",
        multiple=True,
        callback=_check_encoding,
        help="SMILES of a molecule; may be repeated.",
    )
    @cli.option(
        "-i",
        "--input",
        "source",
        type=cli.FILE,
        help="File with SMILES: CSV, TSV, Parquet, Excel, SDF or .smi, optionally compressed.",
    )
    @table_options
    @cli.option(
        "--on-invalid",
        type=click.Choice(["keep", "fail"]),
        default="keep",
        help="Keep a row with an invalid SMILES and give the reason, or fail.",
    )
    @cli.setting_options("run.device", "run.precision", defaults=True)
    @processes_option
    @wraps(command)
    def run(**arguments: Any) -> Any:
        values = {name: arguments.pop(name) for name in Molecules.__dataclass_fields__}
        return command(molecules=Molecules(**values), **arguments)

    return run


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options on how a table is written; the command gets them as `ReadOptions` by the name
    `options`."""

    @cli.reading_options(defaults=True)
    @wraps(command)
    def run(**arguments: Any) -> Any:
        from molsepnorm.data.tables.formats import ReadOptions
        from molsepnorm.tasks.inputs import column_names

        named, *others = (arguments.pop(name) for name in cli.READING)
        first, *further = column_names(named)
        options = replace(ReadOptions(first, *others), further=tuple(further))
        return command(options=options, **arguments)

    return run


def uncertainty_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --uncertainty, --level and --domain; the command gets `level`, which is None without
    --uncertainty, and `domain`."""

    @cli.option(
        "--uncertainty",
        is_flag=True,
        help="Add the standard deviation of the error and an interval of each value, or a "
        "calibrated probability and the possible classes.",
    )
    @cli.option(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="With --uncertainty: the share of molecules whose value the interval contains. "
        f"[default: {_LEVEL}]",
    )
    @cli.option(
        "--domain",
        is_flag=True,
        help="Add the similarity to the nearest training molecule, the error to expect at this "
        "similarity, whether that is known, and the nearest molecule with its measured values.",
    )
    @wraps(command)
    def run(uncertainty: bool, level: float | None, **arguments: Any) -> Any:
        if level is not None and not uncertainty:
            raise click.UsageError("--level is the level of intervals: add --uncertainty")
        return command(level=level or (_LEVEL if uncertainty else None), **arguments)

    return run


def load_predictor(
    folders: Sequence[Path], processes: int | None, *, reference: bool = False, **options: Any
) -> Predictor:
    """Load a model, or the mean of several, with options of `Predictor`; by default there is a
    process for each core. With `reference`, say on standard error what the predictions are compared
    with."""
    refuse_repeated(folders)
    # The imports make about 100,000 objects that stay. To search them for garbage takes a quarter
    # of the time of predicting one SMILES.
    gc.disable()
    try:
        from molsepnorm.devices import usable_cores
        from molsepnorm.model import PropertyModel, join
        from molsepnorm.predict import Predictor, Reference

        for folder in folders:
            announce_unfinished(folder)
        models = [PropertyModel.from_pretrained(folder) for folder in folders]
        if len(models) > 1:
            say(f"Mean of {len(models)} models: {', '.join(map(str, folders))}", err=True)
        model = models[0] if len(models) == 1 else join(models)
        known = None
        if reference:
            known = Reference.of(model, card_of(folders[0]) if len(folders) == 1 else None)
            say(f"Percentiles are those among {known.molecules}", err=True)
        cores = processes or usable_cores()
        return Predictor(model, processes=cores, reference=known, **options)
    finally:
        gc.freeze()
        gc.enable()


def card_of(folder: Path) -> ModelCard | None:
    """Return the card in the folder of a model; None if it has none."""
    from molsepnorm.model.folder import find_folder
    from molsepnorm.pretrained.card import CARD, read_card

    found = find_folder(folder)
    return read_card(found) if (found / CARD).exists() else None


def announce_unfinished(folder: Path) -> None:
    """Say on standard error which epoch a model is of if its run is not finished."""
    run = folder if (folder / "config.yaml").is_file() else folder.resolve().parent
    history = run / "history.csv"
    if (run / "metrics.json").exists() or not (run / "splits.json").is_file():
        return
    try:
        with open(history, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        kept = max(int(line["epoch"]) for line in lines if line["kept"] == "1")
    except (OSError, ValueError, KeyError, csv.Error):  # the model itself is checked when it loads
        return
    say(f"The run {run} is not finished: its model is that of epoch {kept}", err=True)


def refuse_repeated(folders: Sequence[Path]) -> None:
    """Raise a `ConfigError` if a model is named twice, since it would count twice in a mean."""
    if len(folders) < 2:
        return
    from molsepnorm.model.folder import find_folder

    models = [find_folder(folder).resolve() for folder in folders]  # of a run, its model folder
    for folder, model in zip(folders, models, strict=True):
        if models.count(model) > 1:
            raise ConfigError(f"the model {folder} was given twice: name each model once")


def report(
    rows: int, failed: int, written: str, done: str, where: object = "the column error"
) -> None:
    """Say what of the rows was written and how many failed, or raise a `DataError` if all did."""
    if rows == failed > 0:
        raise DataError(f"{counted(rows, 'row')}{written}, and none could be {done}: see {where}")
    failures = f"; {failed:,} could not be {done}, see {where}" if failed else ""
    say(f"{counted(rows, 'row')}{written}{failures}", err=True)


def _chunks(
    stream: TextIO, name: str, options: ReadOptions, features: Sequence[str]
) -> Iterator[Any]:
    """Yield the rows of a CSV or TSV whose header has the column of SMILES, or else its lines."""
    from molsepnorm.data.tables import read_chunks
    from molsepnorm.data.tables.columns import smiles_column_of

    column = options.smiles_column
    try:
        first = stream.readline().removeprefix("\ufeff")
        is_short = len(first) < csv.field_size_limit()  # the csv module refuses longer fields
        for mark in ",\t;":
            header = csv.reader([first], delimiter=mark)
            names = next(header, []) if is_short else first.strip().split(mark)
            if options.header_row or smiles_column_of(names, column, name) in names:
                table = cast(TextIO, chain([first], stream))
                yield from read_chunks(table, name, options=options, numbers=features)
                return
        start = [first]
        while start[-1].isspace():
            start.append(stream.readline())
        if not start[-1]:
            raise click.UsageError("no molecules: standard input holds no SMILES")
        lines = (line.rstrip("\r\n") for line in chain(start, stream))
        yield from _lists(iter(lambda: list(islice(lines, _CHUNK_LINES)), []), name, column)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} cannot be read as SMILES: {error}. Save it as UTF-8, or: --encoding cp1252"
        ) from None


def _lists(parts: Iterable[list[str]], name: str, column: str) -> Iterator[pd.DataFrame]:
    """Yield lists of SMILES as tables with the numbers of their lines."""
    import pandas as pd

    from molsepnorm.molecules.featurize.cxsmiles import announce_losses

    said: set[str] = set()
    start = 1
    for part in parts:
        announce_losses(part, name, said)
        yield pd.DataFrame({column: part}, index=range(start, start + len(part)), dtype=object)
        start += len(part)

"""Write a table as CSV, TSV, Parquet, SDF or an Excel workbook, row by row."""

from __future__ import annotations

import gzip
import importlib
import io
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.tables import check_output
from molsepnorm.files.writing import csv_writer, replacing

Write: TypeAlias = Callable[[Sequence[Any]], None]
"""Write the cells of a row."""

_ROWS = 8192  # of a row group of Parquet
_EXCEL_ROWS, _EXCEL_COLUMNS, _EXCEL_TEXT = 1_048_576, 16_384, 32_767
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SDF_MARK = re.compile(r"\$\$\$\$|>[^\n]*<")


@contextmanager
def open_table(
    output: Path | TextIO,
    columns: Sequence[str],
    smiles_column: int,
    numbers: Collection[str] = (),
    types: Mapping[str, Any] = {},
) -> Iterator[Write]:
    """Yield a function that writes a row; the file is replaced when the block ends without error.

    - CSV and TSV: the cells as they are.
    - Parquet: the columns of `numbers` are float64, those of `types` have their type of pyarrow,
      others are text. Blank numbers are null.
    - SDF: every row is a molecule, drawn in two dimensions, with all cells as properties. A cell of
      a column `name` is the title. A row whose SMILES cannot be read is a record without atoms.
      Line breaks in cells become spaces.
    - Excel: a cell is a number if its text is the shortest one of that number, such as 0.5 but not
      007, or if its column is one of `numbers`. Other cells are text, never formulas.

    Memory does not grow with the number of rows; for Excel, it grows with the distinct texts.

    Args:
        output: a file of one of `files.tables.FORMATS`, or an open text file for CSV.
        smiles_column: index of the column of SMILES.
        numbers: columns whose cells are numbers or blank.

    Raises:
        ConfigError: as `check_output`, or the format cannot have such columns.
        DataError: the format cannot hold this number of rows or cells of this length.
    """
    if not isinstance(output, Path):
        yield _delimited(output, columns, ",")
        return
    suffix = check_output(output)
    with replacing(output) as path, ExitStack() as stack:
        if suffix == ".parquet":
            yield stack.enter_context(_parquet(path, output, columns, numbers, types))
        elif suffix == ".xlsx":
            yield stack.enter_context(_excel(path, output, columns, numbers))
        else:
            file = stack.enter_context(_text(path, packed=suffix.endswith(".gz")))
            if suffix.startswith(".sdf"):
                yield _sdf(file, columns, smiles_column)
            else:
                yield _delimited(file, columns, "\t" if suffix.startswith(".tsv") else ",")


@contextmanager
def _text(path: Path, packed: bool) -> Iterator[TextIO]:
    with ExitStack() as stack:
        file: Any = stack.enter_context(open(path, "wb"))
        if packed:
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def _delimited(file: TextIO, columns: Sequence[str], separator: str) -> Write:
    writer = csv_writer(file, os.linesep, separator)
    writer.writerow(columns)
    return writer.writerow


@contextmanager
def _parquet(
    path: Path,
    output: Path,
    columns: Sequence[str],
    numbers: Collection[str],
    types: Mapping[str, Any],
) -> Iterator[Write]:
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ConfigError(
            f"{output}: the table has several columns called '{twice[0]}', which Parquet files "
            "cannot have: rename or remove all but one, or write a .csv"
        )
    arrow = importlib.import_module("pyarrow")
    types = {**dict.fromkeys(numbers, arrow.float64()), **types}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in columns])
    rows: list[Sequence[Any]] = []
    with importlib.import_module("pyarrow.parquet").ParquetWriter(path, schema) as writer:

        def flush() -> None:
            arrays = []
            for cells, field in zip(zip(*rows, strict=True), schema, strict=True):
                is_number = field.type == arrow.float64()
                values = [float(cell) if cell else None for cell in cells] if is_number else cells
                arrays.append(arrow.array(values, field.type))
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            rows.clear()

        def write(cells: Sequence[Any]) -> None:
            rows.append(cells)
            if len(rows) == _ROWS:
                flush()

        yield write
        if rows:
            flush()


def _sdf(file: TextIO, columns: Sequence[str], smiles_column: int) -> Write:
    from molsepnorm.molecules.featurize.sdf import drawn

    brackets = str.maketrans("<>", "()")
    heads = [f">  <{_one_line(name).translate(brackets)}>" for name in columns]
    titles = columns.index("name") if "name" in columns else None

    def write(cells: Sequence[str]) -> None:
        title = "" if titles is None else _one_line(cells[titles])
        parts = [drawn(cells[smiles_column], title)]
        for column, (head, cell) in enumerate(zip(heads, cells, strict=True)):
            if column != titles:
                parts.append(f"{head}\n{_one_line(cell)}\n\n")
        file.write("".join([*parts, "$$$$\n"]))

    return write


def _one_line(cell: str) -> str:
    text = " ".join(cell.splitlines())
    return f" {text}" if _SDF_MARK.match(text) else text  # a value must not begin like a mark


@contextmanager
def _excel(
    path: Path, output: Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Write]:
    advice = "Write a .csv or .parquet file"
    if len(columns) > _EXCEL_COLUMNS:
        raise ConfigError(
            f"{output}: {len(columns):,} columns; a sheet has at most {_EXCEL_COLUMNS:,}. {advice}"
        )
    book = importlib.import_module("openpyxl").Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    make = importlib.import_module("openpyxl.cell").WriteOnlyCell
    are_numbers = [name in numbers for name in columns]
    rows = 0

    def text_cell(text: str) -> Any:
        if len(text) > _EXCEL_TEXT:
            raise DataError(
                f"{output}, row {rows + 1}: a text of {len(text):,} characters; a cell of a "
                f"workbook holds at most {_EXCEL_TEXT:,}. {advice}"
            )
        cell = make(sheet, _NOT_IN_XML.sub("\ufffd", text))
        cell.data_type = "s"  # a text that begins with = would become a formula
        return cell

    def value(text: str, is_number: bool) -> Any:
        if not text:
            return None
        with suppress(ValueError):
            number = float(text)
            if math.isfinite(number) and (is_number or f"{number:.15g}" == text):
                return number
        return text_cell(text)

    def write(cells: Sequence[str]) -> None:
        nonlocal rows
        if rows == _EXCEL_ROWS:
            raise DataError(f"{output}: a sheet has at most {_EXCEL_ROWS:,} rows. {advice}")
        sheet.append([value(cell, number) for cell, number in zip(cells, are_numbers, strict=True)])
        rows += 1

    sheet.append(list(map(text_cell, columns)))
    rows = 1
    try:
        yield write
    finally:
        sheet.close()
    book.save(path)

"""`read_chunks` and `read_table`: any table, in pieces or as a whole."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import chain, count
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables import delimited, excel, parquet, sdf, smi
from molsepnorm.data.tables.decimals import unclear, unclear_point, with_points
from molsepnorm.data.tables.formats import (
    DEFAULT_SMILES,
    Format,
    Kind,
    ReadOptions,
    format_of,
    locate,
    names_smiles,
)
from molsepnorm.data.tables.streams import as_file, is_held
from molsepnorm.errors import (
    ConfigError,
    DataError,
    InvalidMolecule,
    did_you_mean,
    listed,
    warn_of_data,
)

_DEFAULT = ReadOptions()
_READERS = {
    "csv": delimited.read_delimited,
    "tsv": delimited.read_delimited,
    "parquet": parquet.read_parquet,
    "sdf": sdf.read_sdf,
    "smi": smi.read_smi,
    "xlsx": excel.read_excel,
}
_EMPTY: dict[Kind, str] = {
    "csv": "has a header but no rows: a row per molecule is expected",
    "tsv": "has a header but no rows: a row per molecule is expected",
    "parquet": "has no rows: a row per molecule is expected",
    "sdf": "has no records: a record per molecule is expected",
    "smi": "has no molecules: a line per molecule is expected",
    "xlsx": "has no rows below its header: a row per molecule is expected",
}
_UNIT = re.compile(r"\s*[(\[][^()\[\]]+[)\]]\s*$|[_ ][pnuµμm]?M$")
_LATER_UNNAMED = re.compile(r"Unnamed: [1-9]")
"""Columns without a name, as below a title; `Unnamed: 0` are often the row numbers of pandas."""
_USUAL = re.compile("(canonical|isomeric)?smiles")
_TITLE_ROWS = 20  # in which names of columns are searched for
_FILE_NAME = "smiles column"
"""Attribute of a DataFrame: the name of the column of SMILES in the file, if it is another."""


def read_table(path: Path, options: ReadOptions = _DEFAULT) -> pd.DataFrame:
    """Return a whole table; see `read_chunks`."""
    pieces = list(read_chunks(path, options=options))
    table = pd.concat(pieces)
    table.attrs = pieces[0].attrs
    return table


def read_chunks(
    source: Path | TextIO,
    name: str | None = None,
    rows: int = 8192,
    options: ReadOptions = _DEFAULT,
    numbers: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces of up to `rows` rows, in memory that does not grow with the file.

    All cells are text, "" if blank. All pieces have the columns of the file, in its order; several
    may have the same name. The index of a row is its line, row or record, counted from 1, see
    `locate`. The suffix of the file names the format:

    - CSV (.csv, an unknown suffix, a stream) and TSV (.tsv, .tab, .txt): see `delimited`.
    - Parquet (.parquet, .pq): see `parquet`.
    - SDF (.sdf, .sd), with structures converted to SMILES: see `sdf`.
    - SMILES with names (.smi, .smiles, .ism, .cxsmiles): see `smi`.
    - Workbooks (.xlsx, .xlsm, .xls, .xlsb, .ods): see `excel`.

    All but Parquet and workbooks may be compressed (.gz, .bz2, .xz, .zip, .zst).

    A `DataWarning` names a column of SMILES under another name (`smiles_column_of`), and extensions
    of CXSMILES that are not read.

    Args:
        source: a path, or an open text stream. A pipe is copied to a temporary file first if its
            format cannot be read sequentially (Parquet, SDF, zip).
        name: name of the source in errors.
        rows: maximum number of rows of a piece. Pieces of a CSV or Parquet file with thousands of
            columns have fewer.
        options: how the table is written. Callers check that the column of SMILES exists, with
            `require_column`.
        numbers: columns that are used as numbers. Decimal commas become points if
            `options.decimal` is a comma.

    Raises:
        ConfigError: pyarrow or python-calamine is needed, and not installed; or several columns may
            be that of SMILES.
        DataError: the file is empty, has no rows, is damaged, or does not match its suffix; or
            points may group thousands in one of `numbers`.
        StorageError: the file cannot be read.
    """
    name = name or str(source)
    kind: Kind = "csv"
    empty = True
    seeks = isinstance(source, Path) and (is_held(source) or _seeks(format_of(source)))
    with as_file(source) if isinstance(source, Path) and seeks else nullcontext(source) as file:
        if isinstance(file, Path):
            kind = format_of(file).kind
            chunks = _READERS[kind](file, name, rows, options)
        else:
            chunks = delimited.read_stream(file, name, rows, options)
        for chunk in _with_smiles(chunks, name, options.smiles_column):
            unique = chunk.columns[~chunk.columns.duplicated(keep=False)]
            for column in {*numbers}.intersection(unique):
                if options.decimal is None and delimited.separated_by(chunk) == ";":
                    first, clear = unclear_point(chunk[column])
                    if first is not None and not clear:
                        where = f"{locate(name, chunk.index[first])}, column '{column}'"
                        raise unclear(chunk[column].iloc[first], where)
                chunk[column] = with_points(chunk[column], options.decimal)
            if len(chunk):
                empty = False
                yield chunk
    if empty:
        raise DataError(f"{name} {_EMPTY[kind]}")


def _with_smiles(chunks: Iterable[pd.DataFrame], name: str, wanted: str) -> Iterator[pd.DataFrame]:
    """Yield chunks with the column of SMILES under the wanted name; announce CXSMILES."""
    from molsepnorm.molecules.featurize.cxsmiles import announce_losses

    said: set[str] = set()
    found = None
    for chunk in chunks:
        if found is None:
            found = smiles_column_of(chunk.columns, wanted, name)
            if found not in chunk.columns:
                _require_header(chunk, name)
            if found != wanted:
                warn_of_data(f"{name}: the column '{found}' is read as the column of SMILES")
        if found != wanted:
            chunk.columns = [wanted if each == found else each for each in chunk.columns]
            chunk.attrs[_FILE_NAME] = (found, wanted)
        if list(chunk.columns).count(wanted) == 1:
            announce_losses(chunk[wanted], name, said)
        yield chunk


def smiles_column_of(columns: Iterable[str], wanted: str, source: object) -> str:
    """Return the name of the column of SMILES.

    If the default, `smiles`, is wanted and there is no such column, it is the only one whose name
    contains "smile", or among several the only one called SMILES, canonical SMILES or isomeric
    SMILES, with any spaces, dots or underscores. If there is none, `wanted` is returned.

    >>> smiles_column_of(["id", "Chromophore (SMILES)"], "smiles", "my.csv")
    'Chromophore (SMILES)'

    Raises:
        ConfigError: several columns may be meant.
    """
    columns = list(columns)
    if wanted in columns or wanted != DEFAULT_SMILES:
        return wanted
    named = [each for each in columns if names_smiles(each)]
    usual = [each for each in named if _USUAL.fullmatch(re.sub(r"[\W_]", "", each).lower())]
    if len(named) > 1 and len(usual) != 1:
        found = listed([f"'{each}'" for each in named])
        raise ConfigError(
            f"{source} has no column '{wanted}', and {found} may be meant: choose one with "
            "--smiles-column"
        )
    return (usual or named or [wanted])[0]


def _require_header(chunk: pd.DataFrame, name: str) -> None:
    """Check that the names of the columns are not in a later row, if no column is one of SMILES.

    Raises:
        ConfigError: a later row has the names, or the first line is a molecule.
    """
    for index, row in chunk.head(_TITLE_ROWS).iterrows():
        if any(map(names_smiles, row)):
            raise ConfigError(
                f"{name}: the names of the columns are in a later line, below a title: "
                f"--header-row {index}"
            )
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    for cell in chunk.columns:
        with suppress(InvalidMolecule):
            if len(cell) > 2 and canonical_smiles(cell):
                raise ConfigError(
                    f"{name}: the first line holds the molecule '{cell}', and names of columns, "
                    "such as smiles, are expected: add a line with names"
                )


def name_of_copy(source: Path | str) -> str:
    """Return a name for the cleaned copy of a table that no file of the current folder has.

    >>> name_of_copy("assays/my.csv.gz")
    'my_clean.csv'
    """
    stem = f"{Path(source).name.split('.')[0] or 'table'}_clean"
    names = chain([stem], (f"{stem}_{number}" for number in count(2)))
    return next(
        f"{name}.csv"
        for name in names
        if not (Path(f"{name}.csv").exists() or Path(f"{name}.removed.csv").exists())
    )


def names_in_file(table: pd.DataFrame) -> list[str]:
    """Return the names of the columns as in the file, where that of SMILES may have another."""
    here, in_file = table.attrs.get(_FILE_NAME, ("", ""))[::-1]
    return [in_file if each == here and in_file else str(each) for each in table.columns]


def _seeks(format_: Format) -> bool:
    """Return whether such a file cannot be read sequentially."""
    return format_.kind in ("parquet", "sdf", "xlsx") or format_.packing == "zip"


def require_column(
    columns: Iterable[str],
    wanted: str,
    source: Path | str,
    *,
    once: bool = True,
    in_file: Iterable[str] | None = None,
) -> None:
    """Check that there is a column of this name, and with `once` that there is only one.

    Args:
        columns: the names of the columns.
        wanted: the name.
        source: name of the table in errors.
        once: refuse several columns of this name.
        in_file: the names in errors, if they differ; see `names_in_file`.

    Raises:
        ConfigError: there is none, in which case the message has the nearest name, or several.
    """
    columns = list(columns)
    if wanted not in columns:
        advice = ""
        if wanted == "smiles":
            advice = " Call the column of SMILES smiles, or name it (--smiles-column)."
        known = columns if in_file is None else list(in_file)
        if any(map(_LATER_UNNAMED.match, known)):
            advice += " Some columns have no name: the names must be in the first line."
        with_comma = [name for name in known if "," in name]
        parted = [name for name in with_comma if wanted in map(str.strip, name.split(","))]
        if parted:
            setting = shlex.quote(f"data.targets={json.dumps(parted[:1], ensure_ascii=False)}")
            advice += f" Commas separate names, so give one with a comma as in --set {setting}."
        hint = did_you_mean(wanted, known)
        raise ConfigError(
            f"{source} has no column '{wanted}'. {hint}{advice}{_about_units(wanted, known)}"
        )
    if once and columns.count(wanted) > 1:
        numbers = [str(number) for number, name in enumerate(columns, 1) if name == wanted]
        raise ConfigError(
            f"{source} has {len(numbers)} columns called '{wanted}' (columns {listed(numbers)}), "
            "and one is needed: rename or remove the others"
        )


def _about_units(wanted: str, known: Iterable[str]) -> str:
    """Return advice about a column whose name differs only in the unit, such as (nM) and (uM)."""
    base, units = _UNIT.subn("", wanted)
    for name in known:
        if units and _UNIT.subn("", name) == (base, units):
            return f" If '{name}' is in another unit, convert its numbers first."
    return ""

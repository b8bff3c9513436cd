"""Formats of tables that are written, and free names."""

from __future__ import annotations

from collections.abc import Collection, Container
from pathlib import Path

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.optional import require_package

FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".sdf", ".sdf.gz", ".xlsx")
_PACKAGES = {".parquet": ("pyarrow", "parquet"), ".xlsx": ("openpyxl", "excel")}
"""Package that writes a format, and the extra that installs it."""


def check_output(output: Path, formats: Collection[str] = FORMATS) -> str:
    """Return the format of a file by its name, after checking that it can be written. A pipe or a
    device without such a name is CSV.

    Raises:
        ConfigError: the name has another ending, or the package that writes the format is missing.
        StorageError: there is a folder of this name.
    """
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    suffixes = [each.lower() for each in output.suffixes]
    suffix = "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])
    suffix = ".parquet" if suffix == ".pq" else suffix
    if suffix not in formats:
        if output.exists() and not output.is_file():
            return ".csv"
        raise ConfigError(
            f"{output}: the end of the name chooses the format of the table, and should be one of "
            f"{', '.join(formats)}"
        )
    if suffix in _PACKAGES:
        require_package(*_PACKAGES[suffix], f"writing {output}", ", or end the name with .csv")
    return suffix


def check_embeddings_output(output: Path, atoms: bool) -> str:
    """Return the format of a file of embeddings, as `check_output` does. SDF and Excel cannot have
    embeddings, and CSV and TSV not those of atoms."""
    suffix = check_output(output, [each for each in FORMATS if each[:4] not in (".sdf", ".xls")])
    if suffix != ".parquet" and atoms:
        raise ConfigError(
            f"{output}: a CSV or TSV has no lists for the embeddings of atoms: end the name with "
            ".parquet"
        )
    return suffix


def free_name(name: str, taken: Container[str], ending: str) -> str:
    """Return the name, with the ending repeated until it is not taken."""
    while name in taken:
        name += ending
    return name


def name_of_copy(source: Path | str) -> str:
    """Return a name for the cleaned copy of a table that no file of the current folder has.

    >>> name_of_copy("assays/my.csv.gz")
    'my_clean.csv'
    """
    stem = f"{Path(source).name.split('.')[0] or 'table'}_clean"
    name, number = stem, 1
    while Path(f"{name}.csv").exists() or Path(f"{name}.removed.csv").exists():
        number += 1
        name = f"{stem}_{number}"
    return f"{name}.csv"

"""Tables of molecules: CSV, TSV, Parquet, Excel, SDF and SMILES files, optionally compressed.

For every format, `read_chunks` yields DataFrames of text cells, with "" for blanks and the SMILES
in a column of the chosen name. `locate` converts the index of a row to its position in the file:

>>> locate("my.csv.gz", 10), locate("my.sdf", 10)
('my.csv.gz, line 12', 'my.sdf, record 11')
"""

from molsepnorm.data.tables.decimals import require_clear
from molsepnorm.data.tables.formats import locate, positions
from molsepnorm.data.tables.read import (
    name_of_copy,
    names_in_file,
    read_chunks,
    read_table,
    require_column,
    smiles_column_of,
)
from molsepnorm.data.tables.streams import as_file, hold, is_held, is_stream

__all__ = [
    "as_file",
    "hold",
    "is_held",
    "is_stream",
    "locate",
    "name_of_copy",
    "names_in_file",
    "positions",
    "read_chunks",
    "read_table",
    "require_clear",
    "require_column",
    "smiles_column_of",
]

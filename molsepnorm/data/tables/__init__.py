"""Tables of molecules: CSV, TSV, Parquet, workbooks, SDF and SMILES files, optionally compressed.

For every format, `read_chunks` yields DataFrames of text cells, with "" for blanks and the SMILES
in a column of the chosen name. The index of a row is its position in the file:

>>> locate("my.csv.gz", 12), locate("my.sdf", 11)
('my.csv.gz, line 12', 'my.sdf, record 11')
"""

from molsepnorm.data.tables.decimals import unclear, unclear_point, with_points
from molsepnorm.data.tables.delimited import separated_by
from molsepnorm.data.tables.formats import ReadOptions, locate, row_word
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
    "ReadOptions",
    "as_file",
    "hold",
    "is_held",
    "is_stream",
    "locate",
    "name_of_copy",
    "names_in_file",
    "read_chunks",
    "read_table",
    "require_column",
    "row_word",
    "separated_by",
    "smiles_column_of",
    "unclear",
    "unclear_point",
    "with_points",
]

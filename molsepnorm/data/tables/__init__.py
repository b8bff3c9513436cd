"""Tables of molecules as text: CSV, TSV, Parquet, SDF and SMILES files, packed or not.

Whatever the file, `read_chunks` gives the same: DataFrames whose cells are all texts, blanks "",
with the SMILES in the column one asks for. A row's index leads back to its place in the file:

>>> locate("my.csv.gz", 10), locate("my.sdf", 10)
('my.csv.gz, line 12', 'my.sdf, molecule 11')
"""

from molsepnorm.data.tables.formats import locate
from molsepnorm.data.tables.read import read_chunks, read_table, require_column
from molsepnorm.data.tables.streams import as_file, hold, is_held, is_stream

__all__ = [
    "as_file",
    "hold",
    "is_held",
    "is_stream",
    "locate",
    "read_chunks",
    "read_table",
    "require_column",
]

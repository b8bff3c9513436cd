"""Check a table before training, and write a cleaned copy.

- `reading`: read a table as training does, but continue after errors; `scan`: the result;
- `check`: all findings of a scanned table; `findings`, `measurements` and `molecules` make them;
- `report`: the findings, to display or to process;
- `clean`: a copy of the table without these problems.
"""

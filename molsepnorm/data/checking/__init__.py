"""Check a table before training, and write a cleaned copy.

- `scan`: read a table as training does, but continue after errors;
- `check`: all findings of a scanned table; `findings`, `measurements` and `molecules` make them;
- `report`: the findings, to display or to process;
- `clean`: a copy of the table without these problems.
"""

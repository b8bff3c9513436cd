"""Hostile input of many kinds, and the promises that the package keeps on it.

    python -m benchmarks.fuzz --minutes 5 --seed 0                    every kind in turn
    python -m benchmarks.fuzz --kind smiles --kind tables --cases 200
    python -m benchmarks.fuzz --replay runs/fuzz/smiles-17.py         a finding that was kept

`kinds/` has a file per kind with two functions: `make` draws a case, plain values in a dictionary,
and `check` runs it and raises `Broken` where one of `promises` does not hold. `run` forks a child
for each batch of cases, so that a crash or a hang is a finding as well. `shrink` cuts a finding
down. `work` makes the model, table and run folders that all cases start from, and has `command`,
which runs a command line in this process.
"""

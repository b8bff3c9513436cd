"""Invalid input of many kinds, and the promises that the package keeps for it.

    python -m benchmarks.fuzz --minutes 5 --seed 0                    every kind in turn
    python -m benchmarks.fuzz --kind smiles --kind tables --cases 200
    python -m benchmarks.fuzz --replay runs/fuzz/smiles-0-17.py       a finding of an earlier run

Each kind of `kinds/` has two functions: `make` draws a case, a dictionary of plain values, and
`check` runs it and raises `Broken` if one of the `promises` does not hold. `frame` forks a child
for each case, so that a crash or a hang is a finding too, and shrinks findings. `work`
makes the model, the table and the run folders from which all cases start.
"""

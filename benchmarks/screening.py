"""Measure `molsepnorm screen` on molecules that all differ: its rate, start-up and memory.

    python benchmarks/screening.py --model runs/logS --molecules 10000000

The molecules are sulphones: a large and a small part of ZINC's molecules, joined by SO2. No part
contains sulphur, so a molecule has one SO2 group and can be cut into such parts in one way only:
two pairs of parts are never the same molecule. The library is written as Parquet files of 100,000
molecules each, and is kept in the scratch folder for the next measurement.

MOLSEPNORM_DATA must be set. The last line of the output is JSON, with the memory of all processes
over time, in MiB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from commands import memory_of_session, script
from environment import commit, data_folder, machine
from rdkit import Chem, RDLogger

_FILE_ROWS = 100_000
_LARGE, _SMALL = (10, 20), (1, 8)  # smallest and largest numbers of heavy atoms
_SAMPLES = 20  # of the memory, in the output


def parts_of(smiles: str) -> Iterator[tuple[str, int]]:
    """Yield what a cut between a ring and a side chain leaves, unless it contains sulphur.

    A part is a SMILES that begins with the atom of the cut, and its number of heavy atoms.
    """
    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        return
    for bond in mol.GetBonds():
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        if bond.GetBondType() != Chem.BondType.SINGLE or bond.IsInRing():
            continue
        if any(each.GetSymbol() != "C" for each in ends) or not any(
            each.IsInRing() for each in ends
        ):
            continue
        cut = Chem.FragmentOnBonds(mol, [bond.GetIdx()], dummyLabels=[(0, 0)])
        for part in Chem.GetMolFrags(cut, asMols=True):
            (dummy,) = (atom.GetIdx() for atom in part.GetAtoms() if not atom.GetAtomicNum())
            text = Chem.MolToSmiles(part, rootedAtAtom=dummy, isomericSmiles=False)
            symbols = {atom.GetSymbol() for atom in part.GetAtoms()}
            if "S" not in symbols and text.startswith("*") and Chem.MolFromSmiles(text):
                yield text[1:], part.GetNumAtoms() - 1


def joined(large: Sequence[str], small: Sequence[str]) -> Iterator[str]:
    """Yield all pairs of a large and a small part as molecules, in a mixed order."""
    pairs = len(large) * len(small)
    step = next(step for step in range(int(0.618 * pairs) + 1, 2 * pairs) if gcd(step, pairs) == 1)
    for number in range(pairs):
        one, other = divmod(number * step % pairs, len(small))
        yield f"O=S(=O)({large[one]}){small[other]}"


def parts_for(molecules: int, smiles: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return large and small parts that make at least so many molecules."""
    large, small = dict[str, None](), dict[str, None]()
    for text in smiles:
        for part, atoms in parts_of(text):
            if _LARGE[0] <= atoms <= _LARGE[1]:
                large[part] = None
            elif _SMALL[0] <= atoms <= _SMALL[1]:
                small[part] = None
        if len(large) * len(small) >= molecules:
            return list(large), list(small)
    sys.exit(f"the parts make only {len(large) * len(small):,} molecules: choose fewer")


def write_library(folder: Path, molecules: int, smiles: Iterable[str]) -> None:
    """Write the molecules as Parquet files."""
    every = joined(*parts_for(molecules, smiles))
    for first in range(0, molecules, _FILE_ROWS):
        numbers = range(first, min(first + _FILE_ROWS, molecules))
        texts = [next(every) for _ in numbers]
        table = pa.table({"id": [f"M{number}" for number in numbers], "smiles": texts})
        pq.write_table(table, folder / f"{first // _FILE_ROWS:06}.parquet", row_group_size=20_000)


def zinc_smiles() -> Iterator[str]:
    """Yield the SMILES of ZINC's training molecules."""
    with gzip.open(data_folder() / "zinc" / "train.csv.gz", "rt") as file:
        yield from (row["smiles"] for row in csv.DictReader(file))


def measure(command: Sequence[str], output: Path) -> dict[str, Any]:
    """Run a screen, and return its time, that of its start, and its memory over time."""
    log = output.with_suffix(".txt")
    started, memory = None, []
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])  # user and system
    with open(log, "w") as file:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        while process.poll() is None:
            now = time.perf_counter() - begun
            if started is None and (output / "parts").is_dir():
                started = now
            memory.append((now, memory_of_session(process.pid) / 2**20))
            time.sleep(0.1 if started is None else max(0.5, now / 500))
        seconds = time.perf_counter() - begun
    if process.returncode:
        sys.exit(f"exit status {process.returncode}: {log.read_text()[-2000:]}")
    after = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    sizes = [size for _, size in memory]
    every = max(1, len(memory) // _SAMPLES)
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(after - before, 1),
        "seconds_to_start": round(started or seconds, 1),
        "peak_mib": round(max(sizes)),
        "mib_over_time": [[round(at), round(size)] for at, size in memory[::every]],
    }


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    RDLogger.DisableLog("rdApp.*")
    options = _parser().parse_args(arguments)
    library = options.scratch.absolute() / f"library-{options.molecules}"
    if not library.is_dir():
        partial = library.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_library(partial, options.molecules, zinc_smiles())
        partial.rename(library)
    output = options.scratch.absolute() / "output"
    shutil.rmtree(output, ignore_errors=True)
    command = [
        *script("from molsepnorm.cli import main; main()"),
        *("screen", "--model", str(options.model), "--input", str(library / "*.parquet")),
        *("--output", str(output), "--processes", str(options.processes)),
        *(("--top", str(options.top)) if options.top else ()),
    ]
    found = measure(command, output)
    content = json.loads((output / "manifest.json").read_text())["parts"].values()
    rows, rejected = (sum(each[name] for each in content) for name in ("rows", "rejected"))
    size = sum(path.stat().st_size for path in (output / "parts").iterdir())
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "molecules": rows,
        "rejected": rejected,
        "processes": options.processes,
        "rows_per_second": round(rows / found["seconds"], 1),
        "rows_per_cpu_second": round(rows / found["cpu_seconds"], 1),
        "output_mib": round(size / 2**20, 1),
        **found,
    }
    print(json.dumps(figures))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure molsepnorm screen.")
    parser.add_argument("--model", required=True, help="folder of a run or a model")
    parser.add_argument("--molecules", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--top", type=int, help="keep only the best molecules")
    scratch = Path(tempfile.gettempdir()) / "molsepnorm-screening"
    parser.add_argument("--scratch", type=Path, default=scratch, help="folder of the library")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

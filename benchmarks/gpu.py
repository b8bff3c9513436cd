"""Ten minutes on a GPU: correctness first, then speed.

    pip install cython==0.29.37 transformers==4.57.6   # the peer; it can be left out
    MOLSEPNORM_DATA=DATA python benchmarks/gpu.py gpu.json

1. The checks of `molsepnorm doctor`. The script stops if one fails.
2. One epoch of the ZINC recipe on the GPU and on the CPU: both have the same validation error to
   2 %, without dropout and from the same weights.
3. Training steps of Graphormer-SLIM in fp32 and bf16, beside the network of transformers.
4. The time of an epoch of ZINC, eager and compiled.

This script has run on a CPU only (`--device cpu`), where nothing has been timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE), str(HERE.parent)]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import torch  # noqa: E402
from environment import commit, machine, versions  # noqa: E402
from peers import PeerMissing, hf_graphormer  # noqa: E402
from stages.common import SLIM_ENCODING, zinc_table  # noqa: E402
from torch import nn  # noqa: E402

from molsepnorm import Graphormer, load_config  # noqa: E402
from molsepnorm import train as train_run  # noqa: E402
from molsepnorm.data.batching import GraphTensors  # noqa: E402
from molsepnorm.devices import Precision, autocast  # noqa: E402
from molsepnorm.doctor import run_checks  # noqa: E402
from molsepnorm.molecules import featurize  # noqa: E402
from molsepnorm.molecules.encodings import encode  # noqa: E402
from molsepnorm.nn import GraphormerConfig  # noqa: E402
from molsepnorm.training.config import OptimConfig  # noqa: E402
from molsepnorm.training.step import make_optimizer  # noqa: E402

BATCH, BATCHES, WARM_UPS, STEPS = 256, 8, 10, 100
_EXACT = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "run.epochs": 1}


def epoch(device: str, **settings: Any) -> dict[str, float]:
    """Train an epoch of the ZINC recipe, and return its error and time."""
    overrides = {**_EXACT, "run.device": device, **settings}
    with tempfile.TemporaryDirectory() as folder:
        result = train_run(load_config("zinc", overrides=overrides), Path(folder) / "run")
    return {"mae": result.metrics["val"]["mae"], "seconds": result.metrics["seconds"]}


def step_seconds(device: torch.device, precision: Precision) -> dict[str, float]:
    """Return the seconds of a training step of SLIM, ours and the peer's."""
    table, read = zinc_table("train", BATCH * BATCHES), featurize.get("zinc")
    graphs = [read(smiles) for smiles in table["smiles"]]
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32, device=device)[:, None]
    rows = np.arange(len(graphs)).reshape(BATCHES, BATCH)
    tensors = GraphTensors.of(encode(graphs, SLIM_ENCODING), device)
    ours = [(tensors.cut(each, 4), labels[each]) for each in rows]
    network = Graphormer(GraphormerConfig()).to(device)
    found = {"ours": _seconds(network, lambda batch: network(batch), ours, device, precision)}
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        pairs = zip(graphs, labels[:, 0].tolist(), strict=True)
        items = [preprocess(hf_graphormer.raw_item(graph, label)) for graph, label in pairs]
        collated = (collate([items[i] for i in each]) for each in rows)
        moved = ({name: part.to(device) for name, part in each.items()} for each in collated)
        theirs = [*zip(moved, (labels[each] for each in rows), strict=True)]
        peer = hf_graphormer.slim().to(device)
        outputs = hf_graphormer.outputs
        found["peer"] = _seconds(peer, lambda b: outputs(peer, b), theirs, device, precision)
    except PeerMissing as missing:
        print(f"no peer: {missing}")
    return found


def _seconds(
    network: nn.Module, outputs: Any, batches: list[Any], device: torch.device, precision: Precision
) -> float:
    optimizer = make_optimizer(network.train(), OptimConfig(lr=2e-4))  # type: ignore[arg-type]

    def steps(number: int) -> None:
        for index in range(number):
            batch, labels = batches[index % len(batches)]
            with autocast(precision, device):
                loss = (outputs(batch).float() - labels).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    steps(WARM_UPS)
    started = time.perf_counter()
    steps(STEPS)
    return (time.perf_counter() - started) / STEPS


def main() -> None:
    """Check, measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    found: dict[str, Any] = {"commit": commit(), "machine": machine(), **versions("torch")}
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
    found["checks"] = [vars(check) for check in run_checks()]
    for check in found["checks"]:
        print(check["state"], check["name"], check["said"])
    if any(check["state"] == "failed" for check in found["checks"]):
        sys.exit("a check failed: nothing is measured")
    found["epoch"] = {name: epoch(name) for name in dict.fromkeys(("cpu", options.device))}
    ratio = found["epoch"][options.device]["mae"] / found["epoch"]["cpu"]["mae"]
    if not 0.98 < ratio < 1.02:
        sys.exit(f"after an epoch the validation error is {ratio:.3f} times that of the CPU")
    found["step"] = {each: step_seconds(device, each) for each in ("fp32", "bf16")}
    found["compiled epoch"] = epoch(options.device, **{"run.compile": True})
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps({name: found[name] for name in ("epoch", "step", "compiled epoch")}, indent=2))


if __name__ == "__main__":
    main()

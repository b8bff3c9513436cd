"""Functions that tests/training/test_distributed.py runs in two processes at once.

A single start serves all of its tests: each function here is run by both processes, and what it
returns lies in OUT/<rank>.pt under its name. Those that compare with one process are called by the
tests too, with `DistributedContext()`.
"""

from __future__ import annotations

import atexit
import gc
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import ConfigError, DataError, MolsepnormError, StorageError
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import GraphormerConfig
from molsepnorm.sepnorm import MaskedBatchNorm1d, SepNorm
from molsepnorm.sepnorm.batch_norm import synchronize_norms
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.step import estimate_statistics
from support import far_from_initial

WIDTH = 3
ROWS = 9
CUTS = {"even": 5, "uneven": 2, "one row": 1, "no row": 0, "all masked": 4}
"""Number of the nine rows that the second process has."""
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "cumulative": {"momentum": None},
    "plain": {"affine": False},
    "of the batch": {"track_running_stats": False},
}
SMALL: dict[str, Any] = {
    "layers": 2,
    "width": 8,
    "ffn_width": 8,
    "heads": 2,
    "outputs": 2,
    "max_distance": 6,
    "max_path_length": 3,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
NETWORKS: dict[str, dict[str, Any]] = {
    "sep, layer": {"norm": "sep"},
    "sep, batch": {"norm": "sep-bn"},
    "shared, batch": {"norm": "shared-bn"},
    "local, walks": {"local": "gine", "node_walks": 4, "pair_walks": 3, "readout": "token+sum"},
}
SMILES = (
    *("CCO", "c1ccccc1", "CC(=O)[O-].C[NH3+]", "C1CC2CCC1C2"),
    *("C", "CCCCCC", "C#N", "OC=O", "CO"),
)


# --- alike in one process and in two -------------------------------------------------------------


def norm_steps(
    world: DistributedContext, cut: str, options: str, dtype: torch.dtype = torch.float64
) -> dict:
    """Three training steps of a synchronised batch norm, on rows with a large common offset."""
    norm = MaskedBatchNorm1d(WIDTH, **OPTIONS[options]).to(dtype)
    synchronize_norms(nn.Sequential(norm))
    generator = torch.Generator().manual_seed(0)
    first = ROWS - CUTS[cut]
    mine = [slice(None), [slice(0, first), slice(first, None)][world.rank]][world.size - 1]
    outputs, gradients = [], []
    for _ in range(3):
        x = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64).mul(2).add(100)
        weight = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
        mask = torch.rand(ROWS, generator=generator) < 0.7
        mask[:2] = True
        if cut == "all masked":
            mask[first:] = False
        leaf = x[mine].to(dtype).requires_grad_()
        y = norm(leaf, mask[mine])
        (y * weight[mine].to(dtype)).sum().backward()
        assert leaf.grad is not None
        outputs.append(y.detach())
        gradients.append(leaf.grad)
    return {
        "outputs": torch.cat([torch.stack(outputs), torch.stack(gradients)]),
        "parameters": {name: p.grad for name, p in norm.named_parameters()},
        "state": {name: value for name, value in norm.state_dict().items() if "run" in name},
    }


def training_steps(world: DistributedContext, options: str) -> dict:
    """Two steps of a small network on nine molecules, some without a label; its statistics."""
    config = GraphormerConfig(**{**SMALL, **NETWORKS[options]})
    network = far_from_initial(config).double()
    parallel: nn.Module = network.train()
    if world.size > 1:
        synchronize_norms(network)
        parallel = nn.parallel.DistributedDataParallel(network)
        parallel.broadcast_buffers = False
    graphs = [featurize.get("zinc")(smiles) for smiles in SMILES]
    tensors = GraphTensors.of(encode(graphs, encoding_of(config)))
    labels = torch.linspace(-1, 1, 2 * len(SMILES), dtype=torch.float64).view(-1, 2)
    labels[[0, 2, 2, 4], [0, 0, 1, 1]] = math.nan
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    losses, gradients = [], {}
    for batch in (np.arange(len(SMILES)), np.arange(len(SMILES))[::-1]):
        mine = world.share(batch)
        outputs = parallel(tensors.cut(mine, 2))
        wanted = labels[torch.from_numpy(mine.copy())]
        loss = (outputs - wanted.nan_to_num())[~wanted.isnan()].square().sum()
        told = torch.stack([loss.detach(), (~wanted.isnan()).sum().double()])
        world.sum(told)
        optimizer.zero_grad()
        (loss * world.size / told[1]).backward()
        gradients = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        optimizer.step()
        losses.append(told)
    trained = {name: value.clone() for name, value in network.state_dict().items()}
    batches = (np.arange(5), np.arange(5, len(SMILES)))
    estimate_statistics(network, (tensors.cut(world.share(batch), 2) for batch in batches))
    return {
        "losses": torch.stack(losses),
        "gradients": gradients,
        "trained": trained,
        "estimated": {name: b.clone() for name, b in network.named_buffers() if "running" in name},
    }


# --- of two processes alone ----------------------------------------------------------------------


def one_graph_each(world: DistributedContext) -> Tensor:
    """SepNorm with a single graph on each process, which alone it refuses."""
    norm = SepNorm(WIDTH)
    synchronize_norms(norm)
    return norm(graph_of(world.rank)[None]).detach()


def graph_of(rank: int) -> Tensor:  # (2, WIDTH)
    return torch.arange(2.0 * WIDTH).view(2, WIDTH).mul(1 + rank).sin()


def one_graph_in_all(world: DistributedContext) -> str:
    norm = SepNorm(WIDTH)
    synchronize_norms(norm)
    return message_of(lambda: norm.tokens(torch.randn(1 - world.rank, WIDTH)))


def converted_by_torch(world: DistributedContext) -> dict:
    """SepNorm after torch's conversion, and its second derivatives."""
    norm = SepNorm(WIDTH, nn.LayerNorm, nn.BatchNorm1d)
    norm = nn.SyncBatchNorm.convert_sync_batchnorm(norm)
    x = graph_of(world.rank)[None].requires_grad_()
    y = norm(x, mask=torch.tensor([[False, True]]))
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return {"output": y.detach(), "gradient": first.detach(), "second": second}


def shared(world: DistributedContext) -> dict:
    """Return, for several numbers of molecules, this process's part and the gathered rows."""
    found = {}
    for total in (0, 1, 7):
        rows = torch.randn(total, 2, generator=torch.Generator().manual_seed(1))
        mine = world.share(np.arange(total))
        own = rows[torch.from_numpy(mine)] if len(mine) else torch.empty(0, 0)
        found[total] = {"share": mine, "rows": rows, "gathered": world.gather(own)}
    return found


def agreed(world: DistributedContext) -> dict:
    one, other = torch.tensor([world.rank + 1.0]), torch.tensor(world.rank)
    world.sum(one)
    world.sum(other)
    return {
        "sums": (one, other),
        "any": [world.any(world.rank == rank) for rank in range(3)],
        "together": world.on_main_process(lambda: Path(f"chosen by {world.rank}")),
        "first": world.rank == 0,
    }


def errors(world: DistributedContext) -> dict[str, str]:
    """Return the error of each process where one of them fails."""

    def fail(error: BaseException) -> Callable[[], None]:
        def action() -> None:
            raise error

        return action

    def fail_on_the_second() -> None:
        if world.rank > 0:
            raise DataError("no memory left")

    return {
        "config": message_of(lambda: world.on_main_process(fail(ConfigError("no such column")))),
        "storage": message_of(
            lambda: world.on_main_process(fail(StorageError("the disk is full")))
        ),
        "bug": message_of(lambda: world.on_main_process(fail(ZeroDivisionError("by nought")))),
        "exit": message_of(lambda: world.on_main_process(fail(SystemExit(143)))),
        "in turn": message_of(lambda: world.main_process_first(fail(DataError("not a table")))),
        "second": message_of(lambda: world.main_process_first(fail_on_the_second)),
    }


def in_turn(world: DistributedContext) -> list[str]:
    """The first process leaves a file, which the second one finds."""
    place = Path(sys.argv[1]) / "cache"

    def prepare() -> list[str]:
        found = sorted(path.name for path in place.iterdir()) if place.exists() else []
        place.mkdir(exist_ok=True)
        (place / str(world.rank)).touch()
        return found

    return world.main_process_first(prepare)


def random_numbers(world: DistributedContext) -> dict[str, Any]:
    """Drawn alike, then apart; after a state is restored, and where there is none to restore."""
    torch.manual_seed(5)
    alike = torch.rand(3)
    world.spread_random(5)
    torch.rand(3)
    states = world.random_states()
    apart = torch.rand(3)
    world.restore_random(states, 5, 1)
    again = torch.rand(3)
    of_one = {name: state for name, state in states.items() if "." not in name}
    world.restore_random(of_one, 5, 1)
    new = torch.rand(3)
    return {"states": states, "alike": alike, "apart": apart, "again": again, "new": new}


def message_of(action: Callable[[], Any]) -> str:
    """The class and the text of what it raises."""
    try:
        action()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def threads() -> str:
    """The names of this process's threads, a line each."""
    return "".join(each.read_text() for each in sorted(Path("/proc/self/task").glob("*/comm")))


def main() -> None:
    out = Path(sys.argv[1])
    gc.disable()  # so that what is in cycles waits for the collection at the end
    atexit.register(lambda: (out / "threads.txt").write_text(threads()))  # the last to be called
    with DistributedContext.join("cpu") as world:
        found: dict[str, Any] = {"world": world}
        for cut in CUTS:
            for options in OPTIONS:
                found[f"norm {cut} {options}"] = norm_steps(world, cut, options)
        found["norm float32"] = norm_steps(world, "uneven", "default", torch.float32)
        for options in NETWORKS:
            found[f"training {options}"] = training_steps(world, options)
        for scenario in (
            *(one_graph_each, one_graph_in_all, converted_by_torch, shared, agreed, errors),
            *(in_turn, random_numbers),
        ):
            found[scenario.__name__] = scenario(world)
    found["left"] = not torch.distributed.is_initialized()
    torch.save(found, out / f"{world.rank}.pt")

    os.environ["MASTER_PORT"] = sys.argv[2]
    try:
        with DistributedContext.join("cpu") as world:
            if world.rank > 0:
                os._exit(0)  # as if it had been killed
            (out / "threads-before.txt").write_text(threads())
            world.any(False)
    except MolsepnormError as error:
        (out / "lost.txt").write_text(str(error))


if __name__ == "__main__":
    main()

"""Training steps of SLIM in every variant, interleaved with the peer's, and their lower bounds.

A step of ours cuts its batch from the store, runs forward, loss and backward, clips gradients, and
updates the weights by AdamW, the learning rate and the average of the weights; SepNorm and dropout
are as published. Variants change one factor at a time, starting from the fastest one so far.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np
import torch
from interleaved import Plan, Row, Target, Work, compare, interleave
from peers import PeerMissing, hf_graphormer

from gpu import peer, roofline
from gpu.jobs import run_jobs
from gpu.profiling import count_kernels
from gpu.trainers import (
    DEVICE,
    Variant,
    first_batches,
    make_trainer,
    scale,
    synchronize,
    warnings_of,
)
from molsepnorm.predict.inference import Precision, infer
from molsepnorm.training.loop import Trainer

__all__ = ["fastest", "measure"]

_STEPS_PER_SYNC = 13
_MAX_MS, _MIN_RATIO, _MIN_RATE = 3.0, 15.0, 1e5


def measure(deadline: float) -> dict[str, Any]:
    """Time everything.

    Returns:
        best, the name of the fastest variant; rows, of the table; failed, the errors of jobs.
    """
    found: dict[str, Any] = {"best": str(Variant()), "rows": [], "failed": {}}
    times: dict[str, float] = {}

    def run(names: list[str], limit: float = 90.0) -> None:
        for name, outcome in run_jobs(job, names, deadline, limit, peer.carried()).items():
            found["rows"] += outcome.result or []
            found["failed"] |= {name: outcome.error} if outcome.error else {}
            kind, _, variant = name.partition(" ")
            if kind == "steps" and outcome.result:
                times[variant] = statistics.median(outcome.result[0]["ours"])
            print(f"{name}: {outcome.error or 'done'}", flush=True)

    def fastest_of(variants: list[Variant], limit: float = 60.0) -> Variant:
        run([f"steps {each}" for each in variants if str(each) not in times], limit)
        return fastest(times)

    first = Variant()
    best = fastest_of([first, replace(first, step="eager"), replace(first, fused=False)])
    full = fastest_of([replace(best, blocks=blocks) for blocks in (1, 2)])
    best = fastest_of([replace(full, precision=precision) for precision in ("tf32", "bf16")])
    best = fastest_of([replace(best, fused=False)])
    run(list(dict.fromkeys([f"contest {full}", f"contest {best}"])))
    run([f"bounds {best}", "evaluation fp32", "evaluation bf16"])
    if scale().compiled:  # last, since it may take all the remaining time
        compiled = fastest_of([replace(best, step="compiled")], limit=150)
        if compiled != best:
            best = compiled
            run([f"contest {compiled}"], 150)
    return {**found, "best": str(best)}


def fastest(times: dict[str, float]) -> Variant:
    """Return the variant with the shortest step; the default if none could be measured."""
    return Variant.of(min(times, key=times.__getitem__)) if times else Variant()


def job(name: str) -> list[dict[str, Any]]:
    """Do the job of this name: its kind, a space, and a variant or a precision."""
    kind, _, rest = name.partition(" ")
    if kind == "evaluation":
        return [asdict(row) for row in _evaluation(cast(Precision, rest))]
    make = {"steps": _steps, "contest": _contest, "bounds": _bounds}[kind]
    return [asdict(row) for row in make(Variant.of(rest))]


def _plan(rounds: int) -> Plan:
    return Plan(0.0, rounds, rounds, scale().round_seconds)


def _ready(variant: Variant) -> tuple[Trainer, list[np.ndarray], Work]:
    """Return a trainer that has seen all its shapes, its batches, and the work of a round."""
    trainer = make_trainer(variant, settings={"optim.ema": 0.999})
    batches = first_batches(trainer, scale().molecules // scale().batch)
    trainer.take_steps(batches)
    synchronize()

    def work(number: int) -> int:
        start = number * _STEPS_PER_SYNC % max(1, len(batches) - _STEPS_PER_SYNC + 1)
        chosen = batches[start : start + _STEPS_PER_SYNC]
        trainer.take_steps(chosen)
        synchronize()
        return sum(map(len, chosen))

    return trainer, batches, work


def _steps(variant: Variant) -> list[Row]:
    """Time steps of ours alone."""
    begun = time.perf_counter()
    trainer, batches, work = _ready(variant)
    ready = time.perf_counter() - begun
    size = len(batches[0])
    rates = interleave({"ours": work}, _plan(2 * scale().rounds))["ours"]
    memory = torch.cuda.max_memory_allocated() / 2**20 if DEVICE == "cuda" else 0.0
    remark = f"ready after {ready:.1f} s, {memory:,.0f} MiB"
    return [
        Row(
            f"training step of SLIM, batch {size}, {variant}",
            "ms",
            [1000 * size / rate for rate in rates],
            target=Target("ours", _MAX_MS),
            remark="; ".join([remark, *warnings_of(trainer)]),
        )
    ]


def _contest(variant: Variant) -> list[Row]:
    """Interleave ours and the peer on the same molecules, neither with a collator."""
    trainer, batches, work = _ready(variant)
    store, chosen = trainer.dataset.store, batches[: scale().peer_batches]
    works, remark = {"ours": work}, ""
    try:
        _, step = peer.make_step(torch.device(DEVICE), variant.precision)
        inputs = [peer.inputs(store, batch) for batch in chosen]
        ready = [{name: x.to(DEVICE) for name, x in batch.items()} for batch in inputs]

        def theirs(number: int) -> int:
            for batch in ready:
                step(batch)
            synchronize()
            return sum(map(len, chosen))

        works["peer"] = theirs
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    row = compare(
        works,
        _plan(2 * scale().rounds),
        what=f"training step beside the peer's, {variant}",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="SLIM, its inputs on the device before",
        target=Target("ratio", _MIN_RATIO),
        remark=remark,
    )
    return [row]


def _bounds(variant: Variant) -> list[Row]:
    """Measure the time of a step's launches, bytes and matrix products alone."""
    trainer, batches, _ = _ready(variant)
    slots = (trainer.dataset.store.sizes[batches[0]] + 1).tolist()
    kernels, launch = count_kernels(trainer), roofline.seconds_per_launch(captured=True)
    eager = roofline.seconds_per_launch(captured=False)
    moved = roofline.min_bytes(trainer, slots, 4, 2 if variant.precision == "bf16" else 4)
    copied = roofline.bandwidth()
    launches = f"{kernels:.0f} launches of {1e6 * launch:.2f} µs, {1e6 * eager:.2f} µs eagerly"
    copying = f"{moved / 1e6:.0f} MB at {copied / 1e9:,.0f} GB/s"
    rows = [
        Row("bound: kernel launches", "ms", [1000 * kernels * launch], remark=launches),
        Row("bound: memory", "ms", [1000 * moved / copied], remark=copying),
    ]
    for precision in ("fp32", "tf32", "bf16"):
        products = roofline.seconds_of(roofline.products(slots, 4, precision))
        rows.append(Row(f"bound: matrix products, {precision}", "ms", [1000 * products]))
    return rows


def _evaluation(precision: Precision) -> list[Row]:
    """Measure the molecules per second of `infer`, from the store, for several batch sizes."""
    trainer = make_trainer(Variant("eager"))
    everything = np.arange(len(trainer.dataset.store))[: 4 * scale().molecules]

    def works(size: int) -> Work:
        def work(number: int) -> int:
            infer(trainer.network, trainer.graphs, everything, size, precision)
            return len(everything)

        return work

    rates = interleave({size: works(size) for size in (256, 1024, 4096)}, _plan(scale().rounds))
    return [
        Row(
            f"evaluation from a store, batch {size}, {precision}",
            "molecules/s",
            values,
            target=Target("ours", _MIN_RATE),
        )
        for size, values in rates.items()
    ]

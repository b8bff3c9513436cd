"""Training steps of SLIM in every variant, beside the peer's and beside the floors.

A step of ours is all of it: its batch cut from the store, forward, loss, backward, clipping, AdamW,
the learning rate, the average of the weights; SepNorm and dropout as published. The variants are
tried one factor at a time, each with the best found so far.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from peers import PeerMissing, hf_graphormer
from turns import Plan, Work, in_turns

from gpu import ceilings, peer
from gpu.jobs import Outcome, run_jobs
from gpu.profiling import count_kernels
from gpu.scale import scale
from gpu.trainers import DEVICE, Variant, first_batches, make_trainer, notes, synchronize
from molsepnorm.predict.inference import Precision, infer
from molsepnorm.training.loop import Trainer

__all__ = ["JOBS", "best_of", "measure"]

_EMA = {"optim.ema": 0.999}
_TOGETHER = 13  # steps between two synchronisations
_TWICE = 2


def measure(deadline: float) -> dict[str, Any]:
    """All of it.

    Returns:
        steps, a line for each variant that was tried; best, the quickest one's name; rest, the
        results of contests, floors and evaluations by the names of their jobs.
    """
    lines: dict[str, dict[str, Any]] = {}

    def tried(variants: list[Variant], limit: float = 60.0) -> Variant:
        names = [f"steps {each}" for each in variants if str(each) not in lines]
        for name, outcome in run_jobs(__name__, names, deadline, limit).items():
            lines[name.removeprefix("steps ")] = _line(name.removeprefix("steps "), outcome)
        return best_of(list(lines.values()))

    captured = Variant()
    best = tried([captured, replace(captured, step="eager"), replace(captured, fused=False)])
    best = tried([replace(best, blocks=blocks) for blocks in (1, 2)])
    full = best
    tried([replace(best, precision=precision) for precision in ("tf32", "bf16")])
    best = tried([replace(best_of(list(lines.values())), fused=False)])
    names = list(dict.fromkeys([f"contest {full}", f"contest {best}", f"collated {full}"]))
    rest = run_jobs(__name__, names, deadline, 90, first_path=peer.carried())
    names = [f"floors {best}", "evaluation fp32", "evaluation bf16"]
    rest |= run_jobs(__name__, names, deadline)
    if scale().compiled:  # last, since it may take all the time that is left
        compiled = tried([replace(best, step="compiled")], limit=150)
        if compiled != best:
            best, names = compiled, [f"contest {compiled}"]
            rest |= run_jobs(__name__, names, deadline, 150, first_path=peer.carried())
    told = {name: outcome.result or {"error": outcome.error} for name, outcome in rest.items()}
    return {"steps": list(lines.values()), "best": str(best), "rest": told}


def best_of(lines: list[dict[str, Any]]) -> Variant:
    """The quickest of those that could be measured; captured where none could."""
    measured = [line for line in lines if "ms" in line]
    if not measured:
        return Variant()
    return Variant.of(min(measured, key=lambda line: line["ms"])["variant"])


def JOBS(name: str) -> Any:
    """The job of that name: its kind, a blank, a variant or a precision."""
    kind, _, rest = name.partition(" ")
    return {
        "steps": lambda: _steps(Variant.of(rest)),
        "contest": lambda: _contest(Variant.of(rest)),
        "collated": lambda: _collated(Variant.of(rest)),
        "floors": lambda: _floors(Variant.of(rest)),
        "evaluation": lambda: _evaluation(cast(Precision, rest)),
    }[kind]


def _line(name: str, outcome: Outcome) -> dict[str, Any]:
    line = {"variant": name, **(outcome.result or {"error": outcome.error})}
    told = f"{line['ms']:.3f} ms a step" if "ms" in line else line["error"]
    print(f"{name}: {told}", flush=True)
    return line


def _plan(**changes: float) -> Plan:
    size = scale()
    given = {"least": size.turns, "most": size.turns, "turn_seconds": size.turn_seconds}
    return Plan(**{**given, "seconds": 0.0, **changes})  # type: ignore[arg-type]


def _ready(variant: Variant) -> tuple[Trainer, list[np.ndarray], float]:
    """A trainer that has met all its shapes, its batches, and the seconds that this took."""
    trainer = make_trainer(variant, settings=_EMA)
    batches = first_batches(trainer, scale().molecules // scale().batch)
    begun = time.perf_counter()
    trainer.take_steps(batches)
    synchronize()
    return trainer, batches, time.perf_counter() - begun


def _work(trainer: Trainer, batches: list[np.ndarray]) -> Work:
    def work(turn: int) -> int:
        start = turn * _TOGETHER % max(1, len(batches) - _TOGETHER + 1)
        chosen = batches[start : start + _TOGETHER]
        trainer.take_steps(chosen)
        synchronize()
        return sum(map(len, chosen))

    return work


def _steps(variant: Variant) -> dict[str, Any]:
    """ms a step, in the turns of two contests with nobody."""
    trainer, batches, ready = _ready(variant)
    work = _work(trainer, batches)
    size = len(batches[0])
    times = [
        sorted(1000 * size / rate for rate in in_turns({"ours": work}, _plan())["ours"])
        for _ in range(_TWICE)
    ]
    medians = [each[len(each) // 2] for each in times]
    ms = sum(medians) / _TWICE
    spread = [min(map(min, times)), max(map(max, times))]
    memory = torch.cuda.max_memory_allocated() / 2**20 if DEVICE == "cuda" else 0.0
    return {
        "ms": ms,
        "graphs_per_second": 1000 * size / ms,
        "medians": medians,
        "spread": spread,
        "ready_seconds": ready,
        "notes": notes(trainer),
        "memory_mib": memory,
    }


def _contest(variant: Variant) -> dict[str, Any]:
    """Ours and the peer's on the same molecules, in turns; neither waits for a collator."""
    trainer, batches, _ = _ready(variant)
    store, chosen = trainer.dataset.store, batches[: scale().peer_batches]
    contestants: dict[str, Work] = {"ours": _work(trainer, batches)}
    remark = ""
    try:
        _, step = peer.make_stepper(torch.device(DEVICE), variant.precision)
        there = [_on_device(peer.inputs(store, trainer.dataset.labels, batch)) for batch in chosen]

        def theirs(turn: int) -> int:
            for batch in there:
                step(batch)
            synchronize()
            return sum(map(len, chosen))

        contestants["peer"] = theirs
    except PeerMissing as missing:
        remark = f"no peer: {missing}"
    return {"variant": str(variant), "rates": _both_times(contestants), "remark": remark}


def _collated(variant: Variant) -> dict[str, Any]:
    """Ours, and the peer's as its users run it: the collator in every step."""
    trainer, batches, _ = _ready(variant)
    store, labels, chosen = trainer.dataset.store, trainer.dataset.labels, batches[:2]
    contestants: dict[str, Work] = {"ours": _work(trainer, batches)}
    remark = ""
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        _, step = peer.make_stepper(torch.device(DEVICE), variant.precision)
        items = [
            [
                preprocess(hf_graphormer.raw_item(peer.graph_of(store, graph), label))
                for graph, label in zip(batch, labels[batch, 0].tolist(), strict=True)
            ]
            for batch in chosen
        ]

        def theirs(turn: int) -> int:
            some = items[turn % len(items)]
            step(_on_device(collate(some)))
            synchronize()
            return len(some)

        contestants["peer"] = theirs
    except Exception as error:  # it is compiled by a C compiler, against headers, as it is imported
        remark = f"no peer: {' '.join(str(error).split())[:200]}"
    return {"variant": str(variant), "rates": _both_times(contestants), "remark": remark}


def _both_times(contestants: dict[str, Work]) -> dict[str, list[float]]:
    rates = [in_turns(contestants, _plan()) for _ in range(_TWICE)]
    return {name: [value for each in rates for value in each[name]] for name in contestants}


def _on_device(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.to(DEVICE, non_blocking=True) for name, value in batch.items()}


def _floors(variant: Variant) -> dict[str, Any]:
    """ms that a step's launches, bytes and matrix products take alone."""
    trainer, batches, _ = _ready(variant)
    slots = (trainer.dataset.store.sizes[batches[0]] + 1).tolist()
    kernels = count_kernels(trainer)
    copied, launch = ceilings.bandwidth(), ceilings.per_launch(captured=True)
    moved = ceilings.least_bytes(trainer, slots, 4, 2 if variant.precision == "bf16" else 4)
    products = {
        precision: 1000 * ceilings.seconds_of(ceilings.products(slots, 4, precision))
        for precision in ("fp32", "tf32", "bf16")
    }
    return {
        "variant": str(variant),
        "kernels": kernels,
        "launch_us": 1e6 * launch,
        "eager_launch_us": 1e6 * ceilings.per_launch(captured=False),
        "launches_ms": 1000 * kernels * launch,
        "copy_gb_s": copied / 1e9,
        "moved_mb": moved / 1e6,
        "bytes_ms": 1000 * moved / copied,
        "products_ms": products,
    }


def _evaluation(precision: Precision) -> dict[str, Any]:
    """Molecules a second by `infer`, from the store."""
    trainer = make_trainer(Variant("eager"))
    everything = np.arange(len(trainer.dataset.store))[: 4 * scale().molecules]

    def works(size: int) -> Work:
        def work(turn: int) -> int:
            infer(trainer.network, trainer.graphs, everything, size, precision)
            return len(everything)

        return work

    sizes = (256, 1024, 4096)
    rates = in_turns({str(size): works(size) for size in sizes}, _plan())
    return {"precision": precision, "molecules": len(everything), "rates": rates}

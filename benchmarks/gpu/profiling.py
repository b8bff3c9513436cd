"""Kernels of a training step: how many, how long, and how long nothing runs between them."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from gpu.jobs import run_jobs
from gpu.scale import out, scale, scratch
from gpu.trainers import DEVICE, Variant, first_batches, make_trainer, synchronize
from molsepnorm.training.loop import Trainer

__all__ = ["JOBS", "count_kernels", "profile_steps"]

_TOP = 25
_TRACES = 2
_LARGEST = 15 << 20  # a file of $OUT may have 16 MiB


class Ran(NamedTuple):
    """A kernel, or on a CPU an operation, that ran."""

    name: str
    begin: float
    """µs"""
    end: float


def profile_steps(deadline: float, best: Variant) -> list[dict[str, Any]]:
    """Profile the best variant, the same without capture, and the same in full precision."""
    variants = [best, Variant("eager", best.precision, best.blocks, best.fused)]
    names = list(dict.fromkeys(map(str, [*variants, Variant("captured")])))
    outcomes = run_jobs(__name__, names, deadline, limit=90)
    path, told = out() / "profile.txt", []
    with open(path, "w") as file:
        for name, outcome in outcomes.items():
            if outcome.error:
                told.append({"variant": name, "error": outcome.error})
                file.write(f"{name}: {outcome.error}\n\n")
                continue
            file.write(f"{outcome.result.pop('text')}\n\n")
            _bring_back(Path(outcome.result.pop("trace")), traces=name in names[:_TRACES])
            told.append(outcome.result)
            print(f"{name}: {outcome.result}", flush=True)
    return told


def count_kernels(trainer: Trainer, steps: int = 3) -> float:
    """Kernels, copies and fills of a step."""
    batches = first_batches(trainer, steps)
    trainer.take_steps(batches)
    ran, _ = _profiled(trainer, steps)
    return len(ran) / steps


def JOBS(name: str) -> Any:
    """The job that profiles a variant."""
    return lambda: _job(Variant.of(name))


def _job(variant: Variant) -> dict[str, Any]:
    trainer, steps = make_trainer(variant), scale().profiled
    trainer.take_steps([*first_batches(trainer, 12)])  # whatever is compiled or captured
    synchronize()
    begun = time.perf_counter()
    trainer.take_steps(first_batches(trainer, steps))
    synchronize()
    unobserved = 1000 * (time.perf_counter() - begun) / steps
    ran, profiler = _profiled(trainer, steps)
    if not ran:
        raise RuntimeError("the profiler saw nothing run on the device")
    span = (max(each.end for each in ran) - min(each.begin for each in ran)) / 1000 / steps
    busy = _busy(ran) / 1000 / steps
    summary = {
        "variant": str(variant),
        "ms": unobserved,
        "kernels": len(ran) / steps,
        "busy_ms": busy,
        "gaps_ms": span - busy,
    }
    trace = scratch() / f"trace-{str(variant).replace('/', '-')}.json.gz"
    profiler.export_chrome_trace(str(trace))
    return {**summary, "trace": str(trace), "text": _table(summary, ran, steps)}


def _bring_back(trace: Path, traces: bool) -> None:
    """Few files come back, and none that is large."""
    if not traces:
        return
    if (size := trace.stat().st_size) > _LARGEST:
        print(f"{trace} has {size / 2**20:.0f} MiB: it stays there")
    else:
        shutil.copy(trace, out() / trace.name)


def _profiled(trainer: Trainer, steps: int) -> tuple[list[Ran], profile]:
    """What ran on the device in so many steps, in order."""
    batches = first_batches(trainer, steps)
    activities = [ProfilerActivity.CPU]
    if DEVICE == "cuda":
        activities.append(ProfilerActivity.CUDA)
    synchronize()
    with profile(activities=activities) as profiler:
        trainer.take_steps(batches)
        synchronize()
    kind = torch.autograd.DeviceType
    on_device = kind.CUDA if DEVICE == "cuda" else kind.CPU
    ran = [
        Ran(event.name, event.time_range.start, event.time_range.end)
        for event in profiler.events() or ()
        if event.device_type == on_device
        and not getattr(event, "is_user_annotation", False)
        and (DEVICE == "cuda" or not event.cpu_children)
    ]
    return sorted(ran, key=lambda each: each.begin), profiler


def _busy(ran: list[Ran]) -> float:
    """µs in which something ran; `ran` in order."""
    total, until = 0.0, float("-inf")
    for each in ran:
        total += max(0.0, each.end - max(each.begin, until))
        until = max(until, each.end)
    return total


def _table(summary: dict[str, Any], ran: list[Ran], steps: int) -> str:
    times: dict[str, list[float]] = defaultdict(list)
    for each in ran:
        times[each.name].append(each.end - each.begin)
    whole = sum(map(sum, times.values()))
    lines = [
        f"{summary['variant']}: {summary['ms']:.3f} ms a step unobserved; under the profiler "
        f"{summary['kernels']:.0f} kernels a step, busy {summary['busy_ms']:.3f} ms, idle between "
        f"them {summary['gaps_ms']:.3f} ms",
        f"{'µs a step':>10} {'share':>6} {'a step':>7} {'µs each':>8}  kernel",
    ]
    for name, taken in sorted(times.items(), key=lambda item: -sum(item[1]))[:_TOP]:
        total, count = sum(taken), len(taken)
        lines.append(
            f"{total / steps:10.1f} {100 * total / whole:5.1f}% {count / steps:7.1f} "
            f"{total / count:8.2f}  {name[:150]}"
        )
    return "\n".join(lines)

"""Kernels of a training step: their number, their time, and the idle time between them."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from gpu.jobs import run_jobs
from gpu.trainers import DEVICE, Variant, first_batches, make_trainer, out, scale, synchronize
from molsepnorm.training.loop import Trainer

__all__ = ["count_kernels", "profile_steps"]

_TOP = 25


class Kernel(NamedTuple):
    """A kernel that ran, or on a CPU an operation."""

    name: str
    begin: float  # µs
    end: float


def profile_steps(deadline: float, best: Variant) -> list[str]:
    """Profile the fastest variant, the same without capture, and captured steps in fp32.

    Writes profile.txt; returns a line for each variant.
    """
    variants = [best, Variant("eager", best.precision, best.blocks, best.fused), Variant()]
    outcomes = run_jobs(job, list(dict.fromkeys(map(str, variants))), deadline, limit=90)
    texts = [each.result or f"{each.name}: {each.error}" for each in outcomes.values()]
    (out() / "profile.txt").write_text("\n\n".join(texts) + "\n")
    return [text.splitlines()[0] for text in texts]


def count_kernels(trainer: Trainer, steps: int = 3) -> float:
    """Return the number of kernels, copies and fills of a step."""
    trainer.take_steps(first_batches(trainer, steps))
    return len(_profiled(trainer, steps)) / steps


def job(name: str) -> str:
    """Profile the variant of this name; return a summary and a table."""
    trainer, steps = make_trainer(Variant.of(name)), scale().profiled
    trainer.take_steps(first_batches(trainer, 12))  # compile or capture
    synchronize()
    begun = time.perf_counter()
    trainer.take_steps(first_batches(trainer, steps))
    synchronize()
    unprofiled = 1000 * (time.perf_counter() - begun) / steps
    kernels = _profiled(trainer, steps)
    if not kernels:
        raise RuntimeError("the profiler found no kernels")
    span = (max(each.end for each in kernels) - kernels[0].begin) / 1000 / steps
    busy = _busy(kernels) / 1000 / steps
    lines = [
        f"{name}: {unprofiled:.3f} ms a step without the profiler; with it "
        f"{len(kernels) / steps:.0f} kernels a step, busy {busy:.3f} ms, idle between them "
        f"{span - busy:.3f} ms",
        f"{'µs a step':>10} {'share':>6} {'a step':>7} {'µs each':>8}  kernel",
    ]
    times: dict[str, list[float]] = defaultdict(list)
    for each in kernels:
        times[each.name].append(each.end - each.begin)
    whole = sum(map(sum, times.values()))
    for kernel, taken in sorted(times.items(), key=lambda item: -sum(item[1]))[:_TOP]:
        total, count = sum(taken), len(taken)
        lines.append(
            f"{total / steps:10.1f} {100 * total / whole:5.1f}% {count / steps:7.1f} "
            f"{total / count:8.2f}  {kernel[:150]}"
        )
    return "\n".join(lines)


def _profiled(trainer: Trainer, steps: int) -> list[Kernel]:
    """Return the kernels of so many steps, in order."""
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
    kernels = [
        Kernel(event.name, event.time_range.start, event.time_range.end)
        for event in profiler.events() or ()
        if event.device_type == on_device
        and not getattr(event, "is_user_annotation", False)
        and (DEVICE == "cuda" or not event.cpu_children)
    ]
    return sorted(kernels, key=lambda each: each.begin)


def _busy(kernels: list[Kernel]) -> float:
    """Return the µs in which at least one kernel runs; kernels are in order."""
    total, until = 0.0, float("-inf")
    for each in kernels:
        total += max(0.0, each.end - max(each.begin, until))
        until = max(until, each.end)
    return total

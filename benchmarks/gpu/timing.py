"""Training steps per second of SLIM in every variant.

A step cuts its batch from the store, runs forward, loss and backward, clips gradients, and updates
the weights by AdamW, the learning rate and the average of the weights; SepNorm and dropout are as
published.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from gpu.jobs import run_jobs
from gpu.trainers import Variant, first_batches, make_trainer, scale, synchronize

__all__ = ["VARIANTS", "measure"]

VARIANTS = (
    *(
        Variant(),
        Variant("eager"),
        Variant(fused=False),
        Variant(max_groups=1),
        Variant(max_groups=2),
    ),
    *(Variant(precision="tf32"), Variant(precision="bf16"), Variant("captured", "bf16", 1)),
    Variant("compiled"),  # last, as it may take all the remaining time
)


def measure(deadline: float) -> list[dict[str, Any]]:
    """Return a dictionary for each variant, with `variant`, and `steps_per_second` or `error`."""
    names = [str(each) for each in VARIANTS if scale().compiled or each.step != "compiled"]
    return [
        {"variant": name, "error": outcome.error} if outcome.error else outcome.result
        for name, outcome in run_jobs(job, names, deadline, limit=150).items()
    ]


def job(name: str) -> dict[str, Any]:
    """Time the variant of this name; the result is the median over rounds of steps."""
    trainer = make_trainer(Variant.of(name), settings={"optim.ema": 0.999})
    batches = first_batches(trainer, scale().molecules // scale().batch)
    trainer.take_steps(batches)  # compile or capture
    synchronize(trainer.device)
    rates = []
    for _ in range(scale().rounds):
        begun = time.perf_counter()
        trainer.take_steps(batches)
        synchronize(trainer.device)
        rates.append(len(batches) / (time.perf_counter() - begun))
    print(f"{name}: {statistics.median(rates):.1f} steps/s", flush=True)
    return {"variant": name, "steps_per_second": statistics.median(rates)}

"""Whether a GPU computes what the CPU computes, in every way of taking a step.

SLIM by the published recipe on ZINC's subset, without dropout. Its learning rate rises within a
hundred steps, so that they halve the loss; from these initial weights they do so without blowing
up rounding errors, which a larger rate or Xavier's weights would, a hundred thousand times. Then
the same of networks with other ingredients, for fewer steps on smaller batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from gpu.jobs import run_jobs
from gpu.networks import LOCAL, PAIRS, SLIM, WALKS, Network
from gpu.scale import scale, scratch
from gpu.trainers import (
    DEVICE,
    RECIPE,
    STILL,
    Variant,
    first_batches,
    make_trainer,
    notes,
    synchronize,
    take_losses,
)
from molsepnorm.devices.verdict import Verdict, apart
from molsepnorm.nn.kernels.fused_attention import DEVICES, fits
from molsepnorm.nn.pairs.features import resistances
from molsepnorm.predict.inference import Precision, infer
from molsepnorm.training.capture import CaptureFailed, record
from molsepnorm.training.config import load_config
from molsepnorm.training.loop import Trainer
from molsepnorm.training.statistics import estimate_statistics
from molsepnorm.training.trial import compared

__all__ = ["JOBS", "Check", "check"]

_TIGHT, _TF32, _BF16 = 1e-4, 1e-2, 2e-2
_AVERAGED = {**STILL, "optim.ema": 0.9}
_PLAIN = Variant("eager", fused=False)


@dataclass(frozen=True)
class Check:
    """One line."""

    what: str
    figure: float
    bound: float
    least: bool = False
    """Whether the figure should be above the bound, not below."""

    @property
    def passed(self) -> bool:
        """False for no number, too."""
        return self.figure > self.bound if self.least else self.figure <= self.bound

    def __str__(self) -> str:
        sign = ">" if self.least else "≤"
        end = "ok" if self.passed else "FAILED"
        return f"{self.what}: {self.figure:.1e} (asked {sign} {self.bound:.0e}) {end}"


def check(deadline: float) -> list[dict[str, Any]]:
    """Do them all; a line for each with `what`, `figure`, `bound`, `passed` and `error`."""
    reference = run_jobs(__name__, ["reference"], deadline, limit=150)
    names = [name for name in JOBS if name != "reference"]
    if not scale().compiled:
        names = [name for name in names if not name.startswith("compiled")]
    outcomes = {**reference, **run_jobs(__name__, names, deadline, limit=150)}
    lines = []
    for name, outcome in outcomes.items():
        if outcome.error:
            lines.append({"what": name, "passed": False, "error": outcome.error})
        lines += outcome.result or []
    return lines


def _reference(of: Network) -> list[Check]:
    """The CPU's: kept in a file for the others."""
    begun = time.perf_counter()
    trainer = make_trainer(_PLAIN, "cpu", of.settings(STILL))
    kept = {**_network(trainer), "evaluated": _evaluated(trainer)}
    kept |= _trained(make_trainer(_PLAIN, "cpu", of.settings(_AVERAGED)), of.steps)
    torch.save(kept, _file(of))
    first, last = kept["losses"][0], kept["losses"][-5:].mean()
    loss, seconds = f"loss {first:.3f} to {last:.3f}", time.perf_counter() - begun
    print(f"{of.told('reference on the CPU')}: {of.steps} steps, {loss}, {seconds:.0f} s")
    learns = of.told("the reference learns: last losses over the first")
    return [Check(learns, float(last / first), 1.0 if of.name else 0.9)]


def _on_the_network(of: Network, fused: bool) -> list[Check]:
    """Outputs, gradients, evaluation: of the same weights, on the same molecules."""
    trainer = make_trainer(replace(_PLAIN, fused=fused), settings=of.settings(STILL))
    expected, found = torch.load(_file(of)), _network(trainer)
    found["evaluated"] = _evaluated(trainer)
    word = of.told("fused attention" if fused else "plain attention")
    checks = [
        Check(f"{name}, {word}", _apart(found[name], expected[name]), _TIGHT)
        for name in ("outputs", "gradients", "evaluated")
    ]
    again = _apart(_evaluated(trainer), found["evaluated"])
    checks.append(Check(f"evaluated twice, {word}", again, 1e-6))
    if fused and DEVICE != "cpu":
        batch = trainer.graphs.cut(first_batches(trainer, 1)[0], 4)
        x = torch.zeros(8, trainer.network.config.width, device=DEVICE)
        used = fits(x, batch.groups, trainer.network.config.heads)
        checks.append(Check("fused attention that is not used", float(not used), 0))
    return checks


def _on_steps(of: Network, variant: Variant, bound: float) -> list[Check]:
    """The losses of the first steps, and what the averaged network then says of other molecules.
    (Not the weights: AdamW turns gradients that are nothing but rounding into full steps.)"""
    trainer = make_trainer(variant, settings=of.settings(_AVERAGED))
    expected, found = torch.load(_file(of)), _trained(trainer, of.steps)
    losses = expected["losses"]
    apart = float(((found["losses"] - losses) / losses).abs().max())
    validated = _apart(found["validated"], expected["validated"])
    return [
        Check(of.told(f"losses of {of.steps} steps, {variant}"), apart, bound),
        Check(of.told(f"validated after them, {variant}"), validated, 10 * bound),
        *_as_asked(trainer, of.told(str(variant))),
    ]


def _on_resistances() -> list[Check]:
    """The inverse matrices of `resistances` in a CUDA graph, which a library may refuse."""
    trainer = make_trainer(_PLAIN, settings=WALKS.settings(STILL))
    batch = trainer.graphs.cut(first_batches(trainer, 1)[0], 4)
    expected = torch.cat([each.flatten() for each in resistances(batch.to("cpu"))])
    found = torch.zeros_like(expected, device=DEVICE)

    def work() -> None:
        found.copy_(torch.cat([each.flatten() for each in resistances(batch)]))

    what = "resistances by torch.linalg.inv_ex in a CUDA graph"
    if DEVICE == "cpu":
        work()
    else:
        try:
            again = record(work, lambda: [found])
        except CaptureFailed as error:
            print(f"{what} FAILED: {error}", flush=True)
            return [Check(f"{what}, which cannot be captured ({error})", float("nan"), _TIGHT)]
        found.zero_()
        again()
        synchronize()
    return [Check(what, _apart(found.cpu(), expected), _TIGHT)]


def _on_fast_paths(precision: Precision) -> list[Check]:
    """Run the checks of `molsepnorm doctor`, and of `train` before it uses a device."""
    config = load_config(config=RECIPE, overrides={"run.precision": precision})
    DEVICES.add("cuda")  # where another job has switched the kernels off
    return [
        Check(f"{verdict.path} of a small network, {precision}: {name}", figure, verdict.bound)
        for verdict in compared(config, torch.device(DEVICE))
        for name, figure in _figures(verdict)
    ]


def _figures(verdict: Verdict) -> list[tuple[str, float]]:
    if verdict.error:
        return [(verdict.error, float("nan"))]
    return [(name, float("nan") if x is None else x) for name, x in verdict.figures.items()]


def _on_resuming(variant: Variant) -> list[Check]:
    """A trainer that begins with another's checkpoint takes the same steps, masks included."""
    one = make_trainer(variant)
    batches = first_batches(one, 8)
    one.take_steps(batches[:4])
    synchronize()
    one.save()
    expected = take_losses(one, batches[4:])
    other = make_trainer(variant)
    other.folder.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    other.folder.checkpoint.write_bytes(one.folder.checkpoint.read_bytes())
    # one's own later steps have not touched its checkpoint
    other.resume()
    found = take_losses(other, batches[4:])
    apart = float(((found - expected) / expected).abs().max())
    return [Check(f"losses after a checkpoint, {variant}", apart, 1e-3)]


def _network(trainer: Trainer) -> dict[str, Tensor]:
    """Outputs, and gradients of the mean absolute error, for a batch."""
    batch = first_batches(trainer, 1)[0]
    trainer.network.train()
    outputs = trainer.network(trainer.graphs.cut(batch, 4))
    labels = torch.from_numpy(trainer.dataset.labels[batch]).to(outputs.device)
    (outputs - labels).abs().mean().backward()
    gradients = [p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None]
    return {"outputs": outputs.detach().cpu(), "gradients": torch.cat(gradients).cpu()}


def _evaluated(trainer: Trainer) -> Tensor:
    graphs = trainer.dataset.splits["val"][: 2 * scale().batch]
    return infer(trainer.network, trainer.graphs, graphs)


def _trained(trainer: Trainer, steps: int) -> dict[str, Tensor]:
    """Losses of the first steps; then outputs of the averaged network, with the statistics of batch
    norms estimated as they are before a validation."""
    losses = take_losses(trainer, first_batches(trainer, steps))
    network = trainer.trained_network()
    sample = [trainer.graphs.cut(batch, 4) for batch in first_batches(trainer, 2)]
    estimate_statistics(network, sample)
    graphs = trainer.dataset.splits["val"][: 2 * scale().batch]
    return {"losses": losses, "validated": infer(network, trainer.graphs, graphs)}


def _as_asked(trainer: Trainer, what: str) -> list[Check]:
    """That steps were not taken in another way than asked for: on a CPU they may."""
    found = notes(trainer) if DEVICE != "cpu" else []
    told = f": {'; '.join(found)}" if found else ""
    return [Check(f"ways that it fell back, {what}{told}", len(found), 0)]


def _apart(found: Tensor, expected: Tensor) -> float:
    return apart([found], [expected])


def _file(of: Network) -> Path:
    return scratch() / f"reference-{of.name.replace(' ', '-')}.pt"


def _told(work: Callable[[], list[Check]]) -> Callable[[], list[dict[str, Any]]]:
    def told() -> list[dict[str, Any]]:
        found = work()
        for each in found:
            print(each, flush=True)
        return [{**asdict(each), "passed": each.passed} for each in found]

    return told


_VARIANTS = (
    (Variant("eager", fused=False), _TIGHT),
    (Variant("eager"), _TIGHT),
    (Variant("captured", fused=False), _TIGHT),
    (Variant("captured"), _TIGHT),
    (Variant("captured", blocks=1), _TIGHT),
    (Variant("captured", "tf32"), _TF32),
    (Variant("captured", "bf16"), _BF16),
    (Variant("captured", "bf16", fused=False), _BF16),
)
_COMPILED = ((Variant("compiled"), _TIGHT), (Variant("compiled", fused=False), _TIGHT))
_OTHERS = (
    (Variant("eager"), _TIGHT),
    (Variant("captured", blocks=1), _TIGHT),
    (Variant("captured", "bf16"), _BF16),
)


def _of_another(of: Network) -> dict[str, Callable[[], list[Check]]]:
    return {
        of.told("reference"): partial(_reference, of),
        of.told("network"): partial(_on_the_network, of, fused=False),
        **{of.told(str(each)): partial(_on_steps, of, each, bound) for each, bound in _OTHERS},
    }


_CHECKS: dict[str, Callable[[], list[Check]]] = {
    "reference": partial(_reference, SLIM),
    "network, plain attention": partial(_on_the_network, SLIM, fused=False),
    "network, fused attention": partial(_on_the_network, SLIM, fused=True),
    **{f"fast paths, {each}": partial(_on_fast_paths, each) for each in get_args(Precision)},
    "resuming, captured": partial(_on_resuming, Variant("captured")),
    **{str(each): partial(_on_steps, SLIM, each, bound) for each, bound in _VARIANTS},
    "resistances, captured": _on_resistances,
    **_of_another(WALKS),
    **_of_another(LOCAL),
    **_of_another(PAIRS),
    **{str(each): partial(_on_steps, SLIM, each, bound) for each, bound in _COMPILED},
}
JOBS = {name: _told(work) for name, work in _CHECKS.items()}

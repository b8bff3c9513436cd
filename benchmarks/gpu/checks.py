"""Compare a GPU with the CPU, for every way to take a step.

SLIM is trained by the published recipe on ZINC's subset, without dropout. Its learning rate rises
during a hundred steps, which halve the loss; from these initial weights they do so without
amplifying rounding errors, which a larger rate or Xavier's weights would do, a hundred thousand
times. Networks with other ingredients take fewer steps on smaller batches.
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
from gpu.trainers import (
    DEVICE,
    FULL,
    LOCAL,
    NO_DROPOUT,
    RECIPE,
    SLIM,
    WALKS,
    Network,
    Variant,
    first_batches,
    make_trainer,
    scale,
    scratch,
    synchronize,
    take_losses,
    warnings_of,
)
from molsepnorm.devices.context import Precision
from molsepnorm.devices.verdict import apart
from molsepnorm.nn.kernels.fused_attention import DEVICES, fits
from molsepnorm.nn.pairs.features import resistances
from molsepnorm.predict.inference import infer
from molsepnorm.training.loop import Trainer
from molsepnorm.training.recipes import load_config
from molsepnorm.training.steps.capture import CaptureFailed, record
from molsepnorm.training.steps.statistics import estimate_statistics
from molsepnorm.training.steps.trial import compared

__all__ = ["CHECKS", "Check", "check"]

_TIGHT, _TF32, _BF16 = 1e-4, 1e-2, 2e-2
_AVERAGED = {**NO_DROPOUT, "optim.ema": 0.9}
_PLAIN = Variant("eager", fused=False)


@dataclass(frozen=True)
class Check:
    """A figure with its maximum."""

    what: str
    figure: float
    bound: float

    @property
    def passed(self) -> bool:
        """False for NaN, too."""
        return self.figure <= self.bound

    def __str__(self) -> str:
        end = "ok" if self.passed else "FAILED"
        return f"{self.what}: {self.figure:.1e} (at most {self.bound:.0e}) {end}"


def check(deadline: float) -> list[dict[str, Any]]:
    """Run all checks; return a dictionary for each with `what`, `figure`, `bound`, `passed` and
    `error`."""
    names = [each for each in CHECKS if scale().compiled or not each.startswith("compiled")]
    lines: list[dict[str, Any]] = []
    for name, outcome in run_jobs(job, names, deadline, limit=150).items():
        lines += outcome.result or []
        lines += [{"what": name, "passed": False, "error": outcome.error}] * bool(outcome.error)
    return lines


def job(name: str) -> list[dict[str, Any]]:
    """Run the checks of this name."""
    found = CHECKS[name]()
    for each in found:
        print(each, flush=True)
    return [{**asdict(each), "passed": each.passed} for each in found]


def _reference(of: Network) -> list[Check]:
    """Compute the CPU's figures into a file for the other checks."""
    begun = time.perf_counter()
    trainer = make_trainer(_PLAIN, "cpu", of.settings(NO_DROPOUT))
    figures = {**_network(trainer), "evaluated": _evaluated(trainer)}
    figures |= _trained(make_trainer(_PLAIN, "cpu", of.settings(_AVERAGED)), of.steps)
    torch.save(figures, _file(of))
    first, last = figures["losses"][0], figures["losses"][-5:].mean()
    loss, seconds = f"loss {first:.3f} to {last:.3f}", time.perf_counter() - begun
    print(f"{of.label('reference on the CPU')}: {of.steps} steps, {loss}, {seconds:.0f} s")
    learns = of.label("the reference learns: last losses over the first")
    maximum = 2.0 if scale() is not FULL else 1.0 if of.name else 0.9
    return [Check(learns, float(last / first), maximum)]


def _on_the_network(of: Network, fused: bool) -> list[Check]:
    """Compare outputs, gradients and evaluation for the same weights and molecules."""
    trainer = make_trainer(replace(_PLAIN, fused=fused), settings=of.settings(NO_DROPOUT))
    expected, found = torch.load(_file(of)), _network(trainer)
    found["evaluated"] = _evaluated(trainer)
    label = of.label("fused attention" if fused else "plain attention")
    checks = [
        Check(f"{name}, {label}", apart([found[name]], [expected[name]]), _TIGHT)
        for name in ("outputs", "gradients", "evaluated")
    ]
    again = apart([_evaluated(trainer)], [found["evaluated"]])
    checks.append(Check(f"evaluated twice, {label}", again, 1e-6))
    if fused and DEVICE != "cpu":
        batch = trainer.graphs.cut(first_batches(trainer, 1)[0], 4)
        x = torch.zeros(8, trainer.network.config.width, device=DEVICE)
        used = fits(x, batch.groups, trainer.network.config.heads)
        checks.append(Check("fused attention that is not used", float(not used), 0))
    return checks


def _on_steps(of: Network, variant: Variant, bound: float) -> list[Check]:
    """Compare the losses of the first steps, and the outputs of the averaged network after them.

    The weights are not compared: AdamW turns gradients that are only rounding into full steps."""
    trainer = make_trainer(variant, settings=of.settings(_AVERAGED))
    expected, found = torch.load(_file(of)), _trained(trainer, of.steps)
    losses = expected["losses"]
    difference = float(((found["losses"] - losses) / losses).abs().max())
    validated = apart([found["validated"]], [expected["validated"]])
    # on a CPU steps may be taken in another way
    warnings = warnings_of(trainer) if DEVICE != "cpu" else []
    fallbacks = of.label(f"fallbacks, {variant}") + "".join(f": {each}" for each in warnings)
    return [
        Check(of.label(f"losses of {of.steps} steps, {variant}"), difference, bound),
        Check(of.label(f"validated after them, {variant}"), validated, 10 * bound),
        Check(fallbacks, len(warnings), 0),
    ]


def _on_resistances() -> list[Check]:
    """Invert the matrices of `resistances` in a CUDA graph, which a library may refuse."""
    trainer = make_trainer(_PLAIN, settings=WALKS.settings(NO_DROPOUT))
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
            return [Check(f"{what}, which cannot be captured ({error})", float("nan"), _TIGHT)]
        found.zero_()
        again()
    return [Check(what, apart([found.cpu()], [expected]), _TIGHT)]


def _on_fast_paths(precision: Precision) -> list[Check]:
    """Run the checks of `molsepnorm doctor`, which `train` runs before it uses a device."""
    config = load_config(config=RECIPE, overrides={"run.precision": precision})
    DEVICES.add("cuda")  # another job may have removed it
    checks = []
    for verdict in compared(config, torch.device(DEVICE)):
        figures = {verdict.error: None} if verdict.error else verdict.figures
        for name, figure in figures.items():
            what = f"{verdict.path} of a small network, {precision}: {name}"
            checks.append(Check(what, float("nan") if figure is None else figure, verdict.bound))
    return checks


def _on_resuming(variant: Variant) -> list[Check]:
    """Compare the steps of a trainer that begins with another's checkpoint, dropout included."""
    one = make_trainer(variant)
    batches = first_batches(one, 8)
    one.take_steps(batches[:4])
    synchronize(one.device)
    one.progress.step_in_epoch = 4  # the epoch loop counts them
    one.save()
    expected = take_losses(one, batches[4:])
    other = make_trainer(variant)
    other.folder.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    other.folder.checkpoint.write_bytes(one.folder.checkpoint.read_bytes())
    other.resume()
    found = take_losses(other, batches[4:])
    difference = float(((found - expected) / expected).abs().max())
    return [Check(f"losses after a checkpoint, {variant}", difference, 1e-3)]


def _network(trainer: Trainer) -> dict[str, Tensor]:
    """Return outputs, and gradients of the mean absolute error, for a batch."""
    batch = first_batches(trainer, 1)[0]
    trainer.network.train()
    outputs = trainer.network(trainer.graphs.cut(batch, 4))
    labels = torch.from_numpy(trainer.dataset.labels[batch]).to(outputs.device)
    (outputs - labels).abs().mean().backward()
    gradients = [p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None]
    return {"outputs": outputs.detach().cpu(), "gradients": torch.cat(gradients).cpu()}


def _evaluated(trainer: Trainer, network: Any = None) -> Tensor:
    graphs = trainer.dataset.splits["val"][: 2 * scale().batch]
    return infer(network or trainer.network, trainer.graphs, graphs)


def _trained(trainer: Trainer, steps: int) -> dict[str, Tensor]:
    """Return the losses of the first steps, and then outputs of the averaged network, whose batch
    norms have the statistics that validation uses."""
    losses = take_losses(trainer, first_batches(trainer, steps))
    network = trainer.trained_objective().network
    sample = [trainer.graphs.cut(batch, 4) for batch in first_batches(trainer, 2)]
    estimate_statistics(network, sample)
    return {"losses": losses, "validated": _evaluated(trainer, network)}


def _file(of: Network) -> Path:
    return scratch() / f"reference-{of.name.replace(' ', '-')}.pt"


_STEPS = (
    (Variant("eager", fused=False), _TIGHT),
    (Variant("eager"), _TIGHT),
    (Variant("captured", fused=False), _TIGHT),
    (Variant("captured"), _TIGHT),
    (Variant("captured", max_groups=1), _TIGHT),
    (Variant("captured", "tf32"), _TF32),
    (Variant("captured", "bf16"), _BF16),
    (Variant("captured", "bf16", fused=False), _BF16),
)
_COMPILED = ((Variant("compiled"), _TIGHT), (Variant("compiled", fused=False), _TIGHT))
_OTHERS = (
    (Variant("eager"), _TIGHT),
    (Variant("captured", max_groups=1), _TIGHT),
    (Variant("captured", "bf16"), _BF16),
)


def _of_another(of: Network) -> dict[str, Callable[[], list[Check]]]:
    return {
        of.label("reference"): partial(_reference, of),
        of.label("network"): partial(_on_the_network, of, fused=False),
        **{of.label(str(each)): partial(_on_steps, of, each, bound) for each, bound in _OTHERS},
    }


CHECKS: dict[str, Callable[[], list[Check]]] = {
    **{f"fast paths, {each}": partial(_on_fast_paths, each) for each in get_args(Precision)},
    "reference": partial(_reference, SLIM),
    "network, plain attention": partial(_on_the_network, SLIM, fused=False),
    "network, fused attention": partial(_on_the_network, SLIM, fused=True),
    "resuming, captured": partial(_on_resuming, Variant("captured")),
    **{str(each): partial(_on_steps, SLIM, each, bound) for each, bound in _STEPS},
    "resistances, captured": _on_resistances,
    **_of_another(WALKS),
    **_of_another(LOCAL),
    **{str(each): partial(_on_steps, SLIM, each, bound) for each, bound in _COMPILED},
}

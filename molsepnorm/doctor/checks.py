"""The checks that `molsepnorm doctor` runs: each has a name and says what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from molsepnorm.devices.context import Precision
    from molsepnorm.devices.verdict import Verdict
    from molsepnorm.model import PropertyModel
    from molsepnorm.predict import Predictor

__all__ = ["Check", "run_checks"]

State: TypeAlias = Literal["ok", "failed", "skipped"]
Work: TypeAlias = "Callable[[], Iterator[Verdict | str]]"
"""Verdicts, and remarks on what was measured besides."""

_PAIRS = (
    ("CCO", "OCC"),
    ("c1ccccc1O", "Oc1ccccc1"),
    ("CC(=O)Nc1ccc(O)cc1", "c1c(O)ccc(NC(C)=O)c1"),
    ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", "O=c1n(C)c(=O)n(C)c2ncn(C)c12"),
    ("N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O"),
)
"""Two SMILES of each of some molecules."""
_SAME = 1e-4


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    name: str
    state: State
    said: str
    seconds: float


def run_checks() -> Iterator[Check]:
    """Run all checks that this machine allows, one after the other."""
    for name, check in _checks().items():
        begun = time.perf_counter()
        state, said = _outcome(check)
        yield Check(name, state, said, round(time.perf_counter() - begun, 2))


def _checks() -> dict[str, Work]:
    checks: dict[str, Work] = {
        "attention on the CPU": _attention,
        "batch norm on the CPU": _batch_norm,
        "dropout on the CPU": _dropout,
        "bf16 on the CPU": _bf16,
        "prediction of an example": _prediction,
        "worker processes": _workers,
    }
    try:
        import torch
    except ImportError:
        return checks
    for index in range(torch.cuda.device_count()):
        checks |= _on_gpu(f"cuda:{index}")
    return checks


def _on_gpu(name: str) -> dict[str, Work]:
    steps: dict[str, Work] = {
        f"{name}, {precision}": partial(_steps, name, precision)
        for precision in ("fp32", "tf32", "bf16")
    }
    return {f"{name} against the CPU": partial(_device, name), **steps}


def _outcome(check: Work) -> tuple[State, str]:
    said: list[str] = []
    passed = True
    try:
        for found in check():
            if isinstance(found, str):
                said.append(found)
                continue
            passed = passed and found.passed
            said.append(f"{found.path}: {found}")
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name and name != "molsepnorm":
            return "skipped", f"needs {name}, which is not installed"
        return "failed", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "failed", "; ".join([*said, f"{type(error).__name__}: {error}"])
    return "ok" if passed else "failed", "; ".join(said)


def _attention() -> Iterator[Verdict | str]:
    import torch

    from molsepnorm.devices.layers import check_attention

    yield check_attention(torch.device("cpu"))


def _batch_norm() -> Iterator[Verdict | str]:
    from molsepnorm.devices.layers import check_batch_norm

    yield check_batch_norm()


def _dropout() -> Iterator[Verdict | str]:
    from molsepnorm.devices.layers import check_dropout

    yield check_dropout()


def _bf16() -> Iterator[Verdict | str]:
    import torch

    from molsepnorm.devices.network import Way, compare, outputs, small
    from molsepnorm.nn.config import GraphormerConfig

    config, cpu = small(GraphormerConfig()), torch.device("cpu")
    yield from compare(config, Way("bf16"), cpu, lambda way: outputs(config, way, cpu))


def _prediction() -> Iterator[Verdict | str]:
    """Through a model folder: in a batch and alone, and for two SMILES of each molecule."""
    from tempfile import TemporaryDirectory

    import numpy as np

    from molsepnorm.predict import Predictor

    with TemporaryDirectory() as folder:
        _model().save_pretrained(folder)
        predictor = Predictor.from_pretrained(folder)
    first, second = ([pair[place] for pair in _PAIRS] for place in (0, 1))
    together, invalid = _values(predictor, first), predictor.predict(["not a molecule"])
    yield _agree("alone", np.concatenate([_values(predictor, [each]) for each in first]), together)
    yield _agree("other SMILES", _values(predictor, second), together)
    if invalid[0].error is None:
        raise ValueError("a text that is not a molecule got a prediction")


def _workers() -> Iterator[Verdict | str]:
    from molsepnorm.predict import Predictor

    smiles = [f"{'C' * (n % 29)}{end}" for n in range(150) for end in ("CO", "Cc1ccccc1")]
    one, two = (_values(Predictor(_model(), processes=count), smiles) for count in (1, 2))
    yield _agree("2 processes", two, one)


def _model() -> PropertyModel:
    """A model with fixed random weights."""
    import torch

    from molsepnorm.devices.network import network_of, small, undisturbed
    from molsepnorm.model import PropertyModel
    from molsepnorm.nn.config import GraphormerConfig
    from molsepnorm.tasks import Target, Task

    cpu = torch.device("cpu")
    with undisturbed(cpu):
        network = network_of(replace(small(GraphormerConfig()), outputs=1), cpu)
    return PropertyModel(network, "zinc", Task((Target("y", "regression"),), metric="mae"))


def _values(predictor: Predictor, smiles: list[str]) -> np.ndarray:  # float64 (R,)
    import numpy as np

    rows = predictor.predict(smiles)
    if errors := [row.error for row in rows if row.error]:
        raise ValueError(errors[0])
    return np.array([row.values["y"] for row in rows if row.values is not None], dtype=float)


def _agree(path: str, found: np.ndarray, expected: np.ndarray) -> Verdict:
    """Compare predictions, relative to the spread of the expected ones."""
    import torch

    from molsepnorm.devices.verdict import judge

    centred = (torch.from_numpy(each - expected.mean()) for each in (found, expected))
    mine, other = centred
    if len(expected) > 1 and not float(other.std()) > 0.01:
        raise ValueError("all molecules have the same prediction")
    return judge(path, _SAME, lambda: {"predictions": [mine]}, {"predictions": [other]})


def _device(name: str) -> Iterator[Verdict | str]:
    """Plain outputs on the device against those on the CPU, and the layer's attention there."""
    import torch

    from molsepnorm.devices.layers import check_attention
    from molsepnorm.devices.network import Way, bound_of, outputs, small, undisturbed
    from molsepnorm.devices.verdict import judge
    from molsepnorm.nn.config import GraphormerConfig
    from molsepnorm.nn.kernels.fused_attention import without_kernels

    config, device = small(GraphormerConfig()), torch.device(name)
    with undisturbed(device):
        with without_kernels():
            expected = outputs(config, Way(), torch.device("cpu"))
            bound = bound_of(config, "fp32")
            yield judge("network", bound, lambda: outputs(config, Way(), device), expected)
        yield check_attention(device, dropout=0.0)


def _steps(name: str, precision: Precision) -> Iterator[Verdict | str]:
    """Each fast path of the recipe for ZINC against the plain one, and how long a step takes."""
    import torch

    from molsepnorm.training.config import load_config
    from molsepnorm.training.trial import compared, step_seconds

    config, device = load_config("zinc", overrides={"run.precision": precision}), torch.device(name)
    yield from compared(config, device)
    for way, seconds in step_seconds(config, device).items():
        yield f"a step {way} takes {1000 * seconds:.2f} ms"

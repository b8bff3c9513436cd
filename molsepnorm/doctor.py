"""Describe this machine, and check that the installation computes correct results on it.

Modules that need RDKit or pydantic are imported where they are used, so that a package which is
missing affects one check only.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch

from molsepnorm._version import __version__
from molsepnorm.devices.context import Precision
from molsepnorm.devices.layers import check_attention
from molsepnorm.devices.network import (
    BOUNDS,
    Way,
    compare,
    network_of,
    results,
    small,
    undisturbed,
)
from molsepnorm.devices.verdict import Verdict, apart, differences, driver, judge
from molsepnorm.files.writing import cache_folder
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.kernels.fused_attention import without_kernels

if TYPE_CHECKING:
    from molsepnorm.model import PropertyModel
    from molsepnorm.predict import Predictor

__all__ = ["Check", "describe", "run_checks"]

Findings: TypeAlias = Iterator[Verdict | str]
"""Verdicts, and measurements as text."""

_PACKAGES = (
    *("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic", "safetensors"),
    *("scikit-learn", "scipy", "pyarrow", "triton", "torch-scatter", "matplotlib", "optuna"),
)
_PAIRS = (
    ("CCO", "OCC"),
    ("c1ccccc1O", "Oc1ccccc1"),
    ("CC(=O)Nc1ccc(O)cc1", "c1c(O)ccc(NC(C)=O)c1"),
    ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", "O=c1n(C)c(=O)n(C)c2ncn(C)c12"),
    ("N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O"),
)
"""Two SMILES of each molecule."""
_BOUND = 1e-4
"""Largest difference of predictions, relative to their spread."""


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    name: str
    state: Literal["ok", "failed", "skipped"]
    said: str
    seconds: float


def describe() -> dict[str, dict[str, str | None]]:
    """Return versions, devices and folders by name, without any computation.

    The version of a package that is not installed is None. A device has the name that `--device`
    takes.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    versions |= {"molsepnorm": __version__, **{name: _version(name) for name in _PACKAGES}}
    data = os.environ.get("MOLSEPNORM_DATA")
    return {
        "versions": versions,
        "devices": {
            "cpu": f"{os.cpu_count()} cores, PyTorch threads: {torch.get_num_threads()}",
            **{f"cuda:{index}": _gpu(index) for index in range(torch.cuda.device_count())},
        },
        "folders": {
            "data": _folder(Path(data)) if data else "not set (--data-dir or MOLSEPNORM_DATA)",
            "cache": _folder(cache_folder()),
        },
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _gpu(index: int) -> str:
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info(index))
    capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
    return (
        f"{torch.cuda.get_device_name(index)}, {total:.1f} GiB of memory ({free:.1f} GiB free), "
        f"compute capability {capability}, CUDA {torch.version.cuda}, "
        f"driver {driver() or 'unknown'}"
    )


def _folder(path: Path) -> str:
    """Describe a folder; if it does not exist, by the nearest one, in which it would be created."""
    nearest = next((each for each in (path, *path.parents) if each.exists()), path)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    state = "writable" if writable else "not writable"
    return f"{path} ({state if path.exists() else f'does not exist yet, {state}'})"


def run_checks() -> Iterator[Check]:
    """Run the checks that this machine supports, and yield each result as it is ready."""
    for name, check in _checks().items():
        begun = time.perf_counter()
        state: Literal["ok", "failed", "skipped"] = "ok"
        said: list[str] = []
        try:
            for found in check():
                said.append(found if isinstance(found, str) else f"{found.path}: {found}")
                if isinstance(found, Verdict) and not found.passed:
                    state = "failed"
        except Exception as error:
            cause = error.__cause__ or error  # of a featuriser that cannot be loaded
            missing = (getattr(cause, "name", None) or "").partition(".")[0]
            if isinstance(cause, ImportError) and missing not in ("", "molsepnorm"):
                state, said = "skipped", [f"needs {missing}, which is not installed"]
            else:
                state, said = "failed", [*said, f"{type(error).__name__}: {error}"]
        yield Check(name, state, "; ".join(said), round(time.perf_counter() - begun, 2))


def _checks() -> dict[str, Callable[[], Findings]]:
    cpu = torch.device("cpu")
    checks: dict[str, Callable[[], Findings]] = {
        "attention on the CPU": lambda: iter([check_attention(cpu)]),
        "bf16 on the CPU": lambda: compare(GraphormerConfig(), "bf16", cpu),
        "prediction of an example": _prediction,
        "worker processes": _workers,
    }
    for index in range(torch.cuda.device_count()):
        checks |= _on_gpu(f"cuda:{index}")
    return checks


def _on_gpu(name: str) -> dict[str, Callable[[], Findings]]:
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
    steps = {f"{name}, {each}": partial(_steps, name, each) for each in precisions}
    return {f"{name} against the CPU": partial(_plain_on, name), **steps}


def _prediction() -> Findings:
    """Save and load a model; predict in a batch, one by one, and from other SMILES."""
    from molsepnorm.predict import Predictor

    with TemporaryDirectory() as folder:
        _model().save_pretrained(folder)
        predictor = Predictor.from_pretrained(folder)
    first, second = map(list, zip(*_PAIRS, strict=True))
    together = _values(predictor, first)
    yield _agree("alone", np.concatenate([_values(predictor, [each]) for each in first]), together)
    yield _agree("other SMILES", _values(predictor, second), together)
    if predictor.predict(["not a molecule"])[0].error is None:
        raise ValueError("an invalid SMILES has a prediction")


def _workers() -> Findings:
    from molsepnorm.predict import Predictor

    smiles = [f"{'C' * (n % 29)}{end}" for n in range(150) for end in ("CO", "Cc1ccccc1")]
    one, two = (_values(Predictor(_model(), processes=count), smiles) for count in (1, 2))
    yield _agree("2 processes", two, one)


def _model() -> PropertyModel:
    """Return a model with fixed random weights."""
    from molsepnorm.model import PropertyModel
    from molsepnorm.tasks import Target, Task

    cpu = torch.device("cpu")
    with undisturbed(cpu):
        network = network_of(replace(small(GraphormerConfig()), outputs=1), cpu)
    return PropertyModel(network, "zinc", Task((Target("y", "regression"),), metric="mae"))


def _values(predictor: Predictor, smiles: list[str]) -> np.ndarray:  # float64 (R,)
    rows = predictor.predict(smiles)
    if errors := [row.error for row in rows if row.error]:
        raise ValueError(errors[0])
    return np.array([row.values["y"] for row in rows if row.values is not None], dtype=float)


def _agree(path: str, found: np.ndarray, expected: np.ndarray) -> Verdict:
    """Compare predictions, relative to the spread of the expected ones."""
    if len(expected) > 1 and not expected.std() > 0.01:
        raise ValueError("all molecules have the same prediction")
    mine, other = (torch.from_numpy(each - expected.mean()) for each in (found, expected))
    return judge(path, _BOUND, lambda: {"predictions": apart([mine], [other])})


def _plain_on(name: str) -> Findings:
    """Compare a device's outputs along the plain path with the CPU's, and check its attention."""
    config, device = small(GraphormerConfig()), torch.device(name)

    def work() -> dict[str, float]:
        found, expected = (results(config, Way(), on) for on in (device, torch.device("cpu")))
        return differences(found, expected)

    with undisturbed(device):
        with without_kernels():
            yield judge("network", BOUNDS["fp32"], work)
        yield check_attention(device)


def _steps(name: str, precision: Precision) -> Findings:
    """Check each fast path of the ZINC recipe against the plain one, and time a step."""
    from molsepnorm.training.recipes import load_config
    from molsepnorm.training.steps.trial import compared, step_seconds

    config, device = load_config("zinc", overrides={"run.precision": precision}), torch.device(name)
    yield from compared(config, device)
    for way, seconds in step_seconds(config, device).items():
        yield f"a step {way} takes {1000 * seconds:.2f} ms"

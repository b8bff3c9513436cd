"""Describe this machine, and check that the installation computes correct results on it.

Modules are imported where they are used, so that a package which is missing fails one check alone.
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
from typing import TYPE_CHECKING, Literal, TypeAlias

from molsepnorm._version import __version__
from molsepnorm.files.writing import cache_folder

if TYPE_CHECKING:
    import numpy as np

    from molsepnorm.devices.context import Precision
    from molsepnorm.devices.verdict import Verdict
    from molsepnorm.model import PropertyModel
    from molsepnorm.predict import Predictor

__all__ = ["Check", "Machine", "describe", "run_checks"]

Findings: TypeAlias = "Iterator[Verdict | str]"
"""Verdicts, and measurements as text."""

_PACKAGES = (
    *("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic", "safetensors"),
    *("scikit-learn", "scipy", "pyarrow", "triton", "torch-scatter", "matplotlib"),
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
class Machine:
    """Versions, devices and folders of this machine."""

    versions: dict[str, str | None]
    """By package; None if it is not installed."""
    devices: dict[str, str]
    """Description of each device, by the name that `--device` takes."""
    folders: dict[str, str]
    """Locations of the data and the cache, and whether they are writable."""


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    name: str
    state: Literal["ok", "failed", "skipped"]
    said: str
    seconds: float


def describe() -> Machine:
    """Return versions, devices and folders, without any computation."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    versions |= {"molsepnorm": __version__, **{name: _version(name) for name in _PACKAGES}}
    data = os.environ.get("MOLSEPNORM_DATA")
    folders = {
        "data": _folder(Path(data)) if data else "not set (--data-dir or MOLSEPNORM_DATA)",
        "cache": _folder(cache_folder()),
    }
    return Machine(versions, _devices(), folders)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = f"{cores} cores"
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        cpu += f", {_gigabytes(memory)} of memory"
    try:
        import torch
    except ImportError:
        return {"cpu": cpu}
    devices = {"cpu": f"{cpu}, PyTorch threads: {torch.get_num_threads()}"}
    for index in range(torch.cuda.device_count()):
        from molsepnorm.devices.verdict import driver

        free, total = torch.cuda.mem_get_info(index)
        capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
        devices[f"cuda:{index}"] = (
            f"{torch.cuda.get_device_name(index)}, {_gigabytes(total)} of memory "
            f"({_gigabytes(free)} free), compute capability {capability}, "
            f"CUDA {torch.version.cuda}, driver {driver() or 'unknown'}"
        )
    return devices


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _folder(path: Path) -> str:
    """Describe a folder by the nearest one that exists, in which it would be created."""
    nearest = next((each for each in (path, *path.parents) if each.exists()), path)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    state = "writable" if writable else "not writable"
    return f"{path} ({state if path.exists() else f'does not exist yet, {state}'})"


def run_checks() -> Iterator[Check]:
    """Run the checks that this machine supports, and yield each result as it is ready."""
    for name, check in _checks().items():
        begun = time.perf_counter()
        state, said = _outcome(check)
        yield Check(name, state, said, round(time.perf_counter() - begun, 2))


def _checks() -> dict[str, Callable[[], Findings]]:
    checks: dict[str, Callable[[], Findings]] = {
        "attention on the CPU": _attention,
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


def _on_gpu(name: str) -> dict[str, Callable[[], Findings]]:
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
    steps = {f"{name}, {each}": partial(_steps, name, each) for each in precisions}
    return {f"{name} against the CPU": partial(_plain_on, name), **steps}


def _outcome(check: Callable[[], Findings]) -> tuple[Literal["ok", "failed", "skipped"], str]:
    said, passed = [], True
    try:
        for found in check():
            if isinstance(found, str):
                said.append(found)
            else:
                passed = passed and found.passed
                said.append(f"{found.path}: {found}")
    except Exception as error:
        missing = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ImportError) and missing not in ("", "molsepnorm"):
            return "skipped", f"needs {missing}, which is not installed"
        return "failed", "; ".join([*said, f"{type(error).__name__}: {error}"])
    return "ok" if passed else "failed", "; ".join(said)


def _attention() -> Findings:
    import torch

    from molsepnorm.devices.layers import check_attention

    yield check_attention(torch.device("cpu"))


def _bf16() -> Findings:
    import torch

    from molsepnorm.devices.network import compare
    from molsepnorm.nn.config import GraphormerConfig

    yield from compare(GraphormerConfig(), "bf16", torch.device("cpu"))


def _prediction() -> Findings:
    """Save and load a model; predict in a batch, one by one, and from other SMILES."""
    from tempfile import TemporaryDirectory

    import numpy as np

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

    if len(expected) > 1 and not expected.std() > 0.01:
        raise ValueError("all molecules have the same prediction")
    mine, other = (torch.from_numpy(each - expected.mean()) for each in (found, expected))
    return judge(path, _BOUND, lambda: {"predictions": [mine]}, {"predictions": [other]})


def _plain_on(name: str) -> Findings:
    """Compare a device's outputs along the plain path with the CPU's, and check its attention."""
    import torch

    from molsepnorm.devices.layers import check_attention
    from molsepnorm.devices.network import Way, bound_of, results, small, undisturbed
    from molsepnorm.devices.verdict import judge
    from molsepnorm.nn.config import GraphormerConfig
    from molsepnorm.nn.kernels.fused_attention import without_kernels

    config, device = small(GraphormerConfig()), torch.device(name)
    with undisturbed(device):
        with without_kernels():
            expected, bound = results(config, Way(), torch.device("cpu")), bound_of(config, "fp32")
            yield judge("network", bound, lambda: results(config, Way(), device), expected)
        yield check_attention(device)


def _steps(name: str, precision: Precision) -> Findings:
    """Check each fast path of the ZINC recipe against the plain one, and time a step."""
    import torch

    from molsepnorm.training.config import load_config
    from molsepnorm.training.trial import compared, step_seconds

    config, device = load_config("zinc", overrides={"run.precision": precision}), torch.device(name)
    yield from compared(config, device)
    for way, seconds in step_seconds(config, device).items():
        yield f"a step {way} takes {1000 * seconds:.2f} ms"

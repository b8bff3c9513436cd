"""Describe this machine, and check that its devices compute correct results."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.data.batching import GraphTensors
from molsepnorm.files.writing import cache_folder
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings import encode
from molsepnorm.molecules.featurize import get
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.parts import FAST, PLAIN, Parts

_PACKAGES = (
    *("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic", "safetensors"),
    *("scikit-learn", "scipy", "pyarrow", "torch-scatter", "matplotlib", "optuna"),
)
_SMILES = (
    *("CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "Cn1c(=O)c2c(ncn2C)n(C)c1=O", "N[C@@H](C)C(=O)O"),
)
_BOUND = 5e-4  # largest relative difference of results in float32
_STEPS = 3


@dataclass(frozen=True)
class Check:
    name: str
    state: Literal["ok", "failed"]
    said: str
    seconds: float


def describe() -> dict[str, dict[str, str | None]]:
    """Return versions (None if not installed), devices and folders by name."""
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
        f"compute capability {capability}, CUDA {torch.version.cuda}"
    )


def _folder(path: Path) -> str:
    """Describe a folder, or the nearest existing one, in which it would be created."""
    nearest = next((each for each in (path, *path.parents) if each.exists()), path)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    state = "writable" if writable else "not writable"
    return f"{path} ({state if path.exists() else f'does not exist yet, {state}'})"


def run_checks() -> Iterator[Check]:
    """Compare the default network in float32 on each device with plain operations in float64 on
    the CPU, and yield each result as it is ready."""
    for device in ("cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))):
        begun = time.perf_counter()
        state: Literal["ok", "failed"] = "ok"
        try:
            found = _results(torch.device(device), torch.float32, FAST)
            expected = _results(torch.device("cpu"), torch.float64, PLAIN)
            apart = {what: _apart(found[what], tensors) for what, tensors in expected.items()}
            if not all(difference <= _BOUND for difference in apart.values()):  # such as NaN
                state = "failed"
            said = ", ".join(f"{what} differ by {each:.1e}" for what, each in apart.items())
            said += f" (at most {_BOUND:.0e} expected)"
        except Exception as error:
            state, said = "failed", f"{type(error).__name__}: {error}"
        yield Check(f"network on {device}", state, said, round(time.perf_counter() - begun, 2))


def _results(
    device: torch.device, dtype: torch.dtype, parts: Parts
) -> Mapping[str, Sequence[Tensor]]:
    make = get("zinc")
    config = GraphormerConfig(layers=2, init="xavier", dropout=0.0, attention_dropout=0.0)
    graphs = [make(smiles) for smiles in _SMILES]
    encoded = encode(graphs, encoding_of(config))
    batch = GraphTensors.of(encoded, device).cut([*range(len(graphs))], 2)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = Graphormer(config, parts).to(device, dtype)
    with torch.no_grad():
        outputs = network.eval()(batch)
    labels = torch.linspace(-1, 1, len(graphs), device=device, dtype=dtype)[:, None]
    optimizer, gradients = torch.optim.SGD(network.parameters(), lr=0.01), []
    network.train()
    for _ in range(_STEPS):
        optimizer.zero_grad()
        (network(batch) - labels).square().mean().backward()
        gradients += [each.grad.clone() for each in network.parameters() if each.grad is not None]
        optimizer.step()
    state = [each for each in network.state_dict().values() if each.is_floating_point()]
    return {"outputs": [outputs], "gradients": gradients, f"weights after {_STEPS} steps": state}


def _apart(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the difference of tensors, relative to the norm of the expected ones."""
    pairs = zip(found, expected, strict=True)
    difference = math.hypot(*(float((a.cpu().double() - b).norm()) for a, b in pairs))
    return difference / math.hypot(*(float(each.norm()) for each in expected))

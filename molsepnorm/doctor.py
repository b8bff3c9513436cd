"""Describe this machine, and check that the installation computes correct results on it.

Modules that need RDKit or pydantic are imported where they are used, so that a package which is
missing affects one check only.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.files.writing import cache_folder
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.parts import FAST, PLAIN, Parts

if TYPE_CHECKING:
    from molsepnorm.model import PropertyModel
    from molsepnorm.predict import Predictor

_PACKAGES = (
    *("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic", "safetensors"),
    *("scikit-learn", "scipy", "pyarrow", "torch-scatter", "matplotlib", "optuna"),
)
_PAIRS = (
    ("CCO", "OCC"),
    ("c1ccccc1O", "Oc1ccccc1"),
    ("CC(=O)Nc1ccc(O)cc1", "c1c(O)ccc(NC(C)=O)c1"),
    ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", "O=c1n(C)c(=O)n(C)c2ncn(C)c12"),
    ("N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O"),
)
"""Two SMILES of each molecule."""
_BOUND = 5e-4
"""Largest relative difference of results in float32."""
_STEPS = 3


class Comparison(NamedTuple):
    """The relative difference of two results that should be equal."""

    what: str
    difference: float

    @property
    def passed(self) -> bool:
        return self.difference <= _BOUND  # false for NaN

    def __str__(self) -> str:
        return f"{self.what} differ by {self.difference:.1e} (at most {_BOUND:.0e} expected)"


Findings: TypeAlias = Iterator[Comparison]


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    name: str
    state: Literal["ok", "failed", "skipped"]
    said: str
    seconds: float


def describe() -> dict[str, dict[str, str | None]]:
    """Return versions (None where not installed), devices and folders by name, without
    computation."""
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
    """Run the checks that this machine supports, and yield each result as it is ready."""
    for name, check in _checks().items():
        begun = time.perf_counter()
        state: Literal["ok", "failed", "skipped"] = "ok"
        said: list[str] = []
        try:
            for found in check():
                said.append(str(found))
                if not found.passed:
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
    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return {
        **{f"network on {name}": partial(_network, name) for name in names},
        "prediction of an example": _prediction,
        "worker processes": _workers,
    }


def _network(name: str) -> Findings:
    """Compare the default network in float32 with plain operations on the CPU in float64."""
    found = _results(torch.device(name), torch.float32, FAST)
    expected = _results(torch.device("cpu"), torch.float64, PLAIN)
    for what, tensors in expected.items():
        yield Comparison(what, _apart(found[what], tensors))


def _results(
    device: torch.device, dtype: torch.dtype, parts: Parts
) -> Mapping[str, Sequence[Tensor]]:
    from molsepnorm.data.batching.collate import GraphTensors
    from molsepnorm.model import encoding_of
    from molsepnorm.molecules.encodings import encode
    from molsepnorm.molecules.featurize import get

    make, config = get("zinc"), _config()
    graphs = [make(smiles) for pair in _PAIRS for smiles in pair]
    batch = GraphTensors.of(encode(graphs, encoding_of(config)), device).cut(
        [*range(len(graphs))], 2
    )
    network = _network_of(config, parts).to(device, dtype)
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


def _config() -> GraphormerConfig:
    return GraphormerConfig(layers=2, init="xavier", dropout=0.0, attention_dropout=0.0)


def _network_of(config: GraphormerConfig, parts: Parts = FAST) -> Graphormer:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return Graphormer(config, parts)


def _apart(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the difference of tensors, relative to the norm of the expected ones."""
    pairs = zip(found, expected, strict=True)
    difference = math.hypot(*(float((a.cpu().double() - b).norm()) for a, b in pairs))
    return difference / math.hypot(*(float(each.norm()) for each in expected))


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
    from molsepnorm.model import PropertyModel
    from molsepnorm.tasks import Target, Task

    network = _network_of(_config())
    return PropertyModel.of(network, "zinc", Task((Target("y", "regression"),), metric="mae"))


def _values(predictor: Predictor, smiles: list[str]) -> np.ndarray:  # float64 (R,)
    rows = predictor.predict(smiles)
    if errors := [row.error for row in rows if row.error]:
        raise ValueError(errors[0])
    return np.array([row.values["y"] for row in rows if row.values is not None], dtype=float)


def _agree(path: str, found: np.ndarray, expected: np.ndarray) -> Comparison:
    """Compare predictions, relative to the spread of the expected ones."""
    if len(expected) > 1 and not expected.std() > 0.01:
        raise ValueError("all molecules have the same prediction")
    mine, other = (torch.from_numpy(each - expected.mean()) for each in (found, expected))
    return Comparison(f"{path}: predictions", _apart([mine], [other]))

"""Verdicts on fast paths: the differences of their results from the plain path's, cached."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from molsepnorm.errors import MolsepnormError, StorageError
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import cache_folder, write_json

__all__ = [
    "Results",
    "Verdict",
    "apart",
    "differences",
    "driver",
    "first_line",
    "judge",
    "known",
    "remembered",
]

Results = Mapping[str, Sequence[Tensor]]
"""Results of a path by name: outputs, gradients, …"""

_SMALL = 0.1
"""Smaller tensors are compared relative to this share of the largest one's norm: their digits may
be rounding errors of the others."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of a fast path with the plain one."""

    path: str
    """Such as "fused attention"."""
    figures: dict[str, float | None]
    """Relative difference of each kind of result; None where it is not a finite number."""
    bound: float
    """The largest difference that the precision explains."""
    error: str = ""
    """The error of a path without results."""

    @property
    def passed(self) -> bool:
        """True if there are results and all are within the bound."""
        return bool(self.figures) and not self.error and not self._beyond()

    def __str__(self) -> str:
        """Such as "outputs differ by 1.0e-02, gradients by 3.1e-02 (at most 1e-04 expected)"."""
        if self.error:
            return f"failed with {self.error}"
        parts, verb = [], " differ"
        for name, value in (self.figures if self.passed else self._beyond()).items():
            parts.append(name + (" are not finite" if value is None else f"{verb} by {value:.1e}"))
            verb = ""
        return f"{', '.join(parts)} (at most {self.bound:.0e} expected)"

    def _beyond(self) -> dict[str, float | None]:
        return {n: v for n, v in self.figures.items() if v is None or not v <= self.bound}


def apart(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest relative difference of two lists of tensors, in the Euclidean norm.

    It is not finite if a value is not, or if shapes differ.
    """
    if [each.shape for each in found] != [each.shape for each in expected]:
        return math.inf
    found, expected = ([x.detach().cpu().double() for x in each] for each in (found, expected))
    norms = torch.stack([each.norm() for each in expected])
    differences = torch.stack([(a - b).norm() for a, b in zip(found, expected, strict=True)])
    smallest = _SMALL * float(norms.max()) or 1.0
    return float((differences / norms.clamp(min=smallest)).max())  # NaN if any is


def differences(found: Results, expected: Results) -> dict[str, float]:
    """Return `apart` for each kind of result."""
    return {name: apart(found[name], tensors) for name, tensors in expected.items()}


def judge(path: str, bound: float, work: Callable[[], Mapping[str, float]]) -> Verdict:
    """Return the verdict on a path, given a function that computes its differences."""
    try:
        found = work()
    except Exception as error:  # kernels and compilers fail in many ways
        return Verdict(path, {}, bound, first_line(error))
    figures = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return Verdict(path, figures, bound)


def first_line(error: Exception) -> str:
    """Return an error's type and the first line of its message."""
    line = str(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


_known: dict[str, tuple[Verdict, ...]] = {}


def known() -> list[Verdict]:
    """Return all verdicts that this process has used."""
    return [verdict for verdicts in _known.values() for verdict in verdicts]


def remembered(
    device: torch.device, settings: Mapping[str, Any], work: Callable[[], Iterable[Verdict]]
) -> tuple[Verdict, ...]:
    """Return the verdicts on a device from this process, the cache folder, or `work`.

    The cache key is the device, the versions, the package's source and the settings. A file that is
    damaged or cannot be written only costs another check.

    Raises:
        MolsepnormError: a fast path left the device unusable. The verdict is cached, so the next
            process does not use that path.
    """
    key = short_digest(json.dumps([_identity(device), settings], default=str, sort_keys=True))
    if key in _known:
        return _known[key]
    path = cache_folder() / "verdicts" / f"{key}.json"
    verdicts = _read(path)
    if not verdicts:
        verdicts = tuple(work())
        failed = [verdict.error for verdict in verdicts if verdict.error]
        if not any("OutOfMemory" in error for error in failed):  # not a fault of the path
            with suppress(StorageError):
                write_json(path, [asdict(verdict) for verdict in verdicts])
        if failed and not _works(device):
            raise MolsepnormError(
                f"a check of fast paths left {device} unusable ({failed[0]}). The path is recorded "
                "as faulty, and the next run does not use it: run the same command again"
            )
    _known[key] = verdicts
    return verdicts


def _read(path: Path) -> tuple[Verdict, ...]:
    """Return the cached verdicts; none if there is no file, or if it is damaged."""
    try:
        return tuple(Verdict(**verdict) for verdict in json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


@functools.cache
def _identity(device: torch.device) -> dict[str, str]:
    """Return the hardware, driver and versions that determine how a device computes."""
    gpu = device.type == "cuda" and torch.cuda.is_available()
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    return {
        "device": torch.cuda.get_device_name(device) if gpu else device.type,
        "driver": driver(),
        "torch": torch.__version__,
        "triton": triton,
        "source": short_digest(*sorted(Path(__file__).parents[1].rglob("*.py"))),
    }


def driver() -> str:
    """Return the version of NVIDIA's driver; empty if there is none."""
    with suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"Kernel Module\D*([\d.]+)", text):
            return found[1]
    return ""


def _works(device: torch.device) -> bool:
    """Return whether the device still computes; some errors make it unusable in this process."""
    try:
        return float((torch.ones(8, device=device) + 1).sum()) == 16
    except RuntimeError:
        return False

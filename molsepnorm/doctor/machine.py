"""Versions, devices and folders."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from molsepnorm._version import __version__
from molsepnorm.files.writing import cache_folder

__all__ = ["Machine", "describe"]

_PACKAGES = (
    *("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic", "safetensors"),
    *("scikit-learn", "scipy", "pyarrow", "triton", "torch-scatter", "matplotlib"),
)


@dataclass(frozen=True)
class Machine:
    """Versions, devices and folders of this machine."""

    versions: dict[str, str | None]
    """By package; None where it is not installed."""
    devices: dict[str, str]
    """Description of each device, by the name that `--device` takes."""
    folders: dict[str, str]
    """Locations of the data and the cache, and whether they are writable."""


def describe() -> Machine:
    """Look at the machine; nothing is computed."""
    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "molsepnorm": __version__,
        **{name: _version(name) for name in _PACKAGES},
    }
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
    names = getattr(os, "sysconf_names", {})
    memory = "SC_PHYS_PAGES" in names and os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    said = f"{cores} cores" + (f", {_gigabytes(memory)} of memory" if memory else "")
    try:
        import torch
    except ImportError:
        return {"cpu": said}
    devices = {"cpu": f"{said}, PyTorch threads: {torch.get_num_threads()}"}
    if torch.cuda.is_available():
        from molsepnorm.devices.verdict import driver

        for index in range(torch.cuda.device_count()):
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
    """A folder, or the one in which it would be made, and whether it can be written."""
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    state = "writable" if writable else "not writable"
    return f"{path} ({state if path.exists() else f'not there yet, {state}'})"

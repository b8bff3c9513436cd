"""Machine, commit and package versions of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

__all__ = ["changed", "commit", "data_folder", "machine", "versions"]

_TOP = Path(__file__).parents[1]


def machine() -> str:
    """Return the number of cores, the processor and the version of Python."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if "model name" in line), "?")
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def _git(*arguments: str) -> str:
    try:
        command = ["git", "-C", str(_TOP), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # no git
        return ""


def changed(*paths: str) -> bool:
    """Return whether these tracked paths, by default all, differ from the commit."""
    return bool(_git("status", "--porcelain", "-uno", "--", *paths))


def commit() -> str:
    """Return the short hash, with a remark if files differ from it."""
    found = _git("rev-parse", "--short", "HEAD") or "unknown"
    return found + (" with changes" if changed() else "")


def data_folder() -> Path:
    """Return the folder of real data sets."""
    if not (folder := os.environ.get("MOLSEPNORM_DATA")):
        raise SystemExit("set MOLSEPNORM_DATA to the folder of real data sets")
    return Path(folder)


def versions(*packages: str) -> dict[str, str]:
    """Return the version of each package, `none` if it is not installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version_of(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found

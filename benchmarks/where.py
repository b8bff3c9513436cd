"""Where figures were measured: the machine, the commit, the versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

__all__ = ["commit", "machine", "versions"]


def machine() -> str:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if "model name" in line), "?")
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    dirty = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True)
    return commit.stdout.strip() + (" with changes" if dirty.stdout.strip() else "")


def versions(*packages: str) -> dict[str, str]:
    """Of each package that is installed here."""
    found = {}
    for package in packages:
        try:
            found[package] = version_of(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found

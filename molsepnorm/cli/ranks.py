"""The rank of this process under torchrun, without importing torch."""

from __future__ import annotations

import os
import signal
import sys
import time

__all__ = ["give_way", "rank"]

_SECONDS = 5.0  # time for the first process to meet the same error


def rank() -> int | None:
    """Return the rank of this process, or None if it is the only one."""
    if int(os.environ.get("WORLD_SIZE", 1)) < 2 or "LOCAL_RANK" not in os.environ:
        return None
    return int(os.environ["RANK"])


def give_way(code: int) -> None:
    """Give the first process time to print an error that all processes have met.

    The first process returns at once. When it exits, torchrun ends the others, which then exit from
    here with `code`. Another process that is still alive after a few seconds has an error of its
    own, and returns.
    """
    if rank():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
        time.sleep(_SECONDS)

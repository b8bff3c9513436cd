"""Which of torchrun's processes this is, without waiting for torch to be imported."""

from __future__ import annotations

import os
import signal
import sys
import time

__all__ = ["give_way", "rank"]

_SECONDS = 5.0  # until the first process has met the error that all meet


def rank() -> int | None:
    """This process's number among several that torchrun started; None where there is but one."""
    if int(os.environ.get("WORLD_SIZE", 1)) < 2 or "LOCAL_RANK" not in os.environ:
        return None
    return int(os.environ["RANK"])


def give_way(code: int) -> None:
    """Before an error is told: let the first process tell it, if it has met the same.

    Once the first has left, torchrun ends the others, which then leave from here with `code`. It
    returns in the first process at once, and in another one after a few seconds: the error is that
    one's own.
    """
    if rank():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
        time.sleep(_SECONDS)

"""Cut a failing case down while it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any


def shrink(
    case: dict[str, Any], parts: Collection[str], fails: Callable[[Any], bool], seconds: float
) -> dict[str, Any]:
    """Drop pieces, halves first, of the texts, bytes and lists under the names of `parts`.

    Args:
        case: plain values.
        parts: names in it that may be cut.
        fails: whether a smaller case fails as this one does.
        seconds: when to stop.
    """
    end = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < end:
        found = False
        for name in parts:
            for smaller in _smaller(case[name]):
                if time.monotonic() > end:
                    break
                if fails({**case, name: smaller}):
                    case, found = {**case, name: smaller}, True
                    break
    return case


def _smaller(value: Any) -> Iterator[Any]:
    if not isinstance(value, str | bytes | list):
        return
    step = len(value)
    while step := step // 2 if step > 1 else 0:
        for start in range(0, len(value), step):
            yield value[:start] + value[start + step :]
    if isinstance(value, list):
        for place, each in enumerate(value):
            for smaller in _smaller(each):
                yield [*value[:place], smaller, *value[place + 1 :]]

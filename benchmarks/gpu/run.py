"""Checks, times, profiles and trains on a GPU; without one, on the CPU, to see that it would work.

run.sh check                    every way of taking a step against the CPU: losses, gradients, masks
run.sh time                     training steps in all variants, beside the peer and the floors
run.sh profile                  kernels of a step, into $OUT/profile.txt and traces
run.sh check time profile       some of them, in that order
run.sh train NAME [options]     `molsepnorm train` into .gpu/runs/NAME, or on from its archive
                                --minutes M: stop by then, saved [default: 8.5]
run.sh many FILE                the runs of a list, several at a time, each into an archive
                                --minutes M [8.5], --at-once K [3]
run.sh all                      check, time, profile, train a little; a table in $OUT/table.md
run.sh pack NAME ...            what pack.sh does for data sets, on a machine that has them

Exit status 1: a check failed. `all` and its parts end within 9.5 minutes, whatever is left to do.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

_SECONDS = 550
_KEPT = {"time": 200, "profile": 40, "train": 85}
"""Seconds that what comes before a verb leaves to it."""
_VERBS = ("check", "time", "profile")


def main(arguments: list[str]) -> int:
    """Do what the arguments say; returns the exit status."""
    if arguments[:1] == ["--jobs"]:
        from gpu.jobs import child

        return child(arguments[1], Path(arguments[2]), arguments[3:])
    if arguments[:1] == ["pack"]:
        from gpu.packing import pack_all

        return pack_all(arguments[1:])
    if arguments[:1] == ["train"] and len(arguments) > 1:
        from gpu.training import train

        return train(arguments[1], arguments[2:])
    if arguments[:1] == ["many"] and len(arguments) > 1:
        from gpu.many import train_many

        return train_many(arguments[1:])
    if arguments == ["all"]:
        return _measure([*_VERBS, "train"])
    if arguments and set(arguments) <= {*_VERBS}:
        return _measure([verb for verb in _VERBS if verb in arguments])
    sys.exit(__doc__)


def _measure(verbs: list[str]) -> int:
    """Do these, each leaving time to the next ones; tell all in one table."""
    from gpu.report import Report

    begun = time.monotonic()
    report = Report.begun()
    for number, verb in enumerate(verbs, start=1):
        print(f"\n== {verb}, {time.monotonic() - begun:.0f} s since the beginning", flush=True)
        report.add(verb, begun + _SECONDS - sum(_KEPT[later] for later in verbs[number:]))
    print(f"\n{report.markdown()}\n\n{time.monotonic() - begun:.0f} s in all")
    return report.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

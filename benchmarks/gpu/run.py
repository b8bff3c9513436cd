"""Check and time training steps on a GPU; without one, on the CPU, to try it out.

run.sh check                    every way to take a step against the CPU: losses, gradients, masks
run.sh time                     steps per second of every way to take a step
run.sh check time               both
run.sh runs LIST --minutes 9    train the runs of a list; see benchmarks/runs.py --help

Writes table.md and figures.json into $OUT. The first three end within 9.5 minutes. Exit status 1
means that a check or a run failed.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

_SECONDS = 550
_VERBS = ("check", "time")


def main(arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    if not arguments or not {*arguments} <= {*_VERBS}:
        sys.exit(__doc__)
    import torch
    from environment import commit

    from gpu.trainers import out

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    found: dict[str, Any] = {
        "head": f"{time.strftime('%Y-%m-%d')}, commit {commit()}; {gpu}; torch "
        f"{torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}."
    }
    deadline = time.monotonic() + _SECONDS
    for verb in (verb for verb in _VERBS if verb in arguments):
        found[verb] = measure(verb, deadline)
        (out() / "figures.json").write_text(json.dumps(found, indent=1))
        (out() / "table.md").write_text(describe(found) + "\n")
    print(f"\n{describe(found)}")
    return int(not all(line["passed"] for line in found.get("check", [])))


def measure(verb: str, deadline: float) -> list[dict[str, Any]]:
    """Do one of the measurements."""
    from gpu import checks, timing

    return checks.check(deadline) if verb == "check" else timing.measure(deadline)


def describe(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    from gpu.trainers import FULL, scale

    parts = [found["head"]]
    parts += ["**SMALL=1: these figures mean nothing.**"] if scale() is not FULL else []
    if checks := sorted(found.get("check", []), key=lambda check: check["passed"]):
        passed = sum(check["passed"] for check in checks)
        rows = [("what", "found", "maximum", ""), ("---",) * 4]
        for check in checks:
            end = "ok" if check["passed"] else "**failed**"
            if "figure" in check:
                cells = f"{check['figure']:.1e}", f"{check['bound']:.0e}"
            else:
                cells = check["error"], ""
            rows.append((check["what"], *cells, end))
        parts += [f"Checks against the CPU: {passed} of {len(checks)} passed.", _table(rows)]
    if times := found.get("time"):
        rows = [("step/precision/groups/attention", "steps/s"), ("---",) * 2]
        for each in times:
            rate = f"{each.get('steps_per_second', 0.0):,.1f}"
            rows.append((each["variant"], each.get("error", rate)))
        parts += [_table(rows)]
    return "\n\n".join(parts)


def _table(rows: list[tuple[str, ...]]) -> str:
    from table import line

    return "\n".join(line([cell.replace("|", "/") for cell in row]) for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

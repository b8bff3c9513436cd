"""Check, time and profile on a GPU; without one, on the CPU, to try it out.

run.sh check                    every way to take a step against the CPU: losses, gradients, masks
run.sh time                     training steps in all variants, the peer's and the lower bounds
run.sh profile                  kernels of a step, into $OUT/profile.txt
run.sh check time profile       several, in this order
run.sh runs LIST --minutes 9    train the runs of a list; --help of benchmarks/runs.py says more

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
_RESERVED = {"check": 0, "time": 200, "profile": 40}
"""Seconds that the measurements before must leave."""


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if not arguments or not {*arguments} <= {*_RESERVED}:
        sys.exit(__doc__)
    import torch
    from environment import commit

    from gpu.trainers import out

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    found: dict[str, Any] = {
        "head": f"{time.strftime('%Y-%m-%d')}, commit {commit()}; {gpu}; torch "
        f"{torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}."
    }
    verbs, begun = [verb for verb in _RESERVED if verb in arguments], time.monotonic()
    for number, verb in enumerate(verbs, start=1):
        print(f"\n== {verb}, {time.monotonic() - begun:.0f} s since the beginning", flush=True)
        deadline = begun + _SECONDS - sum(_RESERVED[later] for later in verbs[number:])
        try:
            found[verb] = measure(verb, deadline, found)
        except Exception as error:  # continue with the other measurements
            found.setdefault("failed", {})[verb] = f"{type(error).__name__}: {error}"
        (out() / "figures.json").write_text(json.dumps(found, indent=1))
        (out() / "table.md").write_text(describe(found) + "\n")
    print(f"\n{describe(found)}\n\n{time.monotonic() - begun:.0f} s in all")
    return int("failed" in found or not all(line["passed"] for line in found.get("check", [])))


def measure(verb: str, deadline: float, found: dict[str, Any]) -> Any:
    """Do one of the three measurements."""
    if verb == "check":
        from gpu.checks import check

        return check(deadline)
    if verb == "time":
        from gpu.timing import measure

        return measure(deadline)
    from gpu.profiling import profile_steps
    from gpu.trainers import Variant

    best = found.get("time", {}).get("best")
    return profile_steps(deadline, Variant.of(best) if best else Variant())


def describe(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    from interleaved import Row, Target
    from table import line, markdown

    from gpu.trainers import FULL, scale

    parts = [found["head"]]
    parts += ["**SMALL=1: these figures mean nothing.**"] if scale() is not FULL else []
    parts += [f"**{verb} failed: {why}**" for verb, why in found.get("failed", {}).items()]
    if checks := sorted(found.get("check", []), key=lambda check: check["passed"]):
        passed = sum(check["passed"] for check in checks)
        rows = [line(["what", "found", "maximum", ""]), line(["---"] * 4)]
        for check in checks:
            cells = [check["what"], check.get("error", ""), "", "**failed**"]
            if "figure" in check:
                end = "ok" if check["passed"] else "**failed**"
                cells[1:] = f"{check['figure']:.1e}", f"{check['bound']:.0e}", end
            rows.append(line([cell.replace("|", "/") for cell in cells]))
        head = f"Checks against the CPU: {passed} of {len(checks)} passed."
        parts += [head, "\n".join(rows)]
    if times := found.get("time"):
        targets = [Target(**row["target"]) if row["target"] else None for row in times["rows"]]
        rows = [Row(**{**row, "target": t}) for row, t in zip(times["rows"], targets, strict=True)]
        parts += [f"Fastest variant: {times['best']}.", markdown(rows)]
        parts += [f"**Not measured: {name}: {why}.**" for name, why in times["failed"].items()]
    parts += [f"- {each}" for each in found.get("profile", [])]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

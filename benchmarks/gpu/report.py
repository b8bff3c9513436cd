"""What a command found: kept as figures, told as a table for RESULTS.md."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from peers import hf_graphormer
from table import figure, markdown
from turns import Asked, Row, Spread

from gpu import checks, profiling, timing, training
from gpu.scale import FULL, out, scale
from gpu.trainers import RECIPE, Variant

__all__ = ["Report"]

_FEATURISE = 1 / 7104
"""Seconds from SMILES to the store on one core: benchmarks/results/speed.md, its machine."""
_ASKED_MS, _ASKED_RATIO, _ASKED_RATE = 3.0, 15.0, 1e5


class Report:
    """Grows verb by verb; the files in $OUT are written anew after each."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.found: dict[str, Any] = {}

    @staticmethod
    def begun() -> Report:
        """With what the machine is."""
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        noted = Path(__file__).parents[2] / ".gpu" / "commit"
        commit = noted.read_text().strip() if noted.exists() else "unknown"
        return Report(
            f"{time.strftime('%Y-%m-%d')}, commit {commit}; {gpu}; torch {torch.__version__}, CUDA "
            f"{torch.version.cuda}, Python {platform.python_version()}."
        )

    def add(self, verb: str, deadline: float) -> None:
        """Do what a verb asks for, until that moment of `time.monotonic()` at the latest."""
        work: dict[str, Callable[[], Any]] = {
            "check": lambda: checks.check(deadline),
            "time": lambda: timing.measure(deadline),
            "profile": lambda: profiling.profile_steps(deadline, self._best()),
            "train": lambda: _train_a_little(deadline),
        }
        try:
            self.found[verb] = work[verb]()
        except Exception as error:  # the other verbs' figures are worth their time
            self.found[verb] = {"failed": f"{type(error).__name__}: {error}"}
            print(f"{verb} failed: {type(error).__name__}: {error}", flush=True)
        (out() / "figures.json").write_text(json.dumps({"head": self.head, **self.found}, indent=1))
        (out() / "table.md").write_text(self.markdown() + "\n")

    @property
    def status(self) -> int:
        """1 if a check failed, or a verb did."""
        failed = any("failed" in found for found in self.found.values() if isinstance(found, dict))
        checked = self.found.get("check", [])
        return int(failed or any(not line["passed"] for line in checked if "passed" in line))

    def markdown(self) -> str:
        """Everything found so far."""
        parts = [self.head]
        if scale() is not FULL:
            parts.append("**SMALL=1: these figures say nothing.**")
        tellers: dict[str, Callable[[Any], str]] = {
            "check": _checks,
            "time": _times,
            "profile": _profile,
            "train": _trained,
        }
        for verb, found in self.found.items():
            if isinstance(found, dict) and "failed" in found:
                parts.append(f"**{verb} failed: {found['failed']}**")
            else:
                parts.append(tellers[verb](found))
        return "\n\n".join(parts)

    def _best(self) -> Variant:
        times = self.found.get("time", {})
        return Variant.of(times["best"]) if "best" in times else Variant()


def _train_a_little(deadline: float) -> list[str]:
    """Begin the published recipe, stop it, and go on from its archive."""
    said: list[str] = []
    training.forget("short")
    for _ in range(2):
        seconds = min(scale().trained / 2, deadline - time.monotonic())
        options = ["--config", str(RECIPE), "--set", "run.validate_every=5"]
        options += ["--set", "model.layers=2"] if scale() is not FULL else []
        status, line = training.train_for(max(5.0, seconds), "short", options)
        if status:
            raise RuntimeError(line)
        said.append(line)
    training.forget("short")
    return said


def _checks(lines: list[dict[str, Any]]) -> str:
    failed = [line for line in lines if not line["passed"]]
    head = [f"Checks against the CPU: {len(lines) - len(failed)} of {len(lines)} passed.", ""]
    head += ["| what | found | asked | |", "|---|---|---|---|"]
    return "\n".join(head + [_check(line) for line in [*failed, *filter(_passed, lines)]])


def _passed(line: Mapping[str, Any]) -> bool:
    return bool(line["passed"])


def _check(line: Mapping[str, Any]) -> str:
    if "error" in line:
        return f"| {line['what']} | {line['error'].replace('|', '/')} | | **failed** |"
    sign = ">" if line["least"] else "≤"
    end = "ok" if line["passed"] else "**failed**"
    return f"| {line['what']} | {line['figure']:.1e} | {sign} {line['bound']:.0e} | {end} |"


def _times(found: Mapping[str, Any]) -> str:
    head = "| step / precision / blocks / attention | ms a step (spread) | graphs/s | ready after |"
    lines = [f"Training step of SLIM, batch {scale().batch}, ours.", "", head, "|---|---|---|---|"]
    for line in found["steps"]:
        if "error" in line:
            lines.append(f"| {line['variant']} | {line['error'].replace('|', '/')} | | |")
            continue
        least, most = line["spread"]
        lines.append(
            f"| {line['variant']} | {line['ms']:.3f} ({least:.3f} to {most:.3f}) "
            f"| {line['graphs_per_second']:,.0f} | {line['ready_seconds']:.1f} s |"
        )
        lines += [f"| | {note.replace('|', '/')} | | |" for note in line["notes"]]
    if quickest := [line["ms"] for line in found["steps"] if "ms" in line]:
        end = "met" if min(quickest) <= _ASKED_MS else "**missed**"
        lines += ["", f"Asked: {_ASKED_MS:g} ms a step: {min(quickest):.3f} ms, {end}."]
    rest = found["rest"]
    floors: dict[str, Any] = next(
        (each for name, each in rest.items() if name.startswith("floors")), {}
    )
    rows = [row for name, each in rest.items() if (row := _row(name, each, floors))]
    lines += ["", markdown(rows)] if rows else []
    lines += ["", _said_of_floors(floors)]
    failed = [f"{name}: {each['error']}" for name, each in rest.items() if "error" in each]
    return "\n".join([*lines, *(["", f"**Not measured: {'; '.join(failed)}.**"] if failed else [])])


def _row(name: str, found: Mapping[str, Any], floors: Mapping[str, Any]) -> Row | None:
    kind, _, variant = name.partition(" ")
    rates = found.get("rates", {})
    if kind == "evaluation" and rates:
        return _evaluation(variant, rates)
    if kind not in ("contest", "collated") or not rates:
        return None
    floor = [1000 * scale().batch / ms] * len(rates["ours"]) if (ms := _floor_ms(floors)) else []
    collated = kind == "collated"
    return Row(
        "gpu",
        f"training step{', theirs with its collator' if collated else ''}, {variant}",
        "graphs/s",
        rates["ours"],
        rates.get("peer", ()),
        hf_graphormer.NAME,
        "SLIM, its collator in every step" if collated else "SLIM, its inputs on the device before",
        floor,
        "the largest of launches, bytes and matrix products",
        None if collated else Asked("ratio", _ASKED_RATIO),
        found["remark"],
    )


def _evaluation(precision: str, rates: Mapping[str, list[float]]) -> Row:
    size = max(rates, key=lambda each: Spread.of(rates[each]).median)
    rate = Spread.of(rates[size]).median
    others = ", ".join(f"{figure(Spread.of(each).median)} at {s}" for s, each in rates.items())
    return Row(
        "gpu",
        f"evaluation from a store, {precision}",
        "molecules/s",
        rates[size],
        asked=Asked("ours", _ASKED_RATE),
        remark=f"batches of {size} (by batch: {others}); SMILES need {1e6 * _FEATURISE:.0f} µs of "
        f"a core each, so {math.ceil(_ASKED_RATE * _FEATURISE)} processes feed "
        f"{_ASKED_RATE:,.0f} molecules/s and {math.ceil(rate * _FEATURISE)} feed this",
    )


def _floor_ms(floors: Mapping[str, Any]) -> float:
    if "launches_ms" not in floors:
        return 0.0
    precision = Variant.of(floors["variant"]).precision
    return max(floors["launches_ms"], floors["bytes_ms"], floors["products_ms"][precision])


def _said_of_floors(floors: Mapping[str, Any]) -> str:
    if "launches_ms" not in floors:
        return "Floors: not measured."
    products = ", ".join(f"{ms:.3f} ms in {name}" for name, ms in floors["products_ms"].items())
    return (
        f"Floors of {floors['variant']}: {floors['kernels']:.0f} launches of "
        f"{floors['launch_us']:.2f} µs in a graph ({floors['eager_launch_us']:.2f} µs without): "
        f"{floors['launches_ms']:.3f} ms; {floors['moved_mb']:.0f} MB at "
        f"{floors['copy_gb_s']:,.0f} GB/s: {floors['bytes_ms']:.3f} ms; matrix products alone: "
        f"{products}."
    )


def _profile(lines: list[dict[str, Any]]) -> str:
    head = "| profiled | ms a step | kernels a step | busy, ms | idle between them, ms |"
    told = [head, "|---|---|---|---|---|"]
    for line in lines:
        if "error" in line:
            told.append(f"| {line['variant']} | {line['error'].replace('|', '/')} | | | |")
            continue
        told.append(
            f"| {line['variant']} | {line['ms']:.3f} | {line['kernels']:.0f} "
            f"| {line['busy_ms']:.3f} | {line['gaps_ms']:.3f} |"
        )
    return "\n".join(told)


def _trained(said: list[str]) -> str:
    return "A short training, stopped and gone on with: " + "; then ".join(said) + "."

"""The speed of ours and of the peers as shares of the bound, as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from interleaved import Row
from table import figure

__all__ = ["plot"]

_OURS, _PEER, _INK = "#0072B2", "#D55E00", "#555555"  # distinct for colour-blind readers too


def plot(rows: Sequence[Row], path: Path, caption: str) -> None:
    """Draw the rows that have a bound.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    drawn = [row for row in rows if row.share][::-1]
    if not drawn:
        return
    sheet = Figure(figsize=(9.5, 1.9 + 0.52 * len(drawn)), layout="constrained")
    axes = sheet.subplots()
    axes.axvline(1, color=_INK, linewidth=1.5, zorder=1)
    for height, row in enumerate(drawn):
        dots = [(row.share, _OURS, "o")]
        if row.peer_share and row.ratio and row.share:
            ends = [row.peer_share.median, row.share.median]
            axes.plot(ends, [height, height], color="#BBBBBB", zorder=1)
            text, style = f"{figure(row.ratio.median)} × {row.peer_name}", {"fontsize": 9}
            offset = {"xytext": (5, 8), "textcoords": "offset points", "ha": "right"}
            axes.annotate(text, (max(ends), height), color=_INK, **offset, **style)
            dots.insert(0, (row.peer_share, _PEER, "s"))
        for share, colour, marker in dots:
            error = [[share.median - share.min], [share.max - share.median]]
            look = {"color": colour, "marker": marker, "markersize": 7, "zorder": 3}
            axes.errorbar([share.median], [height], xerr=error, **look)
    axes.set_xscale("log")
    axes.set_xlim(min(s.min for row in drawn for s in (row.share, row.peer_share) if s) / 2, 2.5)
    axes.set_ylim(-0.6, len(drawn) - 0.3)
    axes.set_yticks(range(len(drawn)), [textwrap.fill(row.what, 34) for row in drawn])
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.set_xlabel("share of the bound's speed (logarithmic)")
    axes.grid(axis="x", color="#E5E5E5", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [
        Line2D([], [], color=_OURS, marker="o", linestyle="", label="molsepnorm"),
        Line2D([], [], color=_PEER, marker="s", linestyle="", label="peer"),
        Line2D([], [], color=_INK, label="bound: the unavoidable work alone"),
    ]
    sheet.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    sheet.supxlabel(caption, fontsize=7.5, color=_INK)
    sheet.savefig(path, dpi=110)

"""The table's rates as a picture: how far ours and the peers' are from what the machine allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from table import figure
from turns import Row, Spread

__all__ = ["plot"]

_OURS, _PEER, _INK = "#0072B2", "#D55E00", "#555555"  # told apart by every kind of colour vision


def plot(rows: Sequence[Row], path: Path, caption: str) -> None:
    """Draw the rows that have a floor, as shares of it.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    drawn = [row for row in rows if row.share][::-1]
    if not drawn:
        return
    sheet, axes = pyplot.subplots(figsize=(9.5, 1.9 + 0.52 * len(drawn)), layout="constrained")
    axes.axvline(1, color=_INK, linewidth=1.5, zorder=1)
    for height, row in enumerate(drawn):
        ours, peer = row.share, row.peer_share
        assert ours is not None
        if peer and row.ratio:
            axes.plot([peer.median, ours.median], [height, height], color="#BBBBBB", zorder=1)
            text = f"{figure(row.ratio.median)} × {row.peer_name}"
            axes.annotate(
                text,
                (max(peer.median, ours.median), height),
                (5, 8),
                textcoords="offset points",
                ha="right",
                color=_INK,
                fontsize=9,
            )
            _dot(axes, peer, height, _PEER, "s")
        _dot(axes, ours, height, _OURS, "o")
    axes.set_xscale("log")
    least = min(s.least for row in drawn for s in (row.share, row.peer_share) if s)
    axes.set_xlim(least / 2, 2.5)
    axes.set_ylim(-0.6, len(drawn) - 0.3)
    axes.set_yticks(range(len(drawn)), [_wrapped(row.what) for row in drawn])
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.set_xlabel("share of the floor's speed (logarithmic)")
    axes.grid(axis="x", color="#E5E5E5", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [
        pyplot.Line2D([], [], color=_OURS, marker="o", linestyle="", label="molsepnorm"),
        pyplot.Line2D([], [], color=_PEER, marker="s", linestyle="", label="peer"),
        pyplot.Line2D([], [], color=_INK, label="floor: the work that nobody can leave out"),
    ]
    sheet.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    sheet.supxlabel(caption, fontsize=7.5, color=_INK)
    sheet.savefig(path, dpi=110)
    pyplot.close(sheet)


def _dot(axes: object, share: Spread, height: int, colour: str, marker: str) -> None:
    error = [[share.median - share.least], [share.greatest - share.median]]
    axes.errorbar(  # type: ignore[attr-defined]
        [share.median], [height], xerr=error, color=colour, marker=marker, markersize=7, zorder=3
    )


def _wrapped(text: str, width: int = 34) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))

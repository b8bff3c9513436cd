"""Cutting a training batch of 256 molecules."""

from __future__ import annotations

from floors import copying
from peers import hf_graphormer
from settings import Settings
from turns import Row, Work, in_turns

from stages.slim import num_bytes, sides

__all__ = ["collate"]


def collate(settings: Settings) -> list[Row]:
    """From our store's tensors, and from transformers' preprocessed molecules."""
    ours, theirs, remark = sides(settings, settings.count(8, 2))
    batches = ours.sample.batches
    size = num_bytes(ours.cut(batches[0]))
    copy = copying(size)

    def our_cut(turn: int) -> int:
        return len(ours.cut(batches[turn % len(batches)]))

    def floor(turn: int) -> int:
        copy()
        return len(batches[0])

    contestants: dict[str, Work] = {"ours": our_cut, "floor": floor}
    if theirs:
        collator = theirs.cut

        def their_cut(turn: int) -> int:
            return len(collator(batches[turn % len(batches)])["labels"])

        contestants = {"ours": our_cut, "peer": their_cut, "floor": floor}
    rates = in_turns(contestants, settings.plan(seconds=5, turn_seconds=0.25))
    return [
        Row(
            "collate",
            "cutting batches of 256",
            "graphs/s",
            rates["ours"],
            rates.get("peer", ()),
            hf_graphormer.NAME,
            "GraphormerDataCollator on preprocessed items",
            rates["floor"],
            f"copying the batch's {size / 2**20:.1f} MiB in memory",
            None,
            remark,
        )
    ]

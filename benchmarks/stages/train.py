"""Training SLIM at batch 256: the step alone, and with the collation of its batch.

12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20 bonds,
AdamW, clipping of gradients. Ours with SepNorm, its default.
"""

from __future__ import annotations

from peers import hf_graphormer
from settings import Settings
from turns import Asked, Row, Work, in_turns

from stages.slim import BLOCKS, products, sides, train_step

__all__ = ["epoch", "step"]

_FLOOR = "the matrix products of layers, forward and backward"


def step(settings: Settings) -> list[Row]:
    """Steps on batches that were collated before."""
    ours, theirs, remark = sides(settings, settings.count(6, 2))
    molecules = ours.sample
    labels = [molecules.labels[batch] for batch in molecules.batches]
    count, size = len(labels), len(labels[0])
    network = ours.network()
    our_step, our_batches = train_step(network, network), [ours.cut(b) for b in molecules.batches]
    floors = [products(molecules, batch, BLOCKS, backward=True) for batch in molecules.batches]

    def our_work(turn: int) -> int:
        our_step(our_batches[turn % count], labels[turn % count])
        return size

    def floor(turn: int) -> int:
        floors[turn % count]()
        return size

    contestants: dict[str, Work] = {"ours": our_work}
    if theirs:
        their_step = train_step(*theirs.network())
        their_batches = [theirs.cut(batch) for batch in molecules.batches]

        def their_work(turn: int) -> int:
            their_step(their_batches[turn % count], labels[turn % count])
            return size

        contestants["peer"] = their_work
    rates = in_turns({**contestants, "floor": floor}, settings.plan(turn_seconds=1.0))
    return [
        Row(
            "train",
            "training step of SLIM, model only, batch 256",
            "graphs/s",
            rates["ours"],
            rates.get("peer", ()),
            hf_graphormer.NAME,
            "SLIM on batches as its collator makes them",
            rates["floor"],
            _FLOOR,
            Asked("ratio", 4),
            remark,
        )
    ]


def epoch(settings: Settings) -> list[Row]:
    """Collation and steps, from the store and from preprocessed items."""
    ours, theirs, remark = sides(settings, settings.count(8, 2))
    molecules = ours.sample
    pairs = len(molecules.batches) // 2
    network = ours.network()
    our_step = train_step(network, network)

    def two_batches(turn: int) -> list[int]:
        return [2 * (turn % pairs), 2 * (turn % pairs) + 1]

    def our_work(turn: int) -> int:
        chosen = [molecules.batches[place] for place in two_batches(turn)]
        for batch in chosen:
            our_step(ours.cut(batch), molecules.labels[batch])
        return sum(map(len, chosen))

    floors = [products(molecules, batch, BLOCKS, backward=True) for batch in molecules.batches]

    def floor(turn: int) -> int:
        for place in two_batches(turn):
            floors[place]()
        return sum(len(molecules.batches[place]) for place in two_batches(turn))

    contestants: dict[str, Work] = {"ours": our_work}
    if theirs:
        their_step, cut = train_step(*theirs.network()), theirs.cut

        def their_work(turn: int) -> int:
            chosen = [molecules.batches[place] for place in two_batches(turn)]
            for batch in chosen:
                their_step(cut(batch), molecules.labels[batch])
            return sum(map(len, chosen))

        contestants["peer"] = their_work
    least = settings.count(pairs, 1)
    plan = settings.plan(least=least, turn_seconds=0.0)
    rates = in_turns({**contestants, "floor": floor}, plan)
    return [
        Row(
            "epoch",
            "epoch of SLIM end to end: cutting batches of 256, and steps",
            "graphs/s",
            rates["ours"],
            rates.get("peer", ()),
            hf_graphormer.NAME,
            "collator and SLIM, its items preprocessed before",
            rates["floor"],
            _FLOOR,
            Asked("ratio", 5),
            f"{remark}; {2 * pairs} batches, two in a turn",
        )
    ]

"""`run.max_pairs`: large batches are halved, and everything else stays exact."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.training import Callback, train
from molsepnorm.training.loop import Trainer
from molsepnorm.training.step import learning_rate
from runs import outcome

LARGE = {3: "C" * 40, 9: "C" * 33 + "O", 15: "N" + "C" * 25, 21: "CO" * 18}


class _Steps(Callback):
    """Records the reported and the actual number of steps of each epoch, and all records."""

    def __init__(self) -> None:
        self.said: list[int] = []
        self.records = []

    def on_step(self, epoch, done, of, loss, rate) -> None:
        if done == 1:
            self.said.append(of)

    def on_epoch(self, record, epochs) -> None:
        self.records.append(record)


@pytest.fixture
def mixed(table, configure):
    """`mixed(max_pairs)`: a run on the small molecules of `table` and four large ones."""
    lines = table.read_text().splitlines()
    for row, smiles in LARGE.items():
        lines[row + 1] = f"{smiles}," + lines[row + 1].partition(",")[2]
    table.write_text("\n".join(lines) + "\n")
    return lambda max_pairs, **settings: configure({"run.max_pairs": max_pairs, **settings})


@pytest.fixture
def watched(monkeypatch):
    """`watched`: molecules and slot pairs, including padding, of each step."""
    plain, seen = Trainer.steps, []

    def steps(self, batches):
        for batch in batches:
            cut = self.graphs.cut(batch, self.config.run.max_groups)
            assert sum(block.graphs * block.slots**2 for block in cut.groups) == len(cut.pairs)
            seen.append((batch.tolist(), len(cut.pairs), self))
        yield from plain(self, batches)

    monkeypatch.setattr(Trainer, "steps", steps)
    return seen


@pytest.mark.parametrize("max_pairs", [4, 2000])
def test_the_schedule_counts_every_step(mixed, tmp_path, watched, max_pairs):
    """Epochs may differ in their number of steps; the last step has the final rate."""
    seen = _Steps()
    config = mixed(max_pairs, **{"run.max_groups": 1})
    result = train(config, tmp_path / "run", callback=seen)
    total = watched[0][2].total_steps
    assert total == len(watched) == result.metrics["steps"] == sum(seen.said)
    assert np.cumsum(seen.said).tolist() == [record.step for record in seen.records]
    for record in seen.records:
        assert record.lr == learning_rate(record.step - 1, total, config.optim)
    assert (len(set(seen.said)) > 1) == (max_pairs == 2000)


def test_a_limit_above_all_batches_changes_nothing(mixed, tmp_path, watched):
    """Bit by bit; the smallest such limit is the number of pairs of the largest batch."""
    train(mixed(1 << 20), tmp_path / "plain")
    largest = max(pairs for _, pairs, _ in watched)
    train(mixed(largest), tmp_path / "just")
    train(mixed(largest - 1), tmp_path / "less")
    assert outcome(tmp_path / "just") == outcome(tmp_path / "plain")
    assert outcome(tmp_path / "less")["model"] != outcome(tmp_path / "plain")["model"]

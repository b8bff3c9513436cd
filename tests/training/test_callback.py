"""Callbacks as a caller writes them: they see every event, and they stop a run."""

from __future__ import annotations

from molsepnorm.training import Callback, train


class Events(Callback):
    """Records the names of the events."""

    def __init__(self, stop_at: str = "") -> None:
        self.seen: list[str] = []
        self.stop_at = stop_at

    def _record(self, event: str) -> bool:
        self.seen.append(event)
        return event == self.stop_at

    def on_start(self, config, dataset, model, folder) -> None:
        self._record("start")

    def on_step(self, epoch, done, of, loss, rate) -> bool:
        return self._record(f"step {epoch}.{done}/{of}")

    def on_epoch(self, record, epochs) -> bool:
        return self._record(f"epoch {record.epoch}/{epochs}")

    def on_end(self, result) -> None:
        self._record(f"end {result.finished}")


def test_every_event_is_reported_in_order_and_each_callback_may_stop(configure, tmp_path):
    """The ones after the callback that stops see the same events."""
    each, another = Events(), Events("step 1.2/3")
    assert not train(configure(), tmp_path / "run", callback=[each, another, Events()]).finished
    steps = [f"step {epoch}.{done}/3" for epoch in (0, 1) for done in (1, 2, 3)]
    assert each.seen == another.seen == ["start", *steps[:3], "epoch 1/3", *steps[3:5], "end False"]
    train(None, tmp_path / "run", resume=True, callback=each)
    assert each.seen[-4:] == ["step 2.2/3", "step 2.3/3", "epoch 3/3", "end True"]

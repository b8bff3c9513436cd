"""Callbacks as a caller writes them: they see every event, and they stop a run."""

from __future__ import annotations

from molsepnorm.training import Callback, train


class Recorder(Callback):
    """Records the names of the events."""

    def __init__(self, stop_at: str = "") -> None:
        self.events: list[str] = []
        self.stop_at = stop_at

    def _record(self, event: str) -> bool:
        self.events.append(event)
        return event == self.stop_at

    def on_start(self, config, dataset, model, folder) -> None:
        self._record("start")

    def on_step(self, epoch, done, of, loss, rate) -> bool:
        return self._record(f"step {epoch}.{done}/{of}")

    def on_epoch(self, record, epochs) -> bool:
        return self._record(f"epoch {record.epoch}/{epochs}")

    def on_end(self, result) -> None:
        self._record(f"end {result.finished}")


STEPS = [f"step {{}}.{done}/3" for done in (1, 2, 3)]


def test_every_event_is_reported_in_order(configure, tmp_path):
    seen = Recorder()
    train(configure({"run.epochs": 2}), tmp_path / "run", callback=seen)
    first, second = ([step.format(epoch) for step in STEPS] for epoch in (0, 1))
    assert seen.events == [
        "start",
        *(*first, "epoch 1/2"),
        *(*second, "epoch 2/2"),
        "end True",
    ]


def test_several_callbacks_see_every_event_and_each_may_stop(configure, tmp_path):
    """The ones after the callback that stops see the same events."""
    seen = [Recorder(), Recorder("step 0.1/3"), Recorder()]
    assert not train(configure(), tmp_path / "run", callback=seen).finished
    assert seen[0].events == seen[1].events == seen[2].events
    assert seen[0].events[-2:] == ["step 0.1/3", "end False"]

"""The adaptive number of threads, on simulated step times."""

import random
from collections.abc import Callable, Iterator

import pytest
import torch

from molsepnorm.devices.threads import ThreadChooser, restored_threads, thread_choices

ALONE = {1: 0.1, 2: 0.065}
SHARED = {1: 0.1, 2: 0.6}


@pytest.fixture(autouse=True)
def threads_stay() -> Iterator[None]:
    with restored_threads():
        yield


def train(
    chooser: ThreadChooser, seconds: Callable[[int], float], steps: int, noise: float = 0.05
) -> tuple[float, list[int]]:
    """Simulate steps: their total time, and the number of threads of each."""
    rng, total, used = random.Random(0), 0.0, []
    for step in range(steps):
        graphs = 10 if step % 15 == 14 else 64  # an epoch ends with a small batch
        used.append(torch.get_num_threads())
        time = seconds(used[-1]) * (graphs / 64) ** 0.5 * rng.uniform(1 - noise, 1 + noise)
        chooser.step(time, graphs)
        total += time
    return total, used


@pytest.mark.parametrize(("times", "best"), [(ALONE, 2), (SHARED, 1)])
def test_the_faster_number_is_found_within_twelve_steps_and_costs_little_more(times, best):
    chooser = ThreadChooser((1, 2))
    assert not chooser.settled
    total, used = train(chooser, times.__getitem__, 3000)
    assert chooser.settled and chooser.threads == best
    assert used[12:].count(best) > 0.98 * len(used[12:])
    fixed, _ = train(ThreadChooser((best,)), times.__getitem__, 3000)
    assert total < 1.03 * fixed


def test_a_second_run_that_starts_and_ends_is_noticed():
    chooser = ThreadChooser((1, 2))
    train(chooser, ALONE.__getitem__, 500)
    assert chooser.threads == 2
    _, used = train(chooser, SHARED.__getitem__, 500)
    assert used[12:].count(1) > 0.98 * len(used[12:])
    train(chooser, ALONE.__getitem__, 1000)
    assert chooser.threads == 2


def test_validation_during_a_trial_uses_the_chosen_number():
    chooser = ThreadChooser((1, 2))
    train(chooser, ALONE.__getitem__, 6)
    assert (chooser.threads, torch.get_num_threads()) == (1, 2)
    with chooser.paused():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_the_best_of_many_numbers_is_found():
    chooser = ThreadChooser((1, 2, 4, 8, 12))
    train(chooser, lambda threads: 1 / threads + threads / 25, 100)
    assert chooser.threads == 4


def test_noisy_step_times_hardly_change_the_choice():
    chooser = ThreadChooser((1, 2))
    train(chooser, ALONE.__getitem__, 200)
    _, used = train(chooser, ALONE.__getitem__, 2000, noise=0.4)
    assert used.count(2) > 0.9 * len(used)


def test_one_choice_is_fixed():
    chooser = ThreadChooser((1,))
    assert chooser.settled
    _, used = train(chooser, lambda _: 0.1, 100)
    assert set(used) == {1}


def test_a_resumed_run_begins_with_its_last_number():
    chooser = ThreadChooser((1, 2), threads=2)
    assert chooser.settled
    _, used = train(chooser, lambda _: 0.1, 250)
    assert set(used) == {2}
    assert ThreadChooser((1, 2), threads=3).threads == 1  # of a machine with more cores


def test_the_choices_are_powers_of_two_unless_the_number_is_fixed(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert thread_choices(None, cpu, 1) == (1, 2, 4, 6)
    assert thread_choices(3, cpu, 1) == (3,)
    assert thread_choices(None, torch.device("cuda"), 1) == (6,)
    assert thread_choices(None, cpu, 2) == (6,)
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert thread_choices(None, cpu, 1) == (6,)

"""Training with two processes equals training with one. Everything that needs two processes runs
once, in tests/two_processes.py, and is checked here.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import molsepnorm
import two_processes
from molsepnorm.sepnorm import SepNorm
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from two_processes import CUTS, NETWORKS, OPTIONS, norm_steps, training_steps

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _free_ports(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output of both processes."""
    folder = tmp_path_factory.mktemp("two")
    port, second_port = _free_ports(2)
    here = Path(two_processes.__file__)
    path = os.pathsep.join([str(Path(molsepnorm.__file__).parents[1]), str(here.parent)])
    workers = []
    for rank in range(2):
        values = (str(rank), "2", str(rank), "2", "127.0.0.1", port)
        environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        environment |= dict(zip(TORCHRUN, values, strict=True))
        workers.append(
            subprocess.Popen(
                [sys.executable, str(here), str(folder), second_port],
                env={**os.environ, **environment},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        told = [worker.communicate(timeout=120)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(told)
    return folder


@pytest.fixture(scope="module")
def found(out: Path) -> list[dict[str, Any]]:
    """The results of both processes by scenario."""
    return [torch.load(out / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.fixture(scope="module")
def both(found: list[dict[str, Any]]):
    """`both(scenario)`: the results of the first and the second process."""
    return lambda scenario: tuple(each[scenario] for each in found)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("cut", CUTS)
def test_synchronised_norm_equals_the_norm_of_all_rows(both, cut: str, options: str) -> None:
    """Outputs, gradients and running statistics are equal for every division of the rows."""
    whole, (one, other) = (
        norm_steps(DistributedContext(), cut, options),
        both(f"norm {cut} {options}"),
    )
    close = {"rtol": 1e-11, "atol": 1e-11}  # of numbers about 100, in float64
    outputs = torch.cat([one["outputs"], other["outputs"]], dim=1)
    torch.testing.assert_close(outputs, whole["outputs"], **close)
    for name, gradient in whole["parameters"].items():
        summed = one["parameters"][name] + other["parameters"][name]
        torch.testing.assert_close(summed, gradient, **close)
    for name, value in whole["state"].items():
        torch.testing.assert_close(one["state"][name], value, **close)
        assert torch.equal(one["state"][name], other["state"][name])


def test_synchronised_statistics_are_accurate(both) -> None:
    """In float32, for rows whose mean is fifty times their deviation, to a few roundings."""
    exact = norm_steps(DistributedContext(), "uneven", "default")["state"]["running_var"].float()
    for each in both("norm float32"):
        torch.testing.assert_close(each["state"]["running_var"], exact, rtol=2e-6, atol=0)


def test_a_single_graph_on_each_process_can_train(both) -> None:
    whole = SepNorm(two_processes.WIDTH)(torch.stack([two_processes.graph_of(r) for r in (0, 1)]))
    torch.testing.assert_close(torch.cat(both("one_graph_each")), whole.detach())


def test_a_norm_that_torch_converts_counts_the_real_tokens_of_all_processes(both) -> None:
    """With first and second derivatives."""
    x = torch.stack([two_processes.graph_of(rank) for rank in (0, 1)]).requires_grad_()
    norm = SepNorm(two_processes.WIDTH, nn.LayerNorm, nn.BatchNorm1d)
    y = norm(x)
    (gradient,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    results = both("converted_by_torch")
    torch.testing.assert_close(torch.cat([each["output"] for each in results]), y.detach())
    torch.testing.assert_close(torch.cat([each["gradient"] for each in results]), gradient)
    torch.testing.assert_close(torch.cat([each["second"] for each in results]), second)


def test_a_single_graph_in_total_is_refused_by_all_processes(both) -> None:
    """None of them is left waiting."""
    for message in both("one_graph_in_all"):
        assert message.startswith("ValueError: a batch norm cannot train on 1 token")


@pytest.fixture(scope="module", params=NETWORKS)
def trained(request: pytest.FixtureRequest, both) -> tuple[dict, tuple[dict, dict]]:
    """For a kind of network: the results of one process and of each of two processes."""
    return training_steps(DistributedContext(), request.param), both(f"training {request.param}")


@pytest.mark.parametrize("part", ["losses", "gradients", "trained", "estimated"])
def test_two_halves_of_a_batch_train_like_the_whole_batch(trained, part: str) -> None:
    """Losses, gradients, weights, running statistics and estimated statistics are equal."""
    whole, halves = trained
    for half in halves:
        torch.testing.assert_close(half[part], whole[part], rtol=1e-11, atol=1e-11)
    if part != "losses":
        one, other = halves
        for name, value in one[part].items():
            assert torch.equal(value, other[part][name]), name


def test_shares_are_whole_without_duplicates_and_gathered_bit_for_bit(both) -> None:
    one, other = both("shared")
    for total, mine in one.items():
        theirs = other[total]
        assert sorted([*mine["share"], *theirs["share"]]) == list(range(total))
        assert 0 <= len(mine["share"]) - len(theirs["share"]) <= 1
        for each in (mine, theirs):
            assert len(each["gathered"]) == total
            assert torch.equal(each["gathered"].flatten(), each["rows"].flatten())


def test_sums_flags_and_results_are_equal_in_all_processes(both) -> None:
    for rank, each in enumerate(both("agreed")):
        assert each["sums"] == (torch.tensor([3.0]), torch.tensor(1))
        assert each["any"] == [True, True, False]
        assert each["together"] == Path("chosen by 0")
        assert each["first"] is (rank == 0)


def test_the_second_process_finds_the_results_of_the_first(both) -> None:
    assert both("in_turn") == ([], ["0"])


def test_an_error_of_one_process_is_raised_in_the_other(both) -> None:
    """The package's own errors keep their class."""
    one, other = both("errors")
    ours = {
        "config": "ConfigError: no such column",
        "storage": "StorageError: the disk is full",
        "in turn": "DataError: not a table",
        "second": "DataError: no memory left",
    }
    assert one == {**ours, "bug": "ZeroDivisionError: by nought", "exit": "SystemExit: 143"}
    of_first = "MolsepnormError: process 0 failed: "
    bug, leave = f"{of_first}ZeroDivisionError: by nought", f"{of_first}SystemExit: 143"
    assert other == {**ours, "bug": bug, "exit": leave}


def test_each_process_has_its_own_random_state_and_restores_it(both) -> None:
    one, other = both("random_numbers")
    torch.manual_seed(5)
    assert torch.equal(one["alike"], torch.rand(3))
    torch.rand(3)
    assert torch.equal(one["apart"], torch.rand(3))  # the first process's stream is as ever
    assert torch.equal(other["alike"], one["alike"])
    assert not torch.equal(other["apart"], one["apart"])
    for each in (one, other):
        assert {"cpu", "cpu.1"} <= set(each["states"])
        assert torch.equal(each["again"], each["apart"])
    assert torch.equal(one["new"], one["apart"])
    assert not torch.equal(other["new"], other["apart"])


def test_a_lost_process_is_reported(out: Path) -> None:
    message = (out / "lost.txt").read_text()
    assert message.startswith("process 0 of 2 lost another process, whose output may say why: ")
    assert message.endswith("Continue the run with --resume")


def test_no_thread_of_a_process_group_is_left_when_python_ends(out: Path) -> None:
    """Otherwise a thread that releases a tensor then may abort the process."""
    before, after = ((out / f"threads{when}.txt").read_text() for when in ("-before", ""))
    if not before:
        pytest.skip("only Linux lists the names of threads in /proc")
    assert before.count("gloo") > 0
    assert after.count("gloo") == after.count("tcpstore") == 0


@pytest.mark.parametrize(
    ("name", "gpus", "device"),
    [("auto", 2, "cuda:1"), ("cuda", 4, "cuda:1"), ("auto", 0, "cpu"), ("cpu", 2, "cpu")],
)
def test_each_process_has_a_gpu_of_its_own(monkeypatch, name, gpus, device) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert device_of_rank(name, DistributedContext(3, 4, 1, 2)) == torch.device(device)
    if name == "auto":
        assert device_of_rank(name, DistributedContext()) == torch.device(
            "cuda:0" if gpus else "cpu"
        )

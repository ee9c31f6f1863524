"""Which GPU a training gets, told by environments: no GPU is needed."""

import multiprocessing
import os
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import torch

from pipelines.ops.gpus import gpus, on_one


@pytest.fixture(autouse=True)
def _locks(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def taken(stack: ExitStack, names: list[str]) -> str:
    return stack.enter_context(on_one(names))["CUDA_VISIBLE_DEVICES"]


def test_each_takes_the_one_with_the_fewest_others():
    names = ["2", "GPU-5c2e", "MIG-GPU-91aa/1/0"]
    with ExitStack() as others, ExitStack() as first:
        assert taken(first, names) == "2"
        assert [taken(others, names) for _ in range(4)] == [*names[1:], *names[:2]]
        first.close()
        assert taken(others, names) == "2"  # which one has left


def test_without_gpus_the_environment_stays():
    with on_one([]) as environment:
        assert environment == {}


def _hold_until_killed(names: list[str], said) -> None:
    with on_one(names) as environment:
        said.put(environment["CUDA_VISIBLE_DEVICES"])
        multiprocessing.Event().wait()


def test_that_of_a_killed_process_is_free_again():
    spawn = multiprocessing.get_context("fork")
    said = spawn.Queue()
    holding = spawn.Process(target=_hold_until_killed, args=(["0", "1"], said), daemon=True)
    holding.start()
    assert said.get(timeout=60) == "0"
    with ExitStack() as ours:
        assert taken(ours, ["0", "1"]) == "1"
    holding.kill()
    holding.join()
    with ExitStack() as ours:
        assert taken(ours, ["0", "1"]) == "0"


def test_a_comparisons_processes_are_told_before_they_look(monkeypatch):
    from pipelines import comparison

    class Worker:
        threads = 1

    monkeypatch.setattr(comparison, "die_with_parent", lambda: None)
    monkeypatch.setattr(comparison, "_until_its_end", ExitStack())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    for expected in ("0", "1", "0"):
        comparison._begin_process(Worker(), ["0", "1"])
        assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
    comparison._until_its_end.close()


def test_those_are_named_that_this_process_may_see(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5c2e ,9")  # there is no ninth, so CUDA counts two
    assert gpus(SimpleNamespace(device="auto")) == ["3", "GPU-5c2e"]
    assert gpus(SimpleNamespace(device="cpu")) == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpus(SimpleNamespace(device="cuda")) == ["0", "1"]

"""Trainings of two steps of every task; two processes `in_two_processes.py RANK FOLDER PORT` share each batch."""

import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from contracts.test_inputs_tasks import LOSSES

from rankgrad import lookup
from rankgrad.io.checkpoints import build
from rankgrad.losses import spearman
from rankgrad.metrics import EpochMetric, ndcg
from rankgrad.training.distributed import gathered
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip
from rows import written  # isort: skip

MODEL = {"name": "linear", "args": {"standardize": False}, "backbone": {"name": "perceptron", "args": {"hidden": [6]}}}
PHASE = {
    "epochs": 1, "patience": 1, "optimizer": {"name": "SGD", "args": {"lr": 0.1}, "clip": 1.0},
    "schedule": {"name": "constant"},
}  # fmt: skip


def options_of(task: str, **more) -> dict:
    phase = PHASE | more
    batched = {"batch_size": 8}
    return {
        "label_ranking": {"scorer": phase | batched, "thresholds": PHASE | batched | {"hidden": 4}},
        "query_ranking": {"ranker": phase | batched},
        "retrieval": batched | {"size": 6, "probe": PHASE, "finetune": phase},
    }.get(task, batched | {"probe": PHASE, "finetune": phase})


def cases() -> dict[str, tuple]:
    """Every task with its loss, and sorters that learn along."""
    results = {task: (task, *LOSSES[task], None) for task in lookup.names("tasks")}
    lstm = partial(build, "sorters", "lstm", {"hidden": 4, "layers": 1}, seed=1, length=4)
    for optimizer in ({"name": "jointly"}, {"name": "SGD", "args": {"lr": 0.1}}):
        results[f"lstm, {optimizer['name']}"] = ("score_ranking", "spearman", lstm, optimizer)
    return results


def trained(task: str, loss: str, sorter, sorter_optimizer, *, model: dict = MODEL, **more) -> list[torch.Tensor]:
    """All weights after a training, what a sorter has learned, and losses and metrics."""
    made = task_of(task, options_of(task, **more))
    with TemporaryDirectory() as folder:
        written(task, "features", Path(folder), rows=16)
        splits = [made.load(folder, split, threads=1) for split in ("train", "val")]
    network = made.build(model, splits[0], seed=0)
    if task == "retrieval":  # batch normalization is that of a chunk, or of a process's share
        network.captions.head.score[0] = torch.nn.Identity()
    objective = objective_of(loss, sorter=sorter and sorter(), sorter_optimizer=sorter_optimizer)
    epochs = [epoch for _, epoch in train(made, network, *splits, objective=objective, seed=0, device="cpu")]
    figures = torch.tensor([value for epoch in epochs for value in (epoch.loss, epoch.value)], dtype=torch.float64)
    sorters = [weights for module in objective.state[:1] for weights in module.parameters()]
    return [*network.state_dict().values(), *sorters, figures]


def shares_of(rank: int) -> list[slice]:
    """Return a process's rows of 12, of which one process may have none."""
    return [[slice(7), slice(0), slice(12)], [slice(7, 12), slice(12), slice(12, 12)]][rank]


def check_uneven_shares(rank: int) -> None:
    """Check that of uneven shares of a batch, of which one may be empty, the gradient is that of the whole batch."""
    draws = torch.Generator().manual_seed(0)
    inputs, target = torch.randn(12, 5, 4, generator=draws), torch.randn(12, 5, generator=draws)
    mask = torch.rand(12, 5, generator=draws) < 0.8
    for rows in shares_of(rank):
        weights, shared = (torch.ones(4, requires_grad=True) for _ in range(2))
        spearman(inputs @ weights, target, mask=mask).backward()
        scores, truth, kept = gathered(inputs[rows] @ shared, target[rows], mask[rows])
        spearman(scores, truth, mask=kept).backward()
        torch.distributed.all_reduce(shared.grad)
        torch.testing.assert_close(shared.grad / 2, weights.grad)


def check_metric_of_uneven_rows(rank: int) -> None:
    """Check that a metric of the rows of both processes is that of one, and that rows that do not fit are refused."""
    draws = torch.Generator().manual_seed(0)
    scores, target = torch.randn(2, 12, generator=draws)
    query = torch.randint(3, (12,), generator=draws)
    whole = EpochMetric(ndcg, sync_on_compute=False)
    whole.update(scores, target.abs(), query=query)
    for rows in shares_of(rank):
        metric = EpochMetric(ndcg)
        if len(scores[rows]):
            metric.update(scores[rows], target[rows].abs(), query=query[rows])
        torch.testing.assert_close(metric.compute(), whole.compute())
    metric = EpochMetric(ndcg)
    metric.update(torch.zeros(2, 3 + rank), torch.zeros(2, 3 + rank))
    with pytest.raises(ValueError, match=r"scores has shape \(2, 4\), expected \(n, 3\) as in process 0"):
        metric.compute()
    metric.reset()
    with pytest.raises(ValueError, match="no batch"):
        metric.compute()


if __name__ == "__main__":
    rank, folder, port = sys.argv[1:]
    os.environ |= {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_PORT": port,
    }  # fmt: skip
    results = {name: trained(*case) for name, case in cases().items()}
    results["normalized"] = trained("score_ranking", "mse", None, None, model=MODEL | {"args": {}})
    check_uneven_shares(int(rank))
    check_metric_of_uneven_rows(int(rank))
    torch.save(results, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()

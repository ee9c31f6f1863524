"""A metric of a whole dataset whose rows arrive in batches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch import distributed as processes

from rankgrad.checks import check_tensors
from rankgrad.ragged import pad_groups

__all__ = ["EpochMetric"]

Batch = dict[str, Tensor]


class EpochMetric:
    """Compute a metric of a whole dataset whose rows arrive in batches, on one process or several.

    The mean of a metric over batches is not the metric of the dataset. `update` stores the rows of a batch, and
    `compute` calls the metric once, with all rows concatenated along the first dimension:

    - Scores (n,) are part of one list; the metric compares all of them.
    - Scores (n, d) are n lists of d, or with `partial(metric, dim=-2)` parts of d lists.
    - Scores (n,) with `query` are rows of several lists of any length. Rows of a list may arrive in different batches
      and in any order. The metric is then called with padded lists and a mask.

    If `torch.distributed` is initialized, `compute` gathers the rows of all processes, which may have different numbers
    of rows, or none. All processes must call it, and all get the same value. If a sampler repeats rows so that all
    processes get the same number, as `DistributedSampler` does, these rows count twice.

    Args:
        metric: a function of scores and truth, from `rankgrad.metrics` or your own. Set its options with
            `functools.partial`.
        sync_on_compute: gather the rows of other processes. Pass False if each process already has all rows.

    >>> from rankgrad.metrics import spearman
    >>> metric = EpochMetric(spearman)
    >>> for scores, target in (([0.1, 0.2], [3, 4]), ([0.3, 0.4], [1, 2])):  # each batch is in order
    ...     metric.update(torch.tensor(scores), torch.tensor(target))
    >>> metric.compute()
    tensor(-0.6000, dtype=torch.float64)
    """

    def __init__(self, metric: Callable[..., Any], *, sync_on_compute: bool = True):
        self.metric = metric
        self.sync_on_compute = sync_on_compute
        self._batches: list[Batch] = []

    def reset(self) -> None:
        """Forget all batches."""
        self._batches = []

    def update(
        self,
        scores: Tensor,
        truth: Tensor,
        *,
        query: Tensor | None = None,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Store a copy of a batch, without gradient.

        Args:
            scores: (n, ...), on any device.
            truth: of that shape, the second argument of the metric.
            query: (n,), the list number of each row, with the same numbering in all batches and processes; scores must
                be (n,), too.
            mask, weights: of the scores' shape, for metrics that take them.

        Raises:
            TypeError: an argument is not a tensor, or its type differs from the first batch.
            ValueError: shapes differ, or the number of columns, the device, or the set of arguments differs from the
                first batch.
        """
        arguments = {"scores": scores, "truth": truth, "query": query, "mask": mask, "weights": weights}
        batch = {name: values for name, values in arguments.items() if values is not None}
        check_tensors(**batch)
        _check_shapes(batch)
        if self._batches:
            _check_like(self._batches[0], batch, "the first batch")
        self._batches.append({name: values.detach().clone() for name, values in batch.items()})

    def compute(self) -> Any:
        """Return the metric of all rows so far. More batches may follow.

        Raises:
            TypeError: processes differ in types, or the metric does not take an argument.
            ValueError: no process has a batch, or processes differ in columns or arguments.
        """
        rows = _joined(self._batches)
        if self.sync_on_compute and processes.is_available() and processes.is_initialized():
            rows = _of_all_processes(rows)
        if not rows:
            raise ValueError("there is no batch yet: call update first")
        query = rows.pop("query", None)
        if query is not None:
            rows.setdefault("mask", torch.ones_like(rows["scores"], dtype=torch.bool))
            for name, values in rows.items():
                rows[name], _ = pad_groups(values, query=query)  # a mask is padded with False
        return self.metric(rows.pop("scores"), rows.pop("truth"), **rows)


def _joined(batches: list[Batch]) -> Batch:
    """Return the rows of all batches, concatenated; empty without batches."""
    rows = {}
    for name in batches[0] if batches else ():
        rows[name] = torch.cat([batch[name] for batch in batches])
    return rows


def _of_all_processes(rows: Batch) -> Batch:
    """Return the rows of all processes in the order of their ranks, on this process's device."""
    shares: list[Any] = [None] * processes.get_world_size()
    processes.all_gather_object(shares, {name: values.cpu() for name, values in rows.items()})
    batches = {rank: share for rank, share in enumerate(shares) if share}
    first = min(batches, default=0)
    for batch in batches.values():
        _check_like(batches[first], batch, f"process {first}")
    device = rows["scores"].device if rows else "cpu"
    return {name: values.to(device) for name, values in _joined([*batches.values()]).items()}


def _check_shapes(batch: Batch) -> None:
    """Raise if an argument does not have a value for each score."""
    shape = tuple(batch["scores"].shape)
    if not shape:
        raise ValueError("scores has shape (), expected (n, ...): pass the scores of a batch, not their metric")
    if "query" in batch and len(shape) > 1:
        raise ValueError(
            f"scores has shape {shape}, expected (n,) with query: pass scores[mask], and query numbers of that shape"
        )
    for name, values in batch.items():
        if tuple(values.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(values.shape)}, expected the shape of scores, {shape}")


def _check_like(first: Batch, batch: Batch, source: str) -> None:
    """Raise if batches cannot be joined without changing values."""
    if first.keys() != batch.keys():
        raise ValueError(f"arguments are {', '.join(batch)}, expected {', '.join(first)} as in {source}")
    for name, values in batch.items():
        expected = first[name]
        if values.dtype != expected.dtype:
            raise TypeError(f"{name} is {values.dtype}, expected {expected.dtype} as in {source}: convert all batches")
        if values.device != expected.device:
            raise ValueError(
                f"{name} is on {values.device}, expected {expected.device} as in {source}: move all batches"
            )
        if values.shape[1:] != expected.shape[1:]:
            columns = ", ".join(map(str, ["n", *expected.shape[1:]]))
            raise ValueError(
                f"{name} has shape {tuple(values.shape)}, expected ({columns}) as in {source}: pass lists of different "
                f"lengths as {name}[mask], with query numbers of that shape"
            )

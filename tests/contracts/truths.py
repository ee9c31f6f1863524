"""What losses and metrics compare scores with, by the name of their second argument: one example of each kind."""

from collections.abc import Callable
from typing import Any

import torch

from contracts.values import parameters

TRUTHS = {
    "label_ranks": torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 2], [0, 0, 0, 4, 0]]),
    "target": torch.tensor([0.3, 0.9, 0.1, 0.4, 0.4, 0.7]),
    "labels": torch.tensor([[1, 0, 1, 0, 0], [0, 0, 1, 0, 1], [1, 1, 0, 1, 1]]),
    "positives": torch.tensor([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]).bool(),
}
# The dimensions along which scores are compared, and along which some of them may be left out.
AXES = {"label_ranks": (-1,), "target": (-1,), "labels": (-1,), "positives": (-2, -1)}
# Truths that leave nothing to compare.
EMPTY_OF_ORDER = {
    "label_ranks": ([[0, 0, 0]], [[2, 2, 2]]),
    "target": ([[0.5, 0.5, 0.5]], [[0.0, 0.0, 0.0]]),
    "labels": ([[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]),
    "positives": ([[True, True], [True, True]],),
}
# Truths that are none, for scores of that shape, and what the error names.
IMPOSSIBLE = {
    "label_ranks": ((torch.tensor([[1, 0, -1]]), r"label_ranks\[0, 2\] is -1"),
                    (torch.tensor([[float("nan"), 0.0]]), r"label_ranks\[0, 0\] is nan")),
    "target": ((torch.tensor([[0.0, float("inf")]]), r"target\[0, 1\] is inf"),
               (torch.zeros(1, 2, requires_grad=True), "target requires a gradient.*detach")),
    "labels": ((torch.tensor([[1, 0], [0, -1]]), r"labels\[1, 1\] is -1"),
               (torch.tensor([[1.0, 0.5]]), r"labels\[0, 1\] is 0.5")),
    "positives": ((torch.tensor([[True, True], [False, False]]), "no True in row 1"),
                  (torch.tensor([[1, 0], [0, 2]]), r"positives\[1, 1\] is 2")),
}  # fmt: skip


# Other types of the same values.
TYPES = {
    "label_ranks": (torch.float32, torch.float64, torch.uint8),
    "target": (torch.int64, torch.int32, torch.float32, torch.bfloat16),
    "labels": (torch.bool, torch.float32, torch.float64),
    "positives": (torch.int64, torch.float32, torch.uint8),
}


def kind(thing: Callable[..., Any]) -> str:
    return parameters(thing)[1]


def example(thing: Callable[..., Any], generator, *, dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Random scores, and the truth."""
    truth = TRUTHS[kind(thing)]
    scores = torch.randn(truth.shape, generator=generator, dtype=dtype)
    return scores, truth.to(dtype) if truth.is_floating_point() else truth


def without(name: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """A mask that leaves out the second along each axis of comparison, and the tensors without it."""
    mask = torch.ones_like(tensors[0], dtype=torch.bool)
    for axis in AXES[name]:
        kept = torch.arange(mask.shape[axis]) != 1
        mask = mask & kept.view([-1 if axis == other else 1 for other in range(-mask.dim(), 0)])
        tensors = tuple(part.index_select(axis, kept.nonzero()[:, 0]) for part in tensors)
    return mask, tensors

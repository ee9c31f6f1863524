"""Each loss and each metric, found by its file, with an example of what it compares scores with.

The name of the second argument says what that is.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contracts.values import parameters, required
from rankgrad import lookup
from rankgrad.sorters import Handcrafted

TRUTHS = {
    "label_ranks": torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 2], [0, 0, 0, 4, 0]]),
    "target": torch.tensor([[0.3, 0.9, 0.1, 0.4, 0.4, 0.7], [0.5, 0.2, 0.6, 0.2, 0.8, 0.1]]),
    "labels": torch.tensor([[1, 0, 1, 0, 0], [0, 0, 1, 0, 1], [1, 1, 0, 1, 1]]),
    "positives": torch.tensor([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]).bool(),
}
# Truths that are refused, and the field that the error names.
IMPOSSIBLE = {
    "label_ranks": ((torch.tensor([[1, 0, -1]]), r"label_ranks\[0, 2\] is -1"),
                    (torch.tensor([[float("nan"), 0.0]]), r"label_ranks\[0, 0\] is nan"),
                    (torch.tensor([[2**63 + 1, 0]], dtype=torch.uint64), r"label_ranks\[0, 0\] is 9223372036854")),
    "target": ((torch.tensor([[0.0, float("inf")]]), r"target\[0, 1\] is inf"),),
    "labels": ((torch.tensor([[1, 0], [0, -1]]), r"labels\[1, 1\] is -1"),
               (torch.tensor([[1.0, 0.5]]), r"labels\[0, 1\] is 0.5")),
    "positives": ((torch.tensor([[True, True], [False, False]]), "no True in row 1"),
                  (torch.tensor([[1, 0], [0, 2]]), r"positives\[1, 1\] is 2")),
}  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """A loss or a metric; called, it returns one value per group."""

    name: str
    function: Callable[..., Any]
    is_loss: bool

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        """Return the name of the truth."""
        return parameters(self.function)[1]

    def takes(self, argument: str) -> bool:
        return argument in parameters(self.function)

    def __call__(self, scores: Any, truth: Any, **options: Any) -> Tensor:
        options = required(self.function) | options
        if self.is_loss:
            options.setdefault("reduction", "none")
        if options.get("pairs"):
            options["generator"] = torch.Generator().manual_seed(0)
        if self.takes("sorter"):
            options.setdefault("sorter", Handcrafted(steepness=3.0))
        result = self.function(scores, truth, **options)
        return torch.stack(list(result.values())) if isinstance(result, dict) else result

    def mean(self, scores: Tensor, truth: Tensor, **options: Any) -> Tensor:
        """Return the mean of a loss over groups; the values of a metric."""
        return self(scores, truth, **options, **({"reduction": "mean"} if self.is_loss else {}))

    def example(self, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """Return random scores that require a gradient, and the truth."""
        truth = TRUTHS[self.kind]
        scores = torch.randn(truth.shape, generator=generator, dtype=dtype, requires_grad=True)
        return scores, truth.to(dtype) if truth.is_floating_point() else truth


def _metrics(file: str) -> list[Measure]:
    module = lookup.module("metrics", file)
    functions = [getattr(module, name) for name in module.__all__ if inspect.isfunction(getattr(module, name))]
    return [
        Measure(f"metrics.{function.__name__}", function, is_loss=False)
        for function in functions
        if parameters(function)[0] == "scores" and parameters(function)[1] in TRUTHS
    ]


LOSSES = [Measure(f"losses.{name}", lookup.find("losses", name), is_loss=True) for name in lookup.names("losses")]
METRICS = [metric for file in lookup.names("metrics") for metric in _metrics(file)]
MEASURES = [*LOSSES, *METRICS]

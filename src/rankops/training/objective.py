"""What a run is trained on: its loss, the sorter in it, and a second loss beside it."""

import inspect
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rankops import lookup
from rankops.ranks import ranks as exact_ranks

__all__ = ["Criterion", "grouped"]


def grouped(values: Tensor, length: int) -> Tensor:
    """The examples of a batch in groups, (n / length, length, ...).

    Raises:
        ValueError: n is no multiple of `length`.

    >>> grouped(torch.arange(6), 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if len(values) % length:
        raise ValueError(f"{len(values)} examples do not make groups of {length}: expected a multiple of it")
    return values.unflatten(0, (-1, length))


class Criterion:
    r"""A loss as the params describe it, ready to be called with scores and what they should be.

    With a sorter, the loss is $L(f(s), \cdot)$, f frozen: a module is put in evaluation mode, and its weights get no
    gradient. Optionally f goes on learning on the scores that the task really produces (SoDeep, Section 3.2): before
    each step, one step of its own optimizer on $\|f(s) - \mathrm{rk}(s)\|_1 / d^2$, L1 on normalized ranks, s
    detached; not where gradients are off, as in validation. A loss `beside` is added with a weight, for the first
    epochs or throughout: the parallel loss by which SoDeep keeps scores where the sorter was trained.

    Args:
        loss: `name` and `args`.
        sorter: takes scores (..., d) to ranks; needed by losses that take one, refused by others.
        fine_tune: None, or `name` of a class in `torch.optim` and `args`, of the sorter's own optimizer.
        beside: None, or `name`, `args`, `weight` and `epochs` (None = throughout).

    Raises:
        ValueError: a loss that needs a sorter has none, or the other way round; nothing to fine-tune.

    >>> mse = Criterion({"name": "mse", "args": {}})
    >>> mse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), epoch=1)
    tensor(2.)
    """

    def __init__(
        self,
        loss: dict[str, Any],
        *,
        sorter: nn.Module | None = None,
        fine_tune: dict[str, Any] | None = None,
        beside: dict[str, Any] | None = None,
    ):
        self._sorter = sorter
        self._seen: list[Tensor] | None = None  # collected while the sorter is about to learn from them
        if isinstance(sorter, nn.Module):
            sorter.requires_grad_(False).eval()
        self._loss, takes_sorter = self._made(loss)
        if fine_tune is not None and not takes_sorter:
            raise ValueError(f"fine_tune: {loss['name']} hands the sorter nothing to learn from: leave it out")
        self._beside, self._beside_options = None, beside
        if beside is not None:
            self._beside, also = self._made(beside)
            takes_sorter = takes_sorter or also
        if sorter is not None and not takes_sorter:
            raise ValueError(f"{loss['name']} takes no sorter: leave it out, or choose a loss that does")
        self._steps = None
        if fine_tune is not None:
            if sorter is None or not list(sorter.parameters()):
                raise ValueError(f"fine_tune: {type(sorter).__name__} has no weights to fine-tune: leave it out")
            self._steps = getattr(torch.optim, fine_tune["name"])(sorter.parameters(), **fine_tune["args"])

    def _made(self, loss: dict[str, Any]) -> tuple[partial, bool]:
        function = lookup.find("losses", loss["name"])
        runtime = {}
        takes_sorter = "sorter" in inspect.signature(function).parameters
        if takes_sorter:
            if self._sorter is None:
                raise ValueError(f"{loss['name']} needs a sorter: name one in the run, such as lstm")
            runtime["sorter"] = self._ranks
        return partial(function, **loss["args"], **runtime), takes_sorter

    def _ranks(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:  # a part of vectors, which is nothing to learn sorting from
            return self._sorter(scores, mask=mask)
        if self._seen is not None:
            self._seen.append(scores.detach())
        return self._sorter(scores)

    @property
    def length(self) -> int | None:
        """How many scores the sorter takes, where that is fixed."""
        return getattr(self._sorter, "length", None)

    @property
    def state(self) -> list[Any]:
        """What changes while the sorter is fine-tuned, for the checkpoint."""
        return [] if self._steps is None else [self._sorter, self._steps]

    def __call__(
        self, scores: Tensor, target: Tensor, *, epoch: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            scores, target: as the loss takes them.
            epoch: 1, 2, ..., which decides whether the loss beside it counts.
            generator: for losses that draw pairs.
        """

        def value_of(loss: partial) -> Tensor:
            draws_pairs = loss.keywords.get("pairs") is not None
            return loss(scores, target, **({"generator": generator} if draws_pairs else {}))

        if self._steps is not None and torch.is_grad_enabled():
            self._fine_tuned_on(scores, target)
        value = value_of(self._loss)
        if self._beside is not None:
            until = self._beside_options["epochs"]
            if until is None or epoch <= until:
                value = value + self._beside_options["weight"] * value_of(self._beside)
        return value

    def _fine_tuned_on(self, scores: Tensor, target: Tensor) -> None:
        """One step of the sorter on the vectors that the loss is about to hand it."""
        self._seen = seen = []
        with torch.no_grad():
            self._loss(scores.detach(), target)
        self._seen = None
        vectors = torch.cat([part.reshape(-1, part.shape[-1]) for part in seen])
        self._sorter.requires_grad_(True)
        with torch.enable_grad():
            error = (self._sorter(vectors) - exact_ranks(vectors)).abs().mean() / vectors.shape[-1]
            error.backward()
        self._steps.step()
        self._steps.zero_grad()
        self._sorter.requires_grad_(False)

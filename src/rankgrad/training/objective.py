"""The training objective of a network: a loss with its sorter, and an auxiliary loss."""

import inspect
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from rankgrad import lookup
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Sorter
from rankgrad.training.optimization import make_optimizer
from rankgrad.training.options import Auxiliary, Component

__all__ = ["JOINTLY", "Objective", "grouped"]

JOINTLY = "jointly"  # as an optimizer's name: the network's optimizer trains the sorter too


def grouped(values: Tensor, length: int) -> Tensor:
    """Return the examples of a batch in groups, (n / length, length, ...).

    Raises:
        ValueError: n is not a multiple of `length`.

    >>> grouped(torch.arange(6), 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if len(values) % length:
        raise ValueError(f"{len(values)} examples do not make groups of {length}: expected a multiple of it")
    return values.unflatten(0, (-1, length))


class Objective:
    r"""A loss as params.yaml describes it, called with scores and the truth.

    With a sorter, the loss is $L(f(s), \cdot)$ with f frozen: a module is set to evaluation mode, and its weights get
    no gradient. f can be fine-tuned in two ways. With `jointly` one optimizer minimizes the loss over both sets of
    weights (SoDeep, Section 3.2.1). Otherwise f learns from the network's scores s, detached: before each training
    step, its own optimizer takes one step on $\|f(s) - \mathrm{rk}(s)\|_1 / d^2$.

    An auxiliary loss is added with a weight, in the first epochs or in all: SoDeep's parallel loss, which keeps scores
    in the sorter's training range.

    Args:
        loss: its name and options.
        sorter: computes ranks of scores (..., d). Losses with an argument `sorter` need one, others must not have one.
        sorter_optimizer: the sorter's own optimizer, by its name in `torch.optim`; or the name `jointly`; or None.
        auxiliary: a loss to add, or None.
        device: the device of the sorter.

    Attributes:
        epoch: 1, 2, ..., set by the training loop; it decides whether the auxiliary loss is added.
        learned: the sorter's weights if they are learned jointly with the network's; otherwise empty.

    Raises:
        ComponentError: a sorter is missing, or the loss does not take one; the sorter has no weights to fine-tune.

    >>> mse = Objective(Component("mse"))
    >>> mse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def __init__(
        self,
        loss: Component,
        *,
        sorter: nn.Module | None = None,
        sorter_optimizer: Component | None = None,
        auxiliary: Auxiliary | None = None,
        device: str | torch.device = "cpu",
    ):
        self.epoch = 1
        self._sorter: Any = sorter
        if isinstance(sorter, nn.Module):
            sorter.requires_grad_(False).eval().to(device)  # before its optimizer is created from its weights
        self._loss, takes_sorter = self._bound(loss)
        if sorter_optimizer is not None and not takes_sorter:
            _refuse("sorter_optimizer", f"{loss.name} does not use a sorter: leave it out")
        self._auxiliary: partial | None = None
        self._added = auxiliary
        if auxiliary is not None:
            self._auxiliary, auxiliary_takes_sorter = self._bound(auxiliary)
            takes_sorter = takes_sorter or auxiliary_takes_sorter
        if sorter is not None and not takes_sorter:
            _refuse("sorter", f"{loss.name} takes no sorter, expected none")
        self._optimizer: Any = None
        self.learned: list[Tensor] = []
        if sorter_optimizer is not None:
            if sorter is None or not list(sorter.parameters()):
                _refuse("sorter_optimizer", f"{type(sorter).__name__} has no weights to fine-tune: leave it out")
            if sorter_optimizer.name == JOINTLY:
                if sorter_optimizer.args:
                    _refuse("sorter_optimizer.args", f"{JOINTLY} uses the network's optimizer: leave them out")
                self.learned = list(sorter.requires_grad_(True).parameters())
            else:
                self._optimizer = make_optimizer(sorter_optimizer, sorter.parameters())

    def _bound(self, loss: Component) -> tuple[partial, bool]:
        """Return a loss with its options and sorter, and whether it takes a sorter."""
        function = lookup.find("losses", loss.name)
        if "sorter" not in inspect.signature(function).parameters:
            return partial(function, **loss.args), False
        if self._sorter is None:
            _refuse("sorter", f"{loss.name} needs one, such as laplace")
        return partial(function, **loss.args, sorter=self._sorter), True

    @property
    def length(self) -> int | None:
        """The number of scores that the sorter takes, or None for any."""
        return getattr(self._sorter, "length", None)

    @property
    def state(self) -> list[Any]:
        """The objects that fine-tuning changes, for the checkpoint."""
        if self.learned:
            return [self._sorter]
        return [] if self._optimizer is None else [self._sorter, self._optimizer]

    def __call__(
        self,
        scores: Tensor,
        truth: Tensor,
        *,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
        of_groups: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            scores, truth: the loss's arguments.
            mask: see `rankgrad.losses`, False where there is no score; None if there are no gaps.
            weights: see `rankgrad.losses`, how much each score counts within its group; None if all count the same.
            of_groups: (groups,), how much each group counts in the mean; None if all count the same.
            generator: for losses that draw random numbers.

        Raises:
            ValueError: `sorter_optimizer` is set, and lists have a mask; or the loss does not take weights.
        """
        options: dict[str, Any] = {} if mask is None else {"mask": mask}
        options |= {} if weights is None else {"weights": weights}
        options |= {} if of_groups is None else {"group_weights": of_groups}
        # A check in each step would wait for a GPU; the loop reports a loss that is not finite.
        offered = {"check_finite": scores.device.type == "cpu", "generator": generator}

        def value_of(loss: partial) -> Tensor:
            parameters = inspect.signature(loss.func).parameters
            if not parameters.keys() >= options.keys() - {"mask"}:
                raise ValueError(
                    "the training table has a column weight, which this loss does not use: choose another loss"
                )
            taken = {name: value for name, value in offered.items() if name in parameters}
            return loss(scores, truth, **options, **taken)

        if self._optimizer is not None and torch.is_grad_enabled():
            if mask is not None:  # sorters are trained on whole vectors
                raise ValueError("sorter_optimizer: lists have different lengths, expected one length: leave it out")
            self._fine_tune_sorter(scores, truth)
        value = value_of(self._loss)
        added = self._added
        if added is not None and self._auxiliary is not None and (added.epochs is None or self.epoch <= added.epochs):
            value = value + added.weight * value_of(self._auxiliary)
        return value

    def _fine_tune_sorter(self, scores: Tensor, truth: Tensor) -> None:
        """Take one training step of the sorter on the vectors that the loss will pass to it."""
        recorder = _Recorder(self._sorter)
        with torch.no_grad():
            self._loss(scores.detach(), truth, sorter=recorder)
        vectors = torch.cat([scores.reshape(-1, scores.shape[-1]) for scores in recorder.seen])
        self._sorter.requires_grad_(True)
        with torch.enable_grad():
            error = (self._sorter(vectors) - exact_ranks(vectors)).abs().mean() / vectors.shape[-1]
            error.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._sorter.requires_grad_(False)


def _refuse(option: str, reason: str) -> NoReturn:
    raise lookup.ComponentError(option, reason)


class _Recorder(Sorter):
    """A sorter that keeps the whole vectors that it ranks, but not masked ones."""

    def __init__(self, sorter: nn.Module):
        super().__init__()
        self.sorter, self.seen = sorter, list[Tensor]()

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            self.seen.append(scores.detach())
            return self.sorter(scores)
        return self.sorter(scores, mask=mask)

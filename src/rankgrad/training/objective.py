"""What a network is trained on: a loss, the sorter in it, and an auxiliary loss."""

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

JOINTLY = "jointly"  # for an optimizer's name: that of the network learns the sorter too


def grouped(values: Tensor, length: int) -> Tensor:
    """Return the examples of a batch in groups, (n / length, length, ...).

    Raises:
        ValueError: n is no multiple of `length`.

    >>> grouped(torch.arange(6), 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if len(values) % length:
        raise ValueError(f"{len(values)} examples do not make groups of {length}: expected a multiple of it")
    return values.unflatten(0, (-1, length))


class Objective:
    r"""A loss as the params describe it, called with scores and the truth.

    With a sorter, the loss is $L(f(s), \cdot)$ with f frozen: a module is put in evaluation mode and its weights get
    no gradient. Optionally f is fine-tuned along the way: `jointly`, so that the loss is minimized by both sets of
    weights with one optimizer (SoDeep, Section 3.2.1); or on the scores that the network really produces: before each
    step, one step of its own optimizer on $\|f(s) - \mathrm{rk}(s)\|_1 / d^2$, s detached; not in validation.

    An auxiliary loss is added with a weight, for the first epochs or throughout: the parallel loss by which SoDeep
    keeps scores where the sorter was trained.

    Args:
        loss: by its name and options.
        sorter: takes scores (..., d) to ranks; needed by losses that take one, refused by others.
        sorter_optimizer: of the sorter's own, by its name in `torch.optim`; or the name `jointly`; or None.
        auxiliary: a loss that is added, or None.
        device: where the sorter is to be.

    Attributes:
        epoch: 1, 2, ..., which the training loop sets; it decides whether the auxiliary loss counts.
        learned: the sorter's weights if they are learned jointly with the network's, which are frozen otherwise.

    Raises:
        ComponentError: a loss that needs a sorter has none, or the other way round; nothing to fine-tune.

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
            sorter.requires_grad_(False).eval().to(device)  # before its optimizer is told of its weights
        self._loss, takes_sorter = self._bound(loss)
        if sorter_optimizer is not None and not takes_sorter:
            _refuse("sorter_optimizer", f"{loss.name} hands the sorter nothing to learn from: leave it out")
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
                    _refuse("sorter_optimizer.args", f"{JOINTLY} is the network's own optimizer: leave them out")
                self.learned = list(sorter.requires_grad_(True).parameters())
            else:
                self._optimizer = make_optimizer(sorter_optimizer, sorter.parameters())

    def _bound(self, loss: Component) -> tuple[partial, bool]:
        """Return a loss with its options and its sorter, and whether it takes one."""
        function = lookup.find("losses", loss.name)
        if "sorter" not in inspect.signature(function).parameters:
            return partial(function, **loss.args), False
        if self._sorter is None:
            _refuse("sorter", f"{loss.name} needs one, such as laplace")
        return partial(function, **loss.args, sorter=self._sorter), True

    @property
    def takes_weights(self) -> bool:
        """Whether scores may count differently within a group."""
        losses = [self._loss, *([] if self._auxiliary is None else [self._auxiliary])]
        return all("weights" in inspect.signature(loss.func).parameters for loss in losses)

    @property
    def length(self) -> int | None:
        """How many scores the sorter takes, where that is fixed."""
        return getattr(self._sorter, "length", None)

    @property
    def state(self) -> list[Any]:
        """What changes while the sorter is fine-tuned, for the checkpoint."""
        if self.learned:
            return [self._sorter]
        return [] if self._optimizer is None else [self._sorter, self._optimizer]

    def __call__(
        self,
        scores: Tensor,
        truth: Tensor | dict[str, Tensor],
        *,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
        of_groups: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            scores, truth: as the loss takes them; or a truth for each name of a loss's second argument.
            mask: as the loss takes it, False where there is no score; None where all are there.
            weights: as the loss takes them, how much each score counts within its group; None if all count alike.
            of_groups: (groups,), how much each group counts in the mean, see `rankgrad.losses`; None for all alike.
            generator: for losses that draw random numbers.

        Raises:
            ValueError: a sorter is to learn from lists with a mask.
        """
        options: dict[str, Any] = {} if mask is None else {"mask": mask}
        options |= {} if weights is None else {"weights": weights}
        options |= {} if of_groups is None else {"group_weights": of_groups}
        # Each step would wait for a GPU; the loop reports a loss that is not finite.
        offered = {"check_finite": scores.device.type == "cpu", "generator": generator}

        def value_of(loss: partial) -> Tensor:
            parameters = inspect.signature(loss.func).parameters
            if of_groups is not None and "group_weights" not in parameters:
                raise ValueError("the training table has a column weight, which this loss does not use: choose another")
            taken = {name: value for name, value in offered.items() if name in parameters}
            return loss(scores, _truth_of(loss, truth), **options, **taken)

        if self._optimizer is not None and torch.is_grad_enabled():
            if mask is not None:  # a part of a vector is nothing to learn sorting from
                raise ValueError("sorter_optimizer: a sorter learns from no lists of different lengths: leave it out")
            self._fine_tune_sorter(scores, truth)
        value = value_of(self._loss)
        added = self._added
        if added is not None and self._auxiliary is not None and (added.epochs is None or self.epoch <= added.epochs):
            value = value + added.weight * value_of(self._auxiliary)
        return value

    def _fine_tune_sorter(self, scores: Tensor, truth: Tensor | dict[str, Tensor]) -> None:
        """Take one step of the sorter on the vectors that the loss is about to hand it."""
        recorder = _Recorder(self._sorter)
        with torch.no_grad():
            self._loss(scores.detach(), _truth_of(self._loss, truth), sorter=recorder)
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
    """A sorter that keeps what it is given, but for parts of vectors, which are nothing to learn sorting from."""

    def __init__(self, sorter: nn.Module):
        super().__init__()
        self.sorter, self.seen = sorter, list[Tensor]()

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            self.seen.append(scores.detach())
            return self.sorter(scores)
        return self.sorter(scores, mask=mask)


def _truth_of(loss: partial, truth: Tensor | dict[str, Tensor]) -> Tensor:
    """Return the truth that a loss learns from: its second argument names it."""
    return truth[list(inspect.signature(loss.func).parameters)[1]] if isinstance(truth, dict) else truth

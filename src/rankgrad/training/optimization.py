"""The optimizer of a phase, and its learning rate over epochs."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from rankgrad.training.options import Component, PhaseOptions, Schedule

__all__ = ["OPTIMIZERS", "check_optimizer", "make_optimizer", "optimizer_of", "rates_of"]

OPTIMIZERS = [name for name in torch.optim.__all__ if name[0].isupper() and name != "Optimizer"]


def make_optimizer(optimizer: Component, parameters: Any) -> Any:
    """Return an optimizer of `torch.optim`.

    Raises:
        ValueError: `torch.optim` has no optimizer of this name.
    """
    if optimizer.name not in OPTIMIZERS:
        raise ValueError(f"optimizer.name: no {optimizer.name!r} in torch.optim; try AdamW or SGD")
    return getattr(torch.optim, optimizer.name)(parameters, **optimizer.args)


def check_optimizer(optimizer: Component) -> None:
    """Raise the error that a class of `torch.optim` raises for its options.

    Run its constructor without torch's own `add_param_group`, which imports the compiler and takes seconds.
    """

    def add_param_group(made: Any, group: dict[str, Any]) -> None:
        made.param_groups.append(made.defaults | group)

    base = getattr(torch.optim, optimizer.name)
    trial = type(optimizer.name, (base,), {"add_param_group": add_param_group})
    trial([{"params": [torch.empty(1, device="meta", requires_grad=True)]}], **optimizer.args)


def optimizer_of(module: Any, also: Iterable[Tensor], options: PhaseOptions) -> torch.optim.Optimizer:
    """Return the optimizer of a module's trainable weights and of further weights, with its own backbone rate."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad] + list(also)
    lr_factor = getattr(options, "lr_factor", None)  # only phases of the whole network have one
    if lr_factor is None:
        return make_optimizer(options.optimizer, [{"params": trained}])
    backbone = set(module.backbone.parameters())
    head = [parameter for parameter in trained if parameter not in backbone]
    slower = [parameter for parameter in trained if parameter in backbone]
    made = make_optimizer(options.optimizer, [{"params": head}, {"params": slower}])
    made.param_groups[1]["lr"] *= lr_factor
    return made


def rates_of(optimizer: torch.optim.Optimizer, options: PhaseOptions, *, steps: int) -> LambdaLR:
    """Return the schedule that changes the learning rates in each step; an epoch has `steps` steps."""
    factor = _factor(options.schedule, options.epochs)
    return LambdaLR(optimizer, lambda step: factor(step / max(steps, 1)))


def _factor(schedule: Schedule, epochs: int) -> Callable[[float], float]:
    """Return the function from time (in epochs) to the factor on the optimizer's learning rate."""
    warm_up = schedule.warm_up_epochs

    def factor(time: float) -> float:
        if time < warm_up:
            return (time + 1e-8) / warm_up
        if schedule.name == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (time - warm_up) / max(epochs - warm_up, 1e-8))))
        if schedule.factor is not None and schedule.every_epochs is not None:
            # Add a little, so that a rounding error cannot delay a step of the schedule.
            return schedule.factor ** int(time / schedule.every_epochs + 1e-6)
        return 1.0

    return factor

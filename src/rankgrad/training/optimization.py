"""The optimizer of a phase, and its learning rate over epochs."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from rankgrad.training.options import check_chunk

__all__ = ["check", "optimizer_of", "rates_of"]

SCHEDULES = ("constant", "cosine", "step")


def check(options: Mapping[str, Any]) -> None:
    """Raise a ValueError if a training with these options is impossible, see `rankgrad.training.loop.fit`."""
    optimizer, schedule = options["optimizer"], options["schedule"]
    if not hasattr(torch.optim, optimizer["name"]):
        raise ValueError(f"optimizer.name: no {optimizer['name']!r} in torch.optim; try AdamW or SGD")
    if schedule["name"] not in SCHEDULES:
        raise ValueError(f"schedule.name is {schedule['name']!r}, expected one of {', '.join(SCHEDULES)}")
    check_chunk(options.get("chunk"), options["batch_size"])
    if options["epochs"] < 1 or options["patience"] < 1:
        raise ValueError(f"epochs is {options['epochs']} and patience {options['patience']}, expected at least 1 each")


def optimizer_of(module: Any, also: Iterable[Tensor], options: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return the optimizer of a module's weights that are not frozen and of others, at another rate of its backbone."""
    optimizer, lr_factor = options["optimizer"], options.get("lr_factor")
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad] + list(also)
    make, args = getattr(torch.optim, optimizer["name"]), optimizer["args"]
    if lr_factor is None:
        return make(trained, **args)
    backbone = set(module.backbone.parameters())
    parts = [[one for one in trained if (one in backbone) == inside] for inside in (False, True)]
    made = make([{"params": part} for part in parts], **args)
    made.param_groups[1]["lr"] *= lr_factor
    return made


def rates_of(optimizer: torch.optim.Optimizer, options: Mapping[str, Any], *, steps: int) -> LambdaLR:
    """Return what moves the learning rates with each step, of which an epoch has so many."""
    factor = _factor(options["schedule"], options["epochs"])
    return LambdaLR(optimizer, lambda step: factor(step / max(steps, 1)))


def _factor(schedule: dict[str, Any], epochs: int) -> Callable[[float], float]:
    """Return the learning rate at a time (in epochs), as a factor of the optimizer's."""
    warm_up = schedule.get("warm_up_epochs", 0)

    def factor(time: float) -> float:
        if time < warm_up:
            return (time + 1e-8) / warm_up
        if schedule["name"] == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (time - warm_up) / max(epochs - warm_up, 1e-8))))
        if schedule["name"] == "step":
            # A little later than it is, so that no rounding error keeps a step from coming.
            return schedule["factor"] ** int(time / schedule["every_epochs"] + 1e-6)
        return 1.0

    return factor

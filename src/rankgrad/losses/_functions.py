"""Check once whether a function that is used as a sorter ranks like one."""

import inspect
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rankgrad.checks import value_of
from rankgrad.sorters import Sorter

__all__ = ["check_ranking", "name_of"]

SHORT = 8  # number of scores to test a function on: few enough to distinguish ranks from 0 and from 1 by their mean
INSTEAD = "write f(scores, mask=None), or subclass rankgrad.sorters.Sorter"

# Tested functions, by owner, because each access to a bound method creates a new object.
_TRIED: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()


def name_of(ranking: Callable[..., Tensor]) -> str:
    """Return the name of a function, or of the class of an object."""
    return getattr(ranking, "__name__", type(ranking).__name__)


def check_ranking(ranking: Callable[..., Tensor], scores: Tensor, *, masked: bool) -> None:
    """Raise if a function does not rank as losses expect: from 1 for the largest score to d.

    Each function is tested once, on eight scores if it accepts that number (in one group and in two), and on the shape
    of its first input. The sorters of this package are not tested, nor are modules with weights, which may not be
    trained yet, nor anything under `torch.compile`.

    Args:
        ranking: maps scores (..., d) to ranks (..., d).
        scores: the next input, (..., d).
        masked: whether the next call passes a mask.

    Raises:
        TypeError: the next call passes a mask, but the function does not take one.
        ValueError: its ranks are ascending, begin at 0, are divided by d, are all equal, or are not ranks; or they
            depend on the scores of other groups.

    >>> check_ranking(lambda scores: scores.argsort().argsort() + 1.0, torch.zeros(9), masked=False)
    Traceback (most recent call last):
    ...
    ValueError: sorter is <lambda>, which gives the largest score the largest rank, expected 1 for the largest: pass
    lambda scores: f(-scores)
    """
    if torch.compiler.is_compiling() or _is_known(ranking):
        return
    if masked and not _takes_mask(ranking):
        raise TypeError(
            f"sorter is {name_of(ranking)}, which takes no mask, expected one that does, because a mask is passed or "
            f"the loss ranks only part of each group (the positives, or a matrix that is not square): {INSTEAD}"
        )
    owner, function = (ranking.__self__, ranking.__func__) if inspect.ismethod(ranking) else (ranking, None)
    try:
        tried = _TRIED.setdefault(owner, set())
    except TypeError:  # cannot be hashed or referred to weakly
        tried = set()
    if (function, masked) not in tried and _try(ranking, scores, masked=masked):
        tried.add((function, masked))


def _is_known(ranking: Callable[..., Tensor]) -> bool:
    if not isinstance(ranking, Sorter):
        return False
    return type(ranking).__module__.startswith("rankgrad.") or any(True for _ in ranking.parameters())


def _takes_mask(ranking: Callable[..., Tensor]) -> bool:
    try:
        parameters = inspect.signature(ranking.forward if isinstance(ranking, nn.Module) else ranking).parameters
    except (TypeError, ValueError):  # a function written in C has no signature
        return True
    return "mask" in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _try(ranking: Callable[..., Tensor], scores: Tensor, *, masked: bool) -> bool:
    """Raise like `check_ranking`; return whether ranks could be read."""
    devices = [scores.device] if scores.device.type == "cuda" else []
    eight, as_given = _probe(scores, SHORT), _probe(scores, scores.shape[-1]).expand(scores.shape).contiguous()
    tried = []
    with torch.no_grad(), torch.random.fork_rng(devices), _evaluation(ranking):
        with suppress(Exception):  # a function may take only one length or shape
            tried.append((eight, _ranks(ranking, eight, masked)))
        if scores.numel():
            tried.append((as_given, _ranks(ranking, as_given, masked)))
        beside_others = _beside_others(ranking, eight, masked, devices)
    are_read = all([_judged(name_of(ranking), probe, ranks) for probe, ranks in tried])
    if beside_others is not None:
        first, again, beside_another = beside_others
        if torch.equal(first, again) and not torch.allclose(first, beside_another, atol=0.01):
            raise ValueError(
                f"sorter is {name_of(ranking)}, which mixes groups: the ranks of a group change with the scores of "
                "another, expected ranks along the last dimension alone"
            )
    return are_read


def _beside_others(
    ranking: Callable[..., Tensor], probe: Tensor, masked: bool, devices: list[torch.device]
) -> list[Tensor] | None:
    """Return the ranks of a group beside itself, again, and beside another group; None if they cannot be computed."""
    group, ranks = probe.reshape(1, -1), []
    with suppress(Exception):  # a function may take only one length or shape
        for other in (group, group, group.square() + 1):
            with torch.random.fork_rng(devices):  # each time, the same random numbers
                ranks.append(_ranks(ranking, torch.cat([group, other]), masked))
    are_ranks = [torch.is_tensor(of_both) and of_both.shape == (2, SHORT) for of_both in ranks]
    return [of_both[0] for of_both in ranks] if are_ranks == [True] * 3 else None


def _judged(name: str, probe: Tensor, ranks: Any) -> bool:
    """Raise like `check_ranking` for the ranks of a test input; return whether they could be read."""
    if not torch.is_tensor(ranks) or ranks.shape != probe.shape or not ranks.is_floating_point():
        return True  # the real input will raise the error
    length = probe.shape[-1]
    mean = value_of(ranks.double().mean())
    together = value_of(((ranks - ranks.mean(-1, keepdim=True)) * (probe - probe.mean(-1, keepdim=True))).mean())
    if mean is None or together is None or not math.isfinite(mean):
        return False
    spread = max(0.5, length / 16)  # ranks of a learned sorter are slightly off
    if length > 1 and value_of((ranks == ranks[..., :1]).all()):
        raise ValueError(
            f"sorter is {name}, which gives {length} different scores the same rank, expected 1 to {length}"
        )
    if together > 1e-5 * length:
        raise ValueError(
            f"sorter is {name}, which gives the largest score the largest rank, expected 1 for the largest: pass "
            "lambda scores: f(-scores)"
        )
    if not abs(mean - (length + 1) / 2) < spread:
        advice = "return ranks"
        if abs(mean - (length - 1) / 2) < spread:
            advice = "they begin at 0: add 1"
        elif abs(mean - (length + 1) / 2 / length) < 1:
            advice = "they are divided by the length: multiply by scores.shape[-1]"
        raise ValueError(
            f"sorter is {name}, whose ranks of {length} scores have a mean of {mean:.4g}, expected "
            f"{(length + 1) / 2:g}, the mean of ranks from 1 to {length}: {advice}"
        )
    return True


def _probe(scores: Tensor, length: int) -> Tensor:
    """Return unordered, distinct scores from -1 to 1, (1, ..., 1, length)."""
    numbers = torch.arange(length, device=scores.device, dtype=torch.float64)
    values = (numbers * (5**0.5 - 1) / 2).frac() * 2 - 1
    return values.to(scores.dtype).view(*[1] * (scores.dim() - 1), length)


def _ranks(ranking: Callable[..., Tensor], probe: Tensor, masked: bool) -> Any:
    return ranking(probe, mask=torch.ones_like(probe, dtype=torch.bool)) if masked else ranking(probe)


@contextmanager
def _evaluation(ranking: Callable[..., Tensor]) -> Generator[None]:
    """Put a module into evaluation mode, so that a test does not change running means."""
    modules = list(ranking.modules()) if isinstance(ranking, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode

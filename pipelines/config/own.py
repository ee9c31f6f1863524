"""Run components from `own` on toy data: check their output, its gradient, and that a seed determines it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipelines.config.errors import ParamsError, Problem
from rankgrad import lookup
from rankgrad.io.checkpoints import build
from rankgrad.layers import Backbone, Head
from rankgrad.sorters import Sorter
from rankgrad.sorters.laplace import Laplace
from rankgrad.tasks import Lists, Task, judging, of_lists, takes
from rankgrad.training.options import Component

__all__ = ["check_class", "check_columns", "check_loss", "check_metrics", "check_sorter", "raised_by"]

BASES = {"models.backbones": Backbone, "models.heads": Head, "sorters": Sorter}
TRUTHS = ("target", "labels", "label_ranks", "positives")
ROWS, LENGTH = 4, 6
NEAR = 1e-3  # ranks closer than this differ only by rounding


@contextmanager
def raised_by(folder: str, name: str, location: str) -> Generator[None]:
    """Turn any error of a component from `own` into a problem that names its file; leave other errors alone."""
    try:
        yield
    except (ParamsError, lookup.ComponentError):
        raise
    except Exception as error:
        if name not in lookup.own_files(folder):
            raise
        raise _Own(folder, name, location).wrong(f"raises {lookup.raised_at(error)}", "", "fix it") from error


class _Own(NamedTuple):
    """A component from `own`: its folder, its name, and the key of the params that names it."""

    folder: str
    name: str
    location: str

    def wrong(self, problem: str, expected: str, advice: str) -> ParamsError:
        file = lookup.own_file(self.folder, self.name)
        return ParamsError(Problem(self.location, f"{file} {problem}", expected, advice))

    def truth(self, allowed: Sequence[str], advice: str) -> str:
        """Return the name of the second argument, which is the type of the targets; raise if it is not allowed."""
        parameters = takes(self.folder, self.name)
        if len(parameters) < 2 or parameters[1] not in allowed:
            found = f"takes {', '.join(parameters) or 'no arguments'}"
            raise self.wrong(found, f"scores, then one of {', '.join(allowed)}", advice)
        return parameters[1]


def check_class(folder: str, name: str, location: str) -> None:
    """Raise if a file in `own` does not define a subclass of the class that its folder requires."""
    base = BASES.get(folder)
    if base is not None and name in lookup.own_files(folder):
        component = lookup.find(folder, name, where=f"{location}.name")
        if not (isinstance(component, type) and issubclass(component, base)):
            defined = f"defines {component.__name__}, which is not a {base.__name__}"
            advice = f"derive it from {base.__module__.removesuffix('._base')}.{base.__name__}"
            raise _Own(folder, name, location).wrong(defined, f"a subclass of {base.__name__}", advice)


def _drawn(shape: tuple[int, ...], truth: str) -> tuple[Tensor, Tensor]:
    """Return random scores and a random second argument of the type that `truth` names."""
    draws = torch.Generator().manual_seed(0)
    scores = torch.randn(shape, generator=draws)
    if truth == "positives":
        return scores, torch.eye(shape[-1], dtype=torch.bool).expand(shape)
    if truth == "label_ranks":
        return scores, torch.randint(0, 4, shape, generator=draws)
    values = torch.rand(shape, generator=draws)
    return scores, values if truth == "target" else values > values.median()


def _masked(scores: Tensor) -> Tensor:
    """Return a mask that leaves out the last score of each list, except in the first row."""
    mask = torch.ones_like(scores, dtype=torch.bool)
    mask[1:, ..., -1] = False
    return mask


def _checked(call: Callable[[], Any], shape: tuple[int, ...], meaning: str, component: _Own, *, draws: str) -> Tensor:
    """Return a component's output; raise unless it is finite, has this shape, and is the same on a second call."""
    with torch.random.fork_rng(devices=[]), raised_by(*component):
        first, second = call(), call()
    if not torch.is_tensor(first) or not first.is_floating_point():
        returned = first.dtype if torch.is_tensor(first) else type(first).__name__
        raise component.wrong(f"returns {returned}", f"a floating-point tensor: {meaning}", "convert it")
    if tuple(first.shape) != shape:
        raise component.wrong(f"returns the shape {tuple(first.shape)}", f"{shape}: {meaning}", "reduce or expand it")
    if not bool(first.isfinite().all()):
        advice = "look for a logarithm or a division by 0"
        raise component.wrong("returns NaN or infinity for finite scores", "finite numbers", advice)
    if not torch.equal(first, second):
        raise component.wrong("returns different values on a second call", "random numbers determined by a seed", draws)
    return first


def _check_gradient(value: Tensor, scores: Tensor, component: _Own) -> None:
    advice = "sorting, rounding, and comparing have no gradient: rank with a sorter, see docs/own_code.md"
    if not value.requires_grad:
        raise component.wrong("has no gradient", "a gradient with respect to the scores", advice)
    with raised_by(*component):
        (gradient,) = torch.autograd.grad(value, scores, allow_unused=True)
    if gradient is None or not bool(gradient.any()):
        raise component.wrong("has a gradient of 0 for all scores", "a nonzero gradient", advice)
    if not bool(gradient.isfinite().all()):
        advice = "look for a root, a logarithm, or a division where a value can be 0"
        raise component.wrong("has a gradient that is NaN or infinite", "finite numbers", advice)


def check_loss(location: str, loss: Component, task: type[Task], table: Mapping[str, Any]) -> None:
    """Raise if a loss from `own` cannot train a task on a dataset with the options `table`."""
    component = _Own("losses", loss.name, location)
    parameters = takes("losses", loss.name)
    truth = component.truth(TRUTHS, "the second argument's name tells what to pass")
    has_matrices = truth == "positives" or task.judged == "labels"  # a list for each item, or for each class
    scores, target = _drawn((2, LENGTH, LENGTH) if has_matrices else (ROWS, LENGTH), truth)
    options: dict[str, Any] = {"sorter": Laplace()} if "sorter" in parameters else {}
    needed = {}
    if task.reads.lists or table.get("within"):
        needed["mask"] = f"the lists of {task.name} differ in length"
        options["mask"] = _masked(scores)
    if table.get("weight"):
        needed |= dict.fromkeys(("weights", "group_weights"), "the table has a column weight")
    _check_arguments(needed, component)
    scores.requires_grad_()

    def call() -> Any:
        drawn = {"generator": torch.Generator().manual_seed(0)} if "generator" in parameters else {}
        return lookup.find("losses", loss.name)(scores, target, **loss.args, **options, **drawn)

    draws = "add an argument `generator`, and sample with generator=generator"
    value = _checked(call, (), "the mean over lists, a scalar", component, draws=draws)
    _check_gradient(value, scores, component)


def _check_arguments(needed: Mapping[str, str], component: _Own) -> None:
    """Raise if a function lacks an argument that a dataset needs; `needed` maps arguments to reasons."""
    parameters = takes(component.folder, component.name)
    for argument, reason in needed.items():
        if argument not in parameters:
            found = f"takes {', '.join(parameters)}"
            raise component.wrong(found, f"{argument} too: {reason}", "add the argument")


def check_sorter(location: str, options: Any, **length: int) -> None:
    """Raise if a sorter from `own` does not return ranks."""
    component = _Own("sorters", options.name, location)
    with raised_by(*component):
        sorter: Any = build("sorters", options.name, options.args, seed=1, **length).eval()
    scores, _ = _drawn((ROWS, sorter.length or LENGTH), "target")
    scores.requires_grad_()
    draws = "use random numbers only in __init__, not in calls"
    ranks = _checked(lambda: sorter(scores), tuple(scores.shape), "a rank for each score", component, draws=draws)
    _check_gradient((ranks * torch.arange(1.0, ranks.shape[-1] + 1)).sum(), scores, component)
    with raised_by(*component):
        alone = torch.cat([sorter(row) for row in scores.split(1)])
    _check_alone(ranks, alone, "lists", component)
    if any(weight.requires_grad for weight in sorter.parameters()):  # it has not learned to sort
        return
    if bool(((ranks - ranks.mean(-1, keepdim=True)) * scores).sum(-1).gt(0).any()):
        raise component.wrong(
            "gives the largest score the largest rank", "rank 1 for the largest score", "rank -scores"
        )
    if sorter.length is None:
        mask = _masked(scores)
        with raised_by(*component):
            masked, alone = sorter(scores, mask=mask)[1:, :-1], sorter(scores[1:, :-1])
        _check_alone(masked, alone, "scores that a mask leaves out", component)


def _check_alone(values: Tensor, alone: Tensor, others: str, component: _Own) -> None:
    """Raise if the values of lists change when `others` are removed."""
    if not torch.allclose(values, alone, atol=NEAR):
        raise component.wrong(f"depends on other {others}", "values that depend only on each list", "ignore them")


def check_columns(location: str, task: type[Task], table: Mapping[str, Any]) -> None:
    """Raise if a metric from `own` that evaluates a task lacks an argument for a dataset with the options `table`."""
    needed = {}
    if table.get("within") or table.get("ignore"):
        needed["mask"] = "lists exclude some scores"
    if table.get("weight") and task.judged != "label_ranks" and not task.reads.lists:  # lists of several rows
        needed["weights"] = "the table has a column weight"
    for name in judging(task.judged):
        _check_arguments(needed, _Own("metrics", name, location))


def check_metrics(task: type[Task]) -> None:
    """Raise if a metric from `own` cannot evaluate a task, or has the same name as one of the task's metrics."""
    for name in lookup.own_files("metrics"):
        component = _Own("metrics", name, f"training.{task.name}")
        component.truth(TRUTHS[:-1], "the second argument says which tasks it judges")
        if name in [metric.name for metric in task.metrics]:
            raise component.wrong(f"has the same name as a metric of {task.name}", "an unused name", "rename it")
    for name in judging(task.judged):
        scores, truth = _drawn((ROWS, LENGTH), str(task.judged))
        lists = Lists(scores, truth, _masked(scores) if task.reads.lists else None)
        draws = "a metric must not use random numbers, or must seed its own generator"
        component = _Own("metrics", name, f"training.{task.name}")
        values = _checked(partial(of_lists, name, lists), (ROWS,), "one number per list", component, draws=draws)
        first = Lists(scores[:1], truth[:1])  # the mask excludes nothing from the first list
        _check_alone(values[:1], of_lists(name, first), "lists", component)

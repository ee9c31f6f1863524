"""Measure each sorter over its whole range of softness, with one protocol: `python -m studies.sorter_curves`.

It takes ten minutes on one core. A sorter's single row in docs/sorters.md depends on the softness that was picked; a
curve does not. The vectors are normal, uniform, and heavy-tailed (Student's t with 3 degrees of freedom), scaled to a
standard deviation of 1: scaling the scores of a sorter that does not standardize them is the same as scaling its
softness. `no ranking` is the best straight line through the exact ranks: what a sorter gets that sorts nothing.

Peers are left out if their package is not installed: torchsort, diffsort, and softtorch (which needs POT and torchopt).
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch

from rankgrad.io.checkpoints import build
from rankgrad.io.results import Row, rows_of
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import _quality as measures
from studies.times.peers import Ranking, families
from studies.vectorized import Jobs, command

LENGTH, VECTORS = 100, 15
SOFTNESS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0)
# These take seconds for a gradient; Sinkhorn's iterations hardly end below.
FEWER = {"diffsort bitonic": SOFTNESS[::2], "SoftTorch transport": (0.1, 0.3, 1.0, 3.0), "no ranking": (1.0,)}


def vectors() -> torch.Tensor:
    """Return standardized score vectors, a third of each kind."""
    draws = torch.Generator().manual_seed(0)
    third = (VECTORS // 3, LENGTH)
    normal, uniform = torch.randn(third, generator=draws), torch.rand(third, generator=draws)
    squares = torch.randn((3, *third), generator=draws).square().mean(0)
    heavy = torch.randn(third, generator=draws) / squares.sqrt()
    scores = torch.cat([normal, uniform, heavy])
    return (scores - scores.mean(-1, keepdim=True)) / scores.std(-1, correction=0, keepdim=True)


def straight_line(scores: torch.Tensor) -> torch.Tensor:
    """Return the best linear function of the scores of each vector, in place of ranks."""
    exact = exact_ranks(scores.detach()) - (LENGTH + 1) / 2
    slope = (exact * scores.detach()).sum(-1, keepdim=True) / scores.detach().square().sum(-1, keepdim=True)
    return (LENGTH + 1) / 2 + slope * scores


def own_families() -> dict[str, Callable[[float], Ranking]]:
    """Return the sorters of this library that have a softness, and what they must beat."""
    return {
        "Laplace": lambda softness: build("sorters", "laplace", {"softness": softness}, seed=0),
        "Logistic": lambda softness: build("sorters", "logistic", {"softness": softness}, seed=0),
        "no ranking": lambda _: straight_line,
    }


def wrong(ranking: Ranking, scores: torch.Tensor) -> float:
    """Return the fraction of the gradient that has the wrong sign, relative to the sum of absolute derivatives.

    Raising a score must lower its own rank and raise all others.
    """
    jacobian = measures.jacobians(ranking, scores).double()
    is_own = torch.eye(scores.shape[-1], dtype=torch.bool)
    wrong_part = torch.where(is_own, jacobian, -jacobian).clamp(min=0).sum()
    return (wrong_part / jacobian.abs().sum().clamp(min=1e-30)).item()


def rows(run: str, ranking: Ranking) -> Iterable[Row]:
    """Return the measures of a sorter at one softness."""
    scores = vectors()
    values = {"l1": measures.accuracy(ranking, scores)["l1"]}
    values["vanishing"] = measures.gradient_health(ranking, scores)["vanishing"]
    values["wrong"] = wrong(ranking, scores)
    return rows_of(run, values | measures.fidelity(ranking, scores, torch.Generator().manual_seed(1)))


if __name__ == "__main__":
    params = {"length": LENGTH, "vectors": VECTORS, "softness": SOFTNESS}
    groups: dict[str, Jobs] = {}
    for name, family in (own_families() | families()).items():
        runs = {f"{name}, {softness:g}": softness for softness in FEWER.get(name, SOFTNESS)}
        groups[name] = {run: partial(rows, run, family(softness)) for run, softness in runs.items()}
    command("sorter_curves", groups, params=params, hashes={})

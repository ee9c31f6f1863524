"""Measure each sorter over its whole range of softness, with one protocol: `python -m studies.sorter_curves`.

It takes five minutes on one core. A sorter's single row in docs/sorters.md depends on the softness that was picked; a
curve does not. All sorters get scores with a standard deviation of 1: scaling the scores of a sorter that does not
standardize them is the same as scaling its softness.

Peers are left out if their package is not installed: torchsort, diffsort, and softtorch (which needs POT and torchopt).
"""

import time
from collections.abc import Callable
from functools import partial

import torch

from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.io.checkpoints import build
from rankgrad.io.results import Row
from rankgrad.sorters import _quality as measures
from studies.times.measuring import median_seconds
from studies.times.peers import Ranking, families
from studies.vectorized import Jobs, command

LENGTH, VECTORS = 100, 10
SOFTNESS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LEAST = {"SoftTorch transport": 0.1}  # below, Sinkhorn iterations take seconds per vector
METRICS = ("l1", "vanishing", "wrong", "fidelity", "ms")


def own_families() -> dict[str, Callable[[float], Ranking]]:
    """Return the sorters of this library that have a softness."""
    return {
        "Laplace": lambda softness: build("sorters", "laplace", {"softness": softness}, seed=0),
        "Logistic": lambda softness: build("sorters", "logistic", {"softness": softness}, seed=0),
        "Handcrafted": lambda softness: build("sorters", "handcrafted", {"steepness": 1 / softness}, seed=0),
    }


def wrong(ranking: Ranking, scores: torch.Tensor) -> float:
    """Return the fraction of the gradient that has the wrong sign, relative to the sum of absolute derivatives.

    Raising a score must lower its own rank and raise all others.
    """
    jacobian = measures.jacobians(ranking, scores).double()
    is_own = torch.eye(scores.shape[-1], dtype=torch.bool)
    wrong_part = torch.where(is_own, jacobian, -jacobian).clamp(min=0).sum()
    return (wrong_part / jacobian.abs().sum().clamp(min=1e-30)).item()


def milliseconds(ranking: Ranking) -> float:
    """Return the median time of one vector, forward and backward."""
    scores = torch.randn(1, LENGTH, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def step() -> None:
        ranking(scores).square().sum().backward()

    step()
    return 1000 * median_seconds(step, clock=time.perf_counter, most=21, limit=5.0)


def rows(run: str, ranking: Ranking) -> list[Row]:
    """Return the measures of a sorter at one softness."""
    scores, _ = draw(VECTORS, LENGTH, torch.Generator().manual_seed(0))
    scores = (scores - scores.mean(-1, keepdim=True)) / scores.std(-1, correction=0, keepdim=True)
    values = {
        "l1": measures.accuracy(ranking, scores)["l1"],
        "vanishing": measures.gradient_health(ranking, scores)["vanishing"],
        "wrong": wrong(ranking, scores),
        "fidelity": measures.fidelity(ranking, scores, torch.Generator().manual_seed(1))["fidelity_0.1"],
        "ms": milliseconds(ranking),
    }
    return [Row(run, metric, values[metric]) for metric in METRICS]


def jobs(name: str, family: Callable[[float], Ranking], _: list[Row]) -> Jobs:
    for softness in SOFTNESS:
        if softness >= LEAST.get(name, 0):
            run = f"{name}, {softness:g}"
            yield run, partial(rows, run, family(softness))


if __name__ == "__main__":
    params = {"length": LENGTH, "vectors": VECTORS, "softness": SOFTNESS}
    groups = {name: partial(jobs, name, family) for name, family in (own_families() | families()).items()}
    command("sorter_curves", groups, params=params, hashes={})

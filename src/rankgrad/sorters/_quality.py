"""Measure soft ranks: their accuracy, and whether gradients vanish, have the right sign, and help.

Every measure takes a function from scores (n, d) to descending ranks (n, d), so any implementation works. J is the
Jacobian of the ranks of a vector, s its standard deviation; gradients are in units of d / s.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rankgrad.metrics.spearman import spearman
from rankgrad.ranks import exact_ranks

__all__ = [
    "accuracy",
    "adam_steps",
    "drop_of_spearman",
    "fidelity",
    "gradient_health",
    "invariance",
    "jacobians",
    "out_of_distribution",
    "ties",
]

Ranking = Callable[[Tensor], Tensor]
VANISHING = 1e-3


def _deviation(scores: Tensor) -> Tensor:
    return scores.std(-1, correction=0, keepdim=True)


def accuracy(ranking: Ranking, scores: Tensor) -> dict[str, float]:
    """Compare with exact ranks: L1 / d, the fraction of ranks with an error below 1/2, and of vectors in exact order.

    >>> accuracy(exact_ranks, torch.randn(4, 9))
    {'l1': 0.0, 'exact_ranks': 1.0, 'exactly_ordered': 1.0}
    """
    with torch.no_grad():
        soft = ranking(scores)
    exact = exact_ranks(scores)
    return {
        "l1": ((soft - exact).abs().double().mean() / scores.shape[-1]).item(),
        "exact_ranks": ((soft - exact).abs() < 0.5).double().mean().item(),
        # The largest score must have the smallest rank, and ties must stay ties.
        "exactly_ordered": (exact_ranks(-soft) == exact).all(-1).double().mean().item(),
    }


def jacobians(ranking: Ranking, scores: Tensor) -> Tensor:
    """Return the derivatives [n, i, j] of rank i by score j, with one backward pass per row of all vectors (n, d)."""
    scores = scores.detach().requires_grad_()
    ranks = ranking(scores)
    rows = [torch.autograd.grad(ranks[:, i].sum(), scores, retain_graph=True)[0] for i in range(scores.shape[-1])]
    return torch.stack(rows, 1)


def gradient_health(ranking: Ranking, scores: Tensor) -> dict[str, float]:
    """Measure whether gradients vanish, vary, and have the right sign.

    Returns:
        The fraction of rows of J with a norm below 1e-3 d / s, and of rows that are 0; the median of the norms and
        their coefficient of variation; and the fraction of the diagonal that is positive, and of the rest that is
        negative (raising a score should lower its own rank and raise the others).

    >>> from rankgrad.sorters.laplace import Laplace
    >>> health = gradient_health(Laplace(softness=0.2), torch.linspace(-1, 1, 9).unsqueeze(0))
    >>> health["vanishing"], health["wrong_signs_of_own"], health["wrong_signs_of_others"]
    (0.0, 0.0, 0.0)
    """
    jacobian, length = jacobians(ranking, scores), scores.shape[-1]
    norms = (jacobian.norm(dim=-1) * _deviation(scores) / length).double()
    diagonal = torch.eye(length, dtype=torch.bool, device=scores.device)
    return {
        "vanishing": (norms < VANISHING).double().mean().item(),
        "zero": (norms == 0).double().mean().item(),
        "median_norm": norms.median().item(),
        "variation_of_norms": (norms.std() / norms.mean()).item(),
        "wrong_signs_of_own": (jacobian[:, diagonal] > 0).double().mean().item(),
        "wrong_signs_of_others": (jacobian[:, ~diagonal] < 0).double().mean().item(),
    }


def invariance(ranking: Ranking, scores: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Measure how much permuting, shifting, and scaling the scores changes the ranks.

    Returns:
        $|f(Ps) - P f(s)| / d$, $|f(s + 3) - f(s)| / d$, each the mean; and L1 / d of the scores times 0.01 and 100.
    """
    length = scores.shape[-1]
    order = torch.randperm(length, generator=generator).to(scores.device)
    with torch.no_grad():
        ranks = ranking(scores)
        changes = {
            "equivariance": ranking(scores[:, order]) - ranks[:, order],
            "shift": ranking(scores + 3) - ranks,
            "l1_at_scale_0.01": ranking(scores * 0.01) - exact_ranks(scores),
            "l1_at_scale_100": ranking(scores * 100) - exact_ranks(scores),
        }
    return {name: (change.abs().double().mean() / length).item() for name, change in changes.items()}


def ties(ranking: Ranking, scores: Tensor) -> dict[str, float]:
    r"""Measure whether equal scores are treated the same. Scores are rounded to tenths of the standard deviation first.

    Returns:
        The mean spread (largest less smallest) of ranks within a tied group, in positions; the spread of the gradient
        of $\|f(s)\|^2$, over its mean size; and L1 / d to the average ranks.
    """
    coarse = ((scores / _deviation(scores) * 10).round() / 10).requires_grad_()
    ranks = ranking(coarse)
    (gradient,) = torch.autograd.grad(ranks.square().sum(), coarse)
    same = coarse.unsqueeze(-1) == coarse.unsqueeze(-2)
    tied = same.sum(-1) > 1
    spreads = []
    for values in (ranks.detach(), gradient):
        differences = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs().masked_fill(~same, 0.0)
        spreads.append(differences.amax(-1)[tied].double().mean().item())
    return {
        "spread_of_tied_ranks": spreads[0],
        "spread_of_tied_gradients": spreads[1] / gradient.abs().double().mean().clamp(min=1e-30).item(),
        "l1_of_tied": ((ranks.detach() - exact_ranks(coarse)).abs().double().mean() / scores.shape[-1]).item(),
    }


def out_of_distribution(ranking: Ranking, rows: int, length: int, generator: torch.Generator) -> dict[str, float]:
    """Measure L1 / d on unusual scores: Cauchy, ten tight clusters, duplicates, an offset of 1e4, half precision."""

    def normal() -> Tensor:
        return torch.randn(rows, length, generator=generator)

    centers = torch.randint(0, 10, (rows, length), generator=generator)
    kinds = {
        "cauchy": torch.tan(math.pi * (torch.rand(rows, length, generator=generator) - 0.5)).clamp(-1e6, 1e6),
        "clusters": centers + 0.001 * normal(),
        "duplicates": torch.randint(0, length // 2 + 1, (rows, length), generator=generator).float(),
        "offset_1e4": normal() + 1e4,
        "bfloat16": normal().bfloat16().float(),
    }
    return {f"l1_{name}": accuracy(ranking, scores)["l1"] for name, scores in kinds.items()}


def fidelity(
    ranking: Ranking, scores: Tensor, generator: torch.Generator, sigmas: tuple[float, ...] = (0.03, 0.1, 0.3)
) -> dict[str, float]:
    r"""Measure whether gradients agree with the gradients of ranks under noise.

    The mean cosine of $J^\top v$, v random, with $J_\sigma^\top v$, where $J_\sigma$ is the Jacobian of
    $E[\mathrm{rk}(s + \sigma e)] = \frac12 + \sum_j \Phi((s_j - s_i) / (\sigma \sqrt 2))$ and $\sigma$ in standard
    deviations; 0 where the gradient vanishes.
    """
    scores = scores.detach().requires_grad_()
    vector = torch.randn(scores.shape, generator=generator).to(scores)
    (ours,) = torch.autograd.grad((ranking(scores) * vector).sum(), scores)
    values, result = scores.detach(), {}
    for sigma in sigmas:
        apart = (values.unsqueeze(-1) - values.unsqueeze(-2)) / (
            sigma * math.sqrt(2) * _deviation(values).unsqueeze(-1)
        )
        density = torch.exp(-apart.square() / 2)
        theirs = (density @ vector.unsqueeze(-1)).squeeze(-1) - density.sum(-1) * vector
        cosine = torch.nn.functional.cosine_similarity(ours.double(), theirs.double(), dim=-1)
        result[f"fidelity_{sigma}"] = cosine.nan_to_num().mean().item()
    return result


def _loss(ranking: Ranking, scores: Tensor, target: Tensor) -> Tensor:
    return ((ranking(scores) - target) / scores.shape[-1]).square().mean(-1).sum()


def drop_of_spearman(ranking: Ranking, scores: Tensor, generator: torch.Generator, step: float = 0.1) -> float:
    """Measure how much one gradient step on the loss raises the Spearman correlation with random targets.

    The step has a length of `step` standard deviations of the scores, divided by the root of d, for any gradient norm.
    """
    target = exact_ranks(torch.rand(scores.shape, generator=generator).to(scores))
    scores = scores.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(ranking, scores, target), scores)
    size = gradient.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-30)
    moved = scores.detach() - step * _deviation(scores.detach()) * gradient / size
    return (spearman(moved, -target) - spearman(scores.detach(), -target)).mean().item()


def adam_steps(
    ranking: Ranking, rows: int, length: int, generator: torch.Generator, *, deviation: float, most: int = 500
) -> float:
    """Count Adam's steps (rate 0.05 deviations) from random scores to a mean Spearman of 0.99; `most` if not reached.

    >>> from rankgrad.sorters.laplace import Laplace
    >>> adam_steps(Laplace(softness=0.2), 4, 16, torch.Generator().manual_seed(0), deviation=1.0) < 100
    True
    """
    scores = (torch.randn(rows, length, generator=generator) * deviation).requires_grad_()
    target = exact_ranks(torch.rand(rows, length, generator=generator))
    optimizer = torch.optim.Adam([scores], lr=0.05 * deviation)
    for step in range(most):
        optimizer.zero_grad()
        _loss(ranking, scores, target).backward()
        optimizer.step()
        if not bool(torch.isfinite(scores).all()):
            return float(most)
        if spearman(scores.detach(), -target).mean() >= 0.99:
            return float(step + 1)
    return float(most)

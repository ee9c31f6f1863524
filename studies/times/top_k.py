"""Compare two soft masks of the k largest scores: `python -m studies.times.top_k`, three minutes on one core.

`soft_topk_mask` chooses its threshold so that the mask sums to k; DFTopK takes the middle between the k-th score and
the next, so it needs no sort. Softness is in standard deviations of the scores. The measures:

- `error`: the sum of absolute differences from the exact mask, over k;
- `off_k`: how far the sum is from k, over k;
- `ms`: CPU time of forward and backward for one list;
- `recall`: the fraction of the true top k that a linear model finds on new lists, after it has learned to raise their
  mask. The learning rate is the best of five on further lists.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rankgrad.io.results import Row, rows_of
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator
from rankgrad.sorters import Laplace, Logistic, soft_topk_mask
from studies import kept
from studies.times.measuring import median_seconds
from studies.times.peers import dftopk_mask

K, LENGTH, ROWS = 10, 100, 1000
SOFTNESS = (0.01, 0.03, 0.1, 0.3, 1.0)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
LISTS, FEATURES, STEPS, SEEDS = 100, 20, 200, 5
SIGNAL = 0.5  # standard deviation of what features explain, where noise has 1
REPEATS, LIMIT = 7, 10.0

Mask = Callable[[Tensor], Tensor]  # scores (..., n) to a mask of the K largest (..., n)


def _of_sorter(scores: Tensor, *, kind: type[Laplace] | type[Logistic], softness: float) -> Tensor:
    return soft_topk_mask(scores, K, sorter=kind(softness=softness))


def _dftopk(scores: Tensor, *, softness: float) -> Tensor:
    width = softness * scores.detach().std(-1, correction=0, keepdim=True)
    return dftopk_mask(scores / width, K, temperature=1.0)


FAMILIES: dict[str, Callable[..., Tensor]] = {
    "soft_topk_mask, Laplace": partial(_of_sorter, kind=Laplace),
    "soft_topk_mask, Logistic": partial(_of_sorter, kind=Logistic),
    "DFTopK": _dftopk,
}


def properties(mask: Mask) -> dict[str, float]:
    """Return the error and the deviation of the sum on normal scores."""
    scores = torch.randn(ROWS, LENGTH, generator=generator(0, "times", "top_k"))
    soft, exact = mask(scores), (exact_ranks(scores) <= K).float()
    off = (soft.sum(-1) - K).abs().mean().item() / K
    return {"error": (soft - exact).abs().mean().item() * LENGTH / K, "off_k": off}


def costs(mask: Mask) -> dict[str, float]:
    """Return the time of one list of each length, forward and backward."""
    figures = {}
    for length in LENGTHS:
        scores = torch.randn(length, generator=generator(0, "times", "top_k", str(length))).requires_grad_()
        weights = torch.randn(length, generator=generator(1, "times", "top_k", str(length)))

        def step(scores: Tensor = scores, weights: Tensor = weights) -> None:
            (mask(scores) * weights).sum().backward()

        step()
        figures[f"ms_at_{length}"] = 1000 * median_seconds(step, clock=time.process_time, most=REPEATS, limit=LIMIT)
    return figures


def lists(draws: torch.Generator, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Return features (LISTS, n, FEATURES), and which items are the true top k."""
    features = torch.randn(LISTS, LENGTH, FEATURES, generator=draws)
    values = features @ slope + torch.randn(LISTS, LENGTH, generator=draws)
    return features, exact_ranks(values) <= K


def true_slope(seed: int) -> Tensor:
    slope = torch.randn(FEATURES, generator=generator(seed, "times", "top_k", "slope"))
    return slope * SIGNAL / slope.norm()


def found(weights: Tensor, seed: int, split: str) -> float:
    """Return the fraction of the true top k of a split that are among the first k of a linear model."""
    features, is_top = lists(generator(seed, "times", "top_k", split), true_slope(seed))
    is_first = exact_ranks(features @ weights) <= K
    return (is_first & is_top).sum().item() / is_top.sum().item()


def recall(mask: Mask, rate: float, seed: int, split: str) -> float:
    """Train a linear model, and return what it finds in a split."""
    slope = true_slope(seed)
    features, is_top = lists(generator(seed, "times", "top_k", "train"), slope)
    weights = torch.randn(FEATURES, generator=generator(seed, "times", "top_k", "start")).requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=rate)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 1 - mask(features @ weights)[is_top].mean()
        loss.backward()
        optimizer.step()
    return found(weights.detach(), seed, split)


def learned(mask: Mask) -> list[float]:
    """Return recall on test lists by seed, with the rate that is best on validation lists."""
    means = []
    for rate in RATES:
        means.append(sum(recall(mask, rate, seed, "validation") for seed in range(SEEDS)))
    best = RATES[max(range(len(RATES)), key=means.__getitem__)]
    return [recall(mask, best, seed, "test") for seed in range(SEEDS)]


def main() -> None:
    """Measure both at each softness, and keep the results."""
    torch.set_num_threads(1)
    best = sum(found(true_slope(seed), seed, "test") for seed in range(SEEDS)) / SEEDS
    rows: list[Row] = [Row("the true model", "recall", best)]
    print(f"the true model {best:.4f}", flush=True)
    for name, family in FAMILIES.items():
        for softness in SOFTNESS:
            run, mask = f"{name}, {softness:g}", partial(family, softness=softness)
            values = learned(mask)
            figures = properties(mask) | {"recall": sum(values) / SEEDS}
            if softness == SOFTNESS[2]:
                figures |= costs(mask)
            rows += rows_of(run, figures)
            rows += [Row(run, "recall", value, seed=seed) for seed, value in enumerate(values, 1)]
            print(run, {key: round(value, 4) for key, value in figures.items()}, flush=True)
    params = {"k": K, "n": LENGTH, "softness": SOFTNESS, "rate": RATES, "lists": LISTS, "steps": STEPS, "seeds": SEEDS}
    made_by = {"commit": kept.commit_of("src", "studies/times"), "params": params, "hashes": {}}
    kept.write("top_k", rows, made_by | {"machine": kept.machine()})


if __name__ == "__main__":
    main()

"""Simulate how often 95% intervals contain the true value: `python -m studies.coverage`, a minute on one core.

The simulated tables have a known true value: each test example is harder or easier for all seeds, each seed is better
or worse on all examples, and the rest is noise. `ratio` is the standard deviation over seeds divided by that of a mean
over test examples.
"""

from itertools import product

import numpy as np

from rankgrad.evaluation import Statistic, differences, evaluate

EXAMPLES, TABLES, RESAMPLES = 300, 400, 200
SPREAD = 0.3  # standard deviation of an example's difficulty, and of the noise
RATIOS, SEEDS = (0.5, 1.0, 3.0), (3, 5, 10)


def run_of(difficulty: np.ndarray, seeds: int, ratio: float, draws: np.random.Generator) -> dict[int, Statistic]:
    """Return each seed's mean over examples for a simulated run, whose true value is 0."""
    of_seeds = ratio * SPREAD * np.sqrt(2 / EXAMPLES)
    statistics = {}
    for seed in range(seeds):
        values = difficulty + SPREAD * draws.standard_normal(EXAMPLES) + of_seeds * draws.standard_normal()
        statistics[seed] = Statistic(["mean"], EXAMPLES, lambda rows, values=values: values[rows].mean(-1)[None])
    return statistics


def coverage(seeds: int, ratio: float) -> tuple[float, float]:
    """Return how often intervals contain the true value, and the true difference of two runs, in simulated tables."""
    draws, of_value, of_difference = np.random.default_rng(0), 0, 0
    for table in range(TABLES):
        difficulty = SPREAD * draws.standard_normal(EXAMPLES)
        ours, theirs = (run_of(difficulty, seeds, ratio, draws) for _ in range(2))
        value = evaluate("ours", ours, resamples=RESAMPLES, seed=table)[0]
        difference = differences({"ours": ours}, theirs, resamples=RESAMPLES, seed=table)[0]
        of_value += value.low <= 0 <= value.high
        of_difference += difference.low <= 0 <= difference.high
    return of_value / TABLES, of_difference / TABLES


if __name__ == "__main__":
    print("ratio  seeds  value  difference")
    for ratio, seeds in product(RATIOS, SEEDS):
        print(f"{ratio:5}  {seeds:5}  {'{:5.3f}  {:10.3f}'.format(*coverage(seeds, ratio))}")

"""Measure how a label ranker's scores depend on scale, on scenes with one digit of each scale (RLSEP, Fig. 3)."""

from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from studies.figures.rlsep_scenes import SCALES

BINS = 60  # bins of histograms
SCALE_NAMES = tuple(f"{scale:g}" for scale in sorted(SCALES))

Groups = dict[str, np.ndarray]


def groups_of(scores: Tensor, size: Tensor) -> Groups:
    """Return the scores of each scale, the smallest first, and of `absent` labels.

    Args:
        scores: scores (n, K).
        size: sizes (n, K) in pixels, in scenes with one digit of each scale; 0 means absent.
    """
    smallest_first = scores.gather(1, size.argsort(1)).double().numpy()
    absent = size.shape[1] - len(SCALES)
    groups = dict(zip(SCALE_NAMES, smallest_first[:, absent:].T, strict=True))
    return groups | {"absent": smallest_first[:, :absent].ravel()}


def moments(groups: Groups) -> dict[str, Any]:
    """Return count, mean, and standard deviation of each group, such as `scale_4`."""
    measured = {}
    for name, scores in groups.items():
        measured[f"scale_{name}"] = {"count": len(scores), "mean": scores.mean(), "deviation": scores.std()}
    return measured


def exactly_ordered(groups: Groups) -> np.ndarray:
    """Return for each scene (n,) whether larger scales have higher scores."""
    of_scales = np.stack([groups[name] for name in SCALE_NAMES], axis=1)
    return np.array([bool((np.diff(scores) > 0).all()) for scores in of_scales])


def histograms(groups: Groups) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the edges of bins, and the number of scores of each group in each bin."""
    every = np.concatenate(list(groups.values()))
    edges = np.linspace(every.min(), every.max(), BINS + 1)
    return edges, {name: np.histogram(scores, edges)[0] for name, scores in groups.items()}


def overlaps(groups: Groups) -> dict[str, float]:
    """Return the fraction of scores that the histograms of neighboring groups share."""
    _, counts = histograms(groups)
    fractions = {name: count / count.sum() for name, count in counts.items()}
    shared = {}
    for lower, upper in pairwise(["absent", *SCALE_NAMES]):
        shared[f"overlap of {lower} and {upper}"] = np.minimum(fractions[lower], fractions[upper]).sum()
    return shared

"""Boosted trees that another library fits, as tables of numbers: as safe to load as a network's weights."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.checks import check_count, check_positive
from rankgrad.fitted import FittedBackbone

__all__ = ["FittedTrees", "least_rows"]

PAIRS = 2**22  # pairs of a row and a tree that are computed at once


class FittedTrees(FittedBackbone):
    """Scores that are sums of regression trees on vectors of numbers.

    A subclass implements `set_weights`: it fits the trees and copies them.

    Args:
        features: the length of a vector.
        outputs: K, the number of scores.
        trees: T, the number of trees of a score.
        rate: the factor of each tree.
        leaves: most leaves of a tree.

    Raises:
        ValueError: a count is too small, or the rate is not above 0.
    """

    input = "features"

    def __init__(self, *, features: int, outputs: int, trees: int = 300, rate: float = 0.1, leaves: int = 31):
        super().__init__()
        check_count("trees", trees)
        check_count("leaves", leaves)
        check_positive("rate", rate)
        if leaves < 2:
            raise ValueError(f"leaves is {leaves}, expected at least 2")
        self.trees, self.rate, self.leaves, self.size = trees, rate, leaves, outputs
        shape = (outputs * trees, 2 * leaves - 1)  # a tree with m leaves has m - 1 other nodes
        self.features = nn.Buffer(torch.zeros(shape, dtype=torch.int64))
        self.thresholds = nn.Buffer(torch.full(shape, torch.inf, dtype=torch.float64))
        self.left = nn.Buffer(torch.zeros(shape, dtype=torch.int64))
        self.right = nn.Buffer(torch.zeros(shape, dtype=torch.int64))
        self.values = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        self.means = nn.Parameter(torch.zeros(outputs))

    def copy(self, trees: Iterable[Mapping[str, np.ndarray]], *, first: int = 0) -> None:
        """Copy fitted trees into the tables, from row `first`.

        Args:
            trees: for each, the columns `features`, `thresholds`, `left`, `right`, and `values` of its nodes. A node
                leads left if the feature is not above the threshold; a leaf leads to itself.
            first: row of the first tree.
        """
        for row, columns in enumerate(trees, first):
            for name, column in columns.items():
                table = getattr(self, name)
                table[row, : len(column)] = torch.from_numpy(column).to(table.dtype)

    def forward(self, vectors: Tensor) -> Tensor:
        rows = max(1, PAIRS // len(self.values))
        return torch.cat([self._scores(part) for part in vectors.double().split(rows)]).to(self.means.dtype)

    def _scores(self, vectors: Tensor) -> Tensor:
        """Return scores (n, K), float64."""
        root = torch.arange(len(self.values), device=vectors.device) * self.values.shape[1]
        place = root.repeat(len(vectors), 1)  # of each vector in each tree
        for _ in range(self.leaves - 1):  # no tree is deeper
            is_left = vectors.gather(1, self.features.take(place)) <= self.thresholds.take(place)
            before, place = place, root + torch.where(is_left, self.left.take(place), self.right.take(place))
            if not torch.compiler.is_compiling() and bool((place == before).all()):
                break
        return self.values.take(place).view(len(vectors), self.size, self.trees).sum(2) + self.means


def least_rows(count: int) -> int:
    """Return the smallest number of rows of a leaf: the libraries' 20 would allow no split of few rows."""
    return min(20, max(2, count // 20))

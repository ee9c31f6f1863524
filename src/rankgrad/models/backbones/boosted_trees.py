"""Gradient-boosted regression trees on vectors of numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankgrad.checks import check_count, check_positive
from rankgrad.fitted import FittedBackbone, on_one_thread, target_of, weight_of

__all__ = ["BoostedTrees"]

PAIRS = 2**22  # pairs of a row and a tree that are computed at once


class BoostedTrees(FittedBackbone):
    r"""The sum of regression trees, each fitted to the residuals of the sum before it (Friedman, 2001).

    scikit-learn's `HistGradientBoostingRegressor` fits them, separately for each score; the trees are then tables of
    numbers, as safe to load as a network's weights. Targets of score ranking are ranks, mapped to normal quantiles,
    because only their order counts.

    Args:
        features: the length of a vector.
        outputs: K, the number of scores.
        trees: T, the number of trees of a score.
        rate: the factor of each tree.
        leaves: most leaves of a tree.

    Shapes:
        vectors (n, features) to scores (n, K).

    Raises:
        ValueError: a count is too small, or the rate is not above 0.

    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> model = BoostedTrees(features=1, outputs=1, trees=20)
    >>> numbers = torch.arange(10.0)
    >>> model.fit(Split(of_tensor(numbers.unsqueeze(1)), (numbers - 5).abs()))
    >>> low, high = model(torch.tensor([[5.0], [0.0]])).squeeze(1)
    >>> bool(low < high)
    True
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

    def set_weights(self, split: Any) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        features, target, weight = split.inputs.items.double().numpy(), target_of(split), weight_of(split)
        # scikit-learn's smallest leaf, 20 rows, would allow no split of few rows.
        least = min(20, max(2, len(features) // 20))
        with on_one_thread(), torch.no_grad():
            for number, of_output in enumerate(target.T):
                model: Any = HistGradientBoostingRegressor(
                    learning_rate=self.rate, max_iter=self.trees, max_leaf_nodes=self.leaves, min_samples_leaf=least,
                    early_stopping=False, random_state=0,
                )  # fmt: skip
                model.fit(features, of_output, weight)
                self.means[number] = float(model._baseline_prediction.item())
                self._copy((predictor.nodes for (predictor,) in model._predictors), first=number * self.trees)

    def _copy(self, trees: Iterable[np.ndarray], *, first: int) -> None:
        """Copy the nodes of fitted trees into tables, from row `first`; a leaf leads to itself."""
        for row, nodes in enumerate(trees, first):
            count, is_leaf = len(nodes), nodes["is_leaf"].astype(bool)
            own = np.arange(count)
            columns = {
                "features": np.where(is_leaf, 0, nodes["feature_idx"]),
                "thresholds": nodes["num_threshold"],
                "left": np.where(is_leaf, own, nodes["left"]),
                "right": np.where(is_leaf, own, nodes["right"]),
                "values": np.where(is_leaf, nodes["value"], 0.0),
            }
            for name, column in columns.items():
                table = getattr(self, name)
                table[row, :count] = torch.from_numpy(column).to(table.dtype)

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

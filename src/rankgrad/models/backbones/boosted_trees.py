"""Gradient-boosted regression trees on vectors of numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rankgrad.fitted import on_one_thread, target_of, weight_of
from rankgrad.trees import FittedTrees, least_rows

__all__ = ["BoostedTrees"]


class BoostedTrees(FittedTrees):
    r"""The sum of regression trees, each fitted to the residuals of the sum before it (Friedman, 2001).

    scikit-learn's `HistGradientBoostingRegressor` fits them, separately for each score. Targets of score ranking are
    ranks, mapped to normal quantiles, because only their order counts.

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

    >>> import torch
    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> model = BoostedTrees(features=1, outputs=1, trees=20)
    >>> numbers = torch.arange(10.0)
    >>> model.fit(Split(of_tensor(numbers.unsqueeze(1)), (numbers - 5).abs()))
    >>> low, high = model(torch.tensor([[5.0], [0.0]])).squeeze(1)
    >>> bool(low < high)
    True
    """

    def set_weights(self, split: Any) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        features, target, weight = split.inputs.items.double().numpy(), target_of(split), weight_of(split)
        with on_one_thread(), torch.no_grad():
            for number, of_output in enumerate(target.T):
                model: Any = HistGradientBoostingRegressor(
                    learning_rate=self.rate, max_iter=self.trees, max_leaf_nodes=self.leaves,
                    min_samples_leaf=least_rows(len(features)), early_stopping=False, random_state=0,
                )  # fmt: skip
                model.fit(features, of_output, weight)
                self.means[number] = float(model._baseline_prediction.item())
                self.copy((_columns(nodes) for (nodes,) in model._predictors), first=number * self.trees)


def _columns(tree: Any) -> Mapping[str, np.ndarray]:
    """Return the columns of a tree of scikit-learn, see `FittedTrees.copy`."""
    nodes, own = tree.nodes, np.arange(len(tree.nodes))
    is_leaf = nodes["is_leaf"].astype(bool)
    return {
        "features": np.where(is_leaf, 0, nodes["feature_idx"]),
        "thresholds": nodes["num_threshold"],
        "left": np.where(is_leaf, own, nodes["left"]),
        "right": np.where(is_leaf, own, nodes["right"]),
        "values": np.where(is_leaf, nodes["value"], 0.0),
    }

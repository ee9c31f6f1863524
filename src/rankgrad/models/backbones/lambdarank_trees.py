"""Boosted trees on vectors of numbers that LightGBM trains for NDCG."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rankgrad.fitted import target_of, weight_of
from rankgrad.gains import check_relevance, gains_of
from rankgrad.trees import FittedTrees, least_rows

__all__ = ["LambdaRankTrees"]

MOST_DOCUMENTS = 10_000  # of a query, in LightGBM
COLUMNS = ("features", "thresholds", "left", "right", "values")


class LambdaRankTrees(FittedTrees):
    r"""The sum of regression trees, each fitted to the gradient of LambdaRank (LambdaMART; Burges, 2010).

    LightGBM fits them to the documents of each query, with the gain $2^r - 1$ of relevance r; without queries, all
    rows are documents of one. Only fitting needs LightGBM.

    Args:
        features: the length of a vector.
        outputs: K, the number of scores.
        trees: T, the number of trees of a score.
        rate: the factor of each tree.
        leaves: most leaves of a tree.

    Shapes:
        vectors (n, features) to scores (n, K).

    Raises:
        ValueError: a count is too small, or the rate is not above 0; when it is fitted, LightGBM cannot be imported, a
            query has too many documents, or a relevance has no gain.

    >>> import torch
    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> model = LambdaRankTrees(features=1, outputs=1, trees=20)
    >>> numbers = torch.arange(10.0)
    >>> relevance = (numbers > 6).float()
    >>> model.fit(Split(of_tensor(numbers.unsqueeze(1)), relevance, sizes=torch.tensor([10])))
    >>> low, high = model(torch.tensor([[5.0], [9.0]])).squeeze(1)
    >>> bool(low < high)
    True
    """

    tasks = ("query_ranking",)

    def set_weights(self, split: Any) -> None:
        try:
            import lightgbm
        except (ImportError, OSError) as error:  # OSError: without the system's library for threads
            raise ValueError(
                f"lambdarank_trees needs LightGBM: {error}; install the package lightgbm, and libgomp1 on Debian or "
                "Ubuntu, or remove this run"
            ) from error
        features, target, weight = split.inputs.items.double().numpy(), target_of(split), weight_of(split)
        sizes = [len(features)] if split.sizes is None else split.sizes.tolist()
        if max(sizes) > MOST_DOCUMENTS:
            raise ValueError(
                f"lambdarank_trees: a query has {max(sizes):,} documents, but LightGBM takes at most "
                f"{MOST_DOCUMENTS:,}: remove this run, or pass fewer documents"
            )
        options = {
            "objective": "lambdarank", "learning_rate": self.rate, "num_leaves": self.leaves,
            "min_data_in_leaf": least_rows(len(features)), "use_missing": False, "deterministic": True,
            "force_col_wise": True, "num_threads": 1, "seed": 0, "verbosity": -1,
        }  # fmt: skip
        with torch.no_grad():
            for number, relevance in enumerate(target.T):
                grades, grade_numbers = np.unique(relevance, return_inverse=True)
                documents = lightgbm.Dataset(features, grade_numbers, weight=weight, group=sizes)
                gains = {"label_gain": _gains(grades)}
                trees = lightgbm.train(options | gains, documents, self.trees).dump_model()["tree_info"]
                self.copy((_columns(tree["tree_structure"]) for tree in trees), first=number * self.trees)


def _gains(grades: np.ndarray) -> list[float]:
    """Return the gain of each grade, which is a relevance."""
    relevance = torch.from_numpy(grades)
    check_relevance(relevance, "exponential")
    return gains_of(relevance, torch.ones_like(relevance), "exponential").tolist()


def _columns(root: dict[str, Any]) -> Mapping[str, np.ndarray]:
    """Return the columns of a tree of LightGBM, see `FittedTrees.copy`."""
    nodes, rows = [root], []
    for place, node in enumerate(nodes):  # grows by the children of each node
        if "split_feature" in node:
            rows.append((node["split_feature"], node["threshold"], len(nodes), len(nodes) + 1, 0.0))
            nodes += [node["left_child"], node["right_child"]]
        else:
            rows.append((0, np.inf, place, place, node["leaf_value"]))
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(COLUMNS, columns, strict=True)}

"""Models that are fitted to a training split at once, when the network is built, for example by scikit-learn."""

from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.layers import Backbone, Freeze

__all__ = ["FittedBackbone", "linear_weights", "on_one_thread", "sparse_rows", "target_of", "weight_of"]


class FittedBackbone(Backbone):
    """A model whose weights `fit` sets when the network is built, so that the training loop only validates it.

    A subclass has the type of its `input`, such as `features`, and the number of its scores, `size`, and implements
    `set_weights` and `forward`. Its outputs (n, size) are the scores: use it with the head `identity`. What was fitted
    must be in parameters and buffers whose shapes its arguments decide, since a model is saved as these arguments and
    numbers.
    """

    maps, small = False, True
    tasks = ("label_ranking", "multilabel", "query_ranking", "score_ranking")

    def fit(self, split: Any) -> None:
        """Fit the weights to a training split, see `rankgrad.datasets.files.splits.Split`; no training changes them.

        Raises:
            ValueError: the model has no parameter, or fitting changed the shape of one or of a buffer.
        """
        before = self._shapes()
        self.set_weights(split)
        if not [*self.parameters()]:
            raise ValueError(f"{type(self).__name__} has no nn.Parameter, expected at least one among what is fitted")
        after = self._shapes()
        if changed := [name for name in before | after if before.get(name) != after.get(name)]:
            old, new = (shapes.get(changed[0], "none") for shapes in (before, after))
            raise ValueError(
                f"{type(self).__name__}: fitting changed the shape of {changed[0]} from {old} to {new}; __init__ must "
                "give it one that follows from its arguments, for example with the largest number of rows, "
                "because a saved model is built from these before its numbers are read"
            )
        self.requires_grad_(False)

    def _shapes(self) -> dict[str, list[int]]:
        return {name: [*tensor.shape] for name, tensor in chain(self.named_parameters(), self.named_buffers())}

    def set_weights(self, split: Any) -> None:
        """Set the weights, given a training split: `split.inputs.items`, `target_of(split)`, and `weight_of(split)`."""
        raise NotImplementedError

    def freeze(self, which: Freeze) -> None:
        self.requires_grad_(False)


def on_one_thread() -> AbstractContextManager[Any]:
    """Limit scikit-learn's threads: settings are fitted in parallel processes, which would compete for cores."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def target_of(split: Any) -> np.ndarray:
    """Return what a model is fitted to, (n, outputs): labels, label ranks, relevance of documents, or ranks of targets.

    Ranks of targets are mapped to normal quantiles, within groups if only rows of a group are compared.

    Args:
        split: see `rankgrad.datasets.files.splits.Split`.
    """
    if split.sizes is not None:
        return split.truth.double().unsqueeze(1).numpy()
    if hasattr(split.truth, "labels"):
        return split.truth.labels.double().numpy()
    if split.truth.dim() == 2:  # label ranks
        return split.truth.double().numpy()
    import pandas as pd
    from scipy.special import ndtri

    targets = pd.Series(split.truth.double().numpy())
    groups = split.about["group"].to_pandas().to_numpy() if split.within else np.zeros(len(targets))
    grouped = targets.groupby(groups)
    return ndtri((grouped.rank() - 0.5) / grouped.transform("size")).to_numpy()[:, None]


def weight_of(split: Any) -> np.ndarray | None:
    """Return the weight of each row, or of each document of a row, with mean 1; None for equal weights."""
    if split.weight is None:
        return None
    weight = split.weight if split.sizes is None else split.weight.repeat_interleave(split.sizes)
    return (weight.double() / weight.double().mean()).numpy()  # otherwise their scale would change the penalty


def sparse_rows(places: Tensor, values: Tensor, size: int) -> Any:
    """Return a sparse matrix (n, size) of values (n, k) other than 0 at their places (n, k) in each row."""
    from scipy.sparse import csr_matrix

    rows = torch.arange(len(places)).unsqueeze(1).expand_as(places)
    counts = values != 0
    cells = (values[counts].double().numpy(), (rows[counts].numpy(), places[counts].numpy()))
    return csr_matrix(cells, shape=(len(places), size))


def linear_weights(values: Any, split: Any, penalty: float) -> tuple[Tensor, Tensor]:
    """Return the weights (outputs, k) and biases (outputs,) of a linear model of values (n, k), a SciPy matrix or not.

    If every row has two documents, as for preferences, it is the Bradley-Terry model: logistic regression on the
    differences between the documents of a row. Otherwise it is ridge regression on `target_of`.

    Args:
        values: of rows, or of documents.
        split: see `rankgrad.datasets.files.splits.Split`.
        penalty: the factor of the squared weights in the mean loss.

    Raises:
        ValueError: no two documents of a row differ in relevance.
    """
    from sklearn.linear_model import Ridge

    target, weight = target_of(split), weight_of(split)
    with on_one_thread():
        if split.sizes is not None and bool((split.sizes == 2).all()):
            weights = _preference_weights(values, target[:, 0], weight, penalty)
            return torch.from_numpy(weights), torch.zeros(1, dtype=torch.float64)
        model = Ridge(penalty * len(target)).fit(values, target, weight)
    return torch.from_numpy(np.atleast_2d(model.coef_)), torch.from_numpy(np.atleast_1d(model.intercept_))


def _preference_weights(values: Any, target: np.ndarray, weight: np.ndarray | None, penalty: float) -> np.ndarray:
    """Return the weights (1, k) of a Bradley-Terry model of rows 2i and 2i + 1."""
    from scipy.sparse import issparse, vstack
    from sklearn.linear_model import LogisticRegression

    differences, sign = values[::2] - values[1::2], np.sign(target[::2] - target[1::2])
    decided = sign != 0
    if not decided.any():
        raise ValueError(f"all {len(sign)} training pairs are ties, so there is nothing to learn: expected other pairs")
    stack = vstack if issparse(values) else np.vstack
    both_ways = stack([differences[decided], -differences[decided]])
    model = LogisticRegression(C=1 / (penalty * 2 * decided.sum()), fit_intercept=False, max_iter=1000)
    pair_weight = None if weight is None else np.tile(weight[::2][decided], 2)
    model.fit(both_ways, np.concatenate([sign[decided], -sign[decided]]), pair_weight)
    return model.coef_

"""Fully connected layers on vectors of numbers, standardized with the training data's statistics."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.layers import Backbone

__all__ = ["Perceptron"]

LIMIT = 6.0  # standard deviations at which features are clipped
QUANTILE_RANGE = math.sqrt(12)  # from the lowest quantile to the highest, so that their deviation is 1
QUANTILES = 101  # of each feature, from its smallest to its largest training value


class Perceptron(Backbone):
    """Fully connected layers, each with ReLU, on standardized features.

    Means and standard deviations are those of the training vectors; values more than 6 deviations away are clipped.
    Vectors in float64 are standardized in float64, since float32 would make most time stamps equal.

    Args:
        features: the length of a vector.
        hidden: width of each layer; empty for the standardized features themselves.
        within_group: use each feature twice, the second time standardized within the vectors of its query.
        quantiles: use each feature once more, as its quantile among the training vectors (scaled to a deviation of 1).
            Skew and outliers do not change it.

    Shapes:
        vectors (n, features), and with `within_group` the number of vectors of each query, to (n, size).

    Raises:
        ValueError: a width is not a whole number of at least 1.

    >>> Perceptron(features=10, hidden=[8])(torch.zeros(5, 10)).shape
    torch.Size([5, 8])
    >>> Perceptron(features=10, hidden=[], within_group=True)(torch.zeros(5, 10), torch.tensor([2, 3])).shape
    torch.Size([5, 20])
    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> skewed = Perceptron(features=1, hidden=[], quantiles=True)
    >>> skewed.fit(Split(of_tensor(torch.tensor([[0.0], [1.0], [1000.0]]))))
    >>> skewed(torch.tensor([[1.0]]))[0, 1].abs().item()  # the median
    0.0
    """

    input, maps = "features", False

    def __init__(
        self,
        *,
        features: int,
        hidden: Sequence[int] = (10, 10, 10),
        within_group: bool = False,
        quantiles: bool = False,
    ):
        super().__init__()
        for width in hidden:
            check_count("hidden", width)
        widths = [features * (1 + within_group + quantiles), *hidden]
        self.layers = nn.Sequential()
        for before, after in pairwise(widths):
            self.layers += nn.Sequential(nn.Linear(before, after), nn.ReLU())
        self.means = nn.Buffer(torch.zeros(features, dtype=torch.float64))
        self.deviations = nn.Buffer(torch.ones(features, dtype=torch.float64))
        self.like = nn.Buffer(torch.zeros(1), persistent=False)  # has the weights' type
        if quantiles:
            self.knots = nn.Buffer(torch.linspace(0, 1, QUANTILES, dtype=torch.float64).repeat(features, 1))
        self.size, self.within_group, self.quantiles = widths[-1], within_group, quantiles

    def fit(self, split: Any) -> None:
        """Set means, deviations, and quantiles from the vectors of a training split; a constant feature becomes 0."""
        vectors = split.inputs.items
        means, deviations = _moments(vectors.double())
        # Keep the vectors' own type, in which later vectors are standardized.
        self.means.copy_(means.to(vectors.dtype))
        self.deviations.copy_(deviations.to(vectors.dtype))
        if self.quantiles:
            places = torch.linspace(0, len(vectors) - 1, QUANTILES).round().long()
            self.knots.copy_(vectors.sort(dim=0).values[places].mT)

    def forward(self, vectors: Tensor, sizes: Tensor | None = None) -> Tensor:
        """Return outputs (n, size) for vectors (n, features).

        Args:
            vectors: the vectors, query by query.
            sizes: the number of vectors of each query; None if all belong to one query.
        """
        overall = _standardized(vectors, self.means.to(vectors.dtype), self.deviations.to(vectors.dtype))
        parts = [overall]
        if self.within_group:
            queries = [len(vectors)] if sizes is None else sizes.tolist()
            parts.insert(
                0, torch.cat([_standardized(query, *_moments(query.double())) for query in vectors.split(queries)])
            )
        if self.quantiles:
            parts.append(_quantiles(vectors, self.knots.to(vectors.dtype)))
        return self.layers(torch.cat(parts, dim=1).to(self.like.dtype))


def _moments(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and standard deviations (features,) of vectors; for a constant, they are the constant and 1.

    Without this, rounding of sums would give a constant a small deviation, and scale it up to 1.
    """
    deviations, means = torch.std_mean(vectors, dim=0, correction=0)
    constant = (vectors == vectors[0]).all(0) | (deviations == 0)
    return torch.where(constant, vectors[0], means), torch.where(constant, 1.0, deviations)


def _standardized(vectors: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    return ((vectors - means) / deviations).clamp(-LIMIT, LIMIT)


def _quantiles(vectors: Tensor, knots: Tensor) -> Tensor:
    """Return the quantile of each value among sorted training values (features, k), interpolated and standardized.

    A value that several knots share is in their middle.
    """
    values, last = vectors.mT.contiguous(), knots.shape[1] - 1
    first, behind = torch.searchsorted(knots, values), torch.searchsorted(knots, values, right=True)
    above = first.clamp(1, last)
    low, high = knots.gather(1, above - 1), knots.gather(1, above)
    share = ((values - low) / (high - low).clamp(min=torch.finfo(values.dtype).tiny)).clamp(0, 1)
    place = torch.where(behind > first, (first + behind - 1) / 2, above - 1 + share)
    return (QUANTILE_RANGE * (place / last - 0.5)).mT

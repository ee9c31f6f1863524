"""Scores that are linear in pooled features."""

import torch
from torch import Tensor, nn

from rankops.checks import check_count
from rankops.models._layers import Head, ScoreHead, ScoreLayer

__all__ = ["Linear", "pooled", "pooled_size"]


def pooled(features: Tensor, *, grid: int, maximum: bool) -> Tensor:
    """Return vectors (n, size) of feature maps (n, channels, height, width); vectors stay as they are."""
    if features.dim() == 2:
        return features
    parts = [features.mean((2, 3)) if grid == 1 else nn.functional.adaptive_avg_pool2d(features, grid).flatten(1)]
    return torch.cat([*parts, features.amax((2, 3))], dim=1) if maximum else parts[0]


def pooled_size(features: int, *, maps: bool, grid: int, maximum: bool) -> int:
    """Return the size of what `pooled` gives.

    Raises:
        ValueError: a grid or a maximum of vectors, which have no places.
    """
    check_count("grid", grid)
    if not maps and (grid > 1 or maximum):
        raise ValueError(f"grid is {grid} and maximum {maximum}, expected 1 and false: the backbone gives vectors")
    return features * (grid * grid + maximum)


class Linear(Head):
    """Scores that are linear in features, which are averaged over the image.

    Args:
        features: channels of the backbone.
        maps: whether it gives maps or vectors.
        outputs: K, number of scores.
        grid: places on a side over which maps are averaged: 1 for the whole image, more where places matter.
        maximum: whether the largest value of each map is a feature too.
        standardize: whether features are standardized over a batch, see `rankops.models._layers.ScoreHead`.

    Raises:
        ValueError: a grid or a maximum of vectors.

    >>> Linear(features=16, maps=True, outputs=3, maximum=True).embedding_size
    32
    """

    def __init__(
        self, *, features: int, maps: bool, outputs: int, grid: int = 1, maximum: bool = False, standardize: bool = True
    ):
        super().__init__()
        self.grid, self.maximum = grid, maximum
        self.embedding_size = pooled_size(features, maps=maps, grid=grid, maximum=maximum)
        self.score = (ScoreHead if standardize else ScoreLayer)(self.embedding_size, outputs)

    def pool(self, features: Tensor) -> Tensor:
        return pooled(features, grid=self.grid, maximum=self.maximum)

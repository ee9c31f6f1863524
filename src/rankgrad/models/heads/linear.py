"""Scores that are linear in pooled features."""

from rankgrad.layers import PooledHead, ScoreHead, ScoreLayer

__all__ = ["Linear"]


class Linear(PooledHead):
    """Scores that are linear in features, which are averaged over the image.

    Args:
        features: channels of the backbone.
        maps: whether it gives maps or vectors.
        outputs: K, number of scores.
        grid: places on a side over which maps are averaged: 1 for the whole image, more where places matter.
        maximum: whether the largest value of each map is a feature too.
        standardize: whether features are standardized over a batch, see `rankgrad.layers.ScoreHead`.

    Raises:
        ValueError: a grid or a maximum of vectors.

    >>> Linear(features=16, maps=True, outputs=3, maximum=True).embedding_size
    32
    """

    def __init__(
        self, *, features: int, maps: bool, outputs: int, grid: int = 1, maximum: bool = False, standardize: bool = True
    ):
        super().__init__(features, maps=maps, grid=grid, maximum=maximum)
        self.score = (ScoreHead if standardize else ScoreLayer)(self.embedding_size, outputs)

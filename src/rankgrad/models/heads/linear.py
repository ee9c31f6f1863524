"""Scores that are linear in pooled features."""

from rankgrad.layers import PooledHead, ScoreHead, ScoreLayer

__all__ = ["Linear"]


class Linear(PooledHead):
    """Scores that are linear in features, which are averaged over the image.

    Args:
        features: channels of the backbone.
        maps: whether the backbone's output is maps or vectors.
        outputs: K, the number of scores.
        grid: maps are averaged over a grid with this many cells per side: 1 for the whole image, more if positions
            matter.
        maximum: whether the maximum of each map is a feature, too.
        standardize: whether features are standardized over a batch, see `rankgrad.layers.ScoreHead`.

    Raises:
        ValueError: `grid` or `maximum` is set, but the backbone's output is vectors.

    >>> Linear(features=16, maps=True, outputs=3, maximum=True).embedding_size
    32
    """

    def __init__(
        self, *, features: int, maps: bool, outputs: int, grid: int = 1, maximum: bool = False, standardize: bool = True
    ):
        super().__init__(features, maps=maps, grid=grid, maximum=maximum)
        self.score = (ScoreHead if standardize else ScoreLayer)(self.embedding_size, outputs)

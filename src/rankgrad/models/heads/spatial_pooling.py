"""DSVE's selective spatial pooling: maps, each pooled over its highest and lowest positions."""

from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.layers import Head, ScoreLayer, check_maps, extremes

__all__ = ["SpatialPooling"]


class SpatialPooling(Head):
    r"""Selective spatial pooling, then scores that are linear in the pooled values (DSVE-Loc; SoDeep, Section 4.2.3).

    After Engilberge et al. (2018): a 1 x 1 convolution computes `size` maps, and each is pooled to the mean of its
    `highest` largest values plus $\alpha$ times the mean of its `highest` smallest values. A map is large where the
    image shows what it represents.

    Args:
        features: channels of the backbone.
        maps: whether the backbone's output is maps.
        outputs: K, the number of scores; in retrieval, the size of the common space.
        size: the number of maps; 2400 in DSVE, the same as its common space.
        highest: the number of positions; all of them if there are fewer.
        lowest_weight: $\alpha$.

    Raises:
        ValueError: the backbone's output is vectors, or `size` or `highest` is below 1.

    >>> SpatialPooling(features=16, maps=True, outputs=10, size=24).embedding_size
    24
    """

    def __init__(
        self,
        *,
        features: int,
        maps: bool,
        outputs: int,
        size: int = 2400,
        highest: int = 15,
        lowest_weight: float = 1.0,
    ):
        super().__init__()
        check_count("size", size)
        check_count("highest", highest)
        check_maps("spatial_pooling", maps)
        self.embedding_size, self.highest, self.lowest_weight = size, highest, lowest_weight
        self.selected = nn.Conv2d(features, size, 1)
        self.score = ScoreLayer(size, outputs)

    def embed(self, pooled: Tensor) -> Tensor:
        """Return the pooled value of each map (n, size)."""
        return extremes(self.selected(pooled), highest=self.highest, lowest_weight=self.lowest_weight)

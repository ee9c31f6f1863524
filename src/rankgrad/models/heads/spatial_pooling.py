"""DSVE's selective spatial pooling: maps of what is looked for, each pooled over its highest and lowest places."""

from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.layers import Head, ScoreLayer, check_maps, extremes

__all__ = ["SpatialPooling"]


class SpatialPooling(Head):
    r"""Selective spatial pooling, then scores that are linear in what was pooled (DSVE-Loc; SoDeep, Section 4.2.3).

    After Engilberge et al. (2018): a 1 x 1 convolution gives `size` maps; of each counts the mean of its `highest`
    largest places plus $\alpha$ times the mean of its `highest` smallest ones. Where a map is large is where the image
    shows what it stands for.

    Args:
        features: channels of the backbone.
        maps: whether it gives maps.
        outputs: K, number of scores; in retrieval the size of the common space.
        size: number of maps; DSVE's is 2400, as that of its common space.
        highest: how many places; all of them if there are fewer.
        lowest_weight: $\alpha$.

    Raises:
        ValueError: the backbone gives vectors; `size` or `highest` below 1.

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
        """Return what each map was pooled to, (n, size)."""
        return extremes(self.selected(pooled), highest=self.highest, lowest_weight=self.lowest_weight)

"""WILDCAT's spatial pooling: each label is scored at its highest and lowest positions."""

from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.layers import Head, check_maps, extremes

__all__ = ["Wildcat"]


class Wildcat(Head):
    r"""WILDCAT: score maps for each label, pooled over their highest and lowest positions (SoDeep, Section 4.2.2).

    After Durand et al. (2017): a 1 x 1 convolution computes M maps per label, which are averaged; the score is the mean
    of the `highest` largest values plus $\alpha$ times the mean of the `highest` smallest values.

    Args:
        features: channels of the backbone.
        maps: whether the backbone's output is maps.
        outputs: K, the number of labels.
        maps_per_label: M.
        highest: the number of positions; all of them if there are fewer.
        lowest_weight: $\alpha$.

    Raises:
        ValueError: the backbone's output is vectors, or `maps_per_label` or `highest` is below 1.

    >>> Wildcat(features=16, maps=True, outputs=10).embedding_size
    16
    """

    def __init__(
        self,
        *,
        features: int,
        maps: bool,
        outputs: int,
        maps_per_label: int = 4,
        highest: int = 4,
        lowest_weight: float = 0.7,
    ):
        super().__init__()
        check_count("maps_per_label", maps_per_label)
        check_count("highest", highest)
        check_maps("wildcat", maps)
        self.embedding_size = features
        self.outputs, self.highest, self.lowest_weight = outputs, highest, lowest_weight
        self.score_maps = nn.Conv2d(features, outputs * maps_per_label, 1)

    def score(self, embedding: Tensor) -> Tensor:
        maps = self.score_maps(embedding)
        maps = maps.to(self.score_maps.weight.dtype)  # half-precision maps are averaged in float32
        maps = maps.unflatten(1, (self.outputs, -1)).mean(2)  # (n, K, height, width)
        return extremes(maps, highest=self.highest, lowest_weight=self.lowest_weight)

"""A multi-label network with WILDCAT's spatial pooling: each label is scored where it is seen best, and worst."""

from collections.abc import Sequence

from torch import Tensor, nn

from rankops.checks import check_count
from rankops.models.backbone import BackboneName, blocks_of
from rankops.models.layers import Backbone

__all__ = ["Wildcat"]


class Wildcat(Backbone):
    r"""WILDCAT: score maps for each label, pooled over their highest and lowest places (SoDeep, Section 4.2.2).

    After Durand et al. (2017): a 1 x 1 convolution gives M maps a label, which are averaged; the score is the mean of
    the `highest` largest places plus $\alpha$ times the mean of the `highest` smallest ones.

    Args:
        outputs: K, number of labels.
        colors: of the images, 1 (gray) or 3.
        backbone: `convnet`, `mobilenet_v3_small` or `resnet34`, from which the feature maps come.
        channels: of the convnet, by default its own.
        maps_per_label: M.
        highest: how many places; all of them if there are fewer.
        lowest_weight: $\alpha$.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to scores (n, K).

    Raises:
        ValueError: an unknown `backbone`; `channels` of another one than the convnet; `maps_per_label` or `highest`
            below 1.

    >>> import torch
    >>> Wildcat(outputs=10, channels=[8, 16])(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        *,
        outputs: int,
        colors: int = 1,
        backbone: BackboneName = "convnet",
        channels: Sequence[int] | None = None,
        maps_per_label: int = 4,
        highest: int = 4,
        lowest_weight: float = 0.7,
    ):
        super().__init__()
        check_count("maps_per_label", maps_per_label)
        check_count("highest", highest)
        self.blocks = blocks_of(backbone, colors=colors, channels=channels)
        self.head = _Pooling(self.blocks.size, outputs, maps_per_label, highest, lowest_weight)

    def embed(self, images: Tensor) -> Tensor:
        """Return the last feature maps, (n, channels, height', width')."""
        return self.blocks(images)


class _Pooling(nn.Module):
    """Scores (n, K) of feature maps."""

    def __init__(self, features: int, outputs: int, maps_per_label: int, highest: int, lowest_weight: float):
        super().__init__()
        self.outputs, self.highest, self.lowest_weight = outputs, highest, lowest_weight
        self.score_maps = nn.Conv2d(features, outputs * maps_per_label, 1)

    def forward(self, features: Tensor) -> Tensor:
        maps = self.score_maps(features)
        maps = maps.to(self.score_maps.weight.dtype)  # half-precision maps are averaged in float32
        maps = maps.unflatten(1, (self.outputs, -1)).mean(2).flatten(2)  # (n, K, places)
        ordered = maps.sort(dim=-1, descending=True).values
        count = min(self.highest, ordered.shape[-1])
        return ordered[..., :count].mean(-1) + self.lowest_weight * ordered[..., -count:].mean(-1)

"""A scoring network that looks at the image anew for each label, by attention over the feature maps."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankops.models.backbone import BackboneName, blocks_of
from rankops.models.layers import Backbone

__all__ = ["LabelAttention"]


class LabelAttention(Backbone):
    r"""Attention over feature maps: each label looks at places of its own, and scores what it sees there.

    With features $x_p$ at the places p of the maps, label k's score is

    $$f_k = b_k + v_k \cdot \sum_p \operatorname{softmax}_p(u_k \cdot x_p) \, x_p.$$

    A mean over the whole image mixes a label's size with what else is there; here each label can be seen by itself.

    Args:
        outputs: K, number of labels.
        colors: of the images, 1 (gray) or 3.
        backbone: `convnet`, `mobilenet_v3_small` or `resnet34`, from which the feature maps come.
        channels: of the convnet, by default its own.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to scores (n, K); the embedding has K times the
        features of the maps.

    Raises:
        ValueError: an unknown `backbone`; `channels` that are empty, or of another one than the convnet.

    >>> model = LabelAttention(outputs=10, channels=[8, 16])
    >>> model(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        *,
        outputs: int,
        colors: int = 1,
        backbone: BackboneName = "convnet",
        channels: Sequence[int] | None = None,
    ):
        super().__init__()
        self.blocks = blocks_of(backbone, colors=colors, channels=channels)
        self.embedding_size = outputs * self.blocks.size
        self.attention = nn.Conv2d(self.blocks.size, outputs, 1, bias=False)  # a bias would cancel in the softmax
        self.head = _LabelScores(outputs, self.blocks.size)

    def embed(self, images: Tensor) -> Tensor:
        """Return what each label sees, (n, K * features)."""
        maps = self.blocks(images)
        weights = self.attention(maps).flatten(2).softmax(-1)  # (n, K, places)
        return torch.einsum("nkp,nfp->nkf", weights.to(maps.dtype), maps.flatten(2)).flatten(1)


class _LabelScores(nn.Module):
    """Scores (n, K) of embeddings (n, K * features), each of its own features."""

    def __init__(self, outputs: int, features: int):
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(outputs, features)) / math.sqrt(features))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, embedding: Tensor) -> Tensor:
        return (embedding.view(len(embedding), *self.weight.shape) * self.weight).sum(-1) + self.bias

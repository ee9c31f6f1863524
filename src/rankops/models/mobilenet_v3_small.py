"""torchvision's MobileNetV3-Small, the scoring network of RLSEP."""

import torch
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_small

from rankops.models.layers import Backbone, Blocks, ScoreLayer, weight_dtype

__all__ = ["MobileNetV3Small"]


class MobileNetV3Small(Backbone):
    """torchvision's MobileNetV3-Small with random weights, for gray or colored images (RLSEP, Section 5.2).

    Args:
        outputs: K, number of labels.
        batch_norm_momentum: torchvision's is 0.01, which gives stale statistics in short trainings.

    Shapes:
        images (n, 1 or 3, height, width) uint8 or float in 0..255 to scores (n, K); the embedding has 576 features.

    >>> MobileNetV3Small(outputs=10).eval()(torch.zeros(2, 1, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, *, outputs: int, batch_norm_momentum: float = 0.01):
        super().__init__()
        network = mobilenet_v3_small(weights=None, num_classes=outputs)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = batch_norm_momentum
        self.blocks = _MobileNetBlocks(*network.features)
        *hidden, last = network.classifier
        self.head = nn.Sequential(*hidden, ScoreLayer.of(last))
        self.embedding_size = self.blocks.size

    def embed(self, images: Tensor) -> Tensor:
        return self.blocks(images).mean((2, 3))


class _MobileNetBlocks(Blocks):
    size = 576

    def forward(self, input: Tensor) -> Tensor:
        images = input.to(weight_dtype(self)) / 255
        # torchvision's first convolution takes three channels; a gray image is the same in all.
        return super().forward(images.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last))

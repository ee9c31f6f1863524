"""torchvision's ResNet-34, the regressor of SoDeep's memorability."""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torchvision.models import resnet34

from rankops.models.layers import Backbone, Blocks, ScoreHead, weight_dtype

__all__ = ["ResNet34"]

# Mean and deviation of the photographs that published weights were trained on.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PARTS = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")  # torchvision's names


class ResNet34(Backbone):
    """torchvision's ResNet-34 with random weights (SoDeep, Section 4.2.1); `start` in a run gives it trained ones.

    Args:
        outputs: K, number of scores.

    Shapes:
        images (n, 1 or 3, height, width) uint8 or float in 0..255 to scores (n, K); the embedding has 512 features.

    >>> ResNet34(outputs=1).eval()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 1])
    """

    def __init__(self, *, outputs: int):
        super().__init__()
        network = resnet34(weights=None)
        self.blocks = _ResNetBlocks(OrderedDict((name, getattr(network, name)) for name in PARTS))
        self.embedding_size = self.blocks.size
        self.head = ScoreHead(self.embedding_size, outputs)

    def embed(self, images: Tensor) -> Tensor:
        return self.blocks(images).mean((2, 3))


class _ResNetBlocks(Blocks):
    size = 512

    def __init__(self, parts: OrderedDict[str, nn.Module]):
        super().__init__(parts)
        self.mean = nn.Buffer(torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.deviation = nn.Buffer(torch.tensor(DEVIATION).view(1, 3, 1, 1), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        images = input.to(weight_dtype(self)).expand(-1, 3, -1, -1) / 255
        images = (images - self.mean) / self.deviation
        return super().forward(images.contiguous(memory_format=torch.channels_last))

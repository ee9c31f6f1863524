"""A small plain convnet, for a few thousand small images on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankops.models.layers import Backbone, Blocks, ScoreHead, weight_dtype

__all__ = ["CHANNELS", "Convnet"]

CHANNELS = (16, 32, 64, 96)


class Convnet(Backbone):
    """A small plain convnet: pairs of [Conv, BatchNorm, ReLU], mean and maximum over the image, a linear head.

    Images are halved between pairs. The first convolution is 5 x 5 with stride 2, all others are 3 x 3: at full
    resolution, normalizing and rectifying would cost a CPU more than all the rest.

    Args:
        outputs: K, number of scores.
        colors: of the images, 1 (gray) or 3.
        channels: of each pair of blocks; the image is halved by the first block and after each pair but the last.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to scores (n, K).

    Raises:
        ValueError: no `channels`.

    >>> model = Convnet(outputs=10, channels=[8, 16])
    >>> model(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, *, outputs: int, colors: int = 1, channels: Sequence[int] = CHANNELS):
        super().__init__()
        if not channels:
            raise ValueError(f"channels is {channels!r}, expected a width for each pair of blocks")
        self.blocks = _ConvBlocks(colors, channels)
        self.embedding_size = 2 * self.blocks.size
        self.head = ScoreHead(self.embedding_size, outputs)

    def embed(self, images: Tensor) -> Tensor:
        features = self.blocks(images)
        return torch.cat([features.mean((2, 3)), features.amax((2, 3))], dim=1)


class _ConvBlocks(Blocks):
    def __init__(self, colors: int, channels: Sequence[int]):
        blocks: list[nn.Module] = []
        width = colors
        for stage, wider in enumerate(channels):
            if stage:
                blocks.append(nn.MaxPool2d(2))
            for _ in range(2):
                kernel, stride = (3, 1) if blocks else (5, 2)
                blocks += [
                    nn.Conv2d(width, wider, kernel, stride=stride, padding=kernel // 2, bias=False),
                    nn.BatchNorm2d(wider),
                    nn.ReLU(True),
                ]
                width = wider
        super().__init__(*blocks)
        self.size = width

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.to(weight_dtype(self), memory_format=torch.channels_last) / 255)

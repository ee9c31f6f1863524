"""A small plain convnet, for a few thousand small images on a CPU."""

import torch
from torch import Tensor, nn

from rankops.models.layers import ScoreLayer

__all__ = ["Convnet"]


class Convnet(nn.Module):
    """Pairs of [Conv, BatchNorm, ReLU], halved in between; mean and maximum over the image; a linear head.

    The first convolution is 5 x 5 with stride 2, all others are 3 x 3: at full resolution normalizing and rectifying
    would cost a CPU more than all the rest.

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

    def __init__(self, *, outputs: int, colors: int = 1, channels: list[int] = (16, 32, 64, 96)):
        super().__init__()
        if not channels:
            raise ValueError("channels is empty, expected a width for each pair of blocks")
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
        self.blocks = nn.Sequential(*blocks)
        self.map_size = width
        self.embedding_size = 2 * width
        self.head = ScoreLayer(self.embedding_size, outputs)

    def maps(self, images: Tensor) -> Tensor:
        """The last feature maps, (n, map_size, height', width')."""
        # Where the dtype is known, autocast and half-precision weights keep working.
        images = images.to(self.blocks[0].weight.dtype, memory_format=torch.channels_last) / 255
        return self.blocks(images)

    def embed(self, images: Tensor) -> Tensor:
        """The last features before the head, (n, embedding_size)."""
        features = self.maps(images)
        return torch.cat([features.mean((2, 3)), features.amax((2, 3))], dim=1)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.embed(images))

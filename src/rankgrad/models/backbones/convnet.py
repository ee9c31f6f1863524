"""A small plain convnet, for a few thousand small images on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.layers import Backbone, weight_dtype

__all__ = ["Convnet"]


class Convnet(Backbone, nn.Sequential):
    """A small plain convnet: pairs of [Conv, BatchNorm, ReLU].

    Images are halved between pairs. The first convolution is 5 x 5 with stride 2, all others are 3 x 3: at full
    resolution, normalizing and rectifying would cost a CPU more than all the rest.

    Args:
        colors: channels of the images, 1 (gray) or 3.
        channels: width of each pair of blocks; the first block halves the image, and so does each pair except the last.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to maps (n, channels, height', width').

    Raises:
        ValueError: `channels` is empty.

    >>> Convnet(channels=[8, 16])(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 16, 8, 8])
    """

    input, maps = "image", True

    def __init__(self, *, colors: int = 1, channels: Sequence[int] = (16, 32, 64, 96)):
        if not channels:
            raise ValueError(f"channels is {channels!r}, expected a width for each pair of blocks")
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

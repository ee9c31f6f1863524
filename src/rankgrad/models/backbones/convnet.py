"""A small plain convnet, for a few thousand small images on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.layers import Backbone, weight_dtype
from rankgrad.models.backbones._gradients import DIRECTIONS, oriented_gradients

__all__ = ["Convnet"]


class Convnet(Backbone, nn.Sequential):
    """A small plain convnet: pairs of [Conv, BatchNorm, ReLU].

    Images are halved between pairs. The first convolution is 5 x 5 with stride 2, all others are 3 x 3: at full
    resolution, normalizing and rectifying would cost a CPU more than all the rest.

    Args:
        colors: channels of the images, 1 (gray) or 3.
        channels: width of each pair of blocks; the first block halves the image, and so does each pair except the last.
        gradients: pixels per side of the cells of oriented gradients that the first block sees, with their mean colors,
            in place of the image (see `rankgrad.models.backbones._gradients`); it then halves nothing. The gradients
            hardly change with brightness and contrast, which differ from photo to photo, so fewer photos are enough.
            None for the image itself.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to maps (n, channels, height', width').

    Raises:
        ValueError: `channels` is empty, or `gradients` is below 1.

    >>> Convnet(channels=[8, 16])(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 16, 8, 8])
    """

    input, maps = "image", True

    def __init__(self, *, colors: int = 1, channels: Sequence[int] = (16, 32, 64, 96), gradients: int | None = None):
        if not channels:
            raise ValueError(f"channels is {channels!r}, expected a width for each pair of blocks")
        blocks: list[nn.Module] = []
        width = colors
        if gradients is not None:
            check_count("gradients", gradients)
            width += DIRECTIONS
        for stage, wider in enumerate(channels):
            if stage:
                blocks.append(nn.MaxPool2d(2))
            for _ in range(2):
                kernel, stride = (5, 2) if gradients is None and not blocks else (3, 1)
                blocks += [
                    nn.Conv2d(width, wider, kernel, stride=stride, padding=kernel // 2, bias=False),
                    nn.BatchNorm2d(wider),
                    nn.ReLU(True),
                ]
                width = wider
        super().__init__(*blocks)
        self.size, self.gradients = width, gradients

    def forward(self, input: Tensor) -> Tensor:
        images = input if self.gradients is None else oriented_gradients(input, self.gradients)
        images = images.to(weight_dtype(self), memory_format=torch.channels_last)
        return super().forward(images / 255 if self.gradients is None else images)

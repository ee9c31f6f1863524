"""Image networks in two parts, convolutions and head, so that either can be trained, frozen or lent by itself."""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from rankops.checks import check_choice

__all__ = ["Backbone", "BackboneName", "Blocks", "blocks_of"]

BackboneName = Literal["convnet", "mobilenet_v3_small", "resnet34"]


class Blocks(nn.Sequential):
    """The convolutional part: takes images (n, colors, height, width), uint8 or float in 0..255, to feature maps.

    Attributes:
        size: channels of the maps.
    """

    size: int


class Backbone(nn.Module):
    """A network of `blocks` and a `head`; a subclass sets both, and implements `embed`.

    Attributes:
        blocks: the convolutional part.
        head: takes what `embed` returns to the output.
        embedding_size: of a vector that `embed` returns, if it returns vectors.
    """

    blocks: Blocks
    head: nn.Module
    embedding_size: int

    def embed(self, images: Tensor) -> Tensor:
        """Return the last features before the head, (n, ...)."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.embed(images))


def blocks_of(name: BackboneName, *, colors: int, channels: Sequence[int] | None) -> Blocks:
    """Return the convolutional part of a network.

    Args:
        name: `convnet`, `mobilenet_v3_small` or `resnet34`.
        colors: of the images, 1 (gray) or 3; only the convnet is built for one of them.
        channels: of the convnet; None for its own.

    Raises:
        ValueError: another name, or channels of another network than the convnet.

    >>> blocks_of("resnet34", colors=1, channels=None).size
    512
    """
    check_choice("backbone", name, BackboneName)
    if name == "convnet":
        from rankops.models.convnet import CHANNELS, Convnet

        return Convnet(outputs=1, colors=colors, channels=CHANNELS if channels is None else channels).blocks
    if channels is not None:
        raise ValueError(f"channels is {channels}, expected none for {name}: only the convnet has channels")
    from rankops.models.mobilenet_v3_small import MobileNetV3Small
    from rankops.models.resnet34 import ResNet34

    return {"mobilenet_v3_small": MobileNetV3Small, "resnet34": ResNet34}[name](outputs=1).blocks

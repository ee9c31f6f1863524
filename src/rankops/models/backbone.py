"""Image networks in two parts, convolutions and head, and those that lend others their convolutions."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from rankops.checks import check_choice
from rankops.models.convnet import CHANNELS, Convnet
from rankops.models.mobilenet_v3_small import MobileNetV3Small
from rankops.models.resnet34 import ResNet34

__all__ = ["CHANNELS", "Backbone", "BackboneName", "backbone_of"]

BackboneName = Literal["convnet", "mobilenet_v3_small", "resnet34"]


class Backbone(Protocol):
    """An image network in two parts, so that a head can be trained on features of frozen convolutions."""

    @property
    def blocks(self) -> nn.Module:
        """The convolutional part."""
        ...

    def embed(self, images: Tensor) -> Tensor:
        """Return the features that the head sees, (n, ...), of images (n, colors, height, width)."""
        ...

    def head(self, features: Tensor, /) -> Tensor:
        """Return the output, (n, K), of what `embed` returns."""
        ...

    def __call__(self, images: Tensor, /) -> Any: ...


def backbone_of(name: BackboneName, *, colors: int, channels: Sequence[int]) -> Convnet | MobileNetV3Small | ResNet34:
    """Return a network without its head, for its feature maps: `maps(images)`, of `map_size` channels.

    Args:
        name: of its file.
        colors: of the images, 1 (gray) or 3; only the convnet is built for one of them.
        channels: of the convnet.

    Raises:
        ValueError: another name.

    >>> backbone_of("resnet34", colors=1, channels=[]).map_size
    512
    """
    check_choice("backbone", name, BackboneName)
    if name == "convnet":
        network = Convnet(outputs=1, colors=colors, channels=channels)
    else:
        network = {"mobilenet_v3_small": MobileNetV3Small, "resnet34": ResNet34}[name](outputs=1)
    network.head = nn.Identity()
    return network

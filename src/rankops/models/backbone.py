"""Networks without their heads: what gives other networks their feature maps."""

from torch import nn

from rankops.models.convnet import Convnet
from rankops.models.mobilenet_v3_small import MobileNetV3Small
from rankops.models.resnet34 import ResNet34

__all__ = ["backbone_of"]


def backbone_of(name: str, *, colors: int, channels: list[int]) -> nn.Module:
    """A network with `blocks`, `maps(images)` and `map_size`, its head removed.

    Args:
        name: `convnet`, `mobilenet_v3_small` or `resnet34`.
        colors: of the images, 1 (gray) or 3; only the convnet is built for one of them.
        channels: of the convnet.

    Raises:
        ValueError: another name.

    >>> backbone_of("resnet34", colors=1, channels=[]).map_size
    512
    """
    if name == "convnet":
        network = Convnet(outputs=1, colors=colors, channels=channels)
    elif name == "mobilenet_v3_small":
        network = MobileNetV3Small(outputs=1)
    elif name == "resnet34":
        network = ResNet34(outputs=1)
    else:
        raise ValueError(f"backbone is {name!r}, expected 'convnet', 'mobilenet_v3_small' or 'resnet34'")
    network.head = nn.Identity()
    return network

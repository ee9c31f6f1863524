"""Networks without their heads: what gives other networks their feature maps."""

from torch import nn

from rankops.models.convnet import Convnet
from rankops.models.mobilenet_v3_small import MobileNetV3Small
from rankops.models.resnet34 import ResNet34

__all__ = ["backbone_of"]


def backbone_of(name: str, *, colours: int, channels: list[int]) -> nn.Module:
    """A network with `blocks`, `maps(images)` and `map_size`, its head removed.

    Args:
        name: `convnet`, `mobilenet_v3_small` or `resnet34`.
        colours: of the images, 1 (grey) or 3; only the convnet is built for one of them.
        channels: of the convnet.

    Raises:
        ValueError: another name.

    >>> backbone_of("resnet34", colours=1, channels=[]).map_size
    512
    """
    if name == "convnet":
        network = Convnet(outputs=1, colours=colours, channels=channels)
    elif name == "mobilenet_v3_small":
        network = MobileNetV3Small(outputs=1)
    elif name == "resnet34":
        network = ResNet34(outputs=1)
    else:
        raise ValueError(f"backbone is {name!r}, expected 'convnet', 'mobilenet_v3_small' or 'resnet34'")
    network.head = nn.Identity()
    return network

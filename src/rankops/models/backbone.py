"""The convolutional part of a network, by the network's name."""

from collections.abc import Sequence
from typing import Literal

from rankops.checks import check_choice
from rankops.models.layers import Blocks

__all__ = ["BackboneName", "blocks_of"]

BackboneName = Literal["convnet", "mobilenet_v3_small", "resnet34"]


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

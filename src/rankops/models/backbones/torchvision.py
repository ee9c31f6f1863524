"""Any classification network of torchvision, by its name."""

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models import get_model

from rankops.models.layers import weight_dtype

__all__ = ["Torchvision"]

# Mean and deviation of the photographs that published weights were trained on.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Torchvision(nn.Module):
    """A network of torchvision without its classifier, with random weights; `start` of a run gives it trained ones.

    Args:
        network: torchvision's name, such as `resnet34` or `mobilenet_v3_small`.
        batch_norm_momentum: None for the network's own.

    Shapes:
        images (n, 1 or 3, height, width) uint8 or float in 0..255 to maps (n, size, height', width').

    >>> Torchvision(network="resnet18").eval()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 512, 2, 2])
    """

    input, maps = "image", True

    def __init__(self, *, network: str, batch_norm_momentum: float | None = None):
        super().__init__()
        whole = get_model(network, weights=None)
        self.layers = _convolutions(whole)
        if batch_norm_momentum is not None:
            for module in self.layers.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.momentum = batch_norm_momentum
        with torch.no_grad():
            self.size = self.layers.eval()(torch.zeros(1, 3, 64, 64)).shape[1]
        self.train()
        self.mean = nn.Buffer(torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.deviation = nn.Buffer(torch.tensor(DEVIATION).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        images = images.to(weight_dtype(self)).expand(-1, 3, -1, -1) / 255
        images = (images - self.mean) / self.deviation
        return self.layers(images.contiguous(memory_format=torch.channels_last))


def _convolutions(network: Any) -> nn.Sequential:
    if hasattr(network, "features"):
        return nn.Sequential(OrderedDict(features=network.features))
    parts = OrderedDict(network.named_children())
    return nn.Sequential(OrderedDict((name, part) for name, part in parts.items() if name not in ("avgpool", "fc")))

"""Any torchvision classification network, by name."""

from collections import OrderedDict
from pickle import UnpicklingError
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models import DenseNet, VisionTransformer, get_model, get_model_weights, list_models

from rankgrad.layers import NumbersOnCpu, PhotoNetwork
from rankgrad.lookup import did_you_mean

__all__ = ["Torchvision"]

# Parts that come after the maps, by the names that different networks give them.
AFTER = ("avgpool", "fc", "classifier", "head", "heads", "flatten", "dropout", "aux1", "aux2", "AuxLogits")
INCEPTIONS = ("googlenet", "inception_v3")


class Torchvision(PhotoNetwork):
    """A torchvision classification network up to its last feature maps, with random weights; `start` loads others.

    A vision transformer's maps are its patches; it takes images of a fixed size.

    Args:
        network: the name in torchvision, such as `resnet152`, `mobilenet_v3_small`, `swin_t`, or `vit_b_16`.

    Shapes:
        images (n, 1 or 3, height, width) uint8 or float in 0..255 to maps (n, size, height', width').

    Raises:
        ValueError: torchvision has no classification network of this name.

    >>> Torchvision(network="resnet18").eval()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 512, 2, 2])
    """

    left_out = tuple(f"{name}." for name in AFTER)

    def __init__(self, *, network: str):
        super().__init__()
        _check_known(network)
        # Otherwise they draw weights with SciPy, and print a deprecation warning.
        options = {"init_weights": False} if network in INCEPTIONS else {}
        with NumbersOnCpu():
            whole = get_model(network, weights=None, **options)
        self.layers = _without_classifier(whole)
        self.to(torch.get_default_device())  # what NumbersOnCpu kept on the CPU
        expected = get_model_weights(network)["DEFAULT"].transforms()
        mean, deviation = expected.mean, expected.std
        if network in INCEPTIONS:  # their published weights include layers that undo the usual normalization
            mean = deviation = (0.5, 0.5, 0.5)
        self.measure(getattr(whole, "image_size", 224), mean, deviation)

    @staticmethod
    def published(network: str) -> dict[str, Tensor]:
        """Download the weights that torchvision publishes for a network, by their names there.

        Raises:
            OSError: the download failed.
            ValueError: torchvision has no classification network of this name, or the file holds more than weights.
        """
        _check_known(network)
        weights = get_model_weights(network)["DEFAULT"]
        try:  # torch does not check the hash of a file in its cache
            return weights.get_state_dict(progress=True, check_hash=True, weights_only=True)
        except UnpicklingError as error:
            raise ValueError(
                f"{network}: {weights.url.rpartition('/')[2]} holds more than weights, which could run code: remove it "
                f"from {torch.hub.get_dir()}/checkpoints, and download it again"
            ) from error


def _check_known(network: str) -> None:
    networks = list_models(module=torchvision.models)
    if network not in networks:
        raise ValueError(
            f"network: no {network!r} among torchvision's classification networks, such as resnet50 or "
            f"swin_t{did_you_mean(network, networks)}"
        )


def _without_classifier(network: Any) -> nn.Module:
    if isinstance(network, VisionTransformer):
        return _Patches(network)
    layers = OrderedDict()
    for name, layer in network.named_children():
        if name not in AFTER:
            layers[name] = nn.Sequential(*layer) if type(layer) is nn.ModuleList else layer
    if isinstance(network, DenseNet):
        layers["relu"] = nn.ReLU()  # the network applies it as a function
    return nn.Sequential(layers)


class _Patches(nn.Module):
    """A vision transformer's last patch tokens, as maps."""

    def __init__(self, network: VisionTransformer):
        super().__init__()
        self.class_token, self.conv_proj, self.encoder = network.class_token, network.conv_proj, network.encoder
        self.image_size = network.image_size

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        if (height, width) != (self.image_size, self.image_size):
            raise ValueError(
                f"images are {width} x {height} pixels, but the network takes {self.image_size} x {self.image_size}: "
                "set the dataset's size"
            )
        patches = self.conv_proj(images)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), patches.flatten(2).mT], dim=1)
        return self.encoder(tokens)[:, 1:].mT.unflatten(2, patches.shape[2:])

"""Any timm network, by name; needs the extra `timm`."""

import re
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.layers import NumbersOnCpu, PhotoNetwork, missing_extra
from rankgrad.lookup import did_you_mean

__all__ = ["Timm"]

# Parts that come after the features, by the names that different networks give them.
AFTER = (
    "head",
    "head_dist",
    "fc",
    "classifier",
    "last_linear",
    "conv_head",
    "norm_head",
    "act2",
    "fc_norm",
    "pre_logits",
)


class Timm(PhotoNetwork):
    """A timm network without its classifier, with random weights; a run's `start` loads trained ones.

    Its output is feature maps if the network has them: those of a convolutional network, or the patches of a
    transformer. Otherwise, it is the input vector of the network's classifier.

    Args:
        network: the name in timm, such as `resnet50d` or `vit_tiny_patch16_224`.

    Shapes:
        images (n, 1 or 3, height, width) uint8 or float in 0..255 to maps (n, size, height', width') or vectors
        (n, size).

    Raises:
        ModuleNotFoundError: timm is not installed.
        ValueError: timm has no network of this name.

    >>> Timm(network="resnet18").eval()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 512, 2, 2])
    """

    left_out = tuple(f"{name}." for name in AFTER)

    def __init__(self, *, network: str):
        super().__init__()
        with NumbersOnCpu():
            self.network: Any = _made(network, num_classes=0)
        self.to(torch.get_default_device())  # what NumbersOnCpu kept on the CPU
        expected, used = self.network.pretrained_cfg, set()
        after = {name: layer for name, layer in self.network.named_children() if name in AFTER}
        hooks = [layer.register_forward_pre_hook(lambda layer, _: used.add(layer)) for layer in after.values()]
        self.measure(expected["input_size"][-1], expected["mean"], expected["std"])
        for hook in hooks:
            hook.remove()
        for name, layer in after.items():
            if layer not in used:  # in some networks, the last convolution comes after the maps
                setattr(self.network, name, nn.Identity())

    @staticmethod
    def published(network: str) -> dict[str, Tensor]:
        """Download the weights that timm publishes for a network, by their names there.

        Raises:
            ModuleNotFoundError: timm is not installed.
            OSError: the download failed.
            ValueError: timm has no network of this name.
        """
        return _made(network, pretrained=True).state_dict()

    def layers(self, images: Tensor) -> Tensor:
        """Return maps (n, size, height', width') or vectors (n, size) for normalized images (n, 3, height, width)."""
        network, features = self.network, self.network.forward_features(images)
        if isinstance(features, Tensor) and features.dim() == 4:
            return features.permute(0, 3, 1, 2) if getattr(network, "output_fmt", "NCHW") == "NHWC" else features
        grid = getattr(getattr(network, "patch_embed", None), "grid_size", None)
        if grid and isinstance(features, Tensor) and features.dim() == 3:
            patches = features[:, getattr(network, "num_prefix_tokens", 0) :]
            if patches.shape[1] == grid[0] * grid[1]:
                return patches.mT.unflatten(2, grid)
        return network.forward_head(features, pre_logits=True)


def _made(network: str, **options: Any) -> nn.Module:
    try:
        import timm
    except ModuleNotFoundError as error:
        raise missing_extra("timm") from error
    # Refuse `hf-hub:owner/name` and `local-dir:folder`, from which timm would load.
    if not re.fullmatch(r"[\w.-]+", str(network)) or not timm.is_model(network):
        raise ValueError(
            f"network: no {network!r} in timm {timm.__version__}{did_you_mean(str(network), timm.list_models())}"
        )
    return timm.create_model(network, **options)

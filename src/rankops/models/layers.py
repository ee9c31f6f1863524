"""What networks are made of: blocks and a head, and score layers that stay in float32 under autocast."""

import torch
from torch import Tensor, nn

__all__ = ["Backbone", "Blocks", "ScoreHead", "ScoreLayer", "similarities", "weight_dtype"]


def weight_dtype(network: nn.Module) -> torch.dtype:
    """Return the type of a network's weights; inputs in this type work under autocast and in half precision."""
    return next(network.parameters()).dtype


class Blocks(nn.Sequential):
    """The convolutional part: takes images (n, colors, height, width), uint8 or float in 0..255, to feature maps.

    Attributes:
        size: channels of the maps.
    """

    size: int


class Backbone(nn.Module):
    """A network of `blocks` and a `head`, so that either can be trained, frozen or lent.

    A subclass sets both, and implements `embed`.

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


class ScoreLayer(nn.Linear):
    """A linear layer that ignores autocast: it computes in the precision of its weights.

    bfloat16 cannot distinguish scores closer than 0.008 near 1; a ranking loss would treat them as ties.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     nn.Linear(3, 2)(torch.zeros(1, 3)).dtype, ScoreLayer(3, 2)(torch.zeros(1, 3)).dtype
    (torch.bfloat16, torch.float32)
    """

    @classmethod
    def of(cls, layer: nn.Linear) -> "ScoreLayer":
        """Return a score layer that shares the weights of `layer`."""
        result = cls(layer.in_features, layer.out_features, device="meta")
        result.weight, result.bias = layer.weight, layer.bias
        return result

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class ScoreHead(nn.Sequential):
    """A score layer on standardized features (n, features), so that one learning rate suits all of them.

    Frozen features are all positive and of any size. On these as they are, first scores are of any size too: MSE
    through a sigmoid then starts where it hardly has a gradient, and is no fair rival.

    >>> ScoreHead(3, 2)(torch.rand(4, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(self, features: int, outputs: int):
        super().__init__(nn.BatchNorm1d(features, affine=False), ScoreLayer(features, outputs))


def similarities(images: Tensor, captions: Tensor) -> Tensor:
    """Return inner products (..., n, m) of embeddings (..., n, size) and (..., m, size), in single precision at least.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     similarities(torch.eye(2), torch.eye(2)).dtype
    torch.float32
    """
    with torch.autocast(images.device.type, enabled=False):
        images, captions = (part if part.dtype == torch.float64 else part.float() for part in (images, captions))
        return images @ captions.mT

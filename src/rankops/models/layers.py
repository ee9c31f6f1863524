"""What networks are made of: heads, and score layers that stay in float32 under autocast."""

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Head", "ScoreHead", "ScoreLayer", "similarities", "weight_dtype"]


def weight_dtype(network: nn.Module) -> torch.dtype:
    """Return the type of a network's weights; inputs in this type work under autocast and in half precision."""
    return next(network.parameters()).dtype


class Head(nn.Module):
    """The part behind a backbone, in three steps, so that what is frozen can be kept, and an embedding lent.

    A subclass sets `score`, and implements `pool` and `embed` where these are not the identity. It is made with
    `features` (channels of the backbone), `maps` (whether these are maps or vectors) and `outputs`.

    Attributes:
        embedding_size: channels of what `embed` returns.
        score: takes what `embed` returns to scores (n, outputs).
    """

    embedding_size: int
    score: Any  # a layer, or a method

    def pool(self, features: Tensor) -> Tensor:
        """Return what can be kept of a frozen backbone's features, (n, ...): it needs no weights."""
        return features

    def embed(self, pooled: Tensor) -> Tensor:
        """Return the last features before the scores, (n, embedding_size), or maps of so many channels."""
        return pooled

    def forward(self, pooled: Tensor) -> Tensor:
        return self.score(self.embed(pooled))


class ScoreLayer(nn.Linear):
    """A linear layer that ignores autocast: it computes in the precision of its weights.

    bfloat16 cannot distinguish scores closer than 0.008 near 1; a ranking loss would treat them as ties.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     nn.Linear(3, 2)(torch.zeros(1, 3)).dtype, ScoreLayer(3, 2)(torch.zeros(1, 3)).dtype
    (torch.bfloat16, torch.float32)
    """

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

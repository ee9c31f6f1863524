"""What is computed in single precision though the rest of a network is not: scores, of which near ones must differ."""

import torch
from torch import Tensor, nn

__all__ = ["ScoreLayer", "similarities"]


class ScoreLayer(nn.Linear):
    """A linear layer that autocast leaves alone: it computes in the precision of its weights.

    bfloat16 tells scores around 1 apart from 0.008 on; nearer ones would be ties, which a ranking loss takes for such.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     nn.Linear(3, 2)(torch.zeros(1, 3)).dtype, ScoreLayer(3, 2)(torch.zeros(1, 3)).dtype
    (torch.bfloat16, torch.float32)
    """

    @classmethod
    def of(cls, layer: nn.Linear) -> "ScoreLayer":
        """One with the weights of `layer`, not with a copy."""
        found = cls(layer.in_features, layer.out_features, device="meta")
        found.weight, found.bias = layer.weight, layer.bias
        return found

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            return super().forward(features.to(self.weight.dtype))


def similarities(images: Tensor, captions: Tensor) -> Tensor:
    """Inner products (..., n, m) of embeddings (..., n, size) and (..., m, size), in single precision at least.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     similarities(torch.eye(2), torch.eye(2)).dtype
    torch.float32
    """
    with torch.autocast(images.device.type, enabled=False):
        images, captions = (part if part.dtype == torch.float64 else part.float() for part in (images, captions))
        return images @ captions.mT

"""No loss: what `auxiliary: {name: none}` means in the params."""

from torch import Tensor

__all__ = ["none"]


def none(scores: Tensor, truth: object = None) -> Tensor:
    """Return 0, with a gradient of 0 for the scores.

    >>> import torch
    >>> none(torch.tensor([1.0, 2.0]))
    tensor(0.)
    """
    return scores.sum() * 0

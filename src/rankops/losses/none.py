"""No loss: 0, whatever the scores."""

import torch
from torch import Tensor

__all__ = ["none"]


def none(scores: Tensor, truth: object = None) -> Tensor:
    """Return 0, with a gradient of 0: what `auxiliary: {name: none}` in a run adds to its loss.

    It is no loss of any task by itself: nothing would be learned.

    Args:
        scores: any shape.
        truth: is not looked at.

    Returns:
        A scalar, float32 or float64.

    >>> scores = torch.randn(2, 3, requires_grad=True)
    >>> none(scores), torch.autograd.grad(none(scores), scores)[0].any()
    (tensor(0., grad_fn=<SumBackward0>), tensor(False))
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores.flatten()[:0].sum()  # of no score, so that not even NaN reaches it

"""An example of your own loss: the distance of soft ranks from the true ranks."""

import torch
from torch import Tensor

from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Sorter

__all__ = ["footrule"]


def footrule(scores: Tensor, target: Tensor, *, sorter: Sorter, mask: Tensor | None = None) -> Tensor:
    r"""Spearman's footrule, $\frac{1}{d^2} \sum_i |f(y)_i - \mathrm{rk}(y^*)_i|$, the mean over lists.

    >>> from rankgrad.sorters import Laplace
    >>> footrule(torch.tensor([0.0, 9.0, 5.0]), torch.tensor([0.0, 1.0, 2.0]), sorter=Laplace(softness=0.01))
    tensor(0.2222)
    """
    exists = torch.ones_like(scores) if mask is None else mask.to(scores.dtype)
    errors = (sorter(scores, mask=mask) - exact_ranks(target.double(), mask=mask)).abs().to(scores.dtype)
    return ((errors * exists).sum(-1) / exists.sum(-1).square()).mean()

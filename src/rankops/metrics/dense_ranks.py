"""Label ranks of multi-label ranking: 0 = absent, larger = more important; equal values have equal ranks."""

import torch
from torch import Tensor

__all__ = ["dense_ranks"]


def dense_ranks(sizes: Tensor) -> Tensor:
    """Rank sizes (n, K): 0 where the size is 0, then 1, 2, ... upwards; equal sizes have equal ranks.

    >>> dense_ranks(torch.tensor([[8.0, 0.0, 12.0, 8.0]]))
    tensor([[1, 0, 2, 1]])
    """
    values, order = sizes.sort(dim=-1)
    new = torch.cat([values[..., :1] != 0, values[..., 1:] != values[..., :-1]], dim=-1)
    return torch.zeros_like(order).scatter(-1, order, new.cumsum(-1))

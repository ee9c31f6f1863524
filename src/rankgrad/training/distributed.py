"""One batch across processes: a ranking loss sees the scores of all of them."""

from typing import Any

import torch
from torch import Tensor
from torch import distributed as processes

__all__ = ["alone", "gathered"]


def gathered(*values: Tensor) -> tuple[Tensor, ...]:
    r"""Return tensors of all processes, one after another along their first dimension, with gradients.

    If processes share a batch, each has the scores of one part, and ranking only these is a different loss. With
    gathered scores, each process computes the loss of the whole batch. The gradient with respect to a process's values
    is summed over processes. `DistributedDataParallel` and accelerate average the gradients of weights, and so get
    exactly the gradient of one process with the whole batch.

    Args:
        values: (n, ...) each, floating point with a gradient, or other types; n may differ between processes and be 0.

    Returns:
        As many tensors (N, ...), where N is the sum of n over processes; with one process, the values themselves.

    Raises:
        ValueError: a value without dimensions, or dimensions after the first that differ between processes.

    >>> gathered(torch.tensor([1.0, 2.0]))  # one process
    (tensor([1., 2.]),)
    """
    if alone():
        return values
    for value in values:
        if not value.dim():
            raise ValueError("a value without dimensions, expected (n, ...): gather scores, not their loss")
    return tuple(_Gathered.apply(value) for value in values)


def alone() -> bool:
    """Return whether this is the only process."""
    return not (processes.is_available() and processes.is_initialized()) or processes.get_world_size() == 1


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        shape_here = torch.tensor(value.shape, dtype=torch.int64, device=value.device)
        shapes = [torch.empty_like(shape_here) for _ in range(processes.get_world_size())]
        processes.all_gather(shapes, shape_here)
        if any((shape[1:] != shape_here[1:]).any() for shape in shapes):
            every = [tuple(shape.tolist()) for shape in shapes]
            raise ValueError(f"values of {every}, expected the same dimensions after the first in each process")
        sizes = [int(shape[0]) for shape in shapes]
        ctx.first, ctx.size = sum(sizes[: processes.get_rank()]), len(value)
        # Processes can exchange only tensors of equal size: pad, and remove the padding again.
        filled = value.new_zeros(max(sizes), *value.shape[1:])
        filled[: len(value)] = value
        if value.dtype == torch.bool:
            filled = filled.byte()
        shares = [torch.empty_like(filled) for _ in sizes]
        processes.all_gather(shares, filled.contiguous())
        return torch.cat([share[:size] for share, size in zip(shares, sizes, strict=True)]).to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        gradient = gradient.contiguous().clone()
        processes.all_reduce(gradient)
        return gradient[ctx.first : ctx.first + ctx.size]

"""Batches as large as a ranking metric needs, in the memory of a small one."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rankgrad.checks import check_count

__all__ = ["in_chunks", "in_parts", "split"]


def in_chunks(network: nn.Module, *inputs: Tensor, chunk: int) -> Tensor:
    """Compute a network's outputs for a batch with the activations of only one chunk in memory at a time.

    A ranking loss needs the scores of all examples of a batch, but not their activations. The first pass keeps only the
    scores, and `backward` goes through the chunks a second time, one after another. A step takes half as long again as
    a plain one, and has the same gradient.

    Both passes draw the same random numbers, for example for dropout; each chunk draws its own. Batch normalization
    treats a chunk as its batch, and updates running statistics only in the first pass. The gradient is another one if
    outputs depend on buffers that the first pass updates, such as those of `spectral_norm`.

    Args:
        network: a module whose weights do not change before `backward`.
        inputs: tensors (n, ...), its arguments.
        chunk: the number of examples at a time. A single last example joins the chunk before it.

    Returns:
        Outputs (n, ...), with a gradient.

    Raises:
        RuntimeError: weights changed before `backward`, or a second derivative is requested.
        ValueError: `chunk` is not a whole number of at least 1, or inputs are empty or differ in length.

    >>> from rankgrad.losses import spearman
    >>> network = torch.nn.Linear(8, 1)
    >>> scores = in_chunks(network, torch.randn(4096, 8), chunk=64).squeeze(1)
    >>> spearman(scores, torch.arange(4096)).backward()
    >>> network.weight.grad.shape
    torch.Size([1, 8])
    """
    return in_parts(network, split(inputs, chunk))


def split(inputs: Sequence[Tensor], chunk: int) -> list[tuple[Tensor, ...]]:
    """Split inputs (n, ...) into chunks; a single last row joins the chunk before it, for batch normalization.

    Raises:
        ValueError: see `in_chunks`.

    >>> [len(chunk) for (chunk,) in split([torch.zeros(7)], 3)]
    [3, 4]
    """
    check_count("chunk", chunk)
    counts = [len(tensor) for tensor in inputs]
    if len(set(counts)) != 1:
        raise ValueError(f"inputs of {counts} examples, expected equally many in each")
    if not (count := counts[0]):
        raise ValueError("inputs have no examples, expected at least one")
    full, last = divmod(count, chunk)
    if last == 1 and full and chunk > 1:  # the last row joins the chunk before it
        full, last = full - 1, chunk + 1
    lengths = [chunk] * full + ([last] if last else [])
    return [*zip(*(tensor.split(lengths) for tensor in inputs), strict=True)]


def in_parts(network: nn.Module, parts: Sequence[tuple[Tensor, ...]]) -> Any:
    """Compute a network's outputs for a batch that is split already, as `in_chunks` does; a tuple if it has several.

    >>> in_parts(torch.nn.Identity(), [(torch.tensor([1.0]),), (torch.tensor([2.0, 3.0]),)])
    tensor([1., 2., 3.])
    """
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    outputs = _Parts.apply(network, len(parts), len(parts[0]), *chain.from_iterable(parts), *learned)
    return outputs if len(outputs) > 1 else outputs[0]


class _Parts(torch.autograd.Function):
    """Compute the outputs of all parts and keep nothing else.

    `torch.utils.checkpoint` keeps a few small tensors of each part. They lie between freed large ones and fragment the
    memory: 64 parts then take five times the memory of one.
    """

    @staticmethod
    def forward(ctx: Any, network: nn.Module, count: int, width: int, *values: Tensor) -> tuple[Tensor, ...]:
        device, ctx.network, ctx.count, ctx.width = values[0].device, network, count, width
        ctx.states, outputs = [], []
        for first in range(0, count * width, width):
            ctx.states.append(_random_state(device))
            outputs.append(_as_tuple(network(*values[first : first + width])))
        if not outputs[0][0].dim():
            raise ValueError("an output without dimensions, expected (n, ...): chunk scores, not their loss")
        by_output = [*zip(*outputs, strict=True)]
        ctx.lengths = [list(map(len, chunks)) for chunks in by_output]
        ctx.autocast = torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)
        ctx.save_for_backward(*values)
        return tuple(torch.cat(chunks) for chunks in by_output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values, inside = ctx.saved_tensors, ctx.count * ctx.width
        learned, device = values[inside:], values[0].device
        sums: list[Tensor | None] = [None] * len(learned)  # None for weights without gradient, which an optimizer skips
        to_inputs: list[Tensor | None] = []
        by_output = [gradient.split(lengths) for gradient, lengths in zip(gradients, ctx.lengths, strict=True)]
        by_chunk = zip(*by_output, strict=True)
        (dtype, enabled), devices = ctx.autocast, [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices), _unmoved(ctx.network):
            for first, state, of_chunk in zip(range(0, inside, ctx.width), ctx.states, by_chunk, strict=True):
                _set_random_state(state, device)
                needs = ctx.needs_input_grad[3 + first : 3 + first + ctx.width]
                inputs = values[first : first + ctx.width]
                leaves = [tensor.detach().requires_grad_(need) for tensor, need in zip(inputs, needs, strict=True)]
                with torch.enable_grad(), torch.autocast(device.type, dtype, enabled=enabled):
                    outputs = _as_tuple(ctx.network(*leaves))
                sources = [*learned, *(leaf for leaf in leaves if leaf.requires_grad)]
                derivatives = torch.autograd.grad(outputs, sources, of_chunk, allow_unused=True)
                for number, derivative in enumerate(derivatives[: len(learned)]):
                    if derivative is not None:
                        total = sums[number]
                        sums[number] = derivative if total is None else total.add_(derivative)
                of_inputs = iter(derivatives[len(learned) :])
                to_inputs += [next(of_inputs) if need else None for need in needs]
        return None, None, None, *to_inputs, *sums


def _as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _random_state(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _set_random_state(state: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def _unmoved(network: nn.Module) -> Generator[None]:
    """Leave a module's buffers, such as running statistics, as they were."""
    before = [buffer.clone() for buffer in network.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(network.buffers(), before, strict=True):
                buffer.copy_(value)

"""Batches as large as a ranking metric needs, in the memory of a small one."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rankops.checks import check_count

__all__ = ["in_chunks"]


def in_chunks(network: nn.Module, *inputs: Tensor, chunk: int) -> Tensor:
    """Return what a network makes of a batch, chunk by chunk; only one chunk's activations are in memory at a time.

    A ranking loss needs the scores of all examples of a batch together, but no more of them than the scores. These are
    computed without keeping anything else. `backward` goes through the chunks once more, one after another. It takes
    half as much time again as a plain step, and gives the same gradient.

    Random numbers, such as those of dropout, are the same in both passes; each chunk draws its own. Batch
    normalization sees a chunk as its batch. It takes running statistics in the first pass alone.

    Args:
        network: a module whose weights are not changed before `backward`.
        inputs: tensors (n, ...) that it takes together.
        chunk: examples at a time; if there are fewer, all are one chunk.

    Returns:
        Outputs (n, ...), with a gradient.

    Raises:
        RuntimeError: weights were changed before `backward`, or a second derivative is asked for.
        ValueError: `chunk` is no whole number of at least 1, there are no inputs, or they differ in number.

    >>> from rankops.losses import spearman
    >>> network = nn.Linear(8, 1)
    >>> scores = in_chunks(network, torch.randn(4096, 8), chunk=64).squeeze(1)
    >>> spearman(scores, torch.arange(4096)).backward()
    >>> network.weight.grad.shape
    torch.Size([1, 8])
    """
    check_count("chunk", chunk)
    if len({len(one) for one in inputs}) != 1:
        raise ValueError(f"inputs of {[len(one) for one in inputs]} examples, expected equally many in each")
    if not len(inputs[0]):
        raise ValueError("inputs have no examples, expected at least one")
    learned = [one for one in network.parameters() if one.requires_grad]
    return _Chunks.apply(network, chunk, len(inputs), *inputs, *learned)


class _Chunks(torch.autograd.Function):
    """Outputs of all chunks, of which nothing else is kept.

    `torch.utils.checkpoint` of each chunk keeps a little of it. That lies between large tensors, whose memory is then
    too small for those of the next chunk: 64 chunks take five times the memory of one.
    """

    @staticmethod
    def forward(ctx: Any, network: nn.Module, chunk: int, count: int, *values: Tensor) -> Tensor:
        inputs, outputs = values[:count], []
        ctx.states = []
        for part in zip(*(one.split(chunk) for one in inputs), strict=True):
            ctx.states.append(_random_state(inputs[0].device))
            outputs.append(network(*part))
        ctx.network, ctx.chunk, ctx.count = network, chunk, count
        ctx.autocast = torch.is_autocast_enabled(inputs[0].device.type), torch.get_autocast_dtype(inputs[0].device.type)
        ctx.save_for_backward(*values)
        return torch.cat(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values = ctx.saved_tensors
        inputs, learned = values[: ctx.count], values[ctx.count :]
        device = inputs[0].device
        sums = [torch.zeros_like(one) for one in learned]
        asked = [place for place, need in enumerate(ctx.needs_input_grad[3 : 3 + ctx.count]) if need]
        to_inputs: dict[int, list[Tensor]] = {place: [] for place in asked}
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices), _unmoved(ctx.network):
            chunks = zip(*(one.split(ctx.chunk) for one in inputs), gradients[0].split(ctx.chunk), strict=True)
            for state, (*part, gradient) in zip(ctx.states, chunks, strict=True):
                _set_random_state(state, device)
                leaves = [one.detach().requires_grad_(place in asked) for place, one in enumerate(part)]
                enabled, dtype = ctx.autocast
                with torch.enable_grad(), torch.autocast(device.type, dtype, enabled=enabled):
                    output = ctx.network(*leaves)
                wanted = [*learned, *(leaves[place] for place in asked)]
                found = torch.autograd.grad(output, wanted, gradient, allow_unused=True)
                for total, one in zip(sums, found, strict=False):
                    if one is not None:
                        total += one
                for place, one in zip(asked, found[len(learned) :], strict=True):
                    to_inputs[place].append(torch.zeros_like(leaves[place]) if one is None else one)
        of_inputs = [torch.cat(to_inputs[place]) if place in asked else None for place in range(ctx.count)]
        return None, None, None, *of_inputs, *sums


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
            for buffer, known in zip(network.buffers(), before, strict=True):
                buffer.copy_(known)

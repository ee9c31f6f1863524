"""A phase of a training, as the loop sees it: a module, batches of rows, their loss and the validation."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rankgrad.training.distributed import alone, gathered
from rankgrad.training.large_batch import in_parts, split
from rankgrad.training.options import PhaseOptions

__all__ = ["Batch", "Phase", "Step"]


class Batch(NamedTuple):
    """Some rows; the first dimension of each tensor is that of the rows, or of what they have several of.

    Attributes:
        inputs: what `Phase.outputs` takes.
        truth: what `Phase.loss` compares the outputs with; None for what is not known.
    """

    inputs: tuple[Tensor, ...]
    truth: tuple[Any, ...]


class Phase:
    """What `rankgrad.training.loop.fit` trains; a subclass says how a batch is made, its loss and the validation.

    A loss is computed in two steps, of which the first treats each row by itself: so a large batch goes through the
    module in chunks, and processes gather what they have before the second.

    Attributes:
        name: of the block of its options.
        module: that learns, on any device.
        rows: examples in an epoch.
        group: batches are made of whole groups of so many examples, as a sorter of fixed length needs.
        order: draws the order of the rows of an epoch, see `rankgrad.training.batches.random_batches`; None for any.
        monitor: the validation metric that decides on the best epoch.
        lower_is_better: whether that is an error.
        small: whether it is computed on one thread, which several would only delay.
        objective: the loss, see `rankgrad.training.objective.Objective`; None if it is the phase's own. Its `state` (a
            fine-tuned sorter) is kept in the checkpoint, and what it has `learned` is learned with the module.
        options: of the phase.
        batch_size: rows of a batch, of all processes together.
    """

    name: str = "training"
    module: Any
    rows: int
    group: int = 1
    order: Callable[[torch.Generator], Tensor] | None = None
    monitor: str
    lower_is_better: bool = False
    small: bool = False
    objective: Any = None
    options: PhaseOptions
    batch_size: int

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        """Return the batch of these rows (n,); its random choices come from the generator."""
        raise NotImplementedError

    def ahead(self, rows: Tensor) -> None:
        """Begin to read the rows of the next batch, while this one is learned from."""

    def parts(self, inputs: tuple[Tensor, ...], chunk: int) -> Sequence[tuple[Tensor, ...]]:
        """Return the inputs of a batch in chunks of so many rows."""
        return split(inputs, chunk)

    def outputs(self, module: nn.Module, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return what a module makes of inputs, row by row."""
        return module(*inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        """Return the loss of a batch, a scalar."""
        raise NotImplementedError

    def validate(self, module: Any) -> dict[str, float]:
        """Return the validation metrics of a module in evaluation mode, without gradient."""
        raise NotImplementedError


class Step(nn.Module):
    """The loss of a batch, which is that of all processes together, with the gradient of its outputs chunk by chunk.

    Args:
        phase: of a training; with a `chunk` among its options, so many rows go through the module at once.
        network: its module, prepared for a device and a precision.
        autocast: makes the context in which everything is computed.
    """

    def __init__(self, phase: Phase, network: nn.Module, *, autocast: Callable[[], Any]):
        super().__init__()
        self.phase, self.autocast = phase, autocast
        self.chunk = getattr(phase.options, "chunk", None)
        self.outputs = _Outputs(phase, network)
        self.learned = nn.ParameterList(getattr(phase.objective, "learned", ()))  # processes share its gradient too

    def forward(self, drawn: tuple[Batch, torch.Generator]) -> Tensor:
        """Return the loss of a batch, whose random choices come from the generator beside it."""
        (inputs, truth), generator = drawn
        with self.autocast():
            if self.chunk is None:
                outputs = self.outputs(*inputs)
            else:
                outputs = in_parts(self.outputs, self.phase.parts(inputs, self.chunk))
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            return self.phase.loss(gathered(*outputs), _together(truth, outputs[0].device), generator)


class _Outputs(nn.Module):
    """What a phase's module makes of inputs, as one module."""

    def __init__(self, phase: Phase, network: nn.Module):
        super().__init__()
        self.phase, self.network = phase, network

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.phase.outputs(self.network, *inputs)


def _together(truth: tuple[Any, ...], device: torch.device) -> tuple[Any, ...]:
    """Return the truth of all processes, which exchange it on the device of the outputs."""
    if alone():
        return truth
    together = []
    for values in truth:
        together.append(None if values is None else gathered(values.to(device))[0].to(values.device))
    return tuple(together)

"""A phase of a training as the loop uses it: a module, batches of rows, their loss, and validation."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rankgrad.training.distributed import alone, gathered
from rankgrad.training.large_batch import in_parts, split
from rankgrad.training.options import PhaseOptions

__all__ = ["Batch", "Phase", "Step"]


class Batch(NamedTuple):
    """A batch of rows; the first dimension of each tensor counts rows, or items if a row has several.

    Attributes:
        inputs: the arguments of `Phase.outputs`.
        truth: what `Phase.loss` compares outputs with; None for missing values.
    """

    inputs: tuple[Tensor, ...]
    truth: tuple[Any, ...]


class Phase:
    """A phase that `rankgrad.training.loop.fit` trains. A subclass implements batches, their loss, and validation.

    A loss has two steps. `outputs` treats each row separately, so a large batch can go through the module in chunks,
    and processes gather their outputs. `loss` then compares all rows.

    Attributes:
        name: the name of its block of options.
        module: the module to train, on any device.
        rows: the number of examples in an epoch.
        group: batches are multiples of this number of examples, as a sorter of fixed length needs.
        order: draws the order of the rows of an epoch, see `rankgrad.training.batches.random_batches`; None for any.
        monitor: the validation metric that decides on the best epoch.
        lower_is_better: whether a lower value of that metric is better.
        small: whether to compute on one thread, because several threads would be slower.
        objective: the loss, see `rankgrad.training.objective.Objective`; None if the phase has its own. The checkpoint
            saves its `state` (a fine-tuned sorter), and its `learned` weights are trained with the module.
        options: the options of the phase.
        batch_size: the number of rows in a batch of all processes.
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
        """Return the batch of rows (n,); draw random choices from the generator."""
        raise NotImplementedError

    def ahead(self, rows: Tensor) -> None:
        """Start to read the rows of the next batch while the current one is trained on."""

    def parts(self, inputs: tuple[Tensor, ...], chunk: int) -> Sequence[tuple[Tensor, ...]]:
        """Split the inputs of a batch into chunks of `chunk` rows."""
        return split(inputs, chunk)

    def outputs(self, module: nn.Module, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return the module's outputs, row by row."""
        return module(*inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        """Return the loss of a batch, a scalar."""
        raise NotImplementedError

    def validate(self, module: Any) -> dict[str, float]:
        """Return the validation metrics of a module in evaluation mode, without gradient."""
        raise NotImplementedError


class Step(nn.Module):
    """Compute the loss of a batch of all processes, with the gradient of its outputs chunk by chunk.

    Args:
        phase: the phase; its option `chunk` limits the number of rows that go through the module at once.
        network: its module, prepared for a device and a precision.
        autocast: returns the context for all computations.
    """

    def __init__(self, phase: Phase, network: nn.Module, *, autocast: Callable[[], Any]):
        super().__init__()
        self.phase, self.autocast = phase, autocast
        self.chunk = getattr(phase.options, "chunk", None)
        self.outputs = _Outputs(phase, network)
        self.learned = nn.ParameterList(getattr(phase.objective, "learned", ()))  # processes share its gradient too

    def forward(self, drawn: tuple[Batch, torch.Generator]) -> Tensor:
        """Return the loss of a batch; the generator that comes with it draws random choices."""
        (inputs, truth), generator = drawn
        with self.autocast():
            if self.chunk is None:
                outputs = self.outputs(*inputs)
            else:
                outputs = in_parts(self.outputs, self.phase.parts(inputs, self.chunk))
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            return self.phase.loss(gathered(*outputs), _together(truth, outputs[0].device), generator)


class _Outputs(nn.Module):
    """The outputs of a phase, as a module."""

    def __init__(self, phase: Phase, network: nn.Module):
        super().__init__()
        self.phase, self.network = phase, network

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.phase.outputs(self.network, *inputs)


def _together(truth: tuple[Any, ...], device: torch.device) -> tuple[Any, ...]:
    """Gather the truth of all processes on the device of the outputs."""
    if alone():
        return truth
    together = []
    for values in truth:
        together.append(None if values is None else gathered(values.to(device))[0].to(values.device))
    return tuple(together)

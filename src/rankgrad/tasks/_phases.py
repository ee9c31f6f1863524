"""Phases of a task: on frozen features (a linear probe), or of the whole network."""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from filelock import FileLock, Timeout
from safetensors.torch import load_file, save_file
from torch import Tensor

from rankgrad.datasets.files.splits import Split
from rankgrad.io.atomic import replaced_file
from rankgrad.tasks._base import Task
from rankgrad.training.batches import in_lists
from rankgrad.training.objective import Objective
from rankgrad.training.options import PhaseOptions, Training, WholePhase
from rankgrad.training.phase import Batch, Phase

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["GroupPhase", "SplitPhase", "TwoPhases", "embedded"]

KEPT = 16  # feature tables in a cache folder, the newest


def embedded(network: Any, chunks: Iterable[Tensor]) -> Tensor:
    """Return the features of inputs, chunk by chunk, in evaluation mode and without gradient; on the network's device.

    Args:
        network: with `embed`.
        chunks: what it takes, on any device, see `rankgrad.inputs.Inputs.parts`.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(chunk.to(device)) for chunk in chunks])
    network.train(training)
    return features


def _forget(cache: Path) -> None:
    """Remove the oldest features of a cache, but for those that another training is about to read."""
    files = sorted(cache.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    for file in files[:-KEPT]:
        with suppress(Timeout), FileLock(file.with_suffix(".lock"), blocking=False):
            file.unlink(missing_ok=True)


class SplitPhase(Phase):
    """A phase of rows of a split; a task's own says what a batch is compared with, and how outputs are measured.

    Phases of a `WholePhase` train the whole network on images that are moved at random, others its head on frozen
    features. A sorter of fixed length ranks groups of that length, any other a whole batch.

    Args:
        name: of the phase.
        module: that learns, on its device.
        train, val: splits.
        objective: the loss.
        options: of the phase.
        batch_size: rows of a batch.
    """

    def __init__(
        self,
        name: str,
        module: Any,
        train: Split,
        val: Split,
        objective: Objective,
        options: PhaseOptions,
        *,
        batch_size: int,
    ):
        self.name, self.module, self.train, self.val = name, module, train, val
        self.objective, self.options, self.batch_size = objective, options, batch_size
        self.monitor = getattr(options, "monitor", self.monitor)
        self.moves = options.moves if isinstance(options, WholePhase) else {}
        self.frozen = not isinstance(options, WholePhase)
        self.small = self.frozen or train.inputs.type.small
        device = next(module.parameters()).device
        self.inputs, self.val_inputs = (split.inputs.ready(module).to(device) for split in (train, val))
        self.rows = len(self.inputs)

    def choose(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return the truth about the rows of a batch."""
        return self.train.truth[rows]

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        inputs = self.inputs.take(self.inputs.numbers(rows, generator))
        truth, weight = self.choose(rows, generator).to(inputs.device), self.train.weight
        if not self.frozen:
            inputs = self.inputs.type.moved(inputs, generator, **self.moves)
        return Batch((inputs,), (truth, None if weight is None else weight[rows].to(inputs.device)))

    def ahead(self, rows: Tensor) -> None:
        self.inputs.ahead(rows)


class GroupPhase(SplitPhase):
    """A phase whose loss compares the rows of a batch, or of groups within it.

    A sorter of fixed length ranks groups of that length, any other a whole batch; a task may say otherwise by `length`.
    """

    def __init__(self, task: "TwoPhases", name: str, module: Any, train: Split, *arguments: Any, **options: Any):
        super().__init__(name, module, train, *arguments, **options)
        if train.weight is not None and not self.objective.takes_weights:
            raise ValueError(
                "the training table has a column weight, which this loss does not use: choose another loss"
            )
        if self.frozen:
            self.inputs = self.inputs.replaced(task.features(module, self.inputs))
            self.val_inputs = self.val_inputs.replaced(task.features(module, self.val_inputs))
        self.length = self.objective.length
        if (together := self.together(task.training)) is not None:
            name, length, groups = together
            self.rows, self.order = _in_lists(name, length, groups), partial(in_lists, groups, length)
        self.group = self.length or 1
        self.monitor = getattr(task.training, "monitor", self.monitor)

    def together(self, training: Any) -> tuple[str, int, Tensor] | None:
        """Return an option, and its value: how many rows of a group are in a batch together; and the groups (n,).

        None for any rows.
        """
        return None

    def compare(self, *values: Tensor, length: int) -> tuple[Tensor, Any]:
        """Return scores and truth, as the loss takes them in groups of `length`, of outputs and what was chosen."""
        raise NotImplementedError

    def weigh(self, weight: Tensor, scores: Tensor) -> dict[str, Tensor]:
        """Return what tells the objective how much each score (..., length) of `compare` counts, and each group (...).

        A loss looks at proportions within a group alone, unless it is of single scores: so a group's mean is taken out.

        Args:
            weight: of each row of a batch (n,).
            scores: (groups, length), or (groups, ..., length) if several rankings are of the same rows.
        """
        rows = weight.view(len(scores), *[1] * (scores.dim() - 2), -1)
        means = rows.mean(-1, keepdim=True)
        return {
            "weights": (rows / means.where(means > 0, 1.0)).expand_as(scores),
            "of_groups": means.squeeze(-1).expand(scores.shape[:-1]),
        }

    def measure(self, network: Any, outputs: Tensor) -> dict[str, float]:
        """Return the validation metrics of a network's outputs for all rows."""
        raise NotImplementedError

    def outputs(self, module: Any, *inputs: Tensor) -> Any:
        return module.head(*inputs) if self.frozen else module(*inputs)

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        *compared_with, weight = truth
        length = self.length or len(outputs[0])
        scores, compared = self.compare(*outputs, *compared_with, length=length)
        counts = {} if weight is None else self.weigh(weight, scores)
        return self.objective(scores, compared, **counts, generator=generator)

    def validate(self, module: Any) -> dict[str, float]:
        features = self.val_inputs.items if self.frozen else embedded(module, self.val_inputs.parts())
        return self.measure(module, self.val_inputs.of_rows(module.head(features).float()))


def _in_lists(name: str, length: int, groups: Tensor) -> int:
    """Return how many rows an epoch has if it is of lists of one group (n,); the option that asks for them is named."""
    counts = groups.bincount()
    if (small := int(counts[counts < length].sum())) == len(groups):
        raise ValueError(f"{name} is {length}, but no group has more than {int(counts.max())} rows: choose less")
    if small:
        warnings.warn(
            f"{name} is {length}: {small} of {len(groups)} training rows are in smaller groups and are never seen; "
            "choose less, or null",
            stacklevel=2,
        )
    return int((counts - counts % length).sum())


class TwoPhases(Task):
    """What the tasks share that train a head on frozen features, then everything (SoDeep, Section 4.2.1).

    A network that starts from random weights has no features worth freezing: it is trained as a whole from the first
    epoch, with the options of `finetune`, and as long as the probe where `finetune` has no epochs.

    Features are kept in the cache for all networks that agree on them.

    Attributes:
        phase: the class of both phases.
    """

    Training = Training
    phase: ClassVar[type[GroupPhase]]

    def plan(self, *, started: bool) -> dict[str, PhaseOptions]:
        probe, finetune = self.training.probe, self.training.finetune
        if started:
            return super().plan(started=True)
        if not finetune.epochs:
            finetune = replace(finetune, epochs=probe.epochs, patience=probe.patience)
        return {"finetune": finetune}

    def phase_of(
        self,
        name: str,
        options: PhaseOptions,
        network: Any,
        train: Split,
        val: Split,
        objective: Objective,
        accelerator: "Accelerator",
    ) -> Phase:
        return self.phase(self, name, network, train, val, objective, options, batch_size=self.training.batch_size)

    def features(self, network: Any, inputs: Any) -> Tensor:
        """Return the features of inputs, see `embedded`, from the cache if it has them."""
        if self.cache is None:
            return embedded(network, inputs.parts())
        # Known by the inputs and by what the network makes of the first of them.
        digest = blake2b(digest_size=16)
        inputs.update(digest)
        first = inputs.take(torch.arange(min(64, len(inputs.items))))
        digest.update(embedded(network, [first]).float().cpu().contiguous().numpy().data)
        file = self.cache / f"{digest.hexdigest()}.safetensors"
        self.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):  # trainings side by side want the same: the first computes it for all
            if not file.is_file():
                with replaced_file(file) as partial:
                    save_file({"features": embedded(network, inputs.parts()).contiguous().cpu()}, partial)
                _forget(self.cache)
            features = load_file(file)["features"]
        return features.to(next(network.parameters()).device)

    def outputs(self, network: Any, inputs: Any) -> Tensor:
        """Return what a network says of each row, on the CPU."""
        inputs = inputs.ready(network)
        return inputs.of_rows(network.head(self.features(network, inputs)).detach().float().cpu())

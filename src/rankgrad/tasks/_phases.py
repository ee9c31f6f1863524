"""Training phases of a task: a head on frozen features (a linear probe), or the whole network."""

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
from rankgrad.inputs import Inputs
from rankgrad.io.atomic import replaced_file
from rankgrad.tasks._base import Task
from rankgrad.training.batches import in_lists
from rankgrad.training.objective import Objective
from rankgrad.training.options import PhaseOptions, Training, WholePhase
from rankgrad.training.phase import Batch, Phase

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["GroupPhase", "SplitPhase", "TwoPhases", "embedded"]

KEPT = 16  # the newest feature tables in a cache folder


def embedded(network: Any, chunks: Iterable[Tensor]) -> Tensor:
    """Return the features of inputs, chunk by chunk, in evaluation mode and without gradient; on the network's device.

    Args:
        network: a network with `embed`.
        chunks: its inputs, on any device, see `rankgrad.inputs.Inputs.parts`.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(chunk.to(device)) for chunk in chunks])
    network.train(training)
    return features


def _written(file: Path) -> int:
    """Return when a file was written; 0 if another process has removed it since."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _forget(cache: Path) -> None:
    """Remove the oldest features from a cache, except files that another training is about to read."""
    files = sorted(cache.glob("*.safetensors"), key=_written)
    for file in files[:-KEPT]:
        with suppress(Timeout), FileLock(file.with_suffix(".lock"), blocking=False):
            file.unlink(missing_ok=True)


class SplitPhase(Phase):
    """A phase on the rows of a split. A task's subclass chooses the truth of a batch and computes validation metrics.

    Phases with `WholePhase` options train the whole network on randomly moved images; others train its head on frozen
    features. A sorter of fixed length ranks groups of that length, any other sorter a whole batch.

    Args:
        name: the name of the phase.
        module: the module to train, on its device.
        train, val: splits.
        objective: the loss.
        options: the options of the phase.
        batch_size: the number of rows in a batch.
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
        self.small = self.frozen or train.inputs.type.small or module.backbone.small
        device = next(module.parameters()).device
        self.inputs, self.val_inputs = (split.inputs.ready(module).to(device) for split in (train, val))
        self.rows = len(self.inputs)

    def choose(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return the truth of the rows of a batch."""
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

    A sorter of fixed length ranks groups of that length, any other a whole batch; a task may change this by `length`.
    """

    def __init__(self, task: "TwoPhases", name: str, module: Any, train: Split, *arguments: Any, **options: Any):
        super().__init__(name, module, train, *arguments, **options)
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
        """Return the option for lists of one group, its value (rows per list), and the group of each row (n,).

        Return None if a batch may have any rows.
        """
        return None

    def compare(self, *values: Tensor, length: int) -> tuple[Tensor, Any]:
        """Return scores and truth for the loss, in groups of `length`, from outputs and the chosen truth."""
        raise NotImplementedError

    def weigh(self, weight: Tensor, scores: Tensor) -> dict[str, Tensor]:
        """Return the objective's weights: of each score (..., length) of `compare`, and of each group (...).

        Most losses use only proportions within a group, so each group's mean becomes the group's weight.

        Args:
            weight: the weight of each row of a batch (n,).
            scores: (groups, length), or (groups, ..., length) for several rankings of the same rows.
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

    def outputs_of(self, module: Any, inputs: Inputs) -> Tensor:
        """Return a module's outputs for all rows of inputs; of frozen networks, the items are features."""
        features = inputs.items if self.frozen else embedded(module, inputs.parts())
        return inputs.of_rows(module.head(features).float())

    def validate(self, module: Any) -> dict[str, float]:
        return self.measure(module, self.outputs_of(module, self.val_inputs))


def _in_lists(name: str, length: int, groups: Tensor) -> int:
    """Return the number of rows in an epoch of lists of one group (n,); messages use the option's name."""
    counts = groups.bincount()
    if (small := int(counts[counts < length].sum())) == len(groups):
        raise ValueError(f"{name} is {length}, but no group has more than {int(counts.max())} rows: lower it")
    if small:
        warnings.warn(
            f"{name} is {length}: {small} of {len(groups)} training rows are in smaller groups and are never seen; "
            "choose less, or null",
            stacklevel=2,
        )
    return int((counts - counts % length).sum())


class TwoPhases(Task):
    """Base class of tasks that train a head on frozen features, then the whole network (SoDeep, Section 4.2.1).

    Features of random weights are not worth freezing: a network without trained weights is trained as a whole from the
    first epoch, with the options of `finetune`, and with the probe's number of epochs if `finetune` has none.

    The cache keeps features for all networks that compute the same ones.

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
        # The key of the cache is a hash of the inputs and of the features of the first inputs.
        digest = blake2b(digest_size=16)
        inputs.update(digest)
        first = inputs.take(torch.arange(min(64, len(inputs.items))))
        digest.update(embedded(network, [first]).float().cpu().contiguous().numpy().data)
        file = self.cache / f"{digest.hexdigest()}.safetensors"
        self.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):  # parallel trainings need the same: the first computes it for all
            if not file.is_file():
                with replaced_file(file) as partial:
                    save_file({"features": embedded(network, inputs.parts()).contiguous().cpu()}, partial)
                _forget(self.cache)
            features = load_file(file)["features"]
        return features.to(next(network.parameters()).device)

    def outputs(self, network: Any, inputs: Any) -> Tensor:
        """Return a network's outputs for each row, on the CPU."""
        inputs = inputs.ready(network)
        return inputs.of_rows(network.head(self.features(network, inputs)).detach().float().cpu())

"""The training loop: `fit` yields one epoch at a time and resumes a killed training from its last saved epoch."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rankgrad.checks import NotFiniteError
from rankgrad.training.batches import batch_count, random_batches
from rankgrad.training.device import make_accelerator, one_thread
from rankgrad.training.optimization import optimizer_of, rates_of
from rankgrad.training.phase import Batch, Phase, Step
from rankgrad.training.progress import Epoch, Progress, copied, kept, newest, save

__all__ = ["fit", "train"]

SECONDS = 5.0  # between saved states, at least


def fit(
    phase: Phase,
    *,
    seed: int,
    device: str = "auto",
    precision: str = "no",
    checkpoint: str | Path | None = None,
    name: str = "training",
    stop: int | None = None,
) -> Iterator[Epoch]:
    """Train the module of a phase in place and yield each epoch; at the end it has the weights of the best epoch.

    With a `checkpoint` folder, `fit` saves the state after the last epoch, and after each epoch that ends at least 5
    seconds after the previous save. A save is complete or absent. Called again with the same arguments, `fit` yields
    the saved epochs again and continues; results are identical to the bit with an uninterrupted run on the same device
    with the same number of threads. Give each training its own folder. Each epoch seeds PyTorch's global random state.

    In a distributed run (`accelerate launch`) every process calls `fit` with the same arguments and equal weights, and
    trains on its part of every batch. The loss is computed on the whole batch: outputs and truth of all processes are
    gathered, see `distributed.gathered`, and `DistributedDataParallel` averages gradients. Dropout and batch
    normalization see one process's part. The main process validates, saves the state, and provides the running
    statistics. All processes yield the same epochs.

    Args:
        phase: makes batches, computes the loss of a batch, and validates. Its `options` have the number of `epochs`,
            the number of epochs without improvement after which it ends (`patience`), the optimizer and its schedule.
        seed: for all random choices in training.
        device, precision: see `rankgrad.training.device.make_accelerator`.
        checkpoint: folder for the state, or None to save nothing.
        name: for messages.
        stop: end after this epoch, with its weights, whatever validation says; the learning rates stay those of
            training for all epochs. None to end as the options say.

    Raises:
        ValueError: an unknown optimizer, a monitored metric that `validate` does not return, no batches; or, in a
            distributed run, outputs that cannot be gathered.
        FloatingPointError: a loss or metric is not finite; earlier saves stay.
    """
    # One accelerator per training, because it saves and loads the objects that it prepared.
    accelerator = make_accelerator(device=device, precision=precision)
    training = _Training(phase, accelerator, seed, checkpoint, name, stop)
    try:
        yield from training.resumed()
        while not training.is_over:
            yield training.next_epoch()
    finally:
        training.end()


class _Training:
    """The state of a running training, and the steps of `fit`."""

    def __init__(
        self,
        phase: Phase,
        accelerator: Any,
        seed: int,
        checkpoint: str | Path | None,
        name: str,
        stop: int | None,
    ):
        self.phase, self.options, self.accelerator, self.stop = phase, phase.options, accelerator, stop
        self.seed, self.name, self.checkpoint = seed, name, None if checkpoint is None else Path(checkpoint)
        self.kept, self.saved = 0, time.monotonic()  # the last saved epoch, and the time of that save
        self.share = (accelerator.process_index, accelerator.num_processes)
        self.module: Any = phase.module.to(accelerator.device)  # before the optimizer is created from its parameters
        # A model that was fitted at once has nothing left to train, and is only validated.
        self.learns = any(weight.requires_grad for weight in self.module.parameters())
        optimizer = optimizer_of(self.module, getattr(phase.objective, "learned", ()), phase.options)
        steps = batch_count(phase.rows, phase.batch_size, multiple_of=phase.group, share=self.share)
        self.rates = rates_of(optimizer, phase.options, steps=steps)
        # Already on its device; the step, not this module, is distributed over processes.
        self.prepared = accelerator.prepare_model(self.module, device_placement=False, evaluation_mode=True)
        self.optimizer = accelerator.prepare_optimizer(optimizer, device_placement=True)
        self.progress = Progress(self.module)
        accelerator.register_for_checkpointing(self.progress, self.rates, *getattr(phase.objective, "state", ()))
        self.step: nn.Module = Step(phase, self.prepared, autocast=accelerator.autocast)
        if self.learns and self.share[1] > 1:  # backbones may have unused weights
            self.step = DistributedDataParallel(self.step, find_unused_parameters=True)

    def resumed(self) -> list[Epoch]:
        """Resume from the last saved epoch, if there is one, and return the epochs so far."""
        if self.checkpoint is not None:
            self._wait()  # the main process may still be saving the end of an earlier training
            if (folder := newest(self.checkpoint)) is not None:
                self.accelerator.load_state(str(folder))
                self.kept = len(self.progress.epochs)
            self._wait()  # the main process must not replace files that another process still reads
        return self.progress.epochs[:]

    def _wait(self) -> None:
        if self.share[1] > 1:
            self.accelerator.wait_for_everyone()

    @property
    def is_over(self) -> bool:
        done = self.progress
        epochs = self.stop or (self.options.epochs if self.learns else 1)
        return len(done.epochs) >= epochs or done.since_best >= self.options.patience

    def next_epoch(self) -> Epoch:
        """Train for an epoch, validate, and save the state."""
        number, monitor = len(self.progress.epochs) + 1, self.phase.monitor
        loss, rate = self._learn(number)
        validation = self._validate(number)
        if monitor not in validation:
            raise ValueError(f"{self.name}: the monitor is {monitor!r}, but validation gives {', '.join(validation)}")
        if math.isnan(validation[monitor]):  # NaN cannot be compared with other epochs
            raise ValueError(
                f"{self.name}: {monitor} is not defined for the validation split, so no epoch is the best: expected "
                "rows that have it, such as different targets, or a relevant document"
            )
        epoch = Epoch(number, loss, validation, True, rate, monitor, self.phase.lower_is_better)
        if self.stop is not None or all(epoch.worth > earlier.worth for earlier in self.progress.epochs):
            self.progress.best_state = copied(self.module)
        else:
            epoch = replace(epoch, best=False)
        self.progress.epochs.append(epoch)
        self._keep(number)
        return self.progress.epochs[-1]

    def _keep(self, number: int) -> None:
        """Save the state, but not so often that saving takes longer than short epochs."""
        due = self.is_over or time.monotonic() - self.saved >= SECONDS
        if self.checkpoint is not None and self.accelerator.is_main_process and due:
            save(self.accelerator, self.checkpoint, number)
            self.kept, self.saved = number, time.monotonic()

    def _batches(self, number: int) -> Iterator[tuple[Batch, torch.Generator]]:
        """Yield the batches of an epoch, each with the generator for random choices in its loss."""
        # One seed per epoch, so that a resumed training draws the same random numbers as an uninterrupted one.
        generator, common = (torch.Generator().manual_seed(self._seed(number)) for _ in range(2))
        how = {"multiple_of": self.phase.group, "share": self.share, "order": self.phase.order}
        drawn = random_batches(self.phase.rows, self.phase.batch_size, generator, **how)
        for rows, following in pairwise(chain(drawn, [torch.empty(0, dtype=torch.int64)])):
            batch = self.phase.batch(rows, generator)
            if len(following):
                self.phase.ahead(following)
            yield batch, common if self.share[1] > 1 else generator  # all processes compute the same loss

    def _seed(self, number: int) -> int:
        return self.seed * 1_000_003 + number

    def _learn(self, number: int) -> tuple[float, float]:
        """Return the mean loss of an epoch, and the learning rate of its last step."""
        # For dropout, which takes no generator; different in each process.
        torch.manual_seed(self._seed(number) + 500_009 * self.share[0])
        losses: list[Tensor] = []
        rate: Any = 0.0
        self.prepared.train()
        for drawn in self._batches(number):
            try:
                value = self.step(drawn)
            except NotFiniteError as error:
                raise self._diverged(str(error), len(losses) + 1, number) from error
            if self.learns:
                self._descend(value)
                rate = self.rates.get_last_lr()[0]  # before the schedule moves to the next step
                self.rates.step()
            losses.append(value.detach())
        if not losses:
            raise ValueError(
                f"{self.name}: no batches in epoch {number}, expected at least one: {self.phase.rows} rows are too few"
            )
        for buffer in self.module.buffers() if self.share[1] > 1 else ():  # each process has normalized its own rows
            torch.distributed.broadcast(buffer, 0)
        every = torch.stack(losses).float().cpu()  # once per epoch: a check in each step would stall a GPU
        if not torch.isfinite(every).all():
            batch = int((~torch.isfinite(every)).nonzero()[0])
            raise self._diverged(f"the loss became {every[batch].item()}", batch + 1, number)
        return every.mean().item(), float(rate)

    def _descend(self, value: Tensor) -> None:
        self.accelerator.backward(value)
        if (clip := self.options.optimizer.clip) is not None:
            self.accelerator.clip_grad_norm_(self.prepared.parameters(), clip)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _validate(self, number: int) -> dict[str, float]:
        """Return the metrics; the main process sends them to the others, so that all make the same decisions."""
        result = [{}]
        self.prepared.eval()
        try:
            with torch.no_grad(), self.accelerator.autocast():
                if self.accelerator.is_main_process:
                    result = [self.phase.validate(self.prepared)]
        except ValueError as error:
            # Predictions that are not finite cannot be scored; any other error comes from the data.
            kind = FloatingPointError if isinstance(error, NotFiniteError) else ValueError
            raise kind(
                f"{self.name}: cannot be validated after epoch {number}: {error}; {kept(self.checkpoint, self.kept)}"
            ) from error
        if self.share[1] > 1:
            torch.distributed.broadcast_object_list(result, device=self.accelerator.device)
        if not all(math.isfinite(value) for value in result[0].values()):
            raise FloatingPointError(
                f"{self.name}: a validation metric is not finite after epoch {number}: {result[0]}; "
                f"{kept(self.checkpoint, self.kept)}"
            )
        return result[0]

    def _diverged(self, what: str, batch: int, number: int) -> FloatingPointError:
        return FloatingPointError(
            f"{self.name}: {what} in batch {batch} of epoch {number}; {kept(self.checkpoint, self.kept)}. Lower the "
            "learning rate, or set optimizer.clip"
        )

    def end(self) -> None:
        """Undo what accelerate changed on the module, and load its best weights."""
        if "_original_forward" in vars(self.module):  # mixed precision replaced it
            self.accelerator.unwrap_model(self.prepared, keep_fp32_wrapper=False, keep_torch_compile=False)
        vars(self.module).pop("_is_accelerate_prepared", None)
        self.module.load_state_dict(self.progress.best_state)
        self.module.eval()


def train(
    task: Any,
    network: Any,
    train_split: Any,
    val_split: Any,
    *,
    objective: Any,
    seed: int,
    started: bool = False,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    name: str = "training",
    stops: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, Epoch]]:
    """Train a task's network phase by phase; at the end it has the weights of the best epoch of each module.

    Small phases are computed on one thread, because several threads would slow them down.

    Phases that train the same module (a probe, then fine-tuning) compete: the module keeps the better weights, and an
    epoch of the second phase is `best` only if it is better than all epochs of the first.

    Args:
        task: see `rankgrad.tasks.Task`, created with the options of its training.
        network: from `task.build`.
        train_split, val_split: from `task.load`.
        objective: the loss, see `rankgrad.training.objective.Objective`.
        seed: for all random choices.
        started: whether the network has trained weights to start from.
        device, precision, checkpoint, name: see `fit`.
        stops: the epoch after which each phase ends, see `fit`; only these phases train, and the last one decides.

    Yields:
        The name of the phase and the epoch; numbers of epochs continue from phase to phase.

    Raises:
        ValueError, FloatingPointError: see `fit`; or no phase has an epoch.
    """
    accelerator = make_accelerator(device=device, precision=precision)
    network.to(accelerator.device, memory_format=torch.channels_last)
    best: dict[int, tuple[float, dict[str, Tensor]]] = {}  # by the module that a phase trains
    count = 0
    for phase in task.phases(network, train_split, val_split, objective, started=started, accelerator=accelerator):
        if stops is not None and phase.name not in stops:
            continue
        # The best worth and weights of an earlier phase that trained the same module.
        best_before, epochs_before, worths = best.get(id(phase.module)), count, []
        epochs = fit(
            phase,
            # Each phase draws different batches: seeds of users are below 2^31.
            seed=seed + task.blocks().index(phase.name) * 2**31,
            device=device,
            precision=precision,
            checkpoint=checkpoint and checkpoint / phase.name,
            name=f"{name} ({phase.name})",
            stop=None if stops is None else stops[phase.name],
        )
        with one_thread() if phase.small else nullcontext():
            for epoch in epochs:
                count = epochs_before + epoch.number
                objective.epoch = count + 1
                worths.append(epoch.worth)
                is_better = best_before is None or epoch.worth > best_before[0]
                yield phase.name, replace(epoch, number=count, best=epoch.best and is_better)
        if stops is None and best_before is not None and best_before[0] >= max(worths):
            phase.module.load_state_dict(best_before[1])
        else:
            best[id(phase.module)] = max(worths), copied(phase.module)
    if not count:
        raise ValueError(f"{name}: no epochs in any phase, expected at least one")
    network.eval()

"""The training loop: `fit` yields an epoch at a time, and a killed training resumes from its last completed epoch.

In distributed runs each process trains on its share of every batch, and all have the same weights after each step.
"""

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from rankops.checks import NotFiniteError
from rankops.io.atomic import replaced_folder, write_error
from rankops.training.device import make_accelerator, one_thread

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Epoch", "Trainable", "batch_count", "fit", "in_lists", "random_batches", "train"]

SCHEDULES = ("constant", "cosine", "step")


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training data ended with.

    Attributes:
        number: 1, 2, ...
        loss: mean training loss over the epoch's batches.
        validation: every validation metric.
        best: whether the monitored metric is the best so far.
        learning_rate: of the epoch's last step.
    """

    number: int
    loss: float
    validation: dict[str, float]
    best: bool
    learning_rate: float


class _Progress:
    """What a checkpoint must hold besides the model, the optimizer and the random state."""

    def __init__(self, model: nn.Module):
        self.epochs: list[Epoch] = []
        self.best_state = _copied(model)

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "best_state": self.best_state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = [Epoch(**epoch) for epoch in state["epochs"]]
        self.best_state = state["best_state"]


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


class _Loss(nn.Module):
    """A loss of a network, called as `update_bn` calls a model: with a batch alone."""

    def __init__(self, network: nn.Module, loss: Callable[[nn.Module, Any], Tensor]):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, batch: Any) -> Tensor:
        return self.loss(self.network, batch)


class Trainable(Protocol):
    """What `fit` trains: how a batch is made, what its loss is, and how the module is validated.

    Attributes:
        lower_is_better: whether the monitored metric is an error.
    """

    lower_is_better: bool

    def monitor_in(self, phase: str) -> str:
        """Return the validation metric that decides on the best epoch of a phase."""

    def batch(self, data: Any, phase: str, rows: Tensor, generator: torch.Generator) -> Any:
        """Return the batch of these rows (n,); its random choices come from the generator."""

    def loss(self, module: nn.Module, phase: str, batch: Any, objective: Any) -> Tensor:
        """Return the loss of a batch, a scalar."""

    def validate(self, module: nn.Module, phase: str, data: Any) -> dict[str, float]:
        """Return the validation metrics of a module in evaluation mode, without gradient."""


def random_batches(
    size: int,
    batch_size: int,
    generator: torch.Generator,
    *,
    multiple_of: int = 1,
    share: tuple[int, int] = (0, 1),
    order: Callable[[torch.Generator], Tensor] | None = None,
) -> Iterator[Tensor]:
    """Yield the row numbers of one pass in random order, batch by batch; a last batch of one row is left out.

    Batch normalization has no variance of one row. With `multiple_of`, as a sorter of fixed length needs it, the last
    rows that do not fill a group are left out of this pass; they are other ones in each.

    Args:
        size: rows are 0, ..., size - 1.
        batch_size: of all processes together.
        generator: draws the order.
        multiple_of: size of a group.
        share: which share of each batch is wanted, of how many: (process, processes). Shares are equally large, of two
            rows at least and of whole groups; what does not divide is left out of that batch. What is drawn from the
            generator after the order differs from share to share.
        order: draws the order of `size` row numbers, as `in_lists` does; None for that of all rows.

    Raises:
        ValueError: a `batch_size` of 1; it is no multiple of `multiple_of`, or there are fewer rows than that; batches
            are too small to be shared.

    >>> [list(random_batches(6, 4, torch.Generator(), share=(process, 2))) for process in (0, 1)]
    [[tensor([0, 5])], [tensor([3, 4])]]
    """
    if batch_size < 2 <= size:
        raise ValueError(
            f"batch_size is {batch_size}, expected at least 2: batch normalization has no variance of one row"
        )
    if batch_size % multiple_of or size < multiple_of:
        raise ValueError(
            f"batches of {batch_size} out of {size} rows do not make groups of {multiple_of}, the sorter's length: "
            f"expected a multiple of {multiple_of} and at least {multiple_of} rows"
        )
    process, processes = share
    if processes > 1 and min(batch_size, size) // (multiple_of * processes) * multiple_of < 2:
        raise ValueError(
            f"batches of {min(batch_size, size)} rows in groups of {multiple_of} cannot be shared by {processes} "
            "processes, expected two rows and a whole group for each: larger batches, or fewer processes"
        )
    drawn = torch.randperm(size, generator=generator) if order is None else order(generator)
    drawn = drawn[: size - size % multiple_of]
    if process:  # else images at the same place of two shares would be moved alike
        generator.manual_seed(int(torch.randint(2**31, (process,), generator=generator)[-1]))
    for batch in drawn.split(batch_size):
        length = len(batch) // (multiple_of * processes) * multiple_of
        rows = batch[process * length : (process + 1) * length]
        if len(rows) > 1 or size == 1:
            yield rows


def in_lists(groups: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Return row numbers in random order, of which each `length` after another are of one group.

    Args:
        groups: the number of the group of each row (n,). Rows that fill no list are left out; they are other ones each
            time.
        length: of a list.
        generator: draws the order.

    >>> in_lists(torch.tensor([0, 1, 0, 1, 1]), 2, torch.Generator().manual_seed(0))
    tensor([4, 1, 0, 2])
    """
    rows = torch.randperm(len(groups), generator=generator)
    rows = rows[groups[rows].argsort(stable=True)]
    counts = groups.bincount()
    place = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[groups[rows]]  # within its group
    lists = rows[place < (counts - counts % length)[groups[rows]]].view(-1, length)
    return lists[torch.randperm(len(lists), generator=generator)].flatten()


def batch_count(size: int, batch_size: int, *, multiple_of: int = 1, share: tuple[int, int] = (0, 1)) -> int:
    """Return how many batches `random_batches` makes of one pass, by which a schedule moves with each step.

    Args:
        size, batch_size, multiple_of, share: see `random_batches`.

    >>> batch_count(9, 4), batch_count(130, 64, multiple_of=64)  # a last batch of one row; two rows that make no group
    (2, 2)
    """
    whole, rest = divmod(size - size % multiple_of, batch_size)
    kept = [length // (multiple_of * share[1]) * multiple_of for length in (batch_size, rest)]
    return whole * (kept[0] > 1 or size == 1) + (kept[1] > 1 or rest == size == 1)


def _factor(schedule: dict[str, Any], epochs: int) -> Callable[[float], float]:
    """Return the learning rate at a time (in epochs), as a factor of the optimizer's."""
    warm_up = schedule.get("warm_up_epochs", 0)

    def factor(time: float) -> float:
        if time < warm_up:
            return (time + 1e-8) / warm_up
        if schedule["name"] == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (time - warm_up) / max(epochs - warm_up, 1e-8))))
        if schedule["name"] == "step":
            # A little later than it is, so that no rounding error keeps a step from coming.
            return schedule["factor"] ** int(time / schedule["every_epochs"] + 1e-6)
        return 1.0

    return factor


def _average(accelerator: "Accelerator", tensors: list[Tensor]) -> None:
    """Replace each tensor by the mean of all processes, in one exchange."""
    if tensors:
        flat = accelerator.reduce(torch.cat([tensor.reshape(-1) for tensor in tensors]), reduction="mean")
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view(tensor.shape))


def _average_gradients(accelerator: "Accelerator", optimizer: torch.optim.Optimizer) -> None:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    _average(accelerator, [parameter.grad for parameter in parameters if parameter.grad is not None])


def _average_statistics(accelerator: "Accelerator", model: nn.Module) -> None:
    """Average the statistics of batch normalization: each process has seen its own rows."""
    weights = dict(model.named_parameters())
    kept = model.state_dict().items()
    _average(accelerator, [value for name, value in kept if name not in weights and value.is_floating_point()])


def fit(
    task: Trainable,
    phase: str,
    module: nn.Module,
    train: Any,
    val: Any,
    *,
    options: Mapping[str, Any],
    rows: int,
    seed: int,
    objective: Any = None,
    group: int = 1,
    device: str = "auto",
    precision: str = "no",
    checkpoint: str | Path | None = None,
    name: str = "training",
) -> Iterator[Epoch]:
    """Train `module` in place and yield each epoch; at the end the module has the weights of its best one.

    With a `checkpoint` folder the state is kept there after each epoch, whole or not at all. Called again with the
    same arguments, `fit` yields the finished epochs once more and continues; it ends with the same bits as an
    uninterrupted run on the same device with the same number of threads. Give each training a folder of its own.
    PyTorch's global random state is seeded anew in each epoch.

    In a distributed run (`accelerate launch`) every process calls `fit` with the same arguments and equal weights.
    Gradients are averaged before each step, statistics of batch normalization after each epoch; the main process
    validates and keeps the state, and all yield the same epochs. A loss that compares examples compares those of a
    process's share of the batch.

    Args:
        task: makes batches, computes the loss of one and validates, see `Trainable`.
        phase: of the task.
        module: on any device; it is moved.
        train, val: the task's data for this phase. Training data with a method `ahead` are told the rows of the next
            batch, so that they can be read while this one is learned from; with an `order` they are learned from in
            that, see `random_batches`.
        options: `batch_size`, `epochs`, `patience` (stop after so many epochs without a better monitored metric),
            `optimizer` (`name` of a class in `torch.optim`, `args`, optionally `clip`, the largest gradient norm),
            `schedule` (`name`: `constant`, `cosine` to 0 at the last epoch, or `step` with `factor` and
            `every_epochs`; optionally `warm_up_epochs`), and optionally `average`: how much of the averaged weights
            each step keeps, such as 0.999; then the exponential moving average is validated and returned, with
            statistics of batch normalization taken anew in one more pass over each epoch's batches; and `lr_factor`,
            the rate of the module's `backbone` in parts of that of the rest. Other keys are the task's.
        rows: examples in an epoch.
        seed: of all random choices in training.
        objective: handed to `task.loss`. Its `state` (a fine-tuned sorter) is kept in the checkpoint too, and what it
            has `learned` is learned with the module's weights.
        group: batches are made of whole groups of so many examples, as a sorter of fixed length needs.
        device, precision: see `rankops.training.device.make_accelerator`.
        checkpoint: folder for the state, or None to keep none.
        name: for messages.

    Raises:
        ValueError: an unknown optimizer or schedule, an `average` outside 0 to 1, a monitored metric that `validate`
            does not return, no epochs, patience or batches.
        FloatingPointError: a loss or metric is not finite; the last good epoch's checkpoint is kept.
    """
    _check(options)
    optimizer_options, average = options["optimizer"], options.get("average")
    epochs, patience, batch_size = options["epochs"], options["patience"], options["batch_size"]
    # One accelerator for each training: it saves and loads what was handed to it.
    accelerator = make_accelerator(device=device, precision=precision)
    share = (accelerator.process_index, accelerator.num_processes)
    several = accelerator.num_processes > 1
    module.to(accelerator.device)  # before the optimizer is told of its parameters
    optimizer = _optimizer(module, getattr(objective, "learned", ()), optimizer_options, options.get("lr_factor"))
    factor = _factor(options["schedule"], epochs)
    steps = batch_count(rows, batch_size, multiple_of=group, share=share)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step / max(steps, 1)))
    bare, hooks = module, []
    state: list[Any] = list(getattr(objective, "state", ()))
    averaged = None
    if average is not None:
        averaged = AveragedModel(bare, device=accelerator.device, multi_avg_fn=get_ema_multi_avg_fn(average))
        averaged.n_averaged = averaged.n_averaged.cpu()  # it is read in each step: a GPU would be waited for
        state.append(averaged)
    if several:
        # Not in DistributedDataParallel, which averages what went through its own call: heads are called by themselves.
        module = accelerator.prepare_model(module, evaluation_mode=True)
        optimizer = accelerator.prepare_optimizer(optimizer)
        hooks = [
            other.register_step_pre_hook(lambda optimizer, *_: _average_gradients(accelerator, optimizer))
            for other in state
            if isinstance(other, torch.optim.Optimizer)
        ]
    else:
        # The module is in its place: to look for that, accelerate imports much of torch.distributed.
        module, optimizer = accelerator.prepare(module, optimizer, device_placement=[False, True])
    judged = module if averaged is None else averaged.module
    progress = _Progress(bare)
    accelerator.register_for_checkpointing(progress, rates, *state)

    def batches(number: int) -> Iterator[Any]:
        # Seeds of an epoch, not a stream over all of them: a resumed training draws what it would have drawn.
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        nothing = torch.empty(0, dtype=torch.int64)
        order = getattr(train, "order", None)
        drawn = random_batches(rows, batch_size, generator, multiple_of=group, share=share, order=order)
        for chosen, following in pairwise(chain(drawn, [nothing])):
            batch = task.batch(train, phase, chosen, generator)
            if hasattr(train, "ahead") and len(following):
                train.ahead(following)
            yield batch

    def loss_of(network: nn.Module, batch: Any) -> Tensor:
        with accelerator.autocast():
            return task.loss(network, phase, batch, objective)

    def diverged(what: str, batch: int, number: int) -> FloatingPointError:
        return FloatingPointError(
            f"{name}: {what} in batch {batch} of epoch {number}; {_kept(checkpoint, number - 1)}. Lower the learning "
            "rate, or set optimizer.clip"
        )

    def train_epoch(number: int) -> tuple[float, float]:
        # For dropout, which takes no generator; of each process another one.
        torch.manual_seed(seed * 1_000_003 + number + 500_009 * accelerator.process_index)
        losses: list[Tensor] = []
        rate: Any = 0.0
        module.train()
        for batch in batches(number):
            try:
                value = loss_of(module, batch)
            except NotFiniteError as error:
                raise diverged(str(error), len(losses) + 1, number) from error
            accelerator.backward(value)
            if several:
                _average_gradients(accelerator, optimizer)
            if optimizer_options.get("clip") is not None:
                accelerator.clip_grad_norm_(module.parameters(), optimizer_options["clip"])
            optimizer.step()
            optimizer.zero_grad()
            rate = rates.get_last_lr()[0]  # before the schedule goes on to the next step's
            rates.step()
            if averaged is not None:
                averaged.update_parameters(bare)
            losses.append(value.detach())
        if not losses:
            raise ValueError(f"{name}: no batches in epoch {number}, expected at least one: {rows} rows are too few")
        every = torch.stack(losses).float()
        if several:
            every = accelerator.reduce(every, reduction="mean")
            _average_statistics(accelerator, bare)
        every = every.cpu()  # once an epoch: asking each step would stall a GPU
        if not torch.isfinite(every).all():
            place = int((~torch.isfinite(every)).nonzero()[0])
            raise diverged(f"the loss became {every[place].item()}", place + 1, number)
        if averaged is not None:
            with torch.no_grad():
                update_bn(([batch] for batch in batches(number)), _Loss(judged, loss_of))
            if several:
                _average_statistics(accelerator, judged)
        return every.mean().item(), float(rate)

    def validate(number: int) -> dict[str, float]:
        module.eval()
        judged.eval()
        try:
            with torch.no_grad(), accelerator.autocast():
                result = task.validate(judged, phase, val) if accelerator.is_main_process else {}
        except ValueError as error:
            # Predictions that are not finite cannot be scored; anything else is a fault of the data.
            kind = FloatingPointError if isinstance(error, NotFiniteError) else ValueError
            message = f"{name}: cannot be validated after epoch {number}: {error}; {_kept(checkpoint, number - 1)}"
            raise kind(message) from error
        if several:  # one process says it to all, so that all take the same decisions
            from accelerate.utils import broadcast_object_list

            result = broadcast_object_list([result])[0]
        if not all(math.isfinite(value) for value in result.values()):
            raise FloatingPointError(
                f"{name}: a validation metric is not finite after epoch {number}: {result}; "
                f"{_kept(checkpoint, number - 1)}"
            )
        return result

    monitor, sign = task.monitor_in(phase), -1 if task.lower_is_better else 1
    try:
        if checkpoint is not None:
            if several:  # the main process may still write what an earlier training ended with
                accelerator.wait_for_everyone()
            if (newest := _newest(Path(checkpoint))) is not None:
                accelerator.load_state(str(newest))
            if several:  # the main process must not replace what another one still reads
                accelerator.wait_for_everyone()
            yield from progress.epochs
        while len(progress.epochs) < epochs and _since_best(progress.epochs) < patience:
            number = len(progress.epochs) + 1
            loss, rate = train_epoch(number)
            validation = validate(number)
            if monitor not in validation:
                raise ValueError(f"{name}: the monitor is {monitor!r}, but validation gives {', '.join(validation)}")
            before = [sign * epoch.validation[monitor] for epoch in progress.epochs]
            best = not before or sign * validation[monitor] > max(before)
            if best:
                progress.best_state = _copied(bare if averaged is None else judged)
            epoch = Epoch(number, loss, validation, best, rate)
            progress.epochs.append(epoch)
            if checkpoint is not None and accelerator.is_main_process:
                _save(accelerator, Path(checkpoint), number)
            yield epoch
    finally:
        for hook in hooks:
            hook.remove()
        # As it came, so that another training prepares it anew, and it answers later as if loaded from disk.
        if "_original_forward" in vars(bare):  # of mixed precision
            accelerator.unwrap_model(module, keep_fp32_wrapper=False, keep_torch_compile=False)
        vars(bare).pop("_is_accelerate_prepared", None)
        bare.load_state_dict(progress.best_state)
        bare.eval()


def _optimizer(
    module: Any, also: Iterable[Tensor], options: Mapping[str, Any], lr_factor: float | None
) -> torch.optim.Optimizer:
    """Return the optimizer of a module's weights that are not frozen and of others, at another rate of its backbone."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad] + list(also)
    make = getattr(torch.optim, options["name"])
    if lr_factor is None:
        return make(trained, **options["args"])
    backbone = set(module.backbone.parameters())
    parts = [[one for one in trained if (one in backbone) == inside] for inside in (False, True)]
    optimizer = make([{"params": part} for part in parts], **options["args"])
    optimizer.param_groups[1]["lr"] *= lr_factor
    return optimizer


def _check(options: Mapping[str, Any]) -> None:
    optimizer, schedule, average = options["optimizer"], options["schedule"], options.get("average")
    if not hasattr(torch.optim, optimizer["name"]):
        raise ValueError(f"optimizer.name: no {optimizer['name']!r} in torch.optim; try AdamW or SGD")
    if schedule["name"] not in SCHEDULES:
        raise ValueError(f"schedule.name is {schedule['name']!r}, expected one of {', '.join(SCHEDULES)}")
    if options["epochs"] < 1 or options["patience"] < 1:
        raise ValueError(f"epochs is {options['epochs']} and patience {options['patience']}, expected at least 1 each")
    if average is not None and not 0 < average < 1:
        raise ValueError(f"average is {average}, expected a number between 0 and 1, or None")


def train(
    task: Any,
    network: Any,
    train_split: Any,
    val_split: Any,
    *,
    training: Mapping[str, Any],
    objective: Any,
    seed: int,
    started: bool = False,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    name: str = "training",
) -> Iterator[tuple[str, Epoch]]:
    """Train a task's network phase by phase; at the end it has the weights of the best epoch of each module.

    Phases that are small are computed on one thread, which several would only delay.

    Phases that train the same module (a probe, then fine-tuning) compete: the weights of the better one stay, and an
    epoch of the second is `best` only if it is better than all of the first.

    Args:
        task: see `rankops.tasks.Task`.
        network: from `task.build`.
        train_split, val_split: from `task.load`.
        training: a block of options for each phase, see `fit`; `task.plan` says which are trained.
        objective: the loss, see `rankops.training.objective.Objective`.
        seed: of all random choices.
        started: whether the network has trained weights to start from.
        device, precision, checkpoint, name: see `fit`.

    Yields:
        The phase and the epoch; epochs count on from phase to phase.

    Raises:
        ValueError, FloatingPointError: see `fit`; or no phase has an epoch.
    """
    accelerator = make_accelerator(device=device, precision=precision)
    network.to(accelerator.device, memory_format=torch.channels_last)
    best: dict[int, tuple[float, dict[str, Tensor]]] = {}  # by the module that a phase trains
    count, sign = 0, -1 if task.lower_is_better else 1
    for phase, options in task.plan(training, started=started).items():
        module, data, val = task.begin(network, phase, train_split, val_split, accelerator=accelerator)
        known, monitor = best.get(id(module)), task.monitor_in(phase)
        before, values = count, []
        # Each phase draws other batches: seeds of users end below 2^31.
        phase_seed = seed + task.phases.index(phase) * 2**31
        with one_thread() if task.is_small(phase, train_split) else nullcontext():
            for epoch in fit(
                task,
                phase,
                module,
                data,
                val,
                options=options,
                rows=task.rows(data, phase),
                seed=phase_seed,
                objective=objective,
                group=task.group(phase, objective),
                device=device,
                precision=precision,
                checkpoint=checkpoint and checkpoint / phase,
                name=f"{name} ({phase})",
            ):
                count = before + epoch.number
                objective.epoch = count + 1
                values.append(sign * epoch.validation[monitor])
                ahead = known is None or values[-1] > known[0]
                yield phase, replace(epoch, number=count, best=epoch.best and ahead)
        if known is not None and known[0] >= max(values):
            module.load_state_dict(known[1])
        else:
            best[id(module)] = max(values), _copied(module)
        task.end(network, phase)
    if not count:
        raise ValueError(f"{name}: no epochs in any phase, expected at least one")
    network.eval()


def _since_best(epochs: list[Epoch]) -> int:
    return next((since for since, epoch in enumerate(reversed(epochs)) if epoch.best), 0)


def _kept(checkpoint: str | Path | None, number: int) -> str:
    if checkpoint is None or number == 0:
        return "no earlier epoch was kept"
    return f"epoch {number} is kept in {checkpoint}"


def _save(accelerator: "Accelerator", checkpoint: Path, number: int) -> None:
    with replaced_folder(checkpoint / f"epoch-{number:06d}") as partial:
        try:
            # Not as safetensors, which refuse to read back an LSTM's weights: cuDNN keeps them in one piece of memory.
            accelerator.save_state(str(partial), safe_serialization=False)
        except RuntimeError as error:  # what torch makes of a full disk
            raise write_error(checkpoint / partial.name, error) from error
    for older in checkpoint.glob("epoch-[0-9]*[0-9]"):
        if older.name != f"epoch-{number:06d}":
            shutil.rmtree(older)


def _newest(checkpoint: Path) -> Path | None:
    whole = sorted(path for path in checkpoint.glob("epoch-*") if ".partial-" not in path.name)
    return whole[-1] if whole else None

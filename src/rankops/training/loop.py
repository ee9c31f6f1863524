"""Training: `fit` yields an epoch at a time, and a killed training goes on where its last whole epoch ended.

Under several processes that accelerate knows of (`pipelines.ops.launch` starts them) each takes its share of every
batch, and all have the same weights after each step.
"""

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from rankops.checks import NotFiniteError
from rankops.io.atomic import replaced_folder, write_error

__all__ = ["Epoch", "batch_count", "compute", "fit", "random_batches"]

SCHEDULES = ("constant", "cosine", "step")


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training data ended with.

    Attributes:
        number: 1, 2, ...
        loss: mean training loss over the epoch's batches.
        validation: every validation figure.
        best: whether the judged figure is the best so far.
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
    """A loss of a network, called as `update_bn` calls a model: with a batch alone, which is made without autocast."""

    def __init__(
        self, network: nn.Module, loss: Callable[[nn.Module, Any], Tensor], autocast: Callable[[], Any]
    ):  # fmt: skip
        super().__init__()
        self.network, self.loss, self.autocast = network, loss, autocast

    def forward(self, batch: Any) -> Tensor:
        with self.autocast():
            return self.loss(self.network, batch)


def compute(*, device: str, precision: str) -> Accelerator:
    """Where and how to compute: an Accelerator for the device that the params name.

    Networks are compiled where the environment says so as accelerate reads it: ACCELERATE_DYNAMO_BACKEND=INDUCTOR.

    Args:
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        precision: `no`, `fp16` or `bf16`.

    Raises:
        ValueError: `cuda` without a GPU; or the process has computed elsewhere, or in another precision, before.
    """
    if device != "cpu" and not torch.cuda.is_available():
        unusable = torch.cuda.device_count()  # which the driver tells, whether or not torch can use it
        why = f"there are {unusable}, whose driver is too old for torch's CUDA {torch.version.cuda}: update the driver"
        if device == "cuda":
            advice = why if unusable else "set it to auto or cpu, or look at nvidia-smi"
            raise ValueError(f"compute.device is cuda, but torch finds no GPU: {advice}")
        if unusable:
            logging.getLogger(__name__).warning("compute.device is auto, and torch finds no GPU: %s", why)
    # Of several processes without a GPU, each would train by itself if the CPU were not named.
    cpu = device == "cpu" or not torch.accelerator.is_available()
    if AcceleratorState._shared_state:  # accelerate keeps what a process began with
        begun = AcceleratorState()
        if begun.mixed_precision != precision or (begun.device.type == "cpu") != cpu:
            raise ValueError(
                f"this process has begun to compute on {begun.device.type} in precision {begun.mixed_precision}, and "
                f"is asked for device {device} in precision {precision}: start another process for that"
            )
    return Accelerator(cpu=cpu, mixed_precision=precision)


def random_batches(
    size: int,
    batch_size: int,
    generator: torch.Generator,
    *,
    limit: int | None = None,
    multiple_of: int = 1,
    share: tuple[int, int] = (0, 1),
) -> Iterator[Tensor]:
    """Row numbers of one pass in random order, batch by batch; a last batch of one row is left out.

    Batch normalization has no variance of one row. With a `limit`, a pass is over so many rows, chosen anew each time.
    With `multiple_of`, as a sorter of fixed length needs it, the last rows that do not fill a group are left out of
    this pass; they are other ones in each.

    Args:
        size: rows are 0, ..., size - 1.
        batch_size: of all processes together.
        generator: draws the order.
        limit, multiple_of: see above.
        share: which share of each batch is wanted, of how many: (process, processes). Shares are equally large, of two
            rows at least and of whole groups; what does not divide is left out of that batch. What is drawn from the
            generator after the order differs from share to share.

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
    count = size if limit is None else min(size, limit)
    if count < max(1, multiple_of):
        raise ValueError(f"limit is {limit}, expected at least {max(1, multiple_of)} rows: None takes all")
    process, processes = share
    if processes > 1 and min(batch_size, count) // (multiple_of * processes) * multiple_of < 2:
        raise ValueError(
            f"batches of {min(batch_size, count)} rows in groups of {multiple_of} cannot be shared by {processes} "
            "processes, expected two rows and a whole group for each: larger batches, or fewer processes"
        )
    order = torch.randperm(size, generator=generator)[: count - count % multiple_of]
    if process:  # else images at the same place of two shares would be moved alike
        generator.manual_seed(int(torch.randint(2**31, (process,), generator=generator)[-1]))
    for batch in order.split(batch_size):
        length = len(batch) // (multiple_of * processes) * multiple_of
        rows = batch[process * length : (process + 1) * length]
        if len(rows) > 1 or size == 1:
            yield rows


def batch_count(
    size: int, batch_size: int, *, limit: int | None = None, multiple_of: int = 1, share: tuple[int, int] = (0, 1)
) -> int:
    """How many batches `random_batches` makes of one pass: what a schedule that moves with each step counts.

    Args:
        size, batch_size, limit, multiple_of, share: see `random_batches`.

    >>> batch_count(9, 4), batch_count(130, 64, multiple_of=64)  # a last batch of one row; two rows that make no group
    (2, 2)
    """
    count = size if limit is None else min(size, limit)
    whole, rest = divmod(count - count % multiple_of, batch_size)
    kept = [length // (multiple_of * share[1]) * multiple_of for length in (batch_size, rest)]
    return whole * (kept[0] > 1 or size == 1) + (kept[1] > 1 or rest == size == 1)


def _factor(schedule: dict[str, Any], epochs: int) -> Callable[[float], float]:
    """The learning rate at a time (in epochs), as a factor of the optimizer's."""
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


def _average(accelerator: Accelerator, tensors: list[Tensor]) -> None:
    """Gives each tensor the mean of all processes' in its place, by one exchange."""
    if tensors:
        flat = accelerator.reduce(torch.cat([tensor.reshape(-1) for tensor in tensors]), reduction="mean")
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view(tensor.shape))


def _average_gradients(accelerator: Accelerator, optimizer: torch.optim.Optimizer) -> None:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    _average(accelerator, [parameter.grad for parameter in parameters if parameter.grad is not None])


def _average_statistics(accelerator: Accelerator, model: nn.Module) -> None:
    """Those of batch normalization, of which each process has seen its own rows."""
    weights = dict(model.named_parameters())
    kept = model.state_dict().items()
    _average(accelerator, [value for name, value in kept if name not in weights and value.is_floating_point()])


def fit(
    model: nn.Module,
    *,
    batches: Callable[[torch.Generator], Iterable[Any]],
    loss: Callable[[nn.Module, Any], Tensor],
    validate: Callable[[nn.Module], dict[str, float]],
    judged_by: str,
    lower_is_better: bool = False,
    epochs: int,
    batches_per_epoch: int,
    patience: int,
    optimizer: dict[str, Any],
    schedule: dict[str, Any],
    seed: int,
    device: str = "auto",
    precision: str = "no",
    checkpoint: str | Path | None = None,
    state: Iterable[Any] = (),
    average: float | None = None,
    name: str = "training",
) -> Iterator[Epoch]:
    """Trains `model` in place and yields each epoch; at the end the model has the weights of its best one.

    With a `checkpoint` folder the state is kept there after each epoch, whole or not at all. Called again with the
    same arguments, `fit` yields the epochs that are done once more and goes on; it ends with the same bits as an
    uninterrupted run on the same device, with the same number of threads. A folder of another training is not noticed:
    give each its own. PyTorch's global random state is seeded anew in each epoch.

    Of several processes each calls `fit` with the same arguments and equal weights. Gradients are averaged before each
    step, statistics of batch normalization after each epoch; the main process validates and keeps the state, and all
    yield the same epochs. So a step is that of one process with the whole batch, as far as the loss is a mean over
    examples and no layer looks at several: a loss that compares examples compares those of a share.

    Args:
        model: on any device; it is moved.
        batches: gives one epoch's batches, of which the random choices come from the generator that it is passed; a
            process's share of each, and equally many in all (see `random_batches`).
        loss: of the model on one batch; a scalar.
        validate: figures of the model in evaluation mode, without gradient.
        judged_by, lower_is_better: which of those figures decides on the best epoch and on stopping early.
        epochs: at most so many.
        batches_per_epoch: for schedules that move with each step.
        patience: stop after so many epochs without a better figure.
        optimizer: `name` of a class in `torch.optim`, `args`, and optionally `clip`, the largest gradient norm.
        schedule: `name`: `constant`, `cosine` (to 0 at the last epoch) or `step` (`factor`, `every_epochs`);
            optionally `warm_up_epochs`.
        seed: of all random choices in training.
        device, precision: see `compute`.
        checkpoint: folder for the state, or None to keep none.
        state: what else changes in training, each with `state_dict` and `load_state_dict`; kept in the checkpoint. The
            gradients of optimizers among it are averaged over the processes too.
        average: None, or how much of the averaged weights each step keeps, such as 0.999: then it is the exponential
            moving average of the weights that is validated, and that the model has at the end. The statistics of batch
            normalization are no averages: after each epoch they are taken anew, with the averaged weights, in one more
            pass over its batches without gradient.
        name: for messages.

    Raises:
        ValueError: an unknown optimizer or schedule, an `average` that is not between 0 and 1, a `judged_by` that is
            no figure of `validate`, no epochs, patience or batches, or what `validate` itself refuses.
        FloatingPointError: a loss or figure is not finite; the message says where, and the last good epoch's
            checkpoint is kept.
    """
    if not hasattr(torch.optim, optimizer["name"]):
        raise ValueError(f"optimizer.name: no {optimizer['name']!r} in torch.optim; try AdamW or SGD")
    if schedule["name"] not in SCHEDULES:
        raise ValueError(f"schedule.name is {schedule['name']!r}, expected one of {', '.join(SCHEDULES)}")
    if epochs < 1 or patience < 1:
        raise ValueError(f"epochs is {epochs} and patience {patience}, expected at least 1 each")
    if average is not None and not 0 < average < 1:
        raise ValueError(f"average is {average}, expected a number between 0 and 1, or None")
    # One for each training: what it saves and loads is what was handed to it.
    accelerator = compute(device=device, precision=precision)
    model.to(accelerator.device)  # before the optimizer is told of its parameters
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    steps = getattr(torch.optim, optimizer["name"])(trained, **optimizer["args"])
    factor = _factor(schedule, epochs)
    rates = torch.optim.lr_scheduler.LambdaLR(steps, lambda step: factor(step / batches_per_epoch))
    bare = model
    several = accelerator.num_processes > 1
    state, hooks = list(state), []
    averaged = None
    if average is not None:
        averaged = AveragedModel(bare, device=accelerator.device, multi_avg_fn=get_ema_multi_avg_fn(average))
        averaged.n_averaged = averaged.n_averaged.cpu()  # it is looked at in each step: a GPU would be waited for
        state = [*state, averaged]
    if several:
        # Not in DistributedDataParallel, which averages what went through its own call: heads are called by themselves.
        model, steps = accelerator.prepare_model(model, evaluation_mode=True), accelerator.prepare_optimizer(steps)
        hooks = [
            other.register_step_pre_hook(lambda optimizer, *_: _average_gradients(accelerator, optimizer))
            for other in state
            if isinstance(other, torch.optim.Optimizer)
        ]
    else:
        model, steps = accelerator.prepare(model, steps)
    judged = model if averaged is None else averaged.module
    progress = _Progress(bare)
    accelerator.register_for_checkpointing(progress, rates, *state)
    try:
        if checkpoint is not None:
            if several:  # the main process may still write what an earlier training ended with
                accelerator.wait_for_everyone()
            newest = _newest(Path(checkpoint))
            if newest is not None:
                accelerator.load_state(str(newest))
            if several:  # what one still reads, the main process must not replace or remove
                accelerator.wait_for_everyone()
            yield from progress.epochs
        while len(progress.epochs) < epochs and _since_best(progress.epochs) < patience:
            number = len(progress.epochs) + 1
            # Seeds of an epoch, not a stream over all of them: a resumed training draws what it would have drawn.
            generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
            # For dropout, which takes no generator; of each process another one.
            torch.manual_seed(seed * 1_000_003 + number + 500_009 * accelerator.process_index)
            losses = []
            model.train()
            for batch in batches(generator):
                with accelerator.autocast():
                    value = loss(model, batch)
                accelerator.backward(value)
                if several:
                    _average_gradients(accelerator, steps)
                if optimizer.get("clip"):
                    accelerator.clip_grad_norm_(model.parameters(), optimizer["clip"])
                steps.step()
                steps.zero_grad()
                rate = rates.get_last_lr()[0]  # before the schedule goes on to the next step's
                rates.step()
                if averaged is not None:
                    averaged.update_parameters(bare)
                losses.append(value.detach())
            if not losses:
                raise ValueError(f"{name}: `batches` gave none in epoch {number}, expected at least one")
            every = torch.stack(losses).float()
            if several:
                every = accelerator.reduce(every, reduction="mean")
                _average_statistics(accelerator, bare)
            every = every.cpu()  # once an epoch: asking each step would stall a GPU
            if not torch.isfinite(every).all():
                batch_number = int((~torch.isfinite(every)).nonzero()[0]) + 1
                raise FloatingPointError(
                    f"{name}: the loss became {every[batch_number - 1].item()} in batch {batch_number} of epoch "
                    f"{number}; {_kept(checkpoint, number - 1)}. Lower the learning rate, or set optimizer.clip"
                )
            if averaged is not None:
                again = batches(torch.Generator().manual_seed(seed * 1_000_003 + number))
                with torch.no_grad():
                    update_bn(([batch] for batch in again), _Loss(judged, loss, accelerator.autocast))
                if several:
                    _average_statistics(accelerator, judged)
            model.eval()
            judged.eval()
            try:
                with torch.no_grad():
                    validation = validate(judged) if accelerator.is_main_process else {}
            except ValueError as error:
                # Predictions that are not finite cannot be scored; else it is what is validated, or how.
                kind = FloatingPointError if isinstance(error, NotFiniteError) else ValueError
                raise kind(
                    f"{name}: cannot be validated after epoch {number}: {error}; {_kept(checkpoint, number - 1)}"
                ) from error
            if several:  # one says it to all, so that all take the same decisions
                validation = broadcast_object_list([validation])[0]
            if not all(math.isfinite(figure) for figure in validation.values()):
                raise FloatingPointError(
                    f"{name}: a validation figure is not finite after epoch {number}: {validation}; "
                    f"{_kept(checkpoint, number - 1)}"
                )
            if judged_by not in validation:
                raise ValueError(
                    f"judged_by is {judged_by!r}, but validation gives {', '.join(validation) or 'nothing'}"
                )
            sign = -1 if lower_is_better else 1
            before = [sign * epoch.validation[judged_by] for epoch in progress.epochs]
            best = not before or sign * validation[judged_by] > max(before)
            if best:
                progress.best_state = _copied(bare if averaged is None else judged)
            epoch = Epoch(number, every.mean().item(), validation, best, rate)
            progress.epochs.append(epoch)
            if checkpoint is not None and accelerator.is_main_process:
                _save(accelerator, Path(checkpoint), number)
            yield epoch
    finally:
        for hook in hooks:
            hook.remove()
        # As it came, so that another training prepares it anew, and what is asked of it later is answered as from disk.
        accelerator.unwrap_model(model, keep_fp32_wrapper=False, keep_torch_compile=False)
        vars(bare).pop("_is_accelerate_prepared", None)
        bare.load_state_dict(progress.best_state)
        bare.eval()


def _since_best(epochs: list[Epoch]) -> int:
    return next((since for since, epoch in enumerate(reversed(epochs)) if epoch.best), 0)


def _kept(checkpoint: str | Path | None, number: int) -> str:
    if checkpoint is None or number == 0:
        return "no earlier epoch was kept"
    return f"epoch {number} is kept in {checkpoint}"


def _save(accelerator: Accelerator, checkpoint: Path, number: int) -> None:
    with replaced_folder(checkpoint / f"epoch-{number:06d}") as partial:
        try:
            accelerator.save_state(str(partial))
        except (RuntimeError, SafetensorError) as error:  # what torch and safetensors make of a full disk
            raise write_error(checkpoint / partial.name, error) from error
    for older in checkpoint.glob("epoch-[0-9]*[0-9]"):
        if older.name != f"epoch-{number:06d}":
            shutil.rmtree(older)


def _newest(checkpoint: Path) -> Path | None:
    whole = sorted(path for path in checkpoint.glob("epoch-*") if ".partial-" not in path.name)
    return whole[-1] if whole else None

"""Options of a training, as params.yaml writes them down."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

__all__ = [
    "STRICT",
    "Finetune",
    "Optimizer",
    "PhaseOptions",
    "Schedule",
    "Training",
    "WholePhase",
    "check_bounds",
    "check_chunk",
    "check_lists",
]

# Read by pydantic where the params are checked: unknown keys are errors.
STRICT = {"extra": "forbid"}
# The least that an option may be, whatever it is an option of.
LEAST = {
    "epochs": 0, "patience": 1, "batch_size": 1, "hidden": 1, "count": 1, "shift": 0, "zoom": 1.0, "rotation": 0.0,
    "warm_up_epochs": 0.0,
}  # fmt: skip


def check_bounds(options: Any) -> None:
    """Raise a ValueError if a number is out of the range in which it means something; `options` is a dataclass.

    >>> check_bounds(Schedule(name="constant", warm_up_epochs=-1.0))
    Traceback (most recent call last):
    ...
    ValueError: warm_up_epochs is -1.0, expected at least 0.0
    """
    for name, value in vars(options).items():
        if name in LEAST and not value >= LEAST[name]:
            raise ValueError(f"{name} is {value}, expected at least {LEAST[name]}")
        if name in ("factor", "every_epochs", "clip", "lr_factor") and value is not None and not value > 0:
            raise ValueError(f"{name} is {value}, expected a number above 0")


def check_chunk(chunk: int | None, batch_size: int) -> None:
    """Raise a ValueError if a batch cannot be cut into chunks of so many rows.

    >>> check_chunk(64, 32)
    Traceback (most recent call last):
    ...
    ValueError: chunk is 64, expected 1 to batch_size, 32: how many rows of a batch go through the network at once
    """
    if chunk is not None and not 1 <= chunk <= batch_size:
        raise ValueError(
            f"chunk is {chunk}, expected 1 to batch_size, {batch_size}: how many rows of a batch go through the "
            "network at once"
        )


def check_lists(name: str, length: int | None, batch_size: int) -> None:
    """Raise a ValueError if batches are not of whole lists of so many rows.

    >>> check_lists("list_length", 3, 32)
    Traceback (most recent call last):
    ...
    ValueError: list_length is 3, expected at least 2, and batch_size (32) a multiple
    """
    if length is not None and (length < 2 or batch_size % length):
        raise ValueError(f"{name} is {length}, expected at least 2, and batch_size ({batch_size}) a multiple")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """A class of `torch.optim` with its options; `clip` is the largest gradient norm."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    clip: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate over epochs: `factor` and `every_epochs` belong to `step`."""

    __pydantic_config__: ClassVar = STRICT

    name: Literal["constant", "cosine", "step"]
    warm_up_epochs: float = 0.0
    factor: float | None = None
    every_epochs: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self)
        given = (self.factor is not None, self.every_epochs is not None)
        if given != (self.name == "step",) * 2:
            raise ValueError(f"schedule {self.name}: factor and every_epochs belong to the schedule step, both of them")


@dataclass(frozen=True, kw_only=True)
class PhaseOptions:
    """What every phase of a training has, see `rankgrad.training.loop.fit`; 0 epochs leave it out."""

    __pydantic_config__: ClassVar = STRICT

    epochs: int
    patience: int
    optimizer: Optimizer
    schedule: Schedule

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.epochs and self.schedule.warm_up_epochs > self.epochs:
            raise ValueError(
                f"schedule.warm_up_epochs is {self.schedule.warm_up_epochs}, expected at most epochs, {self.epochs}"
            )


@dataclass(frozen=True, kw_only=True)
class WholePhase(PhaseOptions):
    """A phase of the whole network.

    `freeze` leaves `all` of the backbone as it is, or all but so many of its last blocks; the rate of what of it learns
    is `lr_factor` times that of the head. `chunk` is how many rows of a batch go through the network at once.
    """

    freeze: Literal["all"] | int | None = None
    lr_factor: float | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (batch_size := getattr(self, "batch_size", None)) is not None:
            check_chunk(self.chunk, batch_size)


@dataclass(frozen=True, kw_only=True)
class Finetune(WholePhase):
    """The whole network; images are moved at random by up to `shift` pixels."""

    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training in two phases, see `rankgrad.tasks._two_phases.TwoPhases`.

    The probe trains the head on frozen features, the finetune the whole network.
    """

    __pydantic_config__: ClassVar = STRICT

    batch_size: int
    probe: PhaseOptions
    finetune: Finetune

    def __post_init__(self) -> None:
        if self.batch_size < 2:
            raise ValueError(f"batch_size is {self.batch_size}, expected at least 2")
        check_chunk(self.finetune.chunk, self.batch_size)
        if not self.probe.epochs and not self.finetune.epochs:
            raise ValueError("probe.epochs and finetune.epochs are both 0, expected an epoch in one of them")

"""Options of a training, in the form of params.yaml. Defaults are here or in the options of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

__all__ = [
    "STRICT",
    "Auxiliary",
    "BatchedPhase",
    "Component",
    "Imitation",
    "Moves",
    "Optimizer",
    "PhaseOptions",
    "Schedule",
    "Training",
    "WholePhase",
    "check_least",
    "check_lists",
    "check_positive",
]

# pydantic reads this when it parses the params: unknown keys are errors.
STRICT = {"extra": "forbid"}


def check_least(options: Any, **least: float) -> None:
    """Raise a ValueError if a number is too small.

    >>> check_least(Schedule(name="constant"), warm_up_epochs=1)
    Traceback (most recent call last):
    ...
    ValueError: warm_up_epochs is 0.0, expected at least 1
    """
    for name, smallest in least.items():
        if not getattr(options, name) >= smallest:
            raise ValueError(f"{name} is {getattr(options, name)}, expected at least {smallest}")


def check_positive(options: Any, *names: str) -> None:
    """Raise a ValueError if a number is not None and not above 0."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value}, expected a number above 0")


def check_lists(name: str, length: int | None, batch_size: int) -> None:
    """Raise a ValueError if batches do not consist of whole lists of `length` rows.

    >>> check_lists("list_length", 3, 32)
    Traceback (most recent call last):
    ...
    ValueError: list_length is 3, expected at least 2, and batch_size (32) a multiple
    """
    if length is not None and (length < 2 or batch_size % length):
        raise ValueError(f"{name} is {length}, expected at least 2, and batch_size ({batch_size}) a multiple")


@dataclass(frozen=True)
class Component:
    """A component by the name of its file, with its options."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Auxiliary(Component):
    """A loss that is added, times `weight`, in the first `epochs`; None for all."""

    weight: float = 1.0
    epochs: int | None = None

    def __post_init__(self) -> None:
        check_positive(self, "weight", "epochs")


@dataclass(frozen=True)
class Optimizer(Component):
    """A class of `torch.optim` with its options; `clip` is the largest gradient norm."""

    clip: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "clip")
        if self.args.get("maximize"):
            raise ValueError("args: maximize would increase the loss: leave it out")
        if self.args.get("lr") == 0:
            raise ValueError("args: lr is 0, expected a number above 0")


@dataclass(frozen=True)
class Schedule:
    """The learning rate over epochs: `factor` and `every_epochs` belong to `step`."""

    __pydantic_config__: ClassVar = STRICT

    name: Literal["constant", "cosine", "step"]
    warm_up_epochs: float = 0.0
    factor: float | None = None
    every_epochs: float | None = None

    def __post_init__(self) -> None:
        check_least(self, warm_up_epochs=0)
        check_positive(self, "factor", "every_epochs")
        if ((self.factor is not None), (self.every_epochs is not None)) != (self.name == "step",) * 2:
            raise ValueError(
                f"schedule {self.name}: expected both factor and every_epochs for the schedule step, and neither for "
                "others"
            )


@dataclass(frozen=True, kw_only=True)
class PhaseOptions:
    """A phase of a training, see `rankgrad.training.loop.fit`; 0 epochs leave it out."""

    __pydantic_config__: ClassVar = STRICT

    epochs: int
    patience: int
    optimizer: Optimizer
    schedule: Schedule

    def __post_init__(self) -> None:
        check_least(self, epochs=0, patience=1)
        if self.epochs and self.schedule.warm_up_epochs > self.epochs:
            raise ValueError(
                f"schedule.warm_up_epochs is {self.schedule.warm_up_epochs}, expected at most epochs, {self.epochs}"
            )


@dataclass(frozen=True, kw_only=True)
class Moves:
    """The largest random shift, zoom and rotation of images, see `rankgrad.augmentation.warped`."""

    __pydantic_config__: ClassVar = STRICT

    shift: int = 0
    zoom: float = 1.0
    rotation: float = 0.0

    def __post_init__(self) -> None:
        check_least(self, shift=0, zoom=1, rotation=0)

    @property
    def moves(self) -> dict[str, Any]:
        """The three by name."""
        return {"shift": self.shift, "zoom": self.zoom, "rotation": self.rotation}


@dataclass(frozen=True, kw_only=True)
class WholePhase(Moves, PhaseOptions):
    """A phase that trains the whole network on randomly moved images.

    `freeze: all` freezes the backbone, a number all but that many of its last blocks. The learning rate of the backbone
    is the head's times `lr_factor`. `chunk` is the number of rows that go through the network at once.
    """

    freeze: Literal["all"] | int | None = None
    lr_factor: float | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        Moves.__post_init__(self)
        PhaseOptions.__post_init__(self)
        check_positive(self, "lr_factor", "chunk")

    def check_chunk(self, batch_size: int) -> None:
        """Raise a ValueError if a chunk is larger than a batch."""
        if self.chunk is not None and self.chunk > batch_size:
            raise ValueError(
                f"chunk is {self.chunk}, expected 1 to batch_size, {batch_size}: how many rows of a batch go through "
                "the network at once"
            )


@dataclass(frozen=True, kw_only=True)
class BatchedPhase(WholePhase):
    """A phase of the whole network with its own batch size."""

    batch_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, batch_size=2)
        self.check_chunk(self.batch_size)


@dataclass(frozen=True, kw_only=True)
class Imitation(PhaseOptions):
    """The training of a sorter: it imitates the exact ranks of stored score vectors.

    With `epoch_size`, each epoch draws that many new vectors instead of using the stored training split.
    """

    batch_size: int
    epoch_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, epochs=1, batch_size=2)
        if self.epoch_size is not None:
            check_least(self, epoch_size=2)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training of a head on frozen features (`probe`), then of the whole network (`finetune`)."""

    __pydantic_config__: ClassVar = STRICT

    batch_size: int
    probe: PhaseOptions
    finetune: WholePhase

    def __post_init__(self) -> None:
        check_least(self, batch_size=2)
        self.finetune.check_chunk(self.batch_size)
        if not self.probe.epochs and not self.finetune.epochs:
            raise ValueError("probe.epochs and finetune.epochs are both 0, expected at least one epoch in one of them")

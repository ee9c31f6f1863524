"""Options of a training, as params.yaml writes them down."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

__all__ = ["STRICT", "Finetune", "Optimizer", "Phase", "Schedule", "Training"]

# Read by pydantic where the params are checked: unknown keys are errors.
STRICT = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """A class of `torch.optim` with its options; `clip` is the largest gradient norm."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip is {self.clip}, expected a number above 0: leave it out to clip nothing")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate over epochs: `factor` and `every_epochs` belong to `step`."""

    __pydantic_config__: ClassVar = STRICT

    name: Literal["constant", "cosine", "step"]
    warm_up_epochs: float = 0.0
    factor: float | None = None
    every_epochs: float | None = None

    def __post_init__(self) -> None:
        given = (self.factor is not None, self.every_epochs is not None)
        if given != (self.name == "step",) * 2:
            raise ValueError(f"schedule {self.name}: factor and every_epochs belong to the schedule step, both of them")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What every phase of a training has, see `rankops.training.loop.fit`; 0 epochs leave it out."""

    __pydantic_config__: ClassVar = STRICT

    epochs: int
    patience: int
    optimizer: Optimizer
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.epochs < 0 or self.patience < 1:
            raise ValueError(f"epochs is {self.epochs} and patience {self.patience}, expected at least 0 and 1")


@dataclass(frozen=True, kw_only=True)
class Finetune(Phase):
    """The whole network; images are moved at random by up to `shift` pixels."""

    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training in two phases, see `rankops.training.finetune.ProbeAndFinetune`.

    The probe trains the head on frozen features, the finetune the whole network.
    """

    __pydantic_config__: ClassVar = STRICT

    batch_size: int
    probe: Phase
    finetune: Finetune

    def __post_init__(self) -> None:
        if self.batch_size < 2:
            raise ValueError(f"batch_size is {self.batch_size}, expected at least 2")
        if not self.probe.epochs and not self.finetune.epochs:
            raise ValueError("probe.epochs and finetune.epochs are both 0, expected an epoch in one of them")

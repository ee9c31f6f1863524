"""The progress of a training: its epochs, its best weights, and the folder that holds them."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from rankgrad.io.atomic import replaced_folder, write_error

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Epoch", "Progress", "copied", "kept", "newest", "save"]


@dataclass(frozen=True)
class Epoch:
    """The result of one pass over the training data.

    Attributes:
        number: 1, 2, ...
        loss: mean training loss over the epoch's batches.
        validation: all validation metrics.
        best: whether the monitored metric is the best so far.
        learning_rate: the learning rate of the last step.
        monitor: the validation metric that decides.
        lower_is_better: whether a lower value of that metric is better.
    """

    number: int
    loss: float
    validation: dict[str, float]
    best: bool
    learning_rate: float
    monitor: str
    lower_is_better: bool = False

    @property
    def value(self) -> float:
        """The value of the monitored metric."""
        return self.validation[self.monitor]

    @property
    def worth(self) -> float:
        """The monitored metric, negated if a lower value is better, so that the best epoch has the largest worth."""
        return -self.value if self.lower_is_better else self.value


class Progress:
    """The part of a checkpoint that accelerate does not save by default: epochs and the best weights."""

    def __init__(self, model: nn.Module):
        self.epochs: list[Epoch] = []
        self.best_state = copied(model)

    @property
    def since_best(self) -> int:
        """The number of epochs since the best one."""
        return next((since for since, epoch in enumerate(reversed(self.epochs)) if epoch.best), 0)

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "best_state": self.best_state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = [Epoch(**epoch) for epoch in state["epochs"]]
        self.best_state = state["best_state"]


def copied(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a module's weights and buffers."""
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


def kept(checkpoint: Path | None, number: int) -> str:
    """Return for a message which epoch is saved, and where."""
    if checkpoint is None or number == 0:
        return "no earlier epoch was kept"
    return f"epoch {number} is kept in {checkpoint}"


def save(accelerator: "Accelerator", checkpoint: Path, number: int) -> None:
    """Save the state after an epoch atomically, and remove the states of earlier epochs."""
    with replaced_folder(checkpoint / f"epoch-{number:06d}") as partial:
        try:
            # Not as safetensors, which cannot load an LSTM's weights back: cuDNN keeps them in one block of memory.
            accelerator.save_state(str(partial), safe_serialization=False)
        except RuntimeError as error:  # torch raises it for a full disk
            raise write_error(checkpoint / partial.name, error) from error
    for older in checkpoint.glob("epoch-[0-9]*[0-9]"):
        if older.name != f"epoch-{number:06d}":
            shutil.rmtree(older)


def newest(checkpoint: Path) -> Path | None:
    """Return the folder of the last saved epoch, or None."""
    complete = sorted(path for path in checkpoint.glob("epoch-*") if ".partial-" not in path.name)
    return complete[-1] if complete else None

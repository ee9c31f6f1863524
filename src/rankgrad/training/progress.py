"""How far a training is: its epochs, its best weights, and the folder in which they are kept."""

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
    """What one pass over the training data ended with.

    Attributes:
        number: 1, 2, ...
        loss: mean training loss over the epoch's batches.
        validation: every validation metric.
        best: whether the monitored metric is the best so far.
        learning_rate: of the epoch's last step.
        monitor: the validation metric that decides.
    """

    number: int
    loss: float
    validation: dict[str, float]
    best: bool
    learning_rate: float
    monitor: str

    @property
    def value(self) -> float:
        """Of the monitored metric."""
        return self.validation[self.monitor]


class Progress:
    """What a checkpoint holds besides the model, the optimizer and the random state: epochs, and the best weights."""

    def __init__(self, model: nn.Module):
        self.epochs: list[Epoch] = []
        self.best_state = copied(model)

    @property
    def since_best(self) -> int:
        """How many epochs there were since the best one."""
        return next((since for since, epoch in enumerate(reversed(self.epochs)) if epoch.best), 0)

    def is_best(self, value: float, *, lower_is_better: bool) -> bool:
        """Return whether a value of the monitored metric is better than all before."""
        sign = -1 if lower_is_better else 1
        return all(sign * value > sign * epoch.value for epoch in self.epochs)

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "best_state": self.best_state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = [Epoch(**epoch) for epoch in state["epochs"]]
        self.best_state = state["best_state"]


def copied(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a module's weights and buffers."""
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


def kept(checkpoint: Path | None, number: int) -> str:
    """Say what is kept of the epochs up to this one."""
    if checkpoint is None or number == 0:
        return "no earlier epoch was kept"
    return f"epoch {number} is kept in {checkpoint}"


def save(accelerator: "Accelerator", checkpoint: Path, number: int) -> None:
    """Keep the state after an epoch, whole or not at all, and drop that of earlier ones."""
    with replaced_folder(checkpoint / f"epoch-{number:06d}") as partial:
        try:
            # Not as safetensors, which refuse to read back an LSTM's weights: cuDNN keeps them in one piece of memory.
            accelerator.save_state(str(partial), safe_serialization=False)
        except RuntimeError as error:  # what torch makes of a full disk
            raise write_error(checkpoint / partial.name, error) from error
    for older in checkpoint.glob("epoch-[0-9]*[0-9]"):
        if older.name != f"epoch-{number:06d}":
            shutil.rmtree(older)


def newest(checkpoint: Path) -> Path | None:
    """Return the folder of the last epoch that was kept, or None."""
    complete = sorted(path for path in checkpoint.glob("epoch-*") if ".partial-" not in path.name)
    return complete[-1] if complete else None

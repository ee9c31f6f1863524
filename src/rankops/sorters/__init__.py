"""Sorters, one class a file; `rankops.sorters.base.Sorter` says how they are called and what each says of itself."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from rankops.io.checkpoints import load_model
from rankops.sorters.base import Sorter

__all__ = ["load_sorter"]

SHIPPED = Path(__file__).parent / "pretrained"


def load_sorter(source: str | Path, *, device: str | torch.device = "cpu") -> Sorter:
    """A trained sorter, ready to stand in a loss: in evaluation mode, its weights frozen.

    Args:
        source: a folder that holds one (`models/sorters/lstm`), the name of one that comes with the package
            (`comparator`; needs no network), or a registry address (`models:/sorter-lstm@champion`; this imports
            mlflow, and only this does).
        device: where its weights are to be.

    Raises:
        FileNotFoundError, ValueError: there is no sorter, or not a whole one; ModuleNotFoundError: no mlflow.

    >>> load_sorter("comparator")(torch.tensor([0.1, 0.7, 0.3])).round()
    tensor([3., 1., 2.])
    >>> load_sorter("models/sorters/none_such")
    Traceback (most recent call last):
    ...
    FileNotFoundError: models/sorters/none_such: no model.json there; expected a folder that save_model wrote, or one
    of the sorters that come with the package: comparator
    """
    text = str(source)
    if text.startswith("models:/"):
        from rankops.sorters.registry import download

        with TemporaryDirectory() as scratch:
            return load_sorter(download(text, Path(scratch)), device=device)
    shipped = sorted(folder.name for folder in SHIPPED.iterdir())
    if text in shipped and not (Path(source) / "model.json").is_file():
        source = SHIPPED / text
    try:
        model = load_model(source, device=device).requires_grad_(False)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}, or one of the sorters that come with the package: {', '.join(shipped)}"
        ) from None
    if not isinstance(model, Sorter):
        raise ValueError(f"{source}: holds a {type(model).__name__}, expected a sorter, such as models/sorters/lstm")
    return model

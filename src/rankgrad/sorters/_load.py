"""Load a sorter by name, from a folder, or from a model registry."""

import inspect
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from rankgrad import lookup
from rankgrad.io.checkpoints import load_model
from rankgrad.io.registered import download
from rankgrad.sorters._base import Sorter

__all__ = ["load_sorter"]

PRETRAINED = Path(__file__).parent / "pretrained"


def load_sorter(source: str | Path, *, device: str | torch.device = "cpu") -> Sorter:
    """Load a sorter for use in a loss: in evaluation mode and with frozen weights.

    Args:
        source: the name of a sorter (`laplace`, with its default options; `comparator`, whose weights are part of the
            package), a folder (`models/sorters/lstm`), or a registry address (`models:/sorter-lstm@champion`, which
            imports mlflow).
        device: the device of its weights.

    Raises:
        FileNotFoundError: the folder contains no sorter.
        ValueError: the package has no weights for this name, the files are damaged or contain a different kind of
            model, or the registry has no such version.
        ModuleNotFoundError: the source is a registry address, but mlflow is not installed.

    >>> load_sorter("comparator")(torch.tensor([0.1, 0.7, 0.3])).round()
    tensor([3., 1., 2.])
    >>> load_sorter("models/sorters/none_such")
    Traceback (most recent call last):
    ...
    FileNotFoundError: models/sorters/none_such: the folder has no model.json, expected a folder that save_model wrote,
    or the name of a sorter: cnn, comparator, ...
    """
    text = str(source)
    if text.startswith("models:/"):
        with TemporaryDirectory() as scratch:
            return load_sorter(download(text, Path(scratch)), device=device)
    names = lookup.choices("sorters")
    if text in names and not (Path(source) / "model.json").is_file():
        if not (PRETRAINED / text).is_dir():
            return _untrained(text).to(device)
        source = PRETRAINED / text
    try:
        model = load_model(source, device=device).requires_grad_(False)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}, or the name of a sorter: {', '.join(names)}{lookup.did_you_mean(text, names)}"
        ) from None
    if not isinstance(model, Sorter):
        raise ValueError(f"{source}: holds a {type(model).__name__}, expected a sorter, such as models/sorters/lstm")
    return model


def _untrained(name: str) -> Sorter:
    """Return a sorter without weights, with its default options.

    Raises:
        ValueError: the sorter has weights.
    """
    kind = lookup.find("sorters", name)
    needed = [option for option in inspect.signature(kind).parameters.values() if option.default is option.empty]
    if needed or list((sorter := kind()).parameters()):
        pretrained = ", ".join(sorted(folder.name for folder in PRETRAINED.iterdir()))
        raise ValueError(
            f"{name}: needs training, and the package has weights only for {pretrained}; expected a folder that "
            f"save_model wrote, such as models/sorters/{name}"
        )
    return sorter.eval()

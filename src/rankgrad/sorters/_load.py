"""Load a sorter: by name, from a folder, or from a model registry."""

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
    """Load a sorter that is ready to stand in a loss: in evaluation mode, its weights frozen.

    Args:
        source: the name of a sorter (`laplace`, with its default options; `comparator`, whose weights come with the
            package), a folder (`models/sorters/lstm`), or a registry address (`models:/sorter-lstm@champion`; only
            this imports mlflow).
        device: where to put its weights.

    Raises:
        FileNotFoundError: no sorter there.
        ValueError: a name whose weights do not come with the package; the files are damaged, or hold another kind of
            model; the registry has no such version.
        ModuleNotFoundError: a registry address without mlflow.

    >>> load_sorter("comparator")(torch.tensor([0.1, 0.7, 0.3])).round()
    tensor([3., 1., 2.])
    >>> load_sorter("models/sorters/none_such")
    Traceback (most recent call last):
    ...
    FileNotFoundError: models/sorters/none_such: no model.json there; expected a folder that save_model wrote, or the
    name of a sorter: cnn, comparator, ...
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
    """Return a sorter with its default options, which has no weights.

    Raises:
        ValueError: it has weights.
    """
    kind = lookup.find("sorters", name)
    needed = [option for option in inspect.signature(kind).parameters.values() if option.default is option.empty]
    if needed or list((sorter := kind()).parameters()):
        pretrained = ", ".join(sorted(folder.name for folder in PRETRAINED.iterdir()))
        raise ValueError(
            f"{name}: needs training, and its weights do not come with the package, as those of {pretrained} do; "
            f"expected a folder that save_model wrote, such as models/sorters/{name}"
        )
    return sorter.eval()

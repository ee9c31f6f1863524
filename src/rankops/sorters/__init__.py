"""Sorters, one `nn.Module` a file: `forward(scores)` takes (..., d) to ranks 1..d of the same shape."""

from pathlib import Path

from torch import nn

from rankops.checkpoints import load_model

__all__ = ["load_sorter"]


def load_sorter(source: str | Path) -> nn.Module:
    """A trained sorter, ready to stand in a loss: in evaluation mode, its weights frozen.

    Args:
        source: a folder that holds one (`models/sorters/lstm`) or a registry address
            (`models:/sorter-lstm@champion`; this imports mlflow, and only this does).

    Raises:
        FileNotFoundError, ValueError: there is no sorter, or not a whole one; ModuleNotFoundError: no mlflow.

    >>> load_sorter("models/sorters/none_such")
    Traceback (most recent call last):
    ...
    FileNotFoundError: models/sorters/none_such: no model.json there; expected a folder that save_model wrote
    """
    if str(source).startswith("models:/"):
        from rankops.registry import download

        source = download(str(source))
    return load_model(source).requires_grad_(False)

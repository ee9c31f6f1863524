"""Find the model that a command refers to, and its files."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.config import load

__all__ = ["at_version", "is_registered", "model_folder", "the_model"]


def the_model(named: str | None, command: str) -> str:
    """Return the model that the user named, or else the champion of the only model that params.yaml trains.

    Args:
        named: the address of a registered version, or a folder; None if the user named none.
        command: example of a command to name one, such as `rankgrad serve MODEL`.

    Raises:
        FileNotFoundError, ValueError: the params do not exist or are invalid, or they train no model or several.
    """
    if named is not None:
        return named
    settings = load()
    every = sorted({f"models:/{settings.model_of(run)}@champion" for run in settings.runs.values()})
    if len(every) != 1:
        example = f": name one, as in `{command.replace('MODEL', every[0])}`" if every else ""
        raise ValueError(
            f"no model was named, and params.yaml trains {len(every) or 'none'}{example}"
            + "".join(f"\n  {address}" for address in every)
        )
    return every[0]


@contextmanager
def model_folder(model: str) -> Generator[Path]:
    """Yield the folder of a model.

    Args:
        model: a registered version, or a folder: of a seed, or of a run, such as models/runs/label_ranking-rlsep, which
            stands for its best seed on validation.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: see `pipelines.tracking.registry.weights_of`.
    """
    if not is_registered(model):
        if not Path(model).is_dir():
            raise FileNotFoundError(
                f"{model}: no such folder, expected the folder of a run, such as models/runs/<run>, or a registered "
                "version, such as models:/<task>-<dataset>@champion"
            )
        yield Path(model)
        return
    from pipelines.tracking.registry import weights_of  # MLflow takes seconds to import

    with TemporaryDirectory() as scratch:
        yield weights_of(model, Path(scratch))


def at_version(model: str) -> tuple[str, Any]:
    """Return a model's address by its version's number, since an alias may move, and the registered version.

    A folder is its own address, and no version.

    Raises:
        FileNotFoundError, ValueError: see `pipelines.tracking.registry.version_of`.
    """
    if not is_registered(model):
        return model, None
    from pipelines.tracking.registry import version_of  # MLflow takes seconds to import

    version = version_of(model)
    return f"models:/{version.name}/{version.version}", version


def is_registered(model: str) -> bool:
    """Return whether a text is an address in the registry. MLflow would download other addresses from anywhere.

    >>> is_registered("models:/sorter-lstm@champion"), is_registered("models://elsewhere/x"), is_registered("s3://x")
    (True, False, False)
    """
    return re.match("models:/[^/]", model) is not None

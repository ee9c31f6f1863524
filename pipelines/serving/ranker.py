"""Where the label ranker is that a command asks: registered, in a folder, or in the package."""

import os
import re
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.tracking.database import has_contents
from rankops.cli.predict import SHIPPED, TASK

__all__ = ["is_registered", "ranker_folder"]


@contextmanager
def ranker_folder(model: str | None) -> Generator[Path]:
    """Yield the folder of a label ranker.

    Args:
        model: a registered version, or a folder: of a run, such as models/runs/label_ranking-rlsep, of which the seed
            that is best on validation is taken, or of a seed. None takes the champion, or, where none is registered,
            the ranker that comes with the package, and says so.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: see `pipelines.tracking.registry.weights_of`.
    """
    if model is None and not _has_champion():
        print(f"no {TASK}@champion is registered: using the ranker that comes with the package", file=sys.stderr)
        yield SHIPPED
        return
    model = model or f"models:/{TASK}@champion"
    if not is_registered(model):
        if not Path(model).is_dir():
            raise FileNotFoundError(
                f"{model}: no such folder; expected one that a run wrote, or such as models:/{TASK}@champion"
            )
        yield Path(model)
        return
    from pipelines.tracking.registry import weights_of

    with TemporaryDirectory() as scratch:
        yield weights_of(model, Path(scratch))


def is_registered(model: str) -> bool:
    """Tell an address in the registry from a folder. MLflow would fetch any other address from anywhere.

    >>> is_registered("models:/label_ranking@champion"), is_registered("models://elsewhere/x"), is_registered("s3://x")
    (True, False, False)
    """
    return re.match("models:/[^/]", model) is not None


def _has_champion() -> bool:
    with suppress(sqlite3.Error):  # which the store explains
        if not os.environ.get("MLFLOW_TRACKING_URI") and not has_contents(Path("mlflow.db")):
            return False  # MLflow takes seconds to import
    from pipelines.tracking.registry import has_champion

    return has_champion(TASK)

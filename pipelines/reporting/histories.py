"""The epochs of a training that is done, as its stage wrote them."""

from pathlib import Path

import pandas as pd

__all__ = ["best_epoch", "history_of_run"]

STEPS = ("head_history.csv", "history.csv")  # in this order, where a run was trained in two steps


def history_of_run(folder: str | Path) -> pd.DataFrame:
    """One row an epoch, of both steps where there are two; `epoch` counts on from the first to the second.

    Args:
        folder: models/runs/<name>.

    Raises:
        FileNotFoundError: no history is there.
    """
    steps = [path for name in STEPS if (path := Path(folder) / name).is_file()]
    if not steps:
        raise FileNotFoundError(f"{folder}: no {' or '.join(STEPS)} there; run `dvc repro`")
    history = pd.concat([pd.read_csv(path) for path in steps], ignore_index=True)
    return history.assign(epoch=range(1, len(history) + 1))


def best_epoch(history: pd.DataFrame) -> pd.Series:
    """The row of the epoch whose weights were kept.

    >>> int(best_epoch(pd.DataFrame({"epoch": [1, 2, 3], "best": [1, 1, 0]}))["epoch"])
    2
    """
    return history[history["best"] == 1].iloc[-1]

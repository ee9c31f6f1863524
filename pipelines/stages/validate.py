"""Check a dataset against its expectations; stages that use it depend on the small file written if it passes."""

import json
from pathlib import Path

from pipelines.config import Settings
from pipelines.expectations import Measured, hold

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    hold(key, lambda: _measured(params, key))


def _measured(params: Settings, key: str) -> Measured:
    block, folder = params.datasets[key], Path("data") / key
    dataset, rows = block.built(), json.loads((folder / "manifest.json").read_text())["rows"]
    # With folds, training, validation, and test rows are in the same file.
    files = [split for split in dataset.splits if block.folds is None or split in ("train", "gate")]
    facts = dataset.facts(folder, files, raw=Path(block.raw), threads=params.compute.threads)
    return facts, dataset.expected(rows, size=block.size)

"""Hold a dataset against its expectations; stages that use it depend on the small file that tells it passed."""

import json
from pathlib import Path

import pandas as pd

from pipelines.config import Settings
from pipelines.expectations import Measured, hold, joined
from rankgrad.datasets.files.folds import folds_of
from rankgrad.datasets.scenes import digits

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    measured = _drawn if params.datasets[key].is_drawn else _read
    hold(key, lambda: measured(params, key))


def _drawn(params: Settings, key: str) -> Measured:
    folder, threads, dataset = Path("data") / key, params.compute.threads, params.datasets[key].built()
    deliveries = dataset.deliveries(snapshot=params.data.snapshot, growth=params.data.growth)
    rows = {split: sum(counts) for split, counts in deliveries.items()}
    sources = digits.read(params.datasets[key].raw)
    parts = [dataset.measure(folder, sources[digits.DIGITS_OF[split]], split, threads=threads) for split in rows]
    return joined(parts), dataset.expectations(rows)


def _read(params: Settings, key: str) -> Measured:
    folder, options = Path("data") / key, params.datasets[key]
    dataset, rows = options.built(), json.loads((folder / "manifest.json").read_text())["rows"]
    if options.folds is None:
        parts = [dataset.measure(folder, split, threads=params.compute.threads) for split in rows]
    else:  # one table of all folds, which stand for splits
        parts = [_by_fold(dataset.measure(folder, "train", threads=params.compute.threads), folder)]
        parts += [dataset.measure(folder, "gate", threads=params.compute.threads)] if "gate" in rows else []
    return dataset.across(joined(parts)), dataset.expectations(rows, size=options.size)


def _by_fold(facts: dict[str, pd.DataFrame], folder: Path) -> dict[str, pd.DataFrame]:
    """Name the fold of each row where its split would be named."""
    folds = folds_of(folder / "train.parquet")
    result = {}
    for name, table in facts.items():
        if "id" not in table.index.names:  # of classes and of the whole, over all folds
            result[name] = table
            continue
        rows = table.reset_index()
        rows["split"] = [f"fold {fold}" for fold in folds[rows["id"]]]
        if "split_rows" in rows:
            counts = rows["split"].value_counts()
            rows["split_rows"] = [f"{split}: {counts[split]}" for split in rows["split"]]
        result[name] = rows.set_index(table.index.names)
    return result

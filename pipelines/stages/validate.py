"""Hold a dataset against its expectations; stages that use it depend on the small file that tells it passed."""

import json
from pathlib import Path

from pipelines.config import Settings
from pipelines.stages.passed import Measured, hold, joined
from rankops.datasets.scenes import digits

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    measured = _drawn if params.datasets[key].is_drawn else _read
    hold(key, lambda: measured(params, key))


def _drawn(params: Settings, key: str) -> Measured:
    folder, threads, dataset = Path("data") / key, params.compute.threads, params.datasets[key].built()
    deliveries = dataset.deliveries(snapshot=params.data.snapshot, growth=params.data.growth)
    rows = {split: sum(counts) for split, counts in deliveries.items()}
    glyphs = {split: digits.load("data/digits", split) for split in set(digits.DIGITS_OF.values())}
    parts = [dataset.measure(folder, glyphs[digits.DIGITS_OF[split]], split, threads=threads) for split in rows]
    return joined(parts), dataset.expectations(rows)


def _read(params: Settings, key: str) -> Measured:
    folder, options = Path("data") / key, params.datasets[key]
    dataset, rows = options.built(), json.loads((folder / "manifest.json").read_text())["rows"]
    parts = [dataset.measure(folder, split, threads=params.compute.threads) for split in rows]
    return dataset.across(joined(parts)), dataset.expectations(rows, size=options.size)

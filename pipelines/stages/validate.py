"""Hold a dataset against its expectations; stages that use it depend on the small file that tells it passed."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.config import Settings
from pipelines.expectations import validate
from rankops import lookup
from rankops.datasets.scenes import digits
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import replaced_file

__all__ = ["main"]


def main(params: Settings, key: str) -> None:
    passed, page = Path("checks") / f"{key}.passed", Path("reports/data") / f"{key}.html"
    passed.unlink(missing_ok=True)  # what is said of earlier data is not left standing if these cannot even be read
    page.unlink(missing_ok=True)
    facts, expectations = _measured(params, key)
    validate(key, facts, expectations, page=page, understood=_understood(Path("data") / key))
    with replaced_file(passed) as partial:
        partial.write_text("passed\n")


def _measured(params: Settings, key: str) -> tuple[dict[str, pd.DataFrame], dict[str, list[dict[str, Any]]]]:
    """Facts about a dataset, by table, and what must hold for the tables."""
    folder, threads = Path("data") / key, params.compute.threads
    if key in params.datasets:
        block = params.datasets[key]
        dataset = lookup.find("datasets", block.name)(**block.model_dump(exclude={"name"}))
        deliveries = dataset.deliveries(snapshot=params.data.snapshot, growth=params.data.growth)
        rows = {split: sum(counts) for split, counts in deliveries.items()}
        glyphs = {split: digits.load("data/digits", split) for split in set(digits.DIGITS_OF.values())}
        parts = [dataset.measure(folder, glyphs[digits.DIGITS_OF[split]], split, threads=threads) for split in rows]
        return _joined(parts), dataset.expectations(rows)
    if key == "score_vectors":
        options = params.score_vectors
        rows = options.rows.model_dump()
        parts = [score_vectors.measure(folder, split) for split in rows]
        return _joined(parts), score_vectors.expectations(rows, length=options.length)
    rows = json.loads((folder / "manifest.json").read_text())["rows"]
    if key == "digits":
        return _joined([digits.measure(folder, split) for split in rows]), digits.expectations(rows)
    options = params.real_data[key]
    dataset = lookup.find("datasets", key)(**options.args)
    parts = [dataset.measure(folder, split, threads=threads) for split in rows]
    return dataset.across(_joined(parts)), dataset.expectations(rows, size=options.size)


def _joined(parts: list[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Put the facts of all splits one below another, table by table."""
    return {name: pd.concat([part[name] for part in parts]) for name in parts[0]}


def _understood(folder: Path) -> dict[str, str]:
    """Return what its manifest says of how a dataset was read, a line each."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) if path.is_file() else {}
    told = dict(manifest.get("fitted", {}).get("understood", {}))
    if "deliveries" in manifest:
        told["deliveries"] = ", ".join(manifest["deliveries"])
    for split, left_out in manifest.get("skipped", {}).items():
        if left_out["files"]:
            told[f"left out of {split}"] = f"{left_out['files']}: {', '.join(left_out['names'][:20])}"
    return told

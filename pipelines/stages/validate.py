"""Holds a dataset against its expectations; downstream stages depend on the small file that says it passed."""

import json
from pathlib import Path

import pandas as pd

from pipelines.expectations import Suite, validate
from pipelines.settings import Settings
from pipelines.stage import run
from rankops.atomic_writes import replaced_file
from rankops.datasets import digits, ranked_mnist, synthetic_ranks


def _digits(params: Settings) -> list[Suite]:
    facts = [digits.measure("data/digits", split, threads=params.compute.threads) for split in digits.SPLITS]
    rows = json.loads(Path("data/digits/manifest.json").read_text())["rows"]
    return [Suite("digits", _joined(facts), digits.expectations(rows=rows), ["split", "glyph"])]


def _synthetic_ranks(params: Settings) -> list[Suite]:
    options = params.synthetic_ranks
    rows = options.rows.model_dump()
    facts = [synthetic_ranks.measure("data/synthetic_ranks", split) for split in rows]
    expectations = synthetic_ranks.expectations(length=options.length, rows=rows)
    return [Suite("vectors", _joined(facts), expectations, ["split", "id"])]


def _ranked_mnist(params: Settings) -> list[Suite]:
    options, threads = params.ranked_mnist, params.compute.threads
    rows = options.rows.model_dump()
    facts = []
    for split in rows:
        known = digits.load("data/digits", split, threads=threads)
        facts.append(ranked_mnist.measure("data/ranked_mnist", known, split, threads=threads))
    expectations = ranked_mnist.expectations(rows=rows, **options.model_dump(exclude={"rows", "seed"}))
    return [
        Suite("scenes", _joined([scene for scene, _ in facts]), expectations["scenes"], ["split", "id"]),
        Suite("digits", _joined([digit for _, digit in facts]), expectations["digits"], ["split", "id", "label"]),
    ]


def _joined(facts: list[dict]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(part) for part in facts], ignore_index=True)


SUITES = {"digits": _digits, "synthetic_ranks": _synthetic_ranks, "ranked_mnist": _ranked_mnist}


def main(params: Settings, dataset: str) -> None:
    validate(dataset, SUITES[dataset](params), report=Path("reports/validation") / dataset)
    with replaced_file(f"checks/{dataset}.passed") as partial:
        partial.write_text("passed\n")


if __name__ == "__main__":
    run(main)

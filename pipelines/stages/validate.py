"""Holds a dataset against its expectations; downstream stages depend on the small file that says it passed."""

import json
from functools import partial
from pathlib import Path

import pandas as pd

from pipelines.config.schema import Settings
from pipelines.expectations import Suite, validate
from pipelines.stages.runner import run
from rankops import lookup
from rankops.datasets.scenes import clips, digits
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import replaced_file
from rankops.seeding import generator


def _digits(params: Settings) -> list[Suite]:
    facts = [digits.measure("data/digits", split, threads=params.compute.threads) for split in digits.SPLITS]
    rows = json.loads(Path("data/digits/manifest.json").read_text())["rows"]
    return [Suite("digits", _joined(facts), digits.expectations(rows=rows), ["split", "glyph"])]


def _score_vectors(params: Settings) -> list[Suite]:
    options = params.score_vectors
    rows = options.rows.model_dump()
    facts = [score_vectors.measure("data/score_vectors", split) for split in rows]
    expectations = score_vectors.expectations(length=options.length, rows=rows)
    return [Suite("vectors", _joined(facts), expectations, ["split", "id"])]


def _scenes(params: Settings, name: str, *, index: list[str], measured: dict | None = None) -> list[Suite]:
    """Suites of a dataset drawn from digits, a table each; `index` names a row of each, besides split and id."""
    options, threads = getattr(params, name), params.compute.threads
    dataset = lookup.module("datasets", name)
    facts, rows = [], {split: sum(counts) for split, counts in options.deliveries(params.data).items()}
    for split in rows:
        known = digits.load("data/digits", digits.DIGITS_OF[split], threads=threads)
        facts.append(dataset.measure(f"data/{name}", known, split, threads=threads, **measured or {}))
    taken = options.model_dump(exclude={"rows", "seed", *(measured or {})})
    expectations = dataset.expectations(rows=rows, **taken)
    return [
        Suite(table, _joined(parts), expectations[table], ["split", "id", *filter(None, [number])])
        for table, parts, number in zip(expectations, zip(*facts, strict=True), index, strict=True)
    ]


def _clips(params: Settings) -> list[Suite]:
    effects = clips.class_effects(generator(params.clips.seed, "clips", "classes"))
    measured = {"effects": effects, "viewers": params.clips.viewers}
    return _scenes(params, "clips", index=["", "label"], measured=measured)


def _real_data(params: Settings, name: str) -> list[Suite]:
    dataset, folder = lookup.module("datasets", name), Path("data") / name
    rows = json.loads((folder / "manifest.json").read_text())["rows"]
    facts = _joined([dataset.measure(folder, split, threads=params.compute.threads) for split in rows])
    expectations = dataset.expectations(rows=rows, size=params.real_data[name].size)
    return [Suite(name, facts, expectations, ["split", "id"])]


def _joined(facts: list[dict]) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(part) for part in facts], ignore_index=True)


SUITES = {
    "digits": _digits,
    "score_vectors": _score_vectors,
    "ranked_mnist": partial(_scenes, name="ranked_mnist", index=["", "label"]),
    "clips": _clips,
    "long_tailed_mnist": partial(_scenes, name="long_tailed_mnist", index=["", "label", "distractor"]),
    "captions": partial(_scenes, name="captions", index=["", "label", "number"]),
}


def main(params: Settings, dataset: str) -> None:
    suites = _real_data(params, dataset) if dataset in params.real_data else SUITES[dataset](params)
    validate(dataset, suites, report=Path("reports/validation") / dataset)
    with replaced_file(f"checks/{dataset}.passed") as partial_file:
        partial_file.write_text("passed\n")


if __name__ == "__main__":
    run(main)

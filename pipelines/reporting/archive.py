"""Read the kept results: JSON files in git of runs that a laptop cannot repeat, with what made them."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.reporting.papers import printed
from pipelines.reporting.results import number
from rankops.lookup import find

__all__ = ["kept_results"]

RENAMED = {"memorability": "score_ranking"}  # tasks, since a file was made
PAPER = "paper"  # in this folder a file is a comparison of label rankers, in others it is a run


def kept_results(datasets: Collection[str], folder: str | Path = "results") -> dict[str, pd.DataFrame]:
    """Return a table for each subfolder with results on one of these datasets, with a row a run.

    Raises:
        ValueError: a file is not a kept result; the message names the file.
    """
    rows: dict[str, list[dict[str, str]]] = {}
    for path in sorted(Path(folder).glob("*/*.json")):
        read = _comparison if path.parent.name == PAPER else _run
        try:
            kept = json.loads(path.read_text())
            # A file of older code names none: a run's folder does, and comparisons are of Ranked MNIST.
            named = kept["params"]["run"].get("dataset", path.parent.name) if read is _run else "ranked_mnist"
            if named in datasets:
                rows.setdefault(path.parent.name, []).extend(read(path.stem, kept))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            message = f"{path}: not a kept result ({type(error).__name__}: {error}): `git checkout {path}`"
            raise ValueError(message) from error
    return {name: pd.DataFrame(some).dropna(axis=1) for name, some in rows.items()}  # the metrics that all have


def _run(name: str, kept: dict[str, Any]) -> list[dict[str, str]]:
    row = {"run": name, "seeds": str(len(kept["training"]["seeds"]))}
    task = kept["params"]["run"]["task"]
    for metric in find("tasks", RENAMED.get(task, task)).metrics:
        leaf = kept["metrics"]
        for key in metric.name.split("."):
            leaf = leaf[key]
        row[metric.title] = number(leaf["value"], leaf["low"], leaf["high"])
    return [row | {"commit": kept["commit"][:10]}]


def _comparison(name: str, kept: dict[str, Any]) -> list[dict[str, str]]:
    """Return a row for each method: mean ± standard error over seeds, and the paper's with as many training images."""
    plan, data, rows = kept["params"]["comparison"], kept["params"]["ranked_mnist"], []
    images = f"{data['rows']['train']:,}"
    for method, result in kept["methods"].items():
        tests = pd.DataFrame([{plan["figure"]: one["test"]} | one.get("figures", {}) for one in result["seeds"]])
        row = {"run": f"{name}: {method}", "made with": f"{images} of {data['canvas']} px, {len(tests)} seeds"}
        paper = printed("label_ranking", "ranked_mnist", plan["methods"][method]["loss"]["name"]).get(images, {})
        for metric in find("tasks", "label_ranking").metrics:
            if metric.name in tests:
                values = tests[metric.name]
                text = f"{number(values.mean())} ± {number(values.sem())}"
                row[metric.title] = text + (f" (paper {paper[metric.name]})" if metric.name in paper else "")
        rows.append(row | {"commit": kept["commit"][:10]})
    return rows

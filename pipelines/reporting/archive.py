"""Read the kept results: JSON files in git of runs that a laptop cannot repeat, with what made them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from pipelines.reporting.papers import printed
from pipelines.reporting.results import number
from rankops.lookup import find

__all__ = ["kept_results"]

PAPER = "paper"  # the folder of label rankers at the paper's sizes, a file a comparison; in others a file is a run
GAIN = "ranked.exact_match"


def kept_results(folder: str | Path = "results") -> dict[str, pd.DataFrame]:
    """Return a table for each subfolder.

    Raises:
        ValueError: a file is not a kept result; the message names the file.
    """
    parts: dict[str, list[Any]] = {}
    for path in sorted(Path(folder).glob("*/*.json")):
        read = _comparison if path.parent.name == PAPER else _run
        try:
            parts.setdefault(path.parent.name, []).append(read(path.stem, json.loads(path.read_text())))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{path}: not a kept result ({type(error).__name__}: {error}): `git checkout {path}`"
            ) from error
    return {
        name: _side_by_side(some) if name == PAPER else pd.DataFrame(some).fillna("") for name, some in parts.items()
    }


def _run(name: str, kept: dict[str, Any]) -> dict[str, str]:
    """Return a row with the main metrics of a run."""
    row = {"run": name, "seeds": str(len(kept["training"]["seeds"]))}
    for metric in find("tasks", kept["params"]["run"]["task"]).metrics:
        leaf = kept["metrics"]
        for key in metric.name.split("."):
            leaf = leaf[key]
        if metric.shown:
            row[metric.title] = number(leaf["value"], leaf["low"], leaf["high"])
    machine = kept["machine"]
    return row | {"made by": _made_by(kept["commit"], machine["gpu"] or machine["processor"], machine["torch"])}


def _made_by(commit: str, hardware: str, torch: str) -> str:
    return f"commit {commit[:10]}, {hardware}, PyTorch {torch}"


def _comparison(name: str, kept: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return a column for each method: mean ± standard error over seeds, the paper's below."""
    plan, data, made_on = kept["params"]["comparison"], kept["params"]["ranked_mnist"], kept["made_on"]
    tests = {
        method: pd.DataFrame([{plan["figure"]: seed["test"]} | seed.get("figures", {}) for seed in result["seeds"]])
        for method, result in kept["methods"].items()
    }
    columns = {}
    for method, test in tests.items():
        options = plan["methods"][method]
        paper = printed("label_ranking", "ranked_mnist", options["loss"]["name"])
        paper = paper.get(f"{data['rows']['train']:,}", {})
        chosen = kept["methods"][method]["chosen"].items()
        column = {
            "training images": f"{data['rows']['train']:,} of {data['canvas']} px",
            "settings": ", ".join(f"{place.rpartition('.')[2]} {_words(value)}" for place, value in chosen),
            "seeds": str(len(test)),
        }
        for metric in find("tasks", "label_ranking").metrics:
            if metric.name in test:
                values = test[metric.name]
                column[metric.title] = f"{number(values.mean())} ± {number(values.sem())}"
                column[f"papers' {metric.title}"] = paper.get(metric.name, "")
        baseline = options.get("baseline")
        baseline = baseline if baseline in tests else plan["baseline"]
        column["gain in ranked 0-1"] = ""
        if method != baseline and baseline in tests:
            gain = test[GAIN] - tests[baseline][GAIN]
            p = stats.ttest_rel(test[GAIN], tests[baseline][GAIN]).pvalue if gain.any() else 1.0
            column["gain in ranked 0-1"] = f"{number(gain.mean(), sign=True)} over {baseline}, p = {p:.2g}"
        column["made by"] = _made_by(kept["commit"], made_on["hardware"], made_on["torch"])
        columns[f"{name}: {method}"] = column
    return columns


def _side_by_side(comparisons: list[dict[str, dict[str, str]]]) -> pd.DataFrame:
    """Return the rows that all columns have."""
    table = pd.DataFrame({name: column for columns in comparisons for name, column in columns.items()})
    return table.dropna().rename_axis("").reset_index()


def _words(value: Any) -> str:
    """Return a setting in words.

    >>> _words({"name": "SGD", "args": {"lr": 0.01}}), _words([32, 64]), _words(0.5)
    ('SGD lr 0.01', '32-64', '0.5')
    """
    if isinstance(value, dict):
        parts = {key: part for key, part in value.items() if key not in ("name", "args")} | value.get("args", {})
        return " ".join([value.get("name", ""), *(f"{key} {_words(part)}" for key, part in parts.items())]).strip()
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)

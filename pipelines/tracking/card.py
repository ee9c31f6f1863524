"""Write the model card of a registered version in Markdown: data, metrics, limits, params, and how to load it.

The gate puts its decision above the card, see `pipelines.tracking.gate`.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from pipelines.ops.dvc_lock import INPUT
from pipelines.ops.messages import as_markdown
from pipelines.reporting.results import UNDEFINED, cell, markdown
from pipelines.tracking.slices import Slice
from rankgrad import __version__, lookup
from rankgrad.datasets.tables.rows import own_columns
from rankgrad.inputs import type_of
from rankgrad.io.recipes import recipe_of
from rankgrad.io.results import Row
from rankgrad.lookup import listed

__all__ = ["LONGEST", "NUMBER", "card", "inputs_of", "summary"]

DATA = {  # what tags say of the data
    "dataset": "Dataset `{}`, see its block in the params.",
    "digits": "Drawn from MNIST's digits (`{}`).",
    "from": "Made from {}.",
}
SLICES = 6  # slices to show
NAMES = 500  # most characters of the names of classes
NUMBER = "VERSION"  # placeholder in addresses until the store assigns the version's number
LONGEST = 4000  # most characters: MLflow allows 5,000, and the gate's decision comes on top


def card(
    model: str,
    weights: Path,
    *,
    params: Mapping[str, Any],
    metrics: Sequence[Row],
    tags: Mapping[str, str],
    slices: Sequence[Slice] = (),
) -> str:
    """Return the card, at most `LONGEST` characters; params that do not fit are left out.

    Args:
        model: the registered name.
        weights: folder with `model.json`.
        params: flat params, as sent to MLflow.
        metrics: the metrics, one row each.
        tags: the version's tags.
        slices: slices of the test split; the card shows the worst ones.
    """
    recipe = recipe_of(weights)
    lines = [summary(metrics=metrics, tags=tags)]
    lines += _slices(slices)
    lines += ["", "## Limits", "", _limits(recipe), "", "## Load", "", _loading(model, recipe)]
    lines += ["", "## Params", ""]
    for name, value in params.items():
        line = f"- `{as_markdown(name)}`: {as_markdown(str(value))}"
        if len("\n".join([*lines, line])) > LONGEST:
            break
        lines.append(line)
    return "\n".join(lines)[:LONGEST]


def summary(*, metrics: Sequence[Row], tags: Mapping[str, str]) -> str:
    """Return a run's description: its main metric, how it was made, all metrics with intervals, and its data."""
    lines = _headline(metrics, tags)
    seed = f", seed {tags['seed']}; the metrics are over all its seeds" if "seed" in tags else ""
    made = f"commit {tags['git_commit'][:12]}{' with changes' if tags.get('git_dirty') == 'true' else ''}"
    trained = f"Trained by `{tags['stage']}`{seed}. " if "stage" in tags else ""
    if "folds" in tags:
        trained += f"The metrics are over {as_markdown(tags['folds'])}; "
        trained += "the registered model learned from all folds but the first, which validated it"
        trained += " before it learned them all. " if "refit" in tags else ". "
    if "refit" in tags:
        trained += "After validation chose its setting and epochs, it was trained once more, on validation rows too. "
    lines += [f"{trained}Published at {made}, by rankgrad {__version__}."]
    rows = [[row.metric, cell(*row.interval, digits=4)] for row in metrics if not math.isnan(row.value)]
    rows += [[tags["undefined"], UNDEFINED]] if "undefined" in tags else []
    lines += ["", "## Metrics", "", markdown(["metric", "value (95%)"], rows).rstrip()]
    if inputs := inputs_of(tags):
        lines += ["", "## Data"]
        for tag, line in DATA.items():
            if tag in tags:
                lines += ["", line.format(tags[tag])]
        files: dict[str, list[str]] = {}  # names by md5: with folds, all splits are the same file
        for name, md5 in inputs.items():
            files.setdefault(md5, []).append(name)
        rows = [[", ".join(names), md5] for md5, names in files.items()]
        lines += ["", markdown(["file", "md5"], rows).rstrip()]
    return "\n".join(lines)


def _headline(metrics: Sequence[Row], tags: Mapping[str, str]) -> list[str]:
    """Return the first line, the only one in MLflow's table of versions: the main metric and the data.

    >>> tags = {"judged_by": "spearman", "dataset": "clips", "snapshot": "2"}
    >>> _headline([Row("mine", "tau", 0.3), Row("mine", "spearman", 0.5, low=0.4, high=0.6)], tags)
    ['spearman 0.5000 (0.4000 to 0.6000) on clips, snapshot 2', '']
    """
    if not metrics:
        return []
    judged = next((row for row in metrics if row.metric == tags.get("judged_by")), metrics[0])
    line = f"{judged.metric} {cell(*judged.interval, digits=4)}"
    if "dataset" in tags:
        line += f" on {tags['dataset']}"
    if "snapshot" in tags:
        line += f", snapshot {tags['snapshot']}"
    return [line, ""]


def inputs_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the hash of each file and model that a version was made from, by path."""
    return {name.removeprefix(INPUT): value for name, value in tags.items() if name.startswith(INPUT)}


def _slices(slices: Sequence[Slice]) -> list[str]:
    if not slices:
        return []
    about = (
        f"The worst of {len(slices)} slices of the tested rows, for the seed that is served; the others are in "
        "`model.json`. Some of many are bad by chance, and a rank correlation is lower where targets differ less."
    )
    rows = [[as_markdown(worst.name), str(worst.rows), cell(*worst.interval, digits=4)] for worst in slices[:SLICES]]
    return ["", "## Slices", "", about, "", markdown(["slice", "rows", f"{slices[0].metric} (95%)"], rows).rstrip()]


def _input(recipe: Mapping[str, Any]) -> str:
    """Describe a row of a request, and how the model prepares it."""
    task = lookup.find("tasks", recipe["task"])()
    described = as_markdown(type_of(recipe["input"]).described(recipe["input"]))
    if task.reads.lists:
        described = f"the documents of a query, each {described}"
    return f"{described}; or a caption" if "caption" in task.columns(recipe) else described


def _limits(recipe: Mapping[str, Any]) -> str:
    if recipe["folder"] == "sorters":
        length = recipe["args"].get("length")
        return f"Takes {length} scores, no other number." if length else "Takes any number of scores."
    classes = ""
    if recipe.get("classes"):
        names = as_markdown(f"Its classes: {', '.join(recipe['classes'])}")
        classes = f" {shorten(names, NAMES, placeholder=', ...')}."
    within = ""
    if recipe.get("within"):
        within = (
            f" Only scores of one {as_markdown(recipe['within'])} can be compared, and metrics are means over these."
        )
    return f"Takes {_input(recipe)}.{classes}{within} It was judged on data like its training data, and on no other."


def _loading(model: str, recipe: Mapping[str, Any]) -> str:
    address = f"models:/{model}/{NUMBER}"
    if recipe["folder"] == "sorters":
        return f'`rankgrad.sorters.load_sorter("{address}")`'
    own = own_columns(recipe["input"])
    own = f" or the columns of your file: {as_markdown(listed(own))}" if own else ""
    folders = " or pictures" if type_of(recipe["input"]).suffixes else ""
    return (
        f'`mlflow.pyfunc.load_model("{address}")`, whose rows have {", ".join(_columns(recipe))}{own}; or '
        f"`rankgrad predict {address} FILE`, for a table of yours{folders}"
    )


def _columns(recipe: Mapping[str, Any]) -> list[str]:
    columns = lookup.find("tasks", recipe["task"])().columns(recipe).items()
    return [name if column.required else f"{name} (optional)" for name, column in columns]

"""Choose what `rankgrad init` writes for a table: runs from `starting_runs.yaml` with fitting losses and epochs."""

from contextlib import suppress
from copy import deepcopy
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pandas as pd
from PIL import Image
from ruamel.yaml import YAML

from pipelines.cli.columns import whole_sheet
from pipelines.cli.structure import EXPLAINED, explained
from pipelines.config.plan import merged
from pipelines.rivals import RIVALS
from rankgrad import lookup
from rankgrad.datasets.table import HEAD, Table
from rankgrad.datasets.tables.cells import as_numbers, as_vectors, first_vector, missing_in
from rankgrad.datasets.tables.files import Sheet, columns_like, names_in, read_sheet
from rankgrad.datasets.tables.formats import format_of
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.lookup import did_you_mean

__all__ = ["blocks_of", "check_name", "examples_column", "is_skewed_up", "read_column", "starting_runs"]

STARTING_RUNS, STARTING_RIVALS = (Path(__file__).with_name(f"starting_{name}.yaml") for name in ("runs", "rivals"))
SMALLEST, SIZE, OPENED = 16, 64, 20  # pixels per side of images, and how many are opened for their sizes
SKEWED, GRADES = 1.0, 10  # smallest skewness, and number of distinct targets, for a run on their log
STEPS, STEPS_OF_PICTURES = 800, 400  # smallest number of training steps
MOST_EPOCHS = 300  # even if they have fewer steps
PATIENCE = {"text": 0.25}  # fraction of all epochs, else 0.5; the best epoch of linear models is one of the first
CONVNET = {"name": "convnet", "args": {"channels": [32, 64, 96], "gradients": 2}}
MODELS = {  # by input type
    "text": {
        "name": "linear",
        "args": {"standardize": False},
        "backbone": {"name": "bag_of_words", "args": {"pieces": True, "tf_idf": True}},
    },
    "text_pair": {"name": "linear", "args": {}, "backbone": {"name": "knrm", "args": {}}},
    "features": {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": [64]}}},
}


def starting_runs() -> dict[str, Any]:
    """Return what `init` writes for a table, by task or by special form of its target."""
    return YAML(typ="safe").load(STARTING_RUNS)


def check_name(option: str, name: str | None, names: Any) -> None:
    if name is not None and name not in names:
        raise ValueError(f"{option}: no {name!r}; there are {', '.join(names)}{did_you_mean(name, [*names])}")


def blocks_of(
    key: str, raw: Path, task: str, options: dict[str, Any], *, folder: Path, metric: str | None = None, seeds: int = 3
) -> dict[str, Any]:
    """Return the blocks of the params for a table: `datasets`, `runs`, `rivals`, `comparisons`, and `judged` of `gate`.

    Args:
        key: key of the dataset, and prefix of its runs.
        raw: folder of the dataset.
        task: task of its runs.
        options: options of `rankgrad.datasets.table.Table`.
        folder: folder that contains the file now.
        metric: metric for the comparison and the gate; None for the task's default.
        seeds: number of models to train for each run.
    """
    table = Table(**options)
    form = _special_form(task, table, folder)
    starting = starting_runs()[form]
    named = metric and _metric_called(metric, task)
    if table.within and named == "estimate_r2":
        raise ValueError("--metric estimate_r2: scores that compare only within groups have no estimates; leave it out")
    input_type = table.input_type
    dataset: dict[str, Any] = {"name": "table", "raw": str(raw), "args": options, "seed": 1}
    if input_type.pictures:
        dataset["size"] = _size_of_pictures(table, folder)
    common = {
        "task": task,
        "dataset": key,
        "model": _model_of(starting, table, folder),
        "start": "models/runs/none",
        "loss": {},
        "sorter": "none",
        "auxiliary": {"name": "none"},
        "seeds": seeds,
    }
    if starting.get("refit"):
        common["refit"] = True
    truth = _numbers_of_truth(table, folder)
    conditions = _conditions(table, truth, folder)
    count = _training_count(table, folder)
    is_binary = form == "query_ranking" and "binary" in conditions
    usual = "mean_average_precision" if is_binary else starting["metric"]
    metric, judged = _metrics(named, usual, task, form, has_pairs=bool(table.rejected))
    monitor = {} if form == "preferences" else _monitor_of(task, metric)
    of_input = starting.get("training", {}).get(input_type.name, {})
    steps = STEPS_OF_PICTURES if input_type.pictures else STEPS
    by_loss = _runs_for(starting["runs"], conditions, table, truth)
    for run in by_loss.values():
        longer = _long_enough(run["training"], count, steps, PATIENCE.get(input_type.name, 0.5))
        run["training"] = merged(merged(longer, monitor), of_input)
    standard, *ranking = by_loss
    comparison = {
        "question": f"Does {' or '.join(ranking)} rank {key} better than {standard}?",
        "baseline": f"{key}-{standard}",
        "runs": [f"{key}-{loss}" for loss in ranking],
        "metric": metric,
    }
    runs = {f"{key}-{name}": common | run for name, run in by_loss.items()}
    fitted, rivals = {}, {}
    for name, rival in RIVALS.items():
        # An answer need not repeat its prompt's words.
        if rival.takes.get(task) == input_type.name and form != "preferences":
            rivals[f"{key}-{name}"] = {"name": name, "task": task, "dataset": key, "metric": metric}
    for name, model in _fitted_models(task, "passages" if rivals else input_type.name).items():
        # The thresholds of ordered labels are trained; fitted weights are not.
        judged_alike = {part: by_loss[standard][part] for part in ("loss", "training")}
        fitted[f"{key}-{name}"] = common | model | judged_alike | {"seeds": 1}
    if fitted or rivals:
        comparison["rivals"] = [*fitted, *rivals]
    return {
        "datasets": {key: dataset},
        "runs": runs | fitted,
        "rivals": rivals,
        "comparisons": {key: comparison},
        "judged": {f"{task}-{key}": {"metric": judged}},
    }


def _model_of(starting: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    """Return the head and the backbone of a table's networks, which see skewed numbers as quantiles, too."""
    input_type = table.input_type
    if input_type.files:
        model = {**starting["head"], "backbone": CONVNET}
    else:
        model = starting.get("models", {}).get(input_type.name, MODELS[input_type.name])
    if "captions" in starting:
        model = {**model, "text": starting["captions"]}
    if input_type.name == "features" and _has_skewed_features(table, folder):
        return merged(deepcopy(model), {"backbone": {"args": {"quantiles": True}}})
    return model


def _size_of_pictures(table: Table, folder: Path) -> int:
    """Return `SIZE`, or the median of the shorter sides of the first pictures in files if it is smaller."""
    sides = []
    if table.image is not None:
        _, cells = read_column(table, folder, table.image)
        for cell in cells[:OPENED]:
            missing = suppress(OSError, TypeError, Image.DecompressionBombError)  # which the stage `data` reports
            with missing, Image.open(folder / cell) as picture:
                sides.append(min(picture.size))
    return max(SMALLEST, min(SIZE, sorted(sides)[len(sides) // 2])) if sides else SIZE


def _special_form(task: str, table: Table, folder: Path) -> str:
    """Return the special form of a table's target, or else its task."""
    if table.rejected is not None or (table.relevance is not None and _are_pairs(table, folder)):
        return "preferences"
    return "search" if table.captions is not None and table.text is not None else task


def _are_pairs(table: Table, folder: Path) -> bool:
    """Return whether each query of a table has two documents, and one of them is preferred: a 1 and a 0."""
    _, queries = read_column(table, folder, str(table.group))
    sheet, cells = read_column(table, folder, str(table.relevance))
    grades = as_numbers(sheet, cells[~missing_in(cells, numeric=True)])
    in_query = grades.groupby(queries.map(str))
    return bool((in_query.size() == 2).all() and (in_query.min() == 0).all() and (in_query.max() == 1).all())


def _fitted_models(task: str, kind: str) -> dict[str, Any]:
    """Return the models of `starting_rivals.yaml` for an input type, or for passages, that a task can have."""
    models = {}
    for name, model in YAML(typ="safe").load(STARTING_RIVALS).get(kind, {}).items():
        if task in lookup.find("models.backbones", model["model"]["backbone"]["name"]).tasks:
            models[name] = model
    return models


def read_column(table: Table, folder: Path, column: str, *, split: str = "train") -> tuple[Sheet, pd.Series]:
    """Return the rows of a table's file, or of the file of a split, with one column, and the cells of it."""
    path = _path_of(table, folder, split)
    form = format_of(path, table.format)
    names = names_in(path, form, table.encoding) if column.endswith("*") else [column]
    chosen = (*columns_like(column, names)[:1],)
    sheet = whole_sheet(path, chosen, form, table.encoding, (*(table.empty or ()),))._replace(writing=table.writing)
    return sheet, sheet.frame.iloc[:, 0]


def _path_of(table: Table, folder: Path, split: str = "train") -> Path:
    """Return the path of a table's file, or of the file of a split."""
    return folder / Path(table.files.get(split) or table.files[""]).name


def examples_column(table: Table) -> tuple[str, bool]:
    """Return a column by which examples are counted: queries, items or rows; and whether rows share its values.

    If passages repeat, each row counts as an item.
    """
    role, is_shared = table.truth_role, False
    if table.relevance is not None:
        role, is_shared = "group", True
    elif table.captions is not None:
        role, is_shared = table.input, not table.passages_repeat
    option = getattr(table, role)
    return (option if isinstance(option, str) else option[0]), is_shared


# Losses.


def _numbers_of_truth(table: Table, folder: Path) -> Any:
    """Return the targets or the grades of a table, a series; else None."""
    column = table.target or table.relevance
    if column is None:
        return None
    sheet, cells = read_column(table, folder, column)
    return as_numbers(sheet, cells[~missing_in(cells, numeric=True)])


def _has_skewed_features(table: Table, folder: Path) -> bool:
    """Return whether a column of numbers is skewed in the first rows of a table."""
    if table.features is None:
        return False
    sheet = read_sheet(
        [_path_of(table, folder)], lambda names: table.roles(names)["features"], kind=table.format,
        encoding=table.encoding, empty=table.empty or (), writing=table.writing, head=HEAD,
    )  # fmt: skip
    for name in sheet.frame:
        cells = sheet.frame[name]
        cells = cells[~missing_in(cells, numeric=True)]
        is_vector = first_vector(sheet, cells) is not None
        columns = as_vectors(sheet, cells).T if is_vector else [as_numbers(sheet, cells)]
        if any(abs(_clipped(pd.Series(numbers, dtype=float)).skew()) > SKEWED for numbers in columns):
            return True
    return False


def _conditions(table: Table, truth: Any, folder: Path) -> set[str]:
    """Return which conditions, by which a run of `starting_runs.yaml` is asked for, hold for a table."""
    conditions = {"within" if table.within else "across"}
    if table.within and explained(read_column(table, folder, str(table.group))[1], truth) > EXPLAINED:
        conditions.add("offsets")
    if table.relevance is not None:
        conditions.add("binary" if truth.isin([0, 1]).all() else "graded")
    is_skewed = table.target and is_skewed_up(truth) and truth.min() >= 0
    return conditions | ({"skewed"} if is_skewed else set())


def is_skewed_up(truth: Any) -> bool:
    """Return whether a few targets are much larger than the others, which their logarithms may not be."""
    return truth.nunique() > GRADES and _clipped(truth).skew() > SKEWED


def _clipped(truth: Any) -> Any:
    return truth.clip(upper=truth.quantile(0.99))  # so that a row of totals does not count as a tail


def _runs_for(runs: dict[str, Any], conditions: set[str], table: Table, truth: Any) -> dict[str, Any]:
    """Return the runs of a task that fit a table: the standard loss first, then ranking losses."""
    by_loss = {}
    for name, run in runs.items():
        if run.get("when") in {None, *conditions}:
            by_loss[name] = {key: value for key, value in run.items() if key not in ("when", "advice")}
    if table.target is not None and "mse" in by_loss:
        by_loss["mse"]["loss"]["args"]["sigmoid"] = bool(truth.between(0, 1).all())
    if "skewed" in conditions:
        by_loss["mse_log"]["training"]["log_plus"] = 10.0 ** floor(log10(_clipped(truth).mean())) / 100
    return by_loss


# Metric.


def _metrics(named: str | None, usual: str, task: str, form: str, *, has_pairs: bool) -> tuple[str, str]:
    """Return the metrics of the comparison and of the gate: the one that a person named, or the usual ones."""
    if task == "query_ranking" and named == "log_loss" and form != "preferences":
        raise ValueError("--metric log_loss: is for pairs of which one is preferred, and these queries are none")
    if named is not None:
        return named, named
    # Among few pairs, log loss tells better than accuracy which model orders others right. Rows with a single answer
    # may later form a query of three, which has no log loss.
    return usual, "log_loss" if form == "preferences" and has_pairs else usual


def _metric_called(name: str, task: str) -> str:
    """Return a task's metric, also as others write it, such as ndcg@10, or mrr@10 of captions that search items."""
    names = [metric.name for metric in lookup.find("tasks", task).all_metrics()]
    written = name.lower().replace("@", "_at_").replace("mrr", "reciprocal_rank")
    metric = next((metric for metric in (written, f"text_to_item.{written}") if metric in names), name)
    check_name("--metric", metric, names)
    return metric


def _monitor_of(task: str, metric: str) -> dict[str, Any]:
    """Return the option of training by which the metric decides on the best epoch, where it is not the usual one.

    >>> _monitor_of("query_ranking", "ndcg_at_10"), _monitor_of("score_ranking", "spearman")
    ({'ranker': {'monitor': 'ndcg_at_10'}}, {})
    """
    training = lookup.find("tasks", task).Training
    for phase, options in ({"": training} | get_type_hints(training)).items():
        if not hasattr(options, "monitor"):
            continue
        for choice in get_args(get_type_hints(options)["monitor"]):
            if choice in (metric, *metric.split(".")) and choice != options.monitor:
                return {phase: {"monitor": choice}} if phase else {"monitor": choice}
    return {}


# Times.


def _training_count(table: Table, folder: Path) -> float:
    """Return about how many examples are for training: rows, queries with their documents, or items with captions."""
    column, is_shared = examples_column(table)
    _, cells = read_column(table, folder, column)
    count = cells.map(str).nunique() if is_shared else len(cells)
    return count if isinstance(table.file, dict) else count * (1 - sum(SHARES.values()))


def _long_enough(
    options: dict[str, Any], count: float, steps: int, patience: float, batch_size: int = 0
) -> dict[str, Any]:
    """Return the options of a training, or of a phase of it, with enough epochs for so many steps.

    >>> _long_enough({"batch_size": 64, "finetune": {"epochs": 30, "patience": 10}}, 640, 800, 0.5)["finetune"]
    {'epochs': 80, 'patience': 40}
    """
    batch_size = options.get("batch_size", batch_size)
    longer = {}
    for name, value in options.items():
        longer[name] = _long_enough(value, count, steps, patience, batch_size) if isinstance(value, dict) else value
    if "epochs" in options:
        epochs = min(ceil(steps / ceil(count / batch_size)), MOST_EPOCHS)
        longer["epochs"] = max(options["epochs"], epochs)
        longer["patience"] = max(options["patience"], int(patience * longer["epochs"]))
    return longer

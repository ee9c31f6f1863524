"""Collect the content of the report (tables, texts, and pictures) from the outputs of stages."""

import math
from pathlib import Path
from typing import Any

from pipelines.config import Run, Settings
from pipelines.config.plan import differences
from pipelines.config.schema import NONE
from pipelines.reporting.examples import Examples, draw_examples, loss_of, sheet
from pipelines.reporting.results import UNDEFINED, best_on_validation, cell, folds_of, read_run, rivals_are_chosen_on
from rankgrad import lookup
from rankgrad.io import results
from rankgrad.io.parquet import matrix, read_table
from rankgrad.io.results import Results, minus
from rankgrad.metrics.label_ranking import ranked_map_ceiling

__all__ = ["content"]

SOURCES = {"data/raw/mnist": "all of MNIST", "data/raw/subset": "the 14,000 MNIST digits that ship with RankGrad"}
SORTER_COLUMNS = {  # title and decimals of each metric; None for the default decimals
    "l1": ("L1", 4),
    "exact_ranks": ("exact ranks", None),
    "gradient.vanishing": ("vanishing gradients", None),
    "gradient.wrong_signs_of_others": ("wrong signs", None),
    "length": ("d", 0),
    "parameters": ("parameters", 0),
}

Table = dict[str, list[str]]  # the cells of each row, by its title


def content(params: Settings, folder: Path) -> dict[str, Any]:
    """Return the content for the templates, and draw the page's pictures into `folder`."""
    # Read everything first, since drawing takes long.
    runs = results.read("metrics/runs")
    comparisons = [_comparison(params, runs, name) for name in params.comparisons]
    sorters = _sorters(params) if params.benchmark_sorters else {}
    groups: dict[tuple[str, str], list[str]] = {}
    for name, run in params.runs.items():
        groups.setdefault((run.task, run.dataset), []).append(name)
    return {
        "drawn": _drawn(params),
        "compute": params.compute,
        "comparisons": comparisons,
        "tasks": [_task(params, runs, names, folder) for names in groups.values()],
        "sheet": sheet(params, folder),
        "sorters": sorters,
        "sorter_columns": [title for title, _ in SORTER_COLUMNS.values()],
    }


def _drawn(params: Settings) -> str:
    """Say which test splits are generated from digits; return "" if none is."""
    names = dict.fromkeys(run.dataset for run in params.runs.values())
    drawn = [name for name in names if params.datasets[name].is_drawn]
    if not drawn:
        return ""
    which = "" if len(drawn) == len(names) else f"; those of {', '.join(drawn)} are"
    sources = dict.fromkeys(SOURCES[params.datasets[name].raw] for name in drawn)
    return f"{which} of images generated from {' and '.join(sources)}"


def _title(params: Settings, run: Run) -> str:
    """Return the title of a run's task, with the dataset if the task has several, and with the group of `within`."""
    title, dataset = lookup.find("tasks", run.task).title, params.datasets[run.dataset]
    if dataset.args.get("within"):
        title += f" within {dataset.built().group}"
    datasets = {other.dataset for other in params.runs.values() if other.task == run.task}
    return f"{title}, {run.dataset}" if len(datasets) > 1 else title


def _comparison(params: Settings, runs: Results, name: str) -> dict[str, Any]:
    """Return a comparison's baseline and, for each of its runs, the difference from the baseline."""
    comparison, compared = params.comparisons[name], results.read(f"metrics/comparisons/{name}.csv")
    baseline, metric = comparison.baseline, comparison.metric
    about = lookup.find("tasks", params.runs[baseline].task).metric_named(metric)
    difference = minus(metric, baseline)
    rows = []
    for run in [*comparison.runs, *comparison.rivals]:
        is_ours = run in params.runs
        seeds = len(compared.by_seed(run, difference))  # the baseline's, too, if a rival has a single one
        gap, p = compared.row(run, difference), compared.row(run, f"p of {difference}").value
        rows.append(
            {
                "run": run,
                "loss": loss_of(params.runs[run]) if is_ours else run,
                "value": (runs if is_ours else compared).row(run, metric),
                "difference": gap,
                "verdict": _verdict(gap.low, gap.high, lower_is_better=about.lower_is_better),
                "p": "< 0.001" if p < 0.001 else cell(p),
                "seeds": min(seeds, len(params.runs[run].seeds)) if is_ours else seeds,
                "notes": _notes(params, run, baseline) if run in comparison.runs else "",
            }
        )
    # Choose on validation: the largest of several differences on the test split would be optimistic.
    best = best_on_validation(comparison.runs)
    return {
        "task": _title(params, params.runs[baseline]),
        "metric": about,
        "question": comparison.question,
        "usual": {"loss": loss_of(params.runs[baseline]), "value": runs.row(baseline, metric)},
        "runs": rows,
        "best": next(row for row in rows if row["run"] == best),
        "pays": _pays(params, compared, name, lower_is_better=about.lower_is_better),
    }


def _pays(params: Settings, compared: Results, name: str, *, lower_is_better: bool) -> str:
    """Say whether the network that is best on validation beats the strongest rival; return "" without rivals."""
    comparison = params.comparisons[name]
    for rival in comparison.rivals:
        for network in comparison.networks:
            if not compared.has(network, minus(comparison.metric, rival)):
                continue
            gap = compared.row(network, minus(comparison.metric, rival))
            verdict = _verdict(gap.low, gap.high, lower_is_better=lower_is_better)
            return (
                f"Does a network pay? {network}, the best on validation, minus {rival}, the strongest rival on "
                f"{rivals_are_chosen_on(params, comparison)}: {cell(*gap.interval, sign=True)}, {verdict}."
            )
    return ""


def _notes(params: Settings, run: str, baseline: str) -> str:
    """List settings other than the loss that differ from the baseline, as `batch_size 256 (32)`, and shared starts."""
    notes = []
    for key, (ours, theirs) in differences(params, run, baseline).items():
        values = ["none" if value is None else value for value in (ours, theirs)]
        notes.append(f"{key.removeprefix('training.')} {values[0]} ({values[1]})")
    if params.start_of(run) and "shared_start" in read_run(f"models/runs/{run}"):
        notes.append(f"seeds share {'/'.join(Path(params.runs[run].start).parts[2:])}")
    return ", ".join(notes)


def _verdict(low: float, high: float, *, lower_is_better: bool) -> str:
    """Return in words what the interval of a difference means.

    >>> _verdict(0.1, 0.2, lower_is_better=False), _verdict(0.1, 0.2, lower_is_better=True)
    ('better', 'worse')
    >>> _verdict(float("nan"), float("nan"), lower_is_better=True)
    'undefined'
    """
    if math.isnan(low) or math.isnan(high):
        return UNDEFINED
    if low <= 0 <= high:
        return "no clear difference"
    return "better" if (low > 0) != lower_is_better else "worse"


def _task(params: Settings, runs: Results, names: list[str], folder: Path) -> dict[str, Any]:
    """Return the details of a task on a dataset: one column per run, and the picture of each run."""
    first = params.runs[names[0]]
    table: Table = {}
    pictures = {}
    for name in names:
        run, trained = params.runs[name], read_run(f"models/runs/{name}")
        if draw_examples(folder / f"{name}-examples.png", Examples(params, name, runs.of_run(name))):
            pictures[name] = f"{name}-examples.png"
        start = Path(run.start).name
        setting = (f"{key.removeprefix('training.')} {value}" for key, value in trained["setting"].items())
        cells = {
            "loss": loss_of(run),
            "model": run.model.backbone.name if run.model.name == "identity" else run.model.name,
            "start": "random weights" if start == NONE else start,
            "seeds": ", ".join(map(str, trained["seeds"])),
            "chosen setting": ", ".join(setting),
        }
        for metric in lookup.find("tasks", run.task).all_metrics():
            cells[metric.title] = cell(*runs.row(name, metric.name).interval) if runs.has(name, metric.name) else ""
        for title, text in cells.items():
            table.setdefault(title, []).append(text)
    return {
        "title": _title(params, first),
        "text": _about(params, names[0]),
        "dataset": first.dataset,
        "runs": names,
        "table": {title: cells for title, cells in table.items() if any(cells)},
        "pictures": pictures,
    }


def _about(params: Settings, name: str) -> str:
    run = params.runs[name]
    dataset = params.datasets[run.dataset]
    text = f"Test split of {run.dataset}"
    if folds := folds_of(params, name):
        text = f"{run.dataset} in {folds}, and each row is tested once"
    if dataset.rows is not None:
        canvas, snapshot = dataset.args.get("canvas"), params.data.snapshot
        text += f": {dataset.rows.train:,} training and {dataset.rows.test:,} test examples"
        text += (f" of {canvas} px" if canvas else "") + (f", and those of snapshot {snapshot}" if snapshot > 1 else "")
    if run.task == "label_ranking":
        path = Path(f"predictions/{name}.parquet")
        most = ranked_map_ceiling(matrix(read_table(path, ["true_label_ranks"]), "true_label_ranks", path=path))
        text += f". A perfect ranking scores {cell(most)} ranked mAP"
    return f"{text}."


def _sorters(params: Settings) -> Table:
    """Return the cells of each sorter, see `SORTER_COLUMNS`."""
    measured = results.read("metrics/sorters")
    table: Table = {}
    for name in params.benchmark_sorters:
        table[name] = [
            cell(*measured.row(name, metric).interval, digits=digits) for metric, (_, digits) in SORTER_COLUMNS.items()
        ]
    return table

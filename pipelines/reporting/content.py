"""Say what the report shows: its tables, texts and pictures, from what stages wrote."""

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from pipelines.config import Run, Settings
from pipelines.config.plan import differences
from pipelines.config.schema import NONE
from pipelines.reporting import plots
from pipelines.reporting.examples import draw_examples, loss_of, sheet
from pipelines.reporting.results import (
    UNDEFINED,
    history,
    number,
    read_comparisons,
    read_run,
    read_runs,
    read_sorters,
    shown,
)
from rankgrad import lookup
from rankgrad.io.parquet import matrix, read_table
from rankgrad.metrics.label_ranking import ranked_map_ceiling
from rankgrad.tasks import Metric

__all__ = ["content"]

SOURCES = {"mnist": "all of MNIST", "subset": "the 14,000 digits of MNIST that ship"}


def content(params: Settings, folder: Path) -> dict[str, Any]:
    """Return what the templates show, and draw the page's pictures into `folder`."""
    # All is read before anything is drawn, which takes long.
    runs = read_runs()
    compared = read_comparisons() if params.comparisons else pd.DataFrame()
    measured = read_sorters() if params.sorters else pd.DataFrame()
    tasks: dict[tuple[str, str], list[str]] = {}
    for name, run in params.runs.items():
        tasks.setdefault((run.task, run.dataset), []).append(name)
    return {
        "drawn": _drawn(params),
        "compute": params.compute,
        "comparisons": [_comparison(params, runs, compared, name) for name in params.comparisons],
        "sheet": sheet(params, folder),
        "tasks": [_task(params, runs, names, folder) for names in tasks.values()],
        "sorters": {} if measured.empty else _sorters(params, measured, folder),
    }


def _drawn(params: Settings) -> str:
    """Say which test splits are drawn from digits, where any is."""
    names = dict.fromkeys(run.dataset for run in params.runs.values())
    drawn = [name for name in names if params.datasets[name].is_drawn]
    if not drawn:
        return ""
    which = "" if len(drawn) == len(names) else f"; those of {', '.join(drawn)} are"
    return f"{which} of pictures drawn from {SOURCES[params.digits.source]}"


def _title(params: Settings, run: Run) -> str:
    """Return the title of a run's task, with its dataset if the task has several."""
    title = lookup.find("tasks", run.task).title
    several = any(other.task == run.task and other.dataset != run.dataset for other in params.runs.values())
    return f"{title}, {run.dataset}" if several else title


def _value(runs: pd.DataFrame, run: str, metric: str) -> str:
    """Return a metric of a run, over its seeds.

    Raises:
        ValueError: the run has no such metric.
    """
    rows = runs[(runs["run"] == run) & (runs["metric"] == metric) & runs["seed"].isna()]
    if rows.empty:
        raise ValueError(f"metrics/runs/{run}.json: no {metric}; make it again with `dvc repro`")
    return shown(*rows.iloc[0][["value", "low", "high"]])


def _comparison(params: Settings, runs: pd.DataFrame, table: pd.DataFrame, name: str) -> dict[str, Any]:
    """Return a comparison's baseline and, for each of its runs, the difference from that."""
    table = table[table["comparison"] == name]
    if table.empty:
        raise ValueError(f"metrics/comparisons/{name}.json: no runs; make it again with `dvc repro`")
    question, baseline, metric = table.iloc[0][["question", "baseline", "metric"]]
    metrics = {one.name: one for one in lookup.find("tasks", params.runs[baseline].task).metrics}
    about = metrics.get(metric, Metric(metric, metric))
    rows = [
        {
            "run": row.run,
            "loss": loss_of(params.runs[row.run]) if row.run in params.runs else row.run,  # else a rival
            "value": _value(runs, row.run, metric) if row.run in params.runs else shown(row.value),
            "difference": shown(row.difference, row.low, row.high, sign=True),
            "verdict": _verdict(row.low, row.high, lower_is_better=about.lower_is_better),
            "p": "< 0.001" if row.p < 0.001 else shown(row.p),
            "seeds": row.seeds,
            "beside": _beside(params, row.run, baseline) if row.run in params.runs else "",
        }
        for row in table.itertuples()
    ]
    usual = {"loss": loss_of(params.runs[baseline]), "value": _value(runs, baseline, metric)}
    title = _title(params, params.runs[baseline])
    # Chosen on validation: the largest of several differences on the test split would flatter.
    own = [row for row in rows if row["run"] in params.runs]
    best = max(own, key=lambda row: fmean(read_run(f"models/runs/{row['run']}")["validation"].values()))
    return {"task": title, "metric": about, "question": question, "usual": usual, "runs": rows, "best": best}


def _beside(params: Settings, run: str, baseline: str) -> str:
    """Say in what a run differs from its baseline beside the loss, such as `batch_size 256 (32)`."""
    return ", ".join(
        f"{place.removeprefix('training.')} {'none' if ours is None else ours} ({'none' if theirs is None else theirs})"
        for place, (ours, theirs) in differences(params, run, baseline).items()
    )


def _verdict(low: float, high: float, *, lower_is_better: bool) -> str:
    """Return what the interval of a difference says.

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


def _task(params: Settings, runs: pd.DataFrame, names: list[str], folder: Path) -> dict[str, Any]:
    """Return the details of a task on a dataset: a column a run, and the pictures of each."""
    first = params.runs[names[0]]
    columns: dict[str, dict[str, str]] = {}
    pictures = {}
    for name in names:
        run, trained = params.runs[name], read_run(f"models/runs/{name}")
        histories = {f"seed {seed}": history(f"models/runs/{name}/seed{seed}") for seed in trained["seeds"]}
        plots.learning_curves(folder / f"{name}-learning_curves.png", histories)
        drawn = draw_examples(folder / f"{name}-examples.png", params, runs[runs["run"] == name], name)
        pictures[name] = [*([f"{name}-examples.png"] if drawn else []), f"{name}-learning_curves.png"]
        settings = [f"{place.removeprefix('training.')} {value}" for place, value in trained["setting"].items()]
        start = Path(run.start).name
        columns[name] = {
            "loss": loss_of(run),
            "model": run.model.name,
            "start": "random weights" if start == NONE else start,
            "seeds": ", ".join(map(str, trained["seeds"])),
            "chosen setting": ", ".join(settings),
        } | _metrics(params, runs, name)
    table = pd.DataFrame(columns)
    table = table[(table != "").any(axis=1)].rename_axis("").reset_index()
    about = {"title": _title(params, first), "text": _about(params, names[0]), "dataset": first.dataset}
    return about | {"table": table, "pictures": pictures}


def _metrics(params: Settings, runs: pd.DataFrame, name: str) -> dict[str, str]:
    """Return all metrics of a run by title."""
    metrics = lookup.find("tasks", params.runs[name].task).metrics
    return {metric.title: _value(runs, name, metric.name) for metric in metrics}


def _about(params: Settings, name: str) -> str:
    run = params.runs[name]
    text = f"Test split of {run.dataset}"
    dataset = params.datasets[run.dataset]
    if dataset.rows is not None:
        canvas, snapshot = dataset.args.get("canvas"), params.data.snapshot
        text += f": {dataset.rows.train:,} training and {dataset.rows.test:,} test examples"
        text += (f" of {canvas} px" if canvas else "") + (f", and those of snapshot {snapshot}" if snapshot > 1 else "")
    text += "."
    if run.task == "label_ranking":
        path = Path(f"predictions/{name}.parquet")
        most = ranked_map_ceiling(matrix(read_table(path, ["true_label_ranks"]), "true_label_ranks", path=path))
        text += f" A perfect ranking scores {number(most)} ranked mAP on this split."
    return text


def _sorters(params: Settings, table: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Return a table with a row a sorter, and the pictures by title."""
    wide = table.pivot(index="sorter", columns="metric", values="value").loc[list(params.sorters)]
    l1 = table[table["metric"] == "l1"].set_index("sorter")
    rows = [
        {
            "sorter": name,
            "L1": number(*l1.loc[name, ["value", "low", "high"]], digits=4),
            "exact ranks": number(row["exact_ranks"]),
            "vanishing gradients": number(row["gradient.vanishing"]),
            "wrong signs": number(row["gradient.wrong_signs_of_others"]),
            "d": f"{row['length']:.0f}",
            "parameters": f"{row['parameters']:,.0f}",
        }
        for name, row in wide.iterrows()
    ]
    by_kind = wide.filter(like="l1_by_kind.").rename(columns=lambda name: name.removeprefix("l1_by_kind."))
    plots.sorter_errors(folder / "sorters-l1_by_kind.png", by_kind.rename_axis(index=None, columns=None).T)
    pictures = {"L1 by kind of vectors": "sorters-l1_by_kind.png"}
    for name in params.sorters:
        if Path(f"models/sorters/{name}/history.csv").is_file():  # there is none if nothing was trained
            pictures[f"{name}: learning curves"] = f"sorter-{name}-learning_curves.png"
            histories = {name: history(f"models/sorters/{name}")}
            plots.learning_curves(folder / f"sorter-{name}-learning_curves.png", histories)
    return {"table": pd.DataFrame(rows), "pictures": pictures}

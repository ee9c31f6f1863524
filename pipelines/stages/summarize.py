"""Write data for DVC's own tables and charts: a few numbers per run and sorter, and the epochs of each task."""

from pathlib import Path

import pandas as pd

from pipelines.config import Settings
from pipelines.reporting.results import history
from rankgrad.io import results
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.results import Results
from rankgrad.io.written import as_json


def curves(folders: dict[str, Path]) -> pd.DataFrame:
    """Return training loss and the first validation metric of runs over epochs, means over seeds and folds.

    Args:
        folders: folder of each run, in which each training's folder has a history.

    Returns:
        Columns `run`, `phase` (with the metric's name), `epoch`, `loss` and `validation`.
    """
    tables = []
    for run, folder in folders.items():
        trainings = pd.concat([history(path.parent) for path in sorted(folder.rglob("history.csv"))])
        for phase, epochs in trainings.groupby("phase", sort=False):
            columns = [*epochs.dropna(axis="columns", how="all")]
            metric = columns[columns.index("loss") + 1]
            means = epochs.groupby("epoch")[["loss", metric]].mean().rename(columns={metric: "validation"})
            tables.append(means.reset_index().assign(run=run, phase=f"{phase}: {metric}"))
    return pd.concat(tables)[["run", "phase", "epoch", "loss", "validation"]]


def _write_scores(folder: Path, table: Results, metrics: dict[str, str]) -> None:
    """Write the value of one metric for each run."""
    folder.mkdir(exist_ok=True)
    for name, metric in metrics.items():
        score = {"metric": metric, "value": table.row(name, metric).value}
        (folder / f"{name}.json").write_text(as_json(score, indent=2) + "\n")


def main(params: Settings) -> None:
    metrics = {name: params.metric_of(name) for name in params.runs}
    with replaced_folder("scores") as folder:
        _write_scores(folder, results.read("metrics/runs"), metrics)
        if params.benchmark_sorters:
            sorters = dict.fromkeys(params.benchmark_sorters, "l1")
            _write_scores(folder / "sorters", results.read("metrics/sorters"), sorters)
    with replaced_folder("reports/curves") as folder:
        trained = {name: Path("models/sorters") / name for name in params.sorters}
        charts = {"sorters": {name: path for name, path in trained.items() if (path / "history.csv").is_file()}}
        for name, run in params.runs.items():
            charts.setdefault(run.task, {})[name] = Path("models/runs") / name
        for title, folders in charts.items():
            if folders:
                curves(folders).to_csv(folder / f"{title}.csv", index=False, float_format="%.6g")

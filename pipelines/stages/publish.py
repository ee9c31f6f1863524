"""Send every finished training to MLflow and register its model: the only stage that talks to a server.

Run by hand as `python -m pipelines.stages publish`, it restores what an emptied or changed store lacks.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from pipelines.config import Settings
from pipelines.ops import dvc_lock
from pipelines.reporting.results import history, read_run, read_runs, read_sorters
from pipelines.running.progress import kept_times
from pipelines.tracking.publish import Run, Version, key_of, publish
from pipelines.tracking.store import experiment
from rankops.io.atomic import replaced_file

PLOTS, PAGES = Path("reports/figures"), Path("reports/data")


def _entries(*stages: str) -> list[dict[str, Any]]:
    """Return the entries of stages in dvc.lock."""
    known = dvc_lock.stages()
    if missing := [stage for stage in stages if stage not in known]:
        raise ValueError(f"dvc.lock: no entry for {missing[0]}, so there is nothing to publish: run `dvc repro` first")
    return [known[stage] for stage in stages]


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return nested values by dotted names.

    >>> _flat({"loss": {"name": "rlsep", "args": {"pairs": 4}}})
    {'loss.name': 'rlsep', 'loss.args.pairs': 4}
    """
    return pd.json_normalize(values).to_dict("records")[0]


def _metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Return `<metric>`, `<metric>.low` and `<metric>.high` of a table of `pipelines.reporting.results`.

    >>> _metrics(pd.DataFrame({"metric": ["spearman"], "value": [0.5], "low": [float("nan")], "high": [0.75]}))
    {'spearman': 0.5, 'spearman.high': 0.75}
    """
    table = rows.melt("metric", ["value", "low", "high"], "bound", "number").dropna()
    names = (table["metric"] + "." + table["bound"]).str.removesuffix(".value")
    return dict(zip(names, table["number"], strict=True))


def _plots(*names: str) -> dict[str, list[Path]]:
    plots = [path for name in names if (path := PLOTS / f"{name}.png").is_file()]
    return {"plots": plots} if plots else {}


def _sorters(params: Settings, tags: dict[str, str]) -> list[Run]:
    results, runs = read_sorters(), []
    for key, options in params.sorters.items():
        stage, folder, metrics = f"pretrain@{key}", Path("models/sorters") / key, Path(f"metrics/sorters/{key}.json")
        entries = _entries(stage)
        version, epochs = None, None
        if (folder / "history.csv").is_file():  # it has weights
            version, epochs = Version(f"sorter-{key}", folder), history(folder)
        runs.append(
            Run(
                name=f"sorter-{key}",
                experiment="sorters",
                key=key_of(stage, dvc_lock.made_by(entries), metrics.read_text()),
                params=_flat(options.model_dump()),
                metrics=_metrics(results[results["sorter"] == key]),
                tags=tags | {"stage": stage} | dvc_lock.inputs(entries),
                history=epochs,
                files={"results": [metrics]} | _plots(f"sorter-{key}-learning_curves", "sorters-l1_by_kind"),
                version=version,
                times=kept_times("pretrain", key, folder).get("all"),
            )
        )
    return runs


def _runs(params: Settings, tags: dict[str, str]) -> list[Run]:
    results, runs = read_runs(), []
    for name, options in params.runs.items():
        entries = _entries(f"train@{name}", f"evaluate@{name}")
        folder, key = Path("models/runs") / name, key_of(name, dvc_lock.made_by(entries))
        trained, rows = read_run(folder), results[results["run"] == name]
        best, times = trained["best"], kept_times("train", name, folder)
        seeds = tuple(
            Run(
                name=f"{name}-seed{seed}",
                experiment=options.task,
                key=key_of(key, seed),
                params={"seed": seed},
                metrics=_metrics(rows[rows["seed"] == seed]),
                tags={"seed": str(seed), "run": name},
                history=history(folder / f"seed{seed}"),
                times=times.get(str(seed)),
            )
            for seed in trained["seeds"]
        )
        named = {"dataset": options.dataset, "loss": options.loss.name, "sorter": options.sorter}
        named["snapshot"] = str(params.data.snapshot)
        if params.datasets[options.dataset].is_drawn:
            named["digits_source"] = params.digits.source
        settings = {
            "training": params.training_of(name), "compute": params.compute.model_dump(), "chosen": trained["setting"],
            "data": params.data.model_dump(),
        }  # fmt: skip
        runs.append(
            Run(
                name=name,
                experiment=options.task,
                key=key,
                params=_flat(options.model_dump() | settings),
                metrics=_metrics(rows[rows["seed"].isna()]),
                tags=tags | named | {"stage": f"train@{name}"} | dvc_lock.inputs(entries),
                files={"results": [Path(f"metrics/runs/{name}.json"), folder / "run.json"]}
                | _plots(f"{name}-learning_curves", f"{name}-examples")
                | {"data": [PAGES / f"{options.dataset}.html"]},
                seeds=seeds,
                times=times.get("all"),
                version=Version(
                    model=params.model_of(options),
                    weights=folder / f"seed{best}",
                    data=Path("data") / options.dataset,
                    quality=trained["validation"][str(best)],
                    tags={"seed": str(best)},
                ),
            )
        )
    return runs


def _of_experiment(run: Run, name: str) -> Run:
    """Return a run as a DVC experiment sends it: with its name, and no version, which could become champion."""
    seeds = tuple(_of_experiment(seed, name) for seed in run.seeds)
    return replace(run, tags={**run.tags, "dvc.experiment": name}, seeds=seeds, version=None)


def main(params: Settings) -> None:
    tags = {"device": params.compute.device, "threads": str(params.compute.threads)}
    runs, how = _sorters(params, tags) + _runs(params, tags), ""
    if name := experiment():
        runs = [_of_experiment(run, name) for run in runs]
        how = f" as experiment {name}, without versions (`dvc exp apply {name}` and `make repro` register them)"
        # One of several experiments at a time, and none beside the checkout's own publishing.
        lock = Path(os.environ["DVC_ROOT"]) / ".locks/publish.lock"
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock):
            sent = publish(runs)
    else:
        sent = publish(runs)
    print(f"publish: sent {len(sent)} of {len(runs)} runs{how}{': ' if sent else ''}{', '.join(sent)}")
    with replaced_file("reports/published.json") as partial:
        partial.write_text(json.dumps({run.name: run.key for run in runs}, indent=2) + "\n")

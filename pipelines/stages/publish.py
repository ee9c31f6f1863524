"""Upload every finished training to MLflow and register its model; the only stage that contacts a server.

Run `python -m pipelines.stages publish` to restore missing runs after the store was emptied or replaced.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import file_digest, md5
from math import inf, isnan
from pathlib import Path
from textwrap import shorten
from typing import Any

import joblib
import pandas as pd
import torch
from filelock import FileLock

from pipelines.config import RunPlan, Settings, prefixed, resolve
from pipelines.config.plan import flat_of
from pipelines.config.schema import NONE, read
from pipelines.monitoring.reference import TrainingData
from pipelines.ops import dvc_lock
from pipelines.reporting.results import folds_of, history, read_run, validation_of
from pipelines.running.history import kept
from pipelines.running.sources import value_at
from pipelines.tracking.gate import gain_of
from pipelines.tracking.slices import Slice, slices
from pipelines.tracking.store import experiment
from pipelines.tracking.upload import Run, Version, key_of, publish
from rankgrad import lookup
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from rankgrad.io.results import Row
from rankgrad.tasks import Metric

LONGEST_TAG = 500  # characters
PLOTS, PAGES = Path("reports/figures"), Path("reports/data")


@dataclass(frozen=True)
class Recorded:
    """What dvc.lock records of each stage, and the present values of params.yaml."""

    stages: dict[str, Any]
    params: dict[str, Any]

    def entries(self, *stages: str) -> list[dict[str, Any]]:
        """Return the entries of stages in dvc.lock, after checking that each used the outputs of the earlier ones.

        Raises:
            ValueError: there is no entry, the outputs do not match, or params.yaml has changed since: the weights would
                be published with wrong metrics or params.
        """
        made: dict[str, str] = {}
        for stage in stages:
            if stage not in self.stages:
                raise ValueError(
                    f"dvc.lock: no entry for {stage}, so there is nothing to publish: run `dvc repro` first"
                )
            for name, value in self.stages[stage].get("params", {}).get("params.yaml", {}).items():
                if value_at(self.params, name) != value:
                    raise ValueError(f"params.yaml: {name} is not what {stage} was made with: run `dvc repro` first")
            for dependency in self.stages[stage]["deps"]:
                if made.get(dependency["path"], dependency.get("md5")) != dependency.get("md5"):
                    raise ValueError(f"dvc.lock: {stage} is of an earlier {dependency['path']}: run `dvc repro` first")
            for out in self.stages[stage]["outs"]:
                made[out["path"]] = out.get("md5")
                if out.get("hash") == "md5" and Path(out["path"]).is_file() and _md5(out["path"]) != out["md5"]:
                    raise ValueError(f"{out['path']}: not what dvc.lock says of {stage}: run `dvc repro` first")
        return [self.stages[stage] for stage in stages]


def _md5(path: str) -> str:
    with open(path, "rb") as file:
        return file_digest(file, partial(md5, usedforsecurity=False)).hexdigest()


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return nested values under dotted names, without None values."""
    return {name: value for name, value in flat_of(values).items() if value is not None}


def _component(name: str, args: Mapping[str, Any], **options: Any) -> str:
    """Return a component and its options as one value, for a single column in comparisons of runs.

    >>> _component("rlsep", {"pairs": 4, "mode": None}, weight=0.5)
    'rlsep(pairs=4, weight=0.5)'
    """
    shown = [f"{option}={value}" for option, value in {**args, **options}.items() if value is not None]
    return f"{name}({', '.join(shown)})" if shown else name


def _params(params: Settings, plan: RunPlan, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a run for MLflow's tables, named so that params that differ between runs come first."""
    values: dict[str, Any] = {"backbone": _component(**asdict(plan.model.backbone))}
    if plan.model.text is not None:
        values["text"] = _component(**asdict(plan.model.text))
    values |= {"model": _component(plan.model.name, plan.model.args), "loss": _component(**asdict(plan.loss))}
    if plan.auxiliary is not None:
        values["auxiliary"] = _component(**asdict(plan.auxiliary))
    values |= {
        "task": plan.task, "dataset": plan.dataset,
        "start": NONE if plan.start is None else plan.start.name, "sorter": plan.sorter or NONE,
        "seeds": [*plan.seeds], "refit": params.runs[plan.name].refit, "tried": params.runs[plan.name].grid,
        "training": asdict(plan.training),
        "sorter_optimizer": plan.sorter_optimizer and asdict(plan.sorter_optimizer),
        "compute": params.compute.model_dump(), **params.data.model_dump(),
    }  # fmt: skip
    return _flat(values) | _flat(chosen)


def _mean(histories: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the epochs that all seeds have, with means over seeds.

    >>> _mean([pd.DataFrame({"epoch": [1, 2], "loss": [0.5, 0.25]}), pd.DataFrame({"epoch": [1], "loss": [1.5]})])
       epoch  loss
    0      1   1.0
    """
    epochs = pd.concat(histories).groupby("epoch")
    return epochs.mean(numeric_only=True)[epochs.size() == len(histories)].reset_index()


def _undefined(rows: list[Row]) -> dict[str, str]:
    """Return a tag with the names of undefined metrics, if there are any."""
    names = [row.metric for row in rows if isnan(row.value)]
    return {"undefined": shorten(", ".join(names), LONGEST_TAG, placeholder=", ...")} if names else {}


def _with_judged(rows: list[Row], judged: Metric) -> list[Row]:
    """Return rows, preceded by the gate's metric under a name that runs of all tasks share; more is always better.

    >>> rows = [Row("mine", "tau", 0.5), Row("mine", "loss", 0.6, low=0.5, high=0.8)]
    >>> [first, *_] = _with_judged(rows, Metric("loss", "loss", lower_is_better=True))
    >>> first.metric, first.interval
    ('judged', (-0.6, -0.8, -0.5))
    """
    of_all = [gain_of(row, lower_is_better=judged.lower_is_better) for row in rows if row.metric == judged.name]
    return [*(row._replace(metric="judged") for row in of_all), *rows]


def _quality(params: Settings, run: str, metrics: list[Row], judged: Metric) -> float:
    """Return the value by which first versions are chosen, larger is better.

    It is the gate's metric over all folds, each tested by a model that did not learn it; without folds, validation's.
    """
    if params.datasets[params.runs[run].dataset].folds is None:
        return validation_of(run)
    for row in metrics:
        if row.metric == judged.name and not isnan(row.value):
            return gain_of(row, lower_is_better=judged.lower_is_better).value
    return -inf


def _sorters(params: Settings, tags: dict[str, str], recorded: Recorded) -> list[Run]:
    if not params.benchmark_sorters:
        return []
    measured, runs = results.read("metrics/sorters"), []
    for key in params.benchmark_sorters:
        options = params.sorters[key]
        stage, folder, metrics = f"pretrain@{key}", Path("models/sorters") / key, Path(f"metrics/sorters/{key}.csv")
        entries = recorded.entries(stage, f"benchmark_sorters@{key}")[:1]
        (times, used), version, epochs = kept("pretrain", key, folder), None, None
        if (folder / "history.csv").is_file():  # it has weights
            version, epochs = Version(prefixed(f"sorter-{key}"), folder), history(folder)
        runs.append(
            Run(
                name=f"sorter-{key}",
                experiment="sorters",
                key=key_of(stage, dvc_lock.made_by(entries), metrics.read_text()),
                params=_flat(options.model_dump()),
                metrics=measured.of_run(key),
                tags=tags | {"stage": stage} | dvc_lock.inputs(entries),
                history=epochs,
                files={"results": [metrics]},
                version=version,
                times=times.get("all"),
                used=used,
            )
        )
    return runs


def _runs(params: Settings, tags: dict[str, str], recorded: Recorded) -> list[Run]:
    measured, runs = results.read("metrics/runs"), []
    datasets = {name: TrainingData(Path("data") / name) for name in {run.dataset for run in params.runs.values()}}
    for name, run in params.runs.items():
        plan = resolve(params, name)
        entries = recorded.entries(f"data@{plan.dataset}", f"train@{name}", f"evaluate@{name}")[1:]
        folder, key = Path("models/runs") / name, key_of(name, dvc_lock.made_by(entries))
        trained, metrics = read_run(folder), measured.of_run(name)
        best, (times, used) = trained["best"], kept("train", name, folder)
        judged = lookup.find("tasks", plan.task).metric_named(params.judged_of(plan.task, plan.dataset).metric)
        seeds = []
        for seed in trained["seeds"]:
            of_seed = measured.of_run(name, seed)
            seeds.append(
                Run(
                    name=f"{name}-seed{seed}",
                    experiment=plan.task,
                    key=key_of(key, seed),
                    params={"seed": seed},
                    metrics=_with_judged(of_seed, judged),
                    tags={"seed": str(seed), "run": name} | _undefined(of_seed),
                    history=history(folder / f"seed{seed}"),
                    times=times.get(str(seed)),
                )
            )
        named = {
            "judged_by": judged.name,
            "dataset": plan.dataset,
            "loss": plan.loss.name,
            "sorter": plan.sorter or NONE,
            "snapshot": str(params.data.snapshot),
        }
        if folds := folds_of(params, name):
            named["folds"] = folds
        if params.datasets[plan.dataset].is_drawn:
            named["digits"] = params.datasets[plan.dataset].raw
        files = {"results": [Path(f"metrics/runs/{name}.csv"), folder / "run.json"]}
        files["data"] = [PAGES / f"{plan.dataset}.html"]
        if (plot := PLOTS / f"{name}-examples.png").is_file():
            files["plots"] = [plot]
        runs.append(
            Run(
                name=name,
                experiment=plan.task,
                key=key,
                params=_params(params, plan, trained["setting"]),
                metrics=_with_judged(metrics, judged),
                tags=tags | named | {"stage": f"train@{name}"} | dvc_lock.inputs(entries) | _undefined(metrics),
                files=files,
                history=_mean([seed.history for seed in seeds if seed.history is not None]),
                seeds=tuple(seeds),
                times=times.get("all"),
                used=used,
                version=Version(
                    model=params.model_of(run),
                    weights=folder / f"seed{best}",
                    quality=_quality(params, name, metrics, judged),
                    tags={"seed": str(best), **({"refit": "true"} if run.refit else {})},
                    slices=partial(_slices, params, plan, best),
                    write=partial(datasets[plan.dataset].write, is_refitted=run.refit),
                ),
            )
        )
    return runs


def _slices(params: Settings, plan: RunPlan, seed: int) -> list[Slice]:
    predictions, test = Path(f"predictions/{plan.name}.parquet"), Path(f"data/{plan.dataset}/test.parquet")
    if not predictions.is_file() or not test.is_file():  # a checkout that pulled only the models
        return []
    judged = params.judged_of(plan.task, plan.dataset)
    return slices(plan.task, judged.metric, predictions, test, seed=seed)


def _of_experiment(run: Run, name: str) -> Run:
    """Return a run as part of a DVC experiment: with the experiment's name, and without a version to promote."""
    seeds = tuple(_of_experiment(seed, name) for seed in run.seeds)
    named = f"{run.name} ({name})"
    return replace(run, name=named, tags={**run.tags, "dvc.experiment": name}, seeds=seeds, version=None)


def main(params: Settings, *only: str) -> None:
    if only:  # only these runs were trained, so others may not exist
        params = params.model_copy(update={"runs": {name: params.runs[name] for name in only}})
    tags = {"device": params.compute.device, "threads": str(params.compute.threads)}
    recorded = Recorded(dvc_lock.stages(), read("params.yaml"))
    runs, how = ([] if only else _sorters(params, tags, recorded)) + _runs(params, tags, recorded), ""
    if name := experiment():
        runs = [_of_experiment(run, name) for run in runs]
        how = f" as experiment {name}, without versions (`dvc exp apply {name}` and `make repro` register them)"
        # Publish one experiment at a time, and none at the same time as the checkout itself.
        lock = Path(os.environ["DVC_ROOT"]) / ".locks/publish.lock"
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock):
            sent = publish(runs)
    else:
        torch.set_num_threads(joblib.cpu_count())  # networks measure rows for `monitor`, and no other stage runs
        sent = publish(runs)
        torch.set_num_threads(params.compute.threads)
    print(f"publish: uploaded {len(sent)} of {len(runs)} runs{how}{': ' if sent else ''}{', '.join(sent)}")
    with replaced_file("reports/published.json") as partial:
        partial.write_text(json.dumps({run.name: run.key for run in runs}, indent=2) + "\n")

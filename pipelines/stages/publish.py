"""Sends every finished training to MLflow and registers its model: the only stage that talks to a server.

Run by hand as `python -m pipelines.stages.publish`, it restores what an emptied or changed store lacks.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.config.schema import Settings, SorterRun
from pipelines.ops import dvc_lock
from pipelines.reporting.histories import best_epoch, history_of_run
from pipelines.reporting.results import figures, flat
from pipelines.stages.runner import run
from pipelines.tracking.publish import (
    Finished,
    Version,
    key_of,
    publish,
    requirements,
    sorter_signature,
    store,
    task_signature,
)
from rankops import lookup
from rankops.io.atomic import replaced_file

FIGURES = Path("reports/figures")
SERVING = Path(__file__).parents[1] / "serving"


def _entries(*stages: str) -> list[dict[str, Any]]:
    """What dvc.lock says of some stages.

    Raises:
        ValueError: it does not know one of them, or is no lock file.
    """
    known = dvc_lock.stages()
    for stage in stages:
        if stage not in known:
            raise ValueError(f"dvc.lock: no entry for {stage}, so there is nothing to publish: run `dvc repro` first")
    return [known[stage] for stage in stages]


def finished_trainings(params: Settings) -> list[Finished]:
    source = json.loads(Path("data/digits/manifest.json").read_text())["source"]
    everywhere = {"device": params.compute.device, "threads": str(params.compute.threads)}
    result = []
    for name, options in params.sorters.items():
        entries = _entries(f"pretrain@{name}")
        folder, metrics = Path("models/sorters") / name, Path(f"metrics/sorters/{name}.json")
        history = pd.read_csv(folder / "history.csv")
        result.append(
            Finished(
                name=f"sorter-{name}",
                experiment="sorters",
                key=key_of(dvc_lock.made_by(entries), metrics.read_text()),
                params=flat(options.model_dump() | {"length": json.loads(metrics.read_text())["length"]}),
                metrics=figures(metrics),
                tags=everywhere | {"stage": f"pretrain@{name}"} | dvc_lock.inputs(entries),
                history=history,
                files={
                    "plots": [FIGURES / f"sorter-{name}-learning_curves.png", FIGURES / "sorters-l1_by_kind.png"],
                    "figures": [metrics, folder / "history.csv"],
                },
                version=Version(
                    model=f"sorter-{name}",
                    script=SERVING / "sorter.py",
                    weights=folder,
                    signature=sorter_signature(json.loads(metrics.read_text())["length"]),
                    requirements=requirements("mlflow", "torch", "safetensors", "numpy"),
                ),
                quality=-history["l1"].min(),
            )
        )
    for name, options in params.all_runs.items():
        stages = params.stages_of(name)
        entries = _entries(*stages)
        folder, metrics = Path("models/runs") / name, Path(f"metrics/runs/{name}.json")
        history = history_of_run(folder)
        training = params.training.model_dump()[options.task]
        result.append(
            Finished(
                name=name,
                experiment=options.task,
                key=key_of(dvc_lock.made_by(entries)),
                params=flat(
                    options.model_dump()
                    | {
                        "training": training,
                        "compute": params.compute.model_dump(),
                        "train_processes": params.train_processes,
                    }
                ),
                metrics=figures(metrics),
                tags=everywhere
                | {"stage": stages[0], "digits_source": source, "loss": options.loss.name}
                | ({"sorter": options.sorter.name} if isinstance(options, SorterRun) else {})
                | dvc_lock.inputs(entries),
                history=history,
                files={
                    "plots": [
                        path
                        for kind in ("learning_curves", "examples")
                        if (path := FIGURES / f"{name}-{kind}.png").is_file()
                    ],
                    "figures": [metrics, *sorted(folder.glob("*history.csv"))],
                },
                version=Version(
                    model=params.model_of(options),
                    script=SERVING / f"{options.task}.py",
                    weights=folder,
                    signature=task_signature(options.task),
                    requirements=requirements(
                        "mlflow", "torch", "torchvision", "safetensors", "accelerate", "numpy", "pandas", "pillow",
                        "pyarrow", "scipy",
                    ),
                ),
                quality=best_epoch(history)[lookup.module("tasks", options.task).JUDGED_BY],
            )
        )  # fmt: skip
    return result


def main(params: Settings) -> None:
    trainings = finished_trainings(params)
    with store() as client:
        sent = publish(client, trainings)
    print(f"publish: sent {len(sent)} of {len(trainings)} runs{': ' if sent else ''}{', '.join(sent)}")
    with replaced_file("reports/published.json") as partial:
        partial.write_text(json.dumps({one.name: one.key for one in trainings}, indent=2) + "\n")


if __name__ == "__main__":
    run(main)

"""Sends the comparisons to MLflow, a run each method with its seeds as steps, and the experiments' plots."""

import json
from pathlib import Path

import pandas as pd

from pipelines.config.schema import Settings, load_experiments
from pipelines.reporting.results import flat
from pipelines.stages.runner import run
from pipelines.tracking import publish
from pipelines.tracking.publish import Finished, key_of, store
from rankops.io.atomic import replaced_file

PLOTS = Path("reports/experiments")


def comparisons(params: Settings) -> list[Finished]:
    """One run a method of each comparison; no model is registered of it."""
    pictures = sorted(PLOTS.glob("*.png"))
    found = []
    for name, plan in load_experiments(params).comparisons.items():
        for method, options in plan.methods.items():
            path = Path("results/comparisons") / f"{name}-{method}.json"
            result = json.loads(path.read_text())
            rows = [{part: value for part, value in seed.items() if part != "figures"} | seed.get("figures", {})
                    for seed in result["seeds"]]  # fmt: skip
            seeds = pd.DataFrame(rows).rename(columns={"seed": "epoch"})
            found.append(
                Finished(
                    name=f"{name}-{method}",
                    experiment="comparisons",
                    key=key_of(name, method, path.read_text(), options.model_dump(), plan.training.model_dump()),
                    params=flat(options.model_dump(exclude={"grid"}) | {"chosen": json.dumps(result["chosen"])}),
                    metrics={f"{part}.mean": seeds[part].mean() for part in ("test", "validation")},
                    tags={"comparison": name, "figure": plan.figure, "threads": str(params.compute.threads)},
                    history=seeds,
                    files={"plots": pictures, "figures": [path]},
                    version=None,
                )
            )
    return found


def main(params: Settings) -> None:
    finished = comparisons(params)
    with store() as client:
        sent = publish(client, finished)
    print(f"publish_experiments: sent {len(sent)} of {len(finished)} runs")
    with replaced_file("reports/published_experiments.json") as partial:
        partial.write_text(json.dumps({one.name: one.key for one in finished}, indent=2) + "\n")


if __name__ == "__main__":
    run(main)

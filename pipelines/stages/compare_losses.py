"""One loss of one task in the fair comparison: the same number of settings tried on validation, then several seeds.

Every training that is done is kept, so that a killed comparison goes on with the next one.
"""

import json
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from pipelines.settings import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stage import checkpoint_folder, run
from rankops.atomic_writes import remove_folder, replaced_file
from rankops.generators import derived_seed
from rankops.tables import read_table


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of nested values with some of them, named by dotted paths, set anew."""
    result = json.loads(json.dumps(values))
    for place, value in changes.items():
        *parents, last = place.split(".")
        block = result
        for parent in parents:
            block = block[parent]
        block[last] = value
    return result


def noisy(split: tuple, folder: Path, name: str, viewers: int | None) -> tuple:
    """A split of clips whose scores are of another number of viewers, drawn anew from the hidden probabilities."""
    if viewers is None:
        return split
    hidden = read_table(folder / f"{name}.parquet", ["probability"])["probability"].to_numpy()
    probability = torch.from_numpy(hidden.astype("float64"))
    draws = torch.Generator().manual_seed(derived_seed(viewers, "viewers", name))
    remembered = torch.binomial(torch.full_like(probability, viewers), probability, generator=draws)
    return split[0], (remembered / viewers).float()


def main(params: Settings, comparison: str, method: str) -> None:
    plan = load_experiments().comparisons[comparison]
    options = plan.methods[method].model_dump()
    task = import_module(f"rankops.tasks.{plan.task}")
    data = Path("data") / plan.dataset
    splits = {
        name: noisy(task.load_split(data, name, threads=params.compute.threads), data, name, options["viewers"])
        for name in ("train", "val", "test")
    }
    base = {"loss": options["loss"], "beside": options["beside"], "fine_tune": options["fine_tune"]}
    base["training"] = plan.training.model_dump()
    settings = [dict(zip(options["grid"], values, strict=True)) for values in product(*options["grid"].values())]
    inputs = [*(data / f"{name}.parquet" for name in splits), *sorted(Path(plan.start).rglob("*.safetensors"))]
    if options["sorter"] in params.sorters:
        inputs.append(Path("models/sorters") / options["sorter"] / "model.safetensors")
    kept = checkpoint_folder(
        "compare_losses", f"{comparison}-{method}",
        params={"plan": plan.model_dump(), "base": base, "compute": params.compute.model_dump()}, inputs=inputs,
    )  # fmt: skip
    kept.mkdir(parents=True, exist_ok=True)

    def trained(chosen: dict[str, Any], seed: int) -> dict[str, float]:
        """Validation and test figures of one training."""
        file = kept / f"{json.dumps(chosen, sort_keys=True)}-{seed}.json".replace("/", "_")
        if not file.is_file():
            run = changed(base, chosen)
            sorter = None if options["sorter"] is None else sorter_of(params, options["sorter"], options["sorter_args"])
            best = None
            for _, epoch, predictor in task.train(
                splits["train"], splits["val"], model=plan.model.model_dump(), loss=run["loss"],
                training=run["training"], seed=seed, start=plan.start, sorter=sorter, fine_tune=run["fine_tune"],
                beside=run["beside"], device=params.compute.device, precision=params.compute.precision,
                name=f"{comparison}.{method}",
            ):  # fmt: skip
                if epoch.best:
                    best = epoch.validation[task.JUDGED_BY]
            table = task.predictions(predictor, splits["test"])
            figures = task.evaluate(table, splits["test"], resamples=2, seed=0)
            for part in plan.figure.split("."):
                figures = figures[part]
            with replaced_file(file) as partial:
                partial.write_text(json.dumps({"validation": best, "test": figures["value"]}))
        return json.loads(file.read_text())

    with tqdm(total=len(settings) + plan.seeds - 1, desc=f"{comparison}.{method}", unit=" trainings") as bar:
        tried = []
        for chosen in settings:
            tried.append({"setting": chosen, "validation": trained(chosen, 1)["validation"]})
            bar.update()
        best = max(tried, key=lambda one: one["validation"])["setting"]
        results = []
        for seed in range(1, plan.seeds + 1):
            results.append(trained(best, seed) | {"seed": seed})
            bar.update(seed > 1)
    with replaced_file(f"results/comparisons/{comparison}-{method}.json") as partial:
        partial.write_text(json.dumps({"tried": tried, "chosen": best, "seeds": results}, indent=2) + "\n")
    remove_folder(kept)


if __name__ == "__main__":
    run(main)

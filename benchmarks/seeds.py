"""Seeds of a run trained one after another and side by side: how many times faster, and whether with the same bits.

Side by side means as many at once as there are GPUs, or processors for `compute.threads` each. Needs the run's data.
"""

import os
import tempfile
import time
from contextlib import chdir
from pathlib import Path

import torch

from benchmarks.results import write
from pipelines.config import Settings, load
from pipelines.config.schema import merged
from pipelines.stages.train import main as train

RUN, EPOCHS, ROUNDS = "label_ranking-rlsep", 2, 3


def seconds(params: Settings, count: int, jobs: int) -> tuple[float, list[bytes]]:
    """Return how long so many seeds take, so many at once, and their weights."""
    short = {phase: {"epochs": EPOCHS, "patience": EPOCHS} for phase in ("scorer", "thresholds")}
    run = {"seeds": list(range(1, count + 1)), "training": short}
    settings = Settings.model_validate(merged(params.model_dump(), {"runs": {RUN: run}, "jobs": {"count": jobs}}))
    start = time.perf_counter()
    train(settings, RUN)
    taken = time.perf_counter() - start
    return taken, [path.read_bytes() for path in sorted(Path("models/runs", RUN).glob("seed*/model.safetensors"))]


def main() -> None:
    params = load()
    data = (Path("data") / params.runs[RUN].dataset).resolve()
    if not (data / "train.parquet").is_file():
        raise SystemExit(f"{data}: no data; run `dvc repro data@{data.name}` first")
    torch.set_num_threads(params.compute.threads)
    gpus = torch.cuda.device_count() if params.compute.device != "cpu" else 0
    count = max(2, gpus or (os.cpu_count() or 1) // params.compute.threads)
    times: dict[int, list[float]] = {1: [], count: []}
    weights = []
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):  # the project's own results stay
        Path("data").mkdir()
        (Path("data") / data.name).symlink_to(data)
        for _ in range(ROUNDS):
            for jobs, found in times.items():
                taken, results = seconds(params, count, jobs)
                found.append(taken)
                weights.append(results)
    ratios = sorted(alone / together for alone, together in zip(*times.values(), strict=True))
    figures = {
        "times faster": ratios[len(ratios) // 2], "lowest": ratios[0], "highest": ratios[-1],
        "seconds one by one": min(times[1]), "seconds side by side": min(times[count]),
        "same bits": float(all(one == weights[0] for one in weights)),
    }  # fmt: skip
    write("seeds", {f"{count} seeds, {EPOCHS} epochs": figures})


if __name__ == "__main__":
    main()

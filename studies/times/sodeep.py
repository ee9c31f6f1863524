"""Seconds that SoDeep's sorters need at the paper's size: `python -m studies.times.sodeep`, two minutes on one core.

Forward and backward of a batch of vectors of 100 scores, in time of the processor, so that other work does not count.
"""

import time
from statistics import median

import torch

from pipelines.ops.git import git
from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.io.checkpoints import build
from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies import gpu, kept

BATCH, REPEATS = 16, 5


def seconds(sorter: torch.nn.Module) -> list[float]:
    """Return the seconds of each repeat, after one that does not count."""
    scores, _ = draw(BATCH, gpu.LENGTH, generator(0, "times", "sodeep"))
    taken = []
    for _ in range(REPEATS + 1):
        began = time.process_time()
        sorter(scores).sum().backward()
        taken.append(time.process_time() - began)
    return taken[1:]


def main() -> None:
    """Measure both sorters, and keep their times."""
    torch.set_num_threads(1)
    rows, params = [], gpu.params_of("sodeep", toy=False)["runs"]
    for run, settings in params.items():
        sorter = build("sorters", run.split("-")[0], settings["args"], seed=0, length=gpu.LENGTH)
        rows.append(Row(run, "seconds", median(seconds(sorter))))
    ratio = rows[0].value / rows[1].value
    rows.append(Row(rows[0].run, f"seconds over those of {rows[1].run}", ratio))
    commit = git(".", "log", "-1", "--format=%H", "--", "src", "studies/*.py")
    params = {name: settings["args"] for name, settings in params.items()} | {"batch": BATCH}
    kept.write("sodeep_speed", rows, {"commit": commit, "params": params, "hashes": {}, "machine": kept.machine()})
    print(f"{rows[0].run} takes {ratio:.1f} times as long as {rows[1].run}")


if __name__ == "__main__":
    main()

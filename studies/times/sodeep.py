"""Time SoDeep's sorters at the paper's size: `python -m studies.times.sodeep`, two minutes on one core.

It measures the CPU time of forward and backward for a batch of vectors of 100 scores, so other processes do not count.
"""

import math
import time

import torch

from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.io.checkpoints import build
from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies import gpu, kept
from studies.times.measuring import median_seconds

BATCH, REPEATS = 16, 5


def seconds(sorter: torch.nn.Module) -> float:
    """Return the median of several repeats, after a warm-up."""
    scores, _ = draw(BATCH, gpu.LENGTH, generator(0, "times", "sodeep"))

    def step() -> None:
        sorter(scores).sum().backward()

    step()
    return median_seconds(step, clock=time.process_time, most=REPEATS, limit=math.inf)


def main() -> None:
    """Measure both sorters, and keep their times."""
    torch.set_num_threads(1)
    rows, args = [], {run: settings["args"] for run, settings in gpu.PIECES["sodeep"].runs.items()}
    for run in args:
        sorter = build("sorters", run.split("-")[0], args[run], seed=0, length=gpu.LENGTH)
        rows.append(Row(run, "seconds", seconds(sorter)))
    ratio = rows[0].value / rows[1].value
    rows.append(Row(rows[0].run, f"seconds over those of {rows[1].run}", ratio))
    commit = kept.commit_of("src", "studies/*.py", "studies/gpu.yaml")
    made_by = {"commit": commit, "params": args | {"batch": BATCH}, "hashes": {}, "machine": kept.machine()}
    kept.write("sodeep_speed", rows, made_by)
    print(f"{rows[0].run} takes {ratio:.1f} times as long as {rows[1].run}")


if __name__ == "__main__":
    main()

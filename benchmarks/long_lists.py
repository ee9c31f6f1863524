"""Every loss and metric on one list of n: seconds (forward and backward, one thread) and memory above the process.

`growth` is the exponent of time between the two longest lists. Each figure is of a process of its own.
"""

import inspect
import json
import resource
import subprocess
import sys
import time

import torch

from benchmarks.results import write
from rankops import lookup

LENGTHS = (1_000, 5_000, 20_000)
TRUTHS = {"target": 5, "label_ranks": 5, "labels": 2}  # how many grades each has


def truth_of(folder: str, name: str) -> str | None:
    """Return the name of a function's second argument, if it is one that a list has."""
    function = getattr(lookup.module(folder, name), name, None)
    taken = list(inspect.signature(function).parameters) if callable(function) else []
    return taken[1] if len(taken) > 1 and taken[1] in TRUTHS else None


def measure(folder: str, name: str, length: int) -> tuple[float, float]:
    """Return seconds, and megabytes above what the process had after a short list."""
    function, kind = lookup.find(folder, name), truth_of(folder, name)
    generator = torch.Generator().manual_seed(0)
    options = {"k": 10} if name in ("precision_at_k", "recall_at_k") else {}

    def call(size: int) -> None:
        scores = torch.randn(size, generator=generator, requires_grad=folder == "losses")
        values = function(scores, torch.randint(TRUTHS[kind], (size,), generator=generator), **options)
        if folder == "losses":
            values.backward()

    call(100)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    call(length)
    return time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    if len(sys.argv) == 4:  # a process of its own
        torch.set_num_threads(1)
        print(json.dumps(measure(*sys.argv[1:3], int(sys.argv[3]))))
        return
    figures = {}
    for folder in ("losses", "metrics"):
        for name in filter(lambda name: truth_of(folder, name), lookup.names(folder)):
            row = {}
            for length in LENGTHS:
                words = [sys.executable, "-m", "benchmarks.long_lists", folder, name, str(length)]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                row[f"s, {length:,}"], row[f"MB, {length:,}"] = json.loads(done.stdout.splitlines()[-1])
            longer, shorter = (row[f"s, {length:,}"] for length in (LENGTHS[-1], LENGTHS[-2]))
            row["growth"] = float(torch.tensor(longer / shorter).log() / torch.tensor(LENGTHS[-1] / LENGTHS[-2]).log())
            figures[f"{folder}.{name}"] = row
    write("long_lists", figures)


if __name__ == "__main__":
    main()

"""How long commands and stages take until they begin, against the import that they cannot do without."""

import subprocess
import sys
import time

import numpy as np

from benchmarks.results import write

ROUNDS = 3
STAGES = ("score_vectors", "validate", "pretrain", "train", "evaluate", "report")


def seconds(*words: str) -> float:
    """How long Python takes for this, in a process of its own."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    measured = {
        "rankops --help": (("-m", "rankops.cli.main", "--help"), "typer"),
        "from rankops.losses import spearman": (("-c", "from rankops.losses import spearman"), "torch"),
        **{f"stage {name}": (("-c", f"import pipelines.stages.{name}"), "torch") for name in STAGES},
    }
    figures = {}
    for name, (words, base) in measured.items():
        seconds(*words)  # compiles what is not compiled yet
        pairs = np.array([(seconds(*words), seconds("-c", f"import {base}")) for _ in range(ROUNDS)])
        ratios = pairs[:, 0] / pairs[:, 1]
        figures[name] = {
            "seconds": float(np.median(pairs[:, 0])),
            f"ratio to import {base}": float(np.median(ratios)),
            "lowest": float(ratios.min()),
            "highest": float(ratios.max()),
        }
    write("startup", figures)


if __name__ == "__main__":
    main()

"""Draw queries in LETOR's form: `grade qid:7 1:0.3 2:...` a line. `python draw.py FOLDER [QUERIES]`."""

import sys
from pathlib import Path

import numpy as np

FEATURES = 20


def draw(folder: Path, queries: int = 200) -> None:
    """Write `queries.txt`, documents of 5 to 30 a query with grades from 0 to 4."""
    draws = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    weights = draws.normal(size=FEATURES)
    with (folder / "queries.txt").open("w") as file:
        for query in range(1, queries + 1):
            documents = draws.normal(size=(draws.integers(5, 31), FEATURES)) * np.geomspace(0.1, 100, FEATURES)
            plain = documents / np.geomspace(0.1, 100, FEATURES)
            quality = np.tanh(plain) @ weights + plain[:, 0] * plain[:, 1] + draws.normal(size=len(plain))
            grades = np.digitize(quality, np.quantile(quality, [0.6, 0.8, 0.9, 0.97]))
            for grade, document in zip(grades, documents, strict=True):
                values = " ".join(f"{number}:{value:.5g}" for number, value in enumerate(document, 1))
                file.write(f"{grade} qid:{query} {values}\n")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), *map(int, sys.argv[2:]))

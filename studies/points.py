"""Draw random points with a hidden score; those with the highest scores are positive: `python -m studies.points`.

It writes data/raw/points/points.parquet for the runs `points-*` (SoDeep, Fig. 6, after Song et al. 2016), with columns
`x_1`, `x_2`, ..., `split`, and labels; in `flipped_10`, 10% of the training labels are flipped.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from rankgrad.io.atomic import replaced_file

TABLE = Path("data/raw/points/points.parquet")
ROWS = {"train": 10_000, "val": 2_000, "test": 10_000}
FEATURES, WIDTH, LAYERS, POSITIVE = 10, 10, 4, 0.2
FLIPPED = (0, 10, 20, 30, 40)  # percent


def draw() -> pd.DataFrame:
    """Draw standard normal points, and label them by the score of a random ReLU network."""
    draws = np.random.default_rng(1)
    points = draws.normal(size=(sum(ROWS.values()), FEATURES)).astype(np.float32)
    hidden = points
    for layer in range(LAYERS):
        width = 1 if layer == LAYERS - 1 else WIDTH
        hidden = np.maximum(hidden, 0) if layer else hidden
        hidden = hidden @ (draws.normal(size=(hidden.shape[1], width)) / hidden.shape[1] ** 0.5)
    positive = hidden[:, 0] > np.quantile(hidden[:, 0], 1 - POSITIVE)
    table = pd.DataFrame(points, columns=[f"x_{number}" for number in range(1, FEATURES + 1)])
    table["split"] = np.repeat(list(ROWS), list(ROWS.values()))
    order = draws.permutation(ROWS["train"])
    for share in FLIPPED:
        flipped = np.isin(np.arange(len(table)), order[: ROWS["train"] * share // 100])
        table[f"flipped_{share}"] = (positive ^ flipped).astype(int)
    return table


if __name__ == "__main__":
    with replaced_file(TABLE) as partial:
        draw().to_parquet(partial, index=False)

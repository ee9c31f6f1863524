"""Move one score from -1 to 1 among fixed ones, and record each sorter's rank and error for it (SoDeep, Fig. 5)."""

from pathlib import Path

import pandas as pd
import torch

from pipelines.config import Settings, load
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file, replaced_folder
from rankgrad.io.results import rows_of
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator
from rankgrad.sorters import load_sorter

FOLDER = Path("metrics/measured")
STEPS, SEED = 2001, 1


@torch.inference_mode()
def main(params: Settings) -> None:
    scores = torch.rand(params.length_of("lstm")["length"], generator=generator(SEED, "score_sweep")) * 2 - 1
    vectors = scores.repeat(STEPS, 1)
    vectors[:, 0] = torch.linspace(-1, 1, STEPS)
    columns = {"score": vectors[:, 0].numpy(), "exact": exact_ranks(vectors)[:, 0].numpy()}
    rows = []
    for name in params.sorters:
        columns[name] = load_sorter(f"models/sorters/{name}")(vectors)[:, 0].numpy()
        errors = abs(columns[name] - columns["exact"])
        rows += rows_of(name, {"sweep.mean": errors.mean(), "sweep.largest": errors.max()})
    with replaced_folder(FOLDER / "sweep") as folder:
        pd.DataFrame(columns).to_csv(folder / "ranks.csv", index=False, float_format="%.6g")
    with replaced_file(FOLDER / "sweep.csv") as partial:
        results.write(partial, rows)


if __name__ == "__main__":
    main(load())

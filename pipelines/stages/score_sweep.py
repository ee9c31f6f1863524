"""Move one score from -1 to 1 among fixed ones and write the rank that each sorter gives it (SoDeep, Fig. 5)."""

import pandas as pd
import torch

from pipelines.config import Settings
from pipelines.config.schema import required
from rankops.io.atomic import replaced_file
from rankops.ranks import ranks
from rankops.seeding import generator
from rankops.sorters import load_sorter


@torch.inference_mode()
def main(params: Settings) -> None:
    plan, length = required(params.score_sweep, "score_sweep"), params.score_vectors.length
    others = torch.rand(length, generator=generator(plan.seed, "score_sweep")) * 2 - 1
    vectors = others.repeat(plan.steps, 1)
    vectors[:, 0] = torch.linspace(-1, 1, plan.steps)
    columns = {"score": vectors[:, 0].numpy(), "exact": ranks(vectors)[:, 0].numpy()}
    for name in params.sorters:
        columns[name] = load_sorter(f"models/sorters/{name}")(vectors)[:, 0].numpy()
    with replaced_file("metrics/score_sweep.csv") as partial:
        pd.DataFrame(columns).to_csv(partial, index=False, float_format="%.6g")

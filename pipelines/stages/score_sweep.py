"""The rank that each sorter gives one score while it moves from the lowest to the highest (SoDeep, Fig. 5)."""

import pandas as pd
import torch

from pipelines.config.schema import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stages.runner import run
from rankops.io.atomic import replaced_file
from rankops.ranks import ranks
from rankops.seeding import generator


@torch.inference_mode()
def main(params: Settings) -> None:
    plan, length = load_experiments(params).score_sweep, params.score_vectors.length
    others = torch.rand(length, generator=generator(plan.seed, "score_sweep")) * 2 - 1
    moved = torch.linspace(-1, 1, plan.steps)
    vectors = others.repeat(plan.steps, 1)
    vectors[:, 0] = moved
    columns = {"score": moved.numpy(), "exact": ranks(vectors)[:, 0].numpy()}
    for name in [*params.sorters, *params.benchmark_sorters.untrained]:
        columns[name] = sorter_of(params, name)(vectors)[:, 0].numpy()
    with replaced_file("results/score_sweep.csv") as partial:
        pd.DataFrame(columns).to_csv(partial, index=False, float_format="%.6g")


if __name__ == "__main__":
    run(main)

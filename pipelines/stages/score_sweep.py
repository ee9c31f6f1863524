"""The rank that each sorter gives one score while it moves from the lowest to the highest (SoDeep, Fig. 5)."""

import json

import torch

from pipelines.settings import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stage import run
from rankops.atomic_writes import replaced_file
from rankops.generators import generator
from rankops.ranks import ranks


@torch.inference_mode()
def main(params: Settings) -> None:
    plan, length = load_experiments().score_sweep, params.synthetic_ranks.length
    others = torch.rand(length, generator=generator(plan.seed, "score_sweep")) * 2 - 1
    moved = torch.linspace(-1, 1, plan.steps)
    vectors = others.repeat(plan.steps, 1)
    vectors[:, 0] = moved
    result = {"score": moved.tolist(), "exact": ranks(vectors)[:, 0].tolist(), "length": length}
    for name in [*params.sorters, *params.benchmark_sorters.untrained]:
        result[name] = sorter_of(params, name)(vectors)[:, 0].tolist()
    with replaced_file("results/score_sweep.json") as partial:
        partial.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    run(main)

"""How close each sorter's ranks are to the exact ones, on the fixed test vectors (SoDeep, Table 1)."""

import json

import numpy as np
import torch
from torch import nn

from pipelines.settings import Settings
from pipelines.sorters import sorter_of
from pipelines.stage import refuse_leftovers, run
from rankops.atomic_writes import replaced_folder
from rankops.datasets import synthetic_ranks
from rankops.generators import derived_seed
from rankops.intervals import interval
from rankops.ranks import ranks as exact_ranks


@torch.inference_mode()
def measure(sorter: nn.Module, test: tuple, *, resamples: int) -> dict:
    """L1 on normalised ranks with its interval, by kind, the share of exact ranks and of exactly ordered vectors."""
    scores, ranks, kinds = test
    length = scores.shape[1]
    found = torch.cat([sorter(part) for part in scores.split(1024)])
    errors = (found - ranks).abs().double()
    per_vector = (errors.mean(1) / length).numpy()
    by_kind = {}
    for kind in dict.fromkeys(synthetic_ranks.KINDS):
        of_kind = np.isin(kinds.numpy(), [i for i, name in enumerate(synthetic_ranks.KINDS) if name == kind])
        if of_kind.any():
            by_kind[kind] = per_vector[of_kind].mean().item()
    generator = np.random.default_rng(derived_seed(0, "benchmark_sorters"))
    return {
        "l1": interval(per_vector, resamples=resamples, generator=generator),
        "l1_by_kind": by_kind,
        "exact_ranks": (found.round() == ranks).double().mean().item(),
        # The smallest rank is the largest score's; ties must come out as ties.
        "exactly_ordered": (exact_ranks(-found) == ranks).all(1).double().mean().item(),
        "parameters": sum(parameter.numel() for parameter in sorter.parameters()),
        "length": length,
    }


def main(params: Settings) -> None:
    refuse_leftovers({"models/sorters": params.sorters})
    options = params.benchmark_sorters
    test = synthetic_ranks.load("data/synthetic_ranks", "test")
    sorters = {name: sorter_of(params, name) for name in [*params.sorters, *options.untrained]}
    with replaced_folder("metrics/sorters") as folder:
        for name, sorter in sorters.items():
            figures = measure(sorter, test, resamples=options.resamples)
            (folder / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    run(main)

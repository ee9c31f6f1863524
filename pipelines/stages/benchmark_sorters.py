"""How close each sorter's ranks are to the exact ones (SoDeep, Table 1), and how good its gradients are."""

import json
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.settings import Settings
from pipelines.sorters import sorter_of
from pipelines.stage import refuse_leftovers, run
from rankops import sorter_measures as measures
from rankops.atomic_writes import replaced_folder
from rankops.datasets import synthetic_ranks
from rankops.generators import derived_seed, generator
from rankops.intervals import interval

VECTORS = 40  # of which the Jacobian is looked at


def measure(sorter: nn.Module, test: tuple, *, resamples: int) -> dict:
    """L1 on normalised ranks with its interval, by kind, and what `rankops.sorter_measures` measures."""
    scores, ranks, kinds = test
    length = scores.shape[1]
    with torch.inference_mode():
        found = torch.cat([sorter(part) for part in scores.split(1024)])
    errors = (found - ranks).abs().double()
    per_vector = (errors.mean(1) / length).numpy()
    by_kind = {}
    for kind in dict.fromkeys(synthetic_ranks.KINDS):
        of_kind = np.isin(kinds.numpy(), [i for i, name in enumerate(synthetic_ranks.KINDS) if name == kind])
        if of_kind.any():
            by_kind[kind] = per_vector[of_kind].mean().item()
    draws = np.random.default_rng(derived_seed(0, "benchmark_sorters"))
    return {
        **measures.accuracy(lambda _: found, scores),
        "l1": interval(per_vector, resamples=resamples, generator=draws),
        "l1_by_kind": by_kind,
        "parameters": sum(parameter.numel() for parameter in sorter.parameters()),
        "length": length,
        **gradients(sorter, scores),
    }


def gradients(sorter: nn.Module, scores: Tensor) -> dict[str, dict[str, float]]:
    """Measures 2 to 6, 8 and 9 of a differentiable rank."""
    draws = partial(generator, 0, "benchmark_sorters")
    few, length = scores[:VECTORS], scores.shape[1]
    steps = {
        f"from_{deviation:g}": measures.adam_steps(sorter, 20, length, draws("adam"), deviation=deviation)
        for deviation in (1.0, 0.01)
    }
    return {
        "gradient": measures.gradient_health(sorter, few),
        "invariance": measures.invariance(sorter, scores[:1024], draws("invariance")),
        "ties": measures.ties(sorter, few),
        "elsewhere": measures.out_of_distribution(sorter, 200, length, draws("elsewhere")),
        "fidelity": measures.fidelity(sorter, few, draws("fidelity")),
        "spearman_after_a_step": measures.drop_of_spearman(sorter, few, draws("step")),
        "adam_steps": steps,
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

"""How exact the ranks and how healthy the gradients are of each sorter that one comparison puts into a loss."""

import json
import math

import torch
from torch import Tensor, nn

from pipelines.config.schema import Settings, load_experiments
from pipelines.sorters import sorter_of
from pipelines.stages.benchmark_sorters import gradients
from pipelines.stages.runner import run
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import replaced_file
from rankops.metrics.sorter_quality import accuracy

COMPARISON = "memorability_sorters"


def health(sorter: nn.Module, scores: Tensor) -> dict[str, float | None]:
    """What may tell how useful a sorter is, on vectors (n, d), see `rankops.metrics.sorter_quality`; None where undefined."""
    with torch.inference_mode():
        found = torch.cat([sorter(part) for part in scores.split(1024)])
    measured, near = gradients(sorter, scores), accuracy(lambda _: found, scores)
    figures = {
        "l1": near["l1"],
        "exact_ranks": near["exact_ranks"],
        **measured["gradient"],
        **measured["fidelity"],
        "spearman_after_a_step": measured["spearman_after_a_step"],
        **{f"adam_steps_{start}": steps for start, steps in measured["adam_steps"].items()},
    }
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def main(params: Settings) -> None:
    scores, _, _ = score_vectors.load("data/score_vectors", "test")
    methods = load_experiments(params).comparisons[COMPARISON].methods
    figures = {
        name: health(sorter_of(params, method.sorter, method.sorter_args), scores)
        for name, method in methods.items()
        if method.sorter is not None
    }
    with replaced_file("results/sorter_health.json") as partial:
        partial.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    run(main)

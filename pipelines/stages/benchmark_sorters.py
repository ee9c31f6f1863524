"""Measure how close each sorter's ranks are to exact ranks (SoDeep, Table 1), and the quality of its gradients."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.config import Settings
from pipelines.stages.score_vectors import FOLDER
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import interval
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from rankgrad.seeding import derived_seed, generator
from rankgrad.sorters import _quality as measures
from rankgrad.sorters import load_sorter

VECTORS = 40  # number of vectors whose Jacobian is measured


def measure(sorter: nn.Module, test: tuple, *, resamples: int) -> dict:
    """L1 on normalized ranks with its interval, by kind, and what `rankgrad.sorters._quality` measures."""
    scores, ranks, kinds = test
    length = scores.shape[1]
    with torch.inference_mode():
        predicted = torch.cat([sorter(chunk) for chunk in scores.split(1024)])
    errors = (predicted - ranks).abs().double()
    per_vector = (errors.mean(1) / length).numpy()
    by_kind = {}
    for kind in dict.fromkeys(score_vectors.KINDS):
        numbers = [number for number, name in enumerate(score_vectors.KINDS) if name == kind]
        of_kind = np.isin(kinds.numpy(), numbers)
        if of_kind.any():
            by_kind[kind] = per_vector[of_kind].mean().item()
    draws = derived_seed(0, "benchmark_sorters")
    return {
        **measures.accuracy(lambda _: predicted, scores),
        "l1": interval(per_vector, resamples=resamples, seed=draws),
        "l1_by_kind": by_kind,
        "parameters": sum(parameter.numel() for parameter in sorter.parameters()),
        "length": length,
        **gradients(sorter, scores),
    }


def gradients(sorter: nn.Module, scores: Tensor) -> dict[str, Any]:
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


def main(params: Settings, name: str) -> None:
    test = score_vectors.load(FOLDER / params.benchmark_sorters[name], "test")
    metrics = measure(load_sorter(f"models/sorters/{name}"), test, resamples=params.evaluate.resamples)
    with replaced_file(f"metrics/sorters/{name}.csv") as partial_file:
        results.write(partial_file, results.rows_of(name, metrics))

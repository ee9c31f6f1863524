"""Others' differentiable ranks, from scores (..., d) to descending ranks 1..d, and permutations (..., d, d).

torchsort, torchpsort, SoftTorch, and diffsort are optional packages; NeuralSort and SoftSort are implemented here from
their formulas.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

Ranking = Callable[[Tensor], Tensor]
PEERS = {  # family and softness, by name in tables
    "NeuralSort 0.1": ("NeuralSort", 0.1),
    "SoftSort 0.01": ("SoftSort", 0.01),
    "torchsort l2 0.1": ("torchsort l2", 0.1),
    "torchsort l2 0.01": ("torchsort l2", 0.01),
    "torchsort kl 0.1": ("torchsort kl", 0.1),
    "diffsort bitonic 100": ("diffsort bitonic", 0.01),  # by steepness
}


def missing() -> list[str]:
    """Return the optional packages that are not installed: torchsort needs a compiler, and no nvcc on the path."""
    return [name for name in ("torchsort", "diffsort") if find_spec(name) is None]


def neural_sort(scores: Tensor, *, temperature: float) -> Tensor:
    r"""Grover et al. 2019, Eq. 4: row k is $\mathrm{softmax}([(d + 1 - 2k) s - A_s 1] / \tau)$."""
    length = scores.shape[-1]
    apart = (scores.unsqueeze(-1) - scores.unsqueeze(-2)).abs().sum(-1)
    scale = length + 1 - 2 * torch.arange(1, length + 1, device=scores.device, dtype=scores.dtype)
    return torch.softmax((scale.unsqueeze(-1) * scores.unsqueeze(-2) - apart.unsqueeze(-2)) / temperature, -1)


def soft_sort(scores: Tensor, *, temperature: float) -> Tensor:
    r"""Prillo and Eisenschlos 2020, Eq. 3: row k is $\mathrm{softmax}(-|s_{[k]} - s| / \tau)$."""
    ordered = scores.sort(dim=-1, descending=True).values
    return torch.softmax(-(ordered.unsqueeze(-1) - scores.unsqueeze(-2)).abs() / temperature, -1)


@cache
def _network(kind: str, length: int, device: torch.device, **options: Any) -> torch.nn.Module:
    return import_module("diffsort").DiffSortNet(kind, length, device, **options)


def sorting_network(scores: Tensor, *, kind: str, steepness: float, distribution: str = "cauchy") -> Tensor:
    """Petersen et al. 2021: sort with a network of comparators, using the package diffsort."""
    network = _network(kind, scores.shape[-1], scores.device, steepness=steepness, distribution=distribution)
    return network(-scores.flatten(0, -2))[1].mT.unflatten(0, scores.shape[:-1])


def isotonic_ranks(scores: Tensor, *, kind: str, strength: float) -> Tensor:
    """Blondel et al. 2020 (fast-soft-sort), using the package torchsort."""
    rank = partial(import_module("torchsort").soft_rank, regularization=kind, regularization_strength=strength)
    return rank(-scores.flatten(0, -2)).view_as(scores)


def dftopk_mask(scores: Tensor, k: int, *, temperature: float) -> Tensor:
    r"""Zhu et al. 2025 (arXiv:2510.11472): $\sigma((s - t) / \tau)$, t halfway between the k-th and the next score."""
    first = scores.topk(k + 1, dim=-1).values
    threshold = first[..., -2:].mean(-1, keepdim=True)
    return torch.sigmoid((scores - threshold) / temperature)


def _ranks(permutation: Ranking) -> Ranking:
    """Return the mean rank of each score, weighted by a relaxed permutation.

    Weights are normalized for each score: the rows of a relaxed permutation sum to 1, but its columns need not. Without
    normalization, the ranks of NeuralSort and SoftSort are several times less accurate.
    """

    def ranks(scores: Tensor) -> Tensor:
        weights = permutation(scores)
        ranks = torch.arange(1, weights.shape[-1] + 1, device=weights.device, dtype=weights.dtype)
        return (weights * ranks.unsqueeze(-1)).sum(-2) / weights.sum(-2).clamp(min=1e-30)

    return ranks


def _of_softtorch(scores: Tensor, *, method: str, softness: float) -> Tensor:
    """Paulus et al. 2026 (arXiv:2603.08824), using the package softtorch."""
    rank = import_module("softtorch").rank
    return rank(scores, dim=-1, softness=softness, method=method, standardize=False)


def families() -> dict[str, Callable[[float], Ranking]]:
    """Return the peers whose package is installed, each as a function of its softness: smaller is more exact."""
    every: dict[str, tuple[str | None, Callable[[float], Ranking]]] = {
        "NeuralSort": (None, lambda softness: _ranks(partial(neural_sort, temperature=softness))),
        "SoftSort": (None, lambda softness: _ranks(partial(soft_sort, temperature=softness))),
        "torchsort l2": ("torchsort", lambda softness: partial(isotonic_ranks, kind="l2", strength=softness)),
        "torchsort kl": ("torchsort", lambda softness: partial(isotonic_ranks, kind="kl", strength=softness)),
        "diffsort bitonic": (
            "diffsort",
            lambda softness: _ranks(partial(sorting_network, kind="bitonic", steepness=1 / softness)),
        ),
        "SoftTorch transport": ("softtorch", lambda softness: partial(_of_softtorch, method="ot", softness=softness)),
    }
    return {name: family for name, (package, family) in every.items() if package is None or find_spec(package)}


def peers() -> dict[str, Ranking]:
    """Return the installed peers by their names in the table, and print the others."""
    for name in missing():
        print(f"{name} left out: `pip install --no-build-isolation {name}`")
    installed = families()
    return {name: installed[family](softness) for name, (family, softness) in PEERS.items() if family in installed}

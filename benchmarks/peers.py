"""Other people's differentiable ranks, as functions from scores (n, d) to descending ranks 1..d, and permutations.

torchsort and diffsort are optional packages; NeuralSort and SoftSort are a formula each, written down here.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

__all__ = ["neural_sort", "peers", "soft_sort"]

Ranking = Callable[[Tensor], Tensor]


def _expected_places(permutation: Tensor) -> Tensor:
    """The mean place of each score, of [n, k, i], how much of place k is taken by score i.

    Divided by what the score takes of all places: the rows of a relaxed permutation add up to 1, its columns need not,
    and the ranks of NeuralSort and SoftSort are several times less accurate without.
    """
    places = torch.arange(1, permutation.shape[-1] + 1, device=permutation.device, dtype=permutation.dtype)
    return (permutation * places.unsqueeze(-1)).sum(-2) / permutation.sum(-2).clamp(min=1e-30)


def neural_sort(scores: Tensor, *, temperature: float) -> Tensor:
    r"""Grover et al. 2019, Eq. 4: row k of (n, d, d) is $\mathrm{softmax}([(d + 1 - 2k) s - A_s 1] / \tau)$."""
    length = scores.shape[-1]
    apart = (scores.unsqueeze(-1) - scores.unsqueeze(-2)).abs().sum(-1)
    scale = length + 1 - 2 * torch.arange(1, length + 1, device=scores.device, dtype=scores.dtype)
    return torch.softmax((scale.unsqueeze(-1) * scores.unsqueeze(-2) - apart.unsqueeze(-2)) / temperature, -1)


def soft_sort(scores: Tensor, *, temperature: float) -> Tensor:
    r"""Prillo and Eisenschlos 2020, Eq. 3: row k of (n, d, d) is $\mathrm{softmax}(-|s_{[k]} - s| / \tau)$."""
    ordered = scores.sort(dim=-1, descending=True).values
    return torch.softmax(-(ordered.unsqueeze(-1) - scores.unsqueeze(-2)).abs() / temperature, -1)


def peers() -> tuple[dict[str, Ranking], list[str]]:
    """The peers that are installed, by the names they have in the table, and a note for each that is not."""
    found: dict[str, Ranking] = {
        "NeuralSort 0.1": lambda scores: _expected_places(neural_sort(scores, temperature=0.1)),
        "SoftSort 0.01": lambda scores: _expected_places(soft_sort(scores, temperature=0.01)),
    }
    notes = []
    try:
        import torchsort

        for kind, strength in (("l2", 0.1), ("l2", 0.01), ("kl", 0.1)):
            found[f"torchsort {kind} {strength}"] = lambda scores, kind=kind, strength=strength: torchsort.soft_rank(
                -scores, regularization=kind, regularization_strength=strength
            )
    except ImportError as error:
        notes.append(
            f"torchsort (Blondel et al. 2020, as fast-soft-sort) left out: {error}. It is built from source: "
            "`pip install --no-build-isolation torchsort`, with a compiler and with nvcc not on the path"
        )
    try:
        import diffsort

        @cache
        def network(length: int) -> torch.nn.Module:
            return diffsort.DiffSortNet("bitonic", length, steepness=100.0, distribution="cauchy")

        def bitonic(scores: Tensor) -> Tensor:
            _, permutation = network(scores.shape[-1])(-scores)
            return _expected_places(permutation.mT)

        found["diffsort bitonic 100"] = bitonic
    except ImportError as error:
        notes.append(f"diffsort (Petersen et al. 2021) left out: {error}. `pip install diffsort`")
    return found, notes

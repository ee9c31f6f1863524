"""Score vectors of ten kinds with their ranks, on which sorters are trained (SoDeep, Section 4.1)."""

import torch
from torch import Tensor

from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator

__all__ = ["KINDS", "draw", "split"]

# As in the authors' generator; two kinds stand twice in it and so have double weight.
KINDS = (
    "uniform", "uniform", "normal", "evenly_spaced", "evenly_spaced_shuffled", "uniform_then_normal",
    "uniform_then_normal", "two_uniform_parts", "shuffled_then_uniform", "evenly_spaced_full_range",
)  # fmt: skip


def draw(rows: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws score vectors, each of one of the ten kinds with equal probability.

    Args:
        rows: number of vectors.
        length: d, of each vector.
        generator: source of all draws.

    Returns:
        scores (rows, length) float32 in [-1, 1] or standard normal, and kinds (rows,) in 0..9, see `KINDS`.

    >>> scores, kinds = draw(4, 100, torch.Generator().manual_seed(0))
    >>> scores.shape, kinds.shape
    (torch.Size([4, 100]), torch.Size([4]))
    """

    def uniform(n: int, low: float = -1.0, high: float = 1.0, columns: int = length) -> Tensor:
        return torch.rand(n, columns, generator=generator) * (high - low) + low

    def normal(n: int) -> Tensor:
        return torch.randn(n, length, generator=generator)

    def shuffled(values: Tensor) -> Tensor:
        return values.gather(1, torch.rand(values.shape, generator=generator).argsort(1))

    def evenly_spaced(n: int) -> Tensor:
        ends = uniform(n, 0.0, 1.0, columns=2)
        return ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * torch.linspace(0, 1, length)

    def parts(first: Tensor, second: Tensor) -> Tensor:
        """The first k of one, the rest of the other, k uniform on 1..d."""
        k = torch.randint(1, length + 1, (len(first), 1), generator=generator)
        return torch.where(torch.arange(length) < k, first, second)

    def shuffled_then_uniform(n: int) -> Tensor:
        # The first k evenly spaced values of a shuffled k-point grid from a to b.
        k = torch.randint(1, length + 1, (n, 1), generator=generator)
        position = torch.arange(length)
        ends = uniform(n, 0.0, 1.0, columns=2)
        keys = torch.rand(n, length, generator=generator).masked_fill(position >= k, 2.0)
        order = keys.argsort(1).argsort(1)  # a permutation of 0..k-1 in the first k places
        grid = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * order / (k - 1).clamp(min=1)
        return torch.where(position < k, grid, uniform(n))

    kinds = torch.randint(len(KINDS), (rows,), generator=generator)
    makers = {
        "uniform": uniform,
        "normal": normal,
        "evenly_spaced": evenly_spaced,
        "evenly_spaced_shuffled": lambda n: shuffled(evenly_spaced(n)),
        "uniform_then_normal": lambda n: parts(uniform(n), normal(n)),
        "two_uniform_parts": lambda n: parts(uniform(n), uniform(n)),
        "shuffled_then_uniform": shuffled_then_uniform,
        "evenly_spaced_full_range": lambda n: torch.linspace(-1, 1, length).expand(n, length),
    }
    scores = torch.empty(rows, length)
    for kind, name in enumerate(KINDS):
        of_kind = kinds == kind
        scores[of_kind] = makers[name](int(of_kind.sum()))
    return scores, kinds


def split(name: str, rows: int, *, length: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the vectors of a split: scores (n, d), their exact ranks (n, d) and kinds (n,).

    >>> scores, ranks, kinds = split("test", 4, length=8, seed=1)
    >>> bool((ranks == exact_ranks(scores)).all())
    True
    """
    scores, kinds = draw(rows, length, generator(seed, "score_vectors", name))
    return scores, exact_ranks(scores), kinds

"""Score vectors from ten kinds of distributions with their ranks, for training sorters (SoDeep, Section 4.1)."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, between, frequencies, in_set, rows_of
from rankgrad.io.parquet import as_fixed_lists, matrix, read_table
from rankgrad.ranks import exact_ranks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "draw", "expectations", "load", "measure", "table"]

# As in the authors' generator, which lists two kinds twice, so they have double weight.
KINDS = (
    "uniform", "uniform", "normal", "evenly_spaced", "evenly_spaced_shuffled", "uniform_then_normal",
    "uniform_then_normal", "two_uniform_parts", "shuffled_then_uniform", "evenly_spaced_full_range",
)  # fmt: skip


def draw(rows: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw score vectors, each from one of the ten kinds with equal probability.

    Args:
        rows: number of vectors.
        length: d, the length of each vector.
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
        """Return the first k values of one and the rest of the other, k uniform on 1..d."""
        k = torch.randint(1, length + 1, (len(first), 1), generator=generator)
        return torch.where(torch.arange(length) < k, first, second)

    def shuffled_then_uniform(n: int) -> Tensor:
        # The first k evenly spaced values of a shuffled k-point grid from a to b.
        k = torch.randint(1, length + 1, (n, 1), generator=generator)
        position = torch.arange(length)
        ends = uniform(n, 0.0, 1.0, columns=2)
        keys = torch.rand(n, length, generator=generator).masked_fill(position >= k, 2.0)
        order = keys.argsort(1).argsort(1)  # a permutation of 0..k-1 in the first k positions
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


def table(rows: int, length: int, generator: torch.Generator) -> pa.Table:
    """Return a split as a table: `id`, `kind` (0..9), `scores`, and `ranks` (lists of `length` floats; ranks 1..d)."""
    scores, kinds = draw(rows, length, generator)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": pa.array(kinds.numpy(), pa.int64()),
            "scores": as_fixed_lists(scores),
            "ranks": as_fixed_lists(exact_ranks(scores)),
        }
    )


def load(folder: str | Path, split: str) -> tuple[Tensor, Tensor, Tensor]:
    """Read a split: scores (n, d), ranks (n, d), and kinds (n,).

    Raises:
        FileNotFoundError, ValueError: the file is missing, corrupt, or lacks a column.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["kind", "scores", "ranks"])
    kinds = torch.from_numpy(read["kind"].to_numpy().copy())
    return matrix(read, "scores", path=path), matrix(read, "ranks", path=path), kinds


def measure(folder: str | Path, split: str) -> "dict[str, pd.DataFrame]":
    """Return the facts that expectations check, one row per vector, such as whether its ranks are right."""
    import pandas as pd  # takes half a second to import; only validation needs it

    scores, ranks, kinds = load(folder, split)
    finite = (scores.isfinite() & ranks.isfinite()).all(1)
    exact = torch.full_like(ranks, torch.nan)
    exact[finite] = exact_ranks(scores[finite])
    facts = {
        "split": split,
        "id": read_table(Path(folder) / f"{split}.parquet", ["id"])["id"].to_numpy(),
        "kind": kinds.numpy(),
        "length": scores.shape[1],
        "finite": finite.numpy(),
        "largest_score": scores.abs().amax(1).numpy(),
        "largest_rank_error": (exact - ranks).abs().amax(1).nan_to_num(nan=torch.inf).numpy(),
    }
    return {"vectors": pd.DataFrame(facts).set_index(["split", "id"])}


def expectations(rows: dict[str, int], *, length: int) -> Expectations:
    """Return the expectations, see `rankgrad.datasets.files.expected`.

    Args:
        rows: the number of rows of each split.
        length: the length of the vectors.
    """
    kinds = range(len(KINDS))
    return {
        "vectors": [
            *rows_of(rows),
            in_set("kind", *kinds),
            in_set("finite", True),
            between("length", length, length),
            between("largest_score", high=10.0),
            between("largest_rank_error", high=0.0),
            frequencies("kind", dict.fromkeys(kinds, 1 / len(kinds)), total=sum(rows.values())),
        ]
    }

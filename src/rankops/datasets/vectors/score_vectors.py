"""Score vectors of ten kinds with their ranks, on which sorters are trained (SoDeep, Section 4.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.io.parquet import as_fixed_lists, read_table
from rankops.ranks import ranks

__all__ = ["KINDS", "batches", "draw", "expectations", "load", "measure", "table"]

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
        place = torch.arange(length)
        ends = uniform(n, 0.0, 1.0, columns=2)
        keys = torch.rand(n, length, generator=generator).masked_fill(place >= k, 2.0)
        order = keys.argsort(1).argsort(1)  # a permutation of 0..k-1 in the first k places
        grid = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * order / (k - 1).clamp(min=1)
        return torch.where(place < k, grid, uniform(n))

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


def batches(rows: int, length: int, batch_size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Fresh (scores, ranks) batches from the same generator, for training without a stored set."""
    for start in range(0, rows, batch_size):
        scores, _ = draw(min(batch_size, rows - start), length, generator)
        yield scores, ranks(scores)


def table(rows: int, length: int, generator: torch.Generator) -> pa.Table:
    """One split as a table: `id`, `kind` (0..9), `scores` and `ranks` (lists of `length` floats; ranks 1..d)."""
    scores, kinds = draw(rows, length, generator)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": pa.array(kinds.numpy(), pa.int64()),
            "scores": as_fixed_lists(scores),
            "ranks": as_fixed_lists(ranks(scores)),
        }
    )


def _vectors(read: pa.Table, column: str) -> np.ndarray:
    array = read[column].combine_chunks()
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)


def load(folder: str | Path, split: str) -> tuple[Tensor, Tensor, Tensor]:
    """One split: scores (n, d), ranks (n, d) and kinds (n,).

    Raises:
        ValueError: the file is missing, corrupt or lacks a column.
    """
    read = read_table(Path(folder) / f"{split}.parquet", ["kind", "scores", "ranks"])
    return (
        torch.from_numpy(_vectors(read, "scores").copy()),
        torch.from_numpy(_vectors(read, "ranks").copy()),
        torch.from_numpy(read["kind"].to_numpy().copy()),
    )


def measure(folder: str | Path, split: str) -> dict[str, np.ndarray | list]:
    """What the expectations are held against, one row a vector: whether its ranks follow from its scores, and so on."""
    read = read_table(Path(folder) / f"{split}.parquet", ["id", "kind", "scores", "ranks"])
    scores, given = _vectors(read, "scores").astype(np.float64), _vectors(read, "ranks").astype(np.float64)
    finite = np.isfinite(scores).all(1) & np.isfinite(given).all(1)
    exact = np.full_like(given, np.nan)
    if finite.any():
        exact[finite] = ranks(torch.from_numpy(scores[finite].astype(np.float32))).numpy()
    return {
        "split": [split] * len(read),
        "id": read["id"].to_numpy(),
        "kind": read["kind"].to_numpy(),
        "length": np.full(len(read), scores.shape[1]),
        "finite": finite,
        "largest_score": np.abs(scores).max(1),
        "largest_rank_error": np.nan_to_num(np.abs(exact - given).max(1), nan=np.inf),
    }


def expectations(*, length: int, rows: dict[str, int]) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation."""
    column = "expect_column_values_to_be_between"
    return [
        {"type": "expect_table_row_count_to_equal", "value": sum(rows.values())},
        *(
            {"type": "expect_column_values_to_be_in_set", "column": name, "value_set": allowed}
            for name, allowed in (("split", list(rows)), ("kind", list(range(len(KINDS)))), ("finite", [True]))
        ),
        {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
        {"type": column, "column": "length", "min_value": length, "max_value": length},
        {"type": column, "column": "largest_score", "max_value": 10.0},
        {"type": column, "column": "largest_rank_error", "max_value": 0.0},
        {
            "type": "expect_column_kl_divergence_to_be_less_than",
            "column": "kind",
            "partition_object": {"values": list(range(len(KINDS))), "weights": [1 / len(KINDS)] * len(KINDS)},
            # n times the divergence is chance with mean (kinds - 1) / 2: this is far beyond it at any n.
            "threshold": 4 * len(KINDS) / sum(rows.values()),
        },
    ]

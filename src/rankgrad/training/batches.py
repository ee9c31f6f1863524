"""Split rows into batches: in random order, in lists of one group, in whole groups, and across processes."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

__all__ = ["batch_count", "in_groups", "in_lists", "random_batches"]


def random_batches(
    size: int,
    batch_size: int,
    generator: torch.Generator,
    *,
    multiple_of: int = 1,
    share: tuple[int, int] = (0, 1),
    order: Callable[[torch.Generator], Tensor] | None = None,
) -> Iterator[Tensor]:
    """Yield the row numbers of one pass in random order, batch by batch, without a last batch of one row.

    Batch normalization cannot compute the variance of one row. With `multiple_of`, which a sorter of fixed length
    needs, the last rows that do not fill a group are left out of this pass; each pass leaves out different rows.

    Args:
        size: rows are 0, ..., size - 1.
        batch_size: of all processes together.
        generator: draws the order.
        multiple_of: size of a group.
        share: (process, processes), the part of each batch to yield. Parts have equal sizes, at least two rows, and
            whole groups; rows that do not divide are left out of the batch. After the order, each process draws
            different random numbers from the generator.
        order: draws the order of `size` row numbers, as `in_lists` does; None for a random order of all rows.

    Raises:
        ValueError: `batch_size` is 1 or not a multiple of `multiple_of`, there are fewer rows than `multiple_of`, or
            batches are too small for the number of processes.

    >>> [list(random_batches(6, 4, torch.Generator(), share=(process, 2))) for process in (0, 1)]
    [[tensor([0, 5])], [tensor([3, 4])]]
    """
    if batch_size < 2 <= size:
        raise ValueError(
            f"batch_size is {batch_size}, expected at least 2: one row has no variance for batch normalization"
        )
    if batch_size % multiple_of or size < multiple_of:
        raise ValueError(
            f"batches of {batch_size} out of {size} rows do not make groups of {multiple_of}, the sorter's length: "
            f"expected a multiple of {multiple_of} and at least {multiple_of} rows"
        )
    process, processes = share
    if processes > 1 and min(batch_size, size) // (multiple_of * processes) * multiple_of < 2:
        raise ValueError(
            f"batches of {min(batch_size, size)} rows in groups of {multiple_of} cannot be shared by {processes} "
            "processes, expected two rows and a whole group for each: larger batches, or fewer processes"
        )
    drawn = torch.randperm(size, generator=generator) if order is None else order(generator)
    drawn = drawn[: size - size % multiple_of]
    if process:  # or images at the same position of two processes would get the same random shift
        generator.manual_seed(int(torch.randint(2**31, (process,), generator=generator)[-1]))
    for batch in drawn.split(batch_size):
        length = len(batch) // (multiple_of * processes) * multiple_of
        rows = batch[process * length : (process + 1) * length]
        if len(rows) > 1 or size == 1:
            yield rows


def in_lists(groups: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Return row numbers in random order, in lists of `length` consecutive rows of one group.

    Args:
        groups: the number of the group of each row (n,). Rows that do not fill a list are left out: different
            rows each time, and every row of a group with fewer than `length` rows.
        length: of a list.
        generator: draws the order.

    >>> in_lists(torch.tensor([0, 1, 0, 1, 1]), 2, torch.Generator().manual_seed(0))
    tensor([4, 1, 0, 2])
    """
    rows = torch.randperm(len(groups), generator=generator)
    rows = rows[groups[rows].argsort(stable=True)]
    counts = groups.bincount()
    position = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[groups[rows]]  # within its group
    lists = rows[position < (counts - counts % length)[groups[rows]]].view(-1, length)
    return lists[torch.randperm(len(lists), generator=generator)].flatten()


def in_groups(groups: Tensor, generator: torch.Generator) -> Tensor:
    """Return all row numbers in random order, with the rows of each group next to each other.

    Args:
        groups: the number of the group of each row (n,).
        generator: draws the order of groups and of the rows in each.

    >>> in_groups(torch.tensor([0, 1, 0, 1, 1]), torch.Generator().manual_seed(0))
    tensor([4, 1, 3, 0, 2])
    """
    rows = torch.randperm(len(groups), generator=generator)
    place = torch.randperm(int(groups.max()) + 1, generator=generator)
    return rows[place[groups[rows]].argsort(stable=True)]


def batch_count(size: int, batch_size: int, *, multiple_of: int = 1, share: tuple[int, int] = (0, 1)) -> int:
    """Return the number of batches in one pass of `random_batches`, which a learning-rate schedule needs.

    Args:
        size, batch_size, multiple_of, share: see `random_batches`.

    >>> batch_count(9, 4), batch_count(130, 64, multiple_of=64)  # one row, or two, left out
    (2, 2)
    """
    full, last = divmod(size - size % multiple_of, batch_size)
    rows_of_full, rows_of_last = (length // (multiple_of * share[1]) * multiple_of for length in (batch_size, last))
    return full * (rows_of_full > 1 or size == 1) + (rows_of_last > 1 or last == size == 1)

"""What answers need: errors that name the row, and labels by their names."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["named", "of_row", "order_of"]


@contextmanager
def of_row(number: int) -> Generator[None]:
    """Turn whatever a row's picture or words fail with into a ValueError that names the row.

    >>> with of_row(3):
    ...     raise RuntimeError("too small")
    Traceback (most recent call last):
    ...
    ValueError: row 3: too small
    """
    try:
        yield
    except (RuntimeError, IndexError, TypeError, ValueError, OverflowError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(message if message.startswith(f"row {number}") else f"row {number}: {message}") from error


def order_of(label_ranks: list[int]) -> list[int]:
    """Return the labels that are there, the most important first; equally important ones in their own order.

    >>> order_of([1, 0, 3, 1])
    [2, 0, 3]
    """
    return sorted((label for label, rank in enumerate(label_ranks) if rank > 0), key=lambda label: -label_ranks[label])


def named(labels: list[int], recipe: Mapping[str, Any]) -> list[int] | list[str]:
    """Return labels by the names of their classes, where a network's recipe has them.

    >>> named([1, 0], {"classes": ["cat", "dog"]}), named([1, 0], {})
    (['dog', 'cat'], [1, 0])
    """
    classes = recipe.get("classes")
    return labels if classes is None else [classes[label] for label in labels]

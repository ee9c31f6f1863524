"""What requests and answers need: checked rows, errors that name the row, and labels by their names."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from numbers import Integral
from typing import Any, ClassVar

from rankgrad.inputs import InputType, as_list, in_json, is_missing
from rankgrad.lookup import did_you_mean
from rankgrad.plain_text import check_name

__all__ = ["Column", "Id", "check_answer", "checked_row", "named", "of_row", "order_of"]


class Id:
    """What comes back with an answer: text or a whole number."""

    cell: ClassVar[Any] = Any

    @staticmethod
    def checked(cell: Any, place: str) -> str | int:
        if isinstance(cell, bool) or not isinstance(cell, str | Integral):
            raise ValueError(f"{place} is {in_json(cell)}, expected text or a whole number")
        try:
            check_name(str(cell))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        return cell if isinstance(cell, str) else int(cell)

    @staticmethod
    def values(cell: Any, about: Mapping[str, Any]) -> int:
        return 0


@dataclass(frozen=True)
class Column:
    """A column of a request.

    Attributes:
        type: of its cells.
        lists: whether a cell is a list of such, the documents of a query.
        required: whether each row has one.
    """

    type: type[InputType] | type[Id]
    lists: bool = False
    required: bool = True

    def checked(self, cell: Any, place: str) -> Any:
        """Return a cell in the form that networks are given."""
        if not self.lists:
            return self.type.checked(cell, place)
        cells = as_list(cell, place)
        if not cells:
            raise ValueError(f"{place} is empty, expected one document at least")
        return [self.type.checked(one, f"{place} {number}") for number, one in enumerate(cells)]


def checked_row(row: Mapping[str, Any], columns: Mapping[str, Column], place: str) -> dict[str, Any]:
    """Return the checked cells of a row of a request that it has.

    Raises:
        ValueError: see `rankgrad.tasks.Task.checked`.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"{place} is {in_json(row)}, expected an object with {', '.join(columns)}")
    for name in row:
        if name not in columns:
            raise ValueError(
                f"{place}: unknown column {name!r:.80}; the model takes {', '.join(columns)}"
                f"{did_you_mean(str(name), columns)}"
            )
    checked = {}
    for name, column in columns.items():
        if not is_missing(row.get(name)):
            checked[name] = column.checked(row[name], f"{place}: {name}")
        elif column.required:
            raise ValueError(f"{place}: no {name}, expected one")
    return checked


def check_answer(answer: Mapping[str, Any], number: int) -> None:
    """Raise ValueError if a number of an answer is NaN or infinite, for which JSON has no form."""
    for values in answer.values():
        numbers = values if isinstance(values, list) else [values]
        if not all(isfinite(value) for value in numbers if isinstance(value, float)):
            raise ValueError(f"row {number}: its answer is not finite: expected numbers of a smaller range")


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

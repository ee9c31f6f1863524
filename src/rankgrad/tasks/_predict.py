"""Check the rows of requests and their answers, name the row in errors, and name labels."""

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
    """The id that is returned with an answer: text or a whole number."""

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


class Ids(Id):
    """The id of a query, or a list with the id of each of its documents, or None."""

    @staticmethod
    def checked(cell: Any, place: str) -> Any:
        if not isinstance(cell, list):
            return Id.checked(cell, place)
        ids = []
        for number, item in enumerate(cell, 1):
            ids.append(None if is_missing(item) else Id.checked(item, f"{place}, number {number}"))
        return ids


@dataclass(frozen=True)
class Column:
    """A column of a request.

    Attributes:
        type: the type of its cells.
        lists: whether a cell is a list of such values, the documents of a query.
        required: whether each row must have a cell.
    """

    type: type[InputType] | type[Id]
    lists: bool = False
    required: bool = True

    def checked(self, cell: Any, place: str) -> Any:
        """Check a cell and return it in the form for networks."""
        if not self.lists:
            return self.type.checked(cell, place)
        cells = as_list(cell, place)
        if not cells:
            raise ValueError(f"{place} is empty, expected at least one document")
        return [self.type.checked(one, f"{place} {number}") for number, one in enumerate(cells)]


def checked_row(row: Mapping[str, Any], columns: Mapping[str, Column], place: str) -> dict[str, Any]:
    """Check the existing cells of a row of a request and return them by column.

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
    """Raise a ValueError if an answer has NaN or infinity, which JSON cannot represent."""
    for values in answer.values():
        numbers = values if isinstance(values, list) else [values]
        if not all(isfinite(value) for value in numbers if isinstance(value, float)):
            raise ValueError(f"row {number}: its answer is not finite, expected inputs in a smaller range")


@contextmanager
def of_row(number: int) -> Generator[None]:
    """Turn any error for a row's picture or text into a ValueError that names the row.

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
    """Return the present labels, the most important first; equally important ones in their order in the list.

    >>> order_of([1, 0, 3, 1])
    [2, 0, 3]
    """
    return sorted((label for label, rank in enumerate(label_ranks) if rank > 0), key=lambda label: -label_ranks[label])


def named(labels: list[int], recipe: Mapping[str, Any]) -> list[int] | list[str]:
    """Return labels as class names if a network's recipe has names.

    >>> named([1, 0], {"classes": ["cat", "dog"]}), named([1, 0], {})
    (['dog', 'cat'], [1, 0])
    """
    classes = recipe.get("classes")
    return labels if classes is None else [classes[label] for label in labels]

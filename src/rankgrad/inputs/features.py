"""Vectors of raw features; a network standardizes them itself."""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.feature_names import columns_of, fills_of, is_empty, numbers_of, places_of_values, title_of
from rankgrad.inputs._base import About, Inputs, InputType, as_list, check_numbers, check_range, in_json
from rankgrad.lookup import listed
from rankgrad.numbers import writing_of
from rankgrad.plain_text import emptied

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Features", "of_tensor"]

NUMBERS = 2**20  # most numbers in a network's batch outside training, and in a vector
SHOWN = 6  # features of a row to show in a picture
LONGEST = 500  # most characters of feature names on a model card


def of_tensor(vectors: Tensor, names: list[str] | None = None) -> Inputs:
    """Return vectors (n, k) as inputs, with the names of their features if known.

    Requests later have the same precision as the training data: float32, or `precision: float64`.
    """
    about: About = {"kind": "features", "count": vectors.shape[1], "names": names}
    if vectors.dtype == torch.float64:
        return Inputs(about | {"precision": "float64"}, vectors)
    return Inputs(about, vectors.float())


class Features(InputType):
    """A vector of numbers."""

    name, backbones, cell = "features", ("features",), Any
    piece, vectors, small = 1024, True, True
    roles = ("categories", "letters", "words")

    @staticmethod
    def fits(cells: list[Any]) -> bool:
        """Return whether cells are vectors."""
        first = cells[0]
        return isinstance(first, list | np.ndarray) and not (len(first) and isinstance(first[0], str))

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        return cells.numbers(columns)

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        import pyarrow as pa

        return pa.list_(pa.float32() if single else pa.float64(), width or -1)

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        import pyarrow as pa

        from rankgrad.io.parquet import matrix, read_column, said

        column, counts = read_column(path, "features", lists=lists)
        vectors = matrix(pa.table({"features": column}), "features", path=path)
        vectors = vectors if vectors.is_floating_point() else vectors.double()
        return of_tensor(vectors, said(path, "features")), counts

    @classmethod
    def facts(cls, path: Path, *, lists: bool, threads: int) -> "pd.DataFrame":
        """Return facts about each vector; for queries, the largest or worst over their documents."""
        import pandas as pd

        from rankgrad.io.parquet import flat, read_column

        vectors, counts = read_column(path, "features", lists=lists)
        numbers, widths = flat(vectors)
        rows = np.split(numbers.to_numpy(), np.cumsum(widths.numpy())[:-1])
        facts = pd.DataFrame(
            {
                "features": [len(row) for row in rows],
                "finite_features": [np.isfinite(row).all() for row in rows],
                "largest_feature": [np.abs(row).max(initial=0.0) for row in rows],
            }
        )
        if counts is None:
            return facts
        worst = {"features": "max", "finite_features": "min", "largest_feature": "max"}
        return facts.groupby(np.repeat(np.arange(len(counts)), counts.numpy())).agg(worst)

    @staticmethod
    def expected(*, size: int | None) -> dict[str, Any]:
        return {"finite_features": True, "features": 1, "largest_feature": 0.0}

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[str]:
        from rankgrad.io.parquet import said

        names = said(path, "features")
        return [_shown(row, names) for row in column.to_pylist()]

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"features": inputs.about["count"]}

    @staticmethod
    def check(about: About) -> None:
        count, names = about.get("count"), about.get("names")
        if type(count) is not int or not 1 <= count < NUMBERS:
            raise ValueError(f"input.count is {count!r:.60}, expected a whole number from 1 to {NUMBERS - 1:,}")
        if names is not None and len(names) != count:
            raise ValueError(f"input.names has {len(names)} names, expected {count}, as in input.count")

    @staticmethod
    def at_once(inputs: Inputs) -> int:
        return max(1, NUMBERS // inputs.about["count"])

    @staticmethod
    def checked(cell: Any, place: str) -> Any:
        """Return a vector: a list of numbers, or a mapping from names of features to numbers or names."""
        if isinstance(cell, Mapping):
            for name, value in cell.items():
                if isinstance(value, list | Mapping):
                    raise ValueError(f"{place}.{name:.80} is {in_json(value)}, expected a number or a name")
                check_range(value, f"{place}.{name:.80}")
            return cell
        numbers = as_list(cell, place)
        check_numbers(numbers, place)
        return numbers

    @staticmethod
    def prepared(cells: list[Any], about: About, *, where: str) -> Tensor:
        """Return vectors (n, k) from lists of numbers, or from mappings by names of features."""
        rows = [_ordered(cell, about, where) for cell in cells]
        if (wrong := next((len(row) for row in rows if len(row) != about["count"]), None)) is not None:
            raise ValueError(f"{where}: {wrong} features, expected {about['count']}")
        kind = torch.float64 if about.get("precision") == "float64" else torch.float32
        vectors = torch.tensor(rows, dtype=kind).view(-1, about["count"])
        if not vectors.float().isfinite().all():  # float64 can then hold their squares
            raise ValueError(f"{where}: a feature is not finite in float32, expected finite numbers")
        return vectors

    @staticmethod
    def written(cell: Any, about: About) -> list[float]:
        return _ordered(cell, about, "")

    @staticmethod
    def warnings(cell: Any, about: About) -> list[str]:
        """Return a warning for each name that has no feature, or that all features are empty.

        >>> Features.warnings({"age": None}, {"count": 2, "names": ["age[empty=50.0]", "age[empty]"]})
        ['all features are empty, so the answer says nothing about this row']
        """
        values = cell.values() if isinstance(cell, Mapping) else cell
        if all(is_empty(emptied(value, about.get("empty") or ())) for value in values):
            return ["all features are empty, so the answer says nothing about this row"]
        warnings = []

        def warn(column: str, name: str) -> None:
            warnings.append(f"{column}: the model does not know {name!r:.100}")

        _ordered(cell, about, "", unknown=warn)
        return warnings

    @staticmethod
    def values(cell: Any, about: About) -> int:
        names = cell.values() if isinstance(cell, Mapping) else ()
        # A network reads all features, even if a request has only few of them.
        return max(len(cell), about["count"]) + sum(len(name) for name in names if isinstance(name, str))

    @staticmethod
    def example(about: About) -> list[float]:
        return [0.0] * about["count"]

    @staticmethod
    def described(about: About) -> str:
        """Describe a vector, with the names of its features; `(date)` follows those of dates.

        >>> Features.described({"count": 2, "names": ["age", "price"]})
        'a vector of 2 numbers, raw: age, price'
        >>> Features.described({"count": 2, "names": ["age", "brand=vw"]})
        '2 values by their names, raw: age, brand'
        >>> Features.described({"count": 2, "names": ["age", "sold"], "dates": {"sold": "DMY"}})
        'a vector of 2 numbers, raw: age, sold (date)'
        """
        names = about.get("names") or []
        columns = columns_of(names)
        what = f"a vector of {about['count']} numbers" if columns == names else f"{len(columns)} values by their names"
        dates = about.get("dates") or ()
        listed_columns = ", ".join(f"{column} (date)" if column in dates else column for column in columns)
        listed_names = shorten(f": {listed_columns}", LONGEST, placeholder=", ...") if names else ""
        return f"{what}, raw{listed_names}"

    @staticmethod
    def quantities(items: Tensor, about: About) -> dict[str, float]:
        return dict(zip(_titles(about), items.double().mean(0).tolist(), strict=True))

    @staticmethod
    def unknown(items: Tensor, about: About) -> dict[str, float]:
        """Return for each column the fraction of names or letters, or of texts of words, that have no feature.

        >>> about = {"count": 3, "names": ["km", "brand=bmw", "brand=vw"]}
        >>> Features.unknown(torch.tensor([[7.0, 0.0, 1.0], [7.0, 0.0, 0.0]]), about)
        {'brand: unknown or empty': 0.5}
        """
        fractions = {}
        for column, places in places_of_values(tuple(about.get("names") or ())).items():
            known = [(items[:, features] > 0).any(1).double().mean().item() for features in places]
            fractions[f"{column}: unknown or empty"] = 1 - sum(known) / len(known)
        return fractions

    @staticmethod
    def unknown_alone(path: Path, about: About, groups: np.ndarray | None, *, lists: bool) -> dict[str, np.ndarray]:
        inputs, counts = Features.read(path, lists=lists, threads=1, memory=0.0)
        sizes = np.ones(len(inputs.items), int) if counts is None else counts.numpy()
        numbers = np.arange(len(sizes)) if groups is None else np.unique(groups, return_inverse=True)[1]
        group = numbers.repeat(sizes)  # of each vector
        first, fractions = sizes.cumsum() - sizes, {}
        for column, places in places_of_values(tuple(about.get("names") or ())).items():
            unknown = np.zeros(len(group))
            for features in places:
                has_value = (inputs.items[:, features] > 0).numpy()
                groups_with_value = np.zeros((group.max() + 1, len(features)), bool)
                np.logical_or.at(groups_with_value, group, has_value)
                unknown += ~(has_value & (groups_with_value.sum(0) > 1)).any(1)
            fractions[f"{column}: unknown or empty"] = np.add.reduceat(unknown / len(places), first) / sizes
        return fractions

    @staticmethod
    def ranges(path: Path, about: About, *, lists: bool) -> dict[str, tuple[float, float]]:
        inputs, _ = Features.read(path, lists=lists, threads=1, memory=0.0)
        low, high = inputs.items.double().aminmax(dim=0)
        return dict(zip(_titles(about), zip(low.tolist(), high.tolist(), strict=True), strict=True))


def _titles(about: About) -> list[str]:
    """Return the readable name of each feature."""
    first = about.get("lowest", 0)  # as in SVMlight, which has no names
    numbered = [f"feature {number}" for number in range(first, first + about["count"])]
    return [*map(title_of, about.get("names") or numbered)]


@lru_cache(maxsize=100)
def _log_unknown(column: str, value: str) -> None:
    """Log once that a value has no feature."""
    logging.warning("%s: the model does not know %r and takes it for none of the names that it knows", column, value)


def _ordered(
    cell: Any, about: About, where: str, *, unknown: Callable[[str, str], object] = _log_unknown
) -> list[float]:
    """Return the numbers of a vector in training order; `unknown` is called as in `feature_names.numbers_of`."""
    names = about.get("names")
    if not isinstance(cell, Mapping):
        known = names or []
        filled = fills_of(tuple(known))
        if len(cell) == len(filled) and [*filled] == columns_of(known):  # only numbers, without flags for empty ones
            return numbers_of(dict(zip(filled, cell, strict=True)), known)
        return [float(value) for value in cell]
    if names is None:
        raise ValueError(
            f"{where}: features by name, expected a list of {about['count']} numbers: the model has no feature names"
        )
    columns = columns_of(names)
    if others := cell.keys() - set(columns) - set(names):
        raise ValueError(f"{where}: unknown feature {listed([min(others)])!r}; the model takes {listed(columns)}")
    features = [name for name in names if name not in cell]
    if missing := [column for column in columns_of(features) if column not in cell]:
        raise ValueError(f"{where}: no feature {listed(missing)}, expected a value")
    empty = about.get("empty") or ()
    values = {name: emptied(value, empty) for name, value in cell.items()}
    return numbers_of(values, names, unknown=unknown, writing=writing_of(about))


def _shown(row: list[float], names: list[str] | None) -> str:
    """Return the first numbers of a row of features, one per line.

    >>> print(_shown([0.5, 12.25], ["age", "price"]))
    age 0.5
    price 12.2
    """
    names = names or [str(number) for number in range(len(row))]
    lines = [f"{title_of(name)} {value:.3g}" for name, value in zip(names[:SHOWN], row, strict=False)]
    return "\n".join([*lines, *([f"and {len(row) - SHOWN} more"] if len(row) > SHOWN else [])])

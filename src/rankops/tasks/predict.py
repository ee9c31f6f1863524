"""Pictures from anywhere, decoded with care; label ranking of them, of any sizes, in the form of its predictions."""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.io.images import PIXELS
from rankops.tasks.label_ranking import LabelRanker, predictions

__all__ = ["colors_of", "of_row", "order_of", "predicted"]


def colors_of(network: nn.Module) -> int:
    """Of the images that a network takes: 1 (gray) or 3, which is also for networks that take either."""
    option = inspect.signature(type(network)).parameters.get("colors")
    return network.recipe["args"].get("colors", option.default if option else 3)


def predicted(ranker: LabelRanker, pictures: Iterable[tuple[str, Tensor]]) -> pa.Table:
    """`rankops.tasks.label_ranking.predictions` of pictures of any sizes, in their order.

    Those of one size that follow each other closely go through the network together; `PIXELS` bounds how many, and so
    the memory that is needed.

    Args:
        ranker: from `rankops.tasks.label_ranking.load`.
        pictures: what messages call them, and their pixels as from `picture`; at least one, taken as they are needed.

    Raises:
        ValueError: a picture is too small for the network.
        FloatingPointError: a score is not finite.
    """
    tables, waiting, pixels = [], [], 0
    for where, image in pictures:
        pixels += image.shape[-2] * image.shape[-1]
        if waiting and pixels > PIXELS:
            tables.append(_of_some(ranker, waiting))
            waiting, pixels = [], image.shape[-2] * image.shape[-1]
        waiting.append((where, image))
    table = pa.concat_tables([*tables, _of_some(ranker, waiting)])
    return table.set_column(0, "id", pa.array(range(len(table)), pa.int64()))


def _of_some(ranker: LabelRanker, pictures: list[tuple[str, Tensor]]) -> pa.Table:
    by_shape: dict[torch.Size, list[int]] = {}
    for place, (_, image) in enumerate(pictures):
        by_shape.setdefault(image.shape, []).append(place)
    parts = []
    for shape, places in by_shape.items():
        images = torch.cat([pictures[place][1] for place in places])
        try:
            parts.append(predictions(ranker, (images, torch.empty(0))))
        except (RuntimeError, IndexError) as error:  # PyTorch's, where nothing is left after the last halving
            raise ValueError(
                f"{pictures[places[0]][0]}: the network does not take an image of {shape[-1]} x {shape[-2]} pixels "
                f"({str(error).splitlines()[0]}); expected the size that it was trained on"
            ) from error
    order = np.argsort([place for places in by_shape.values() for place in places])
    return pa.concat_tables(parts).take(order)


@contextmanager
def of_row(number: int) -> Iterator[None]:
    """Whatever a row's picture or words fail with, as a ValueError that names the row.

    >>> with of_row(3):
    ...     raise RuntimeError("too small")
    Traceback (most recent call last):
    ...
    ValueError: row 3: too small
    """
    try:
        yield
    except (RuntimeError, IndexError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(said if said.startswith(f"row {number}") else f"row {number}: {said}") from error


def order_of(label_ranks: list[int]) -> list[int]:
    """The labels that are there, the most important first; equally important ones in their own order.

    >>> order_of([1, 0, 3, 1])
    [2, 0, 3]
    """
    return sorted((label for label, rank in enumerate(label_ranks) if rank > 0), key=lambda label: -label_ranks[label])

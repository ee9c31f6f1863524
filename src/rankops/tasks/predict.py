"""Pictures of a request: read for a network, in batches that bound memory; errors that name the row."""

import base64
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rankops.io.images import picture
from rankops.io.pictures import PIXELS
from rankops.io.recipes import image_of

__all__ = ["in_batches", "of_row", "order_of", "picture_of", "pictures_of", "predicted"]


def picture_of(network: Any, encoded: bytes | Path | None, *, where: str) -> Tensor:
    """Return a picture as a network takes it, (1, [3,] height, width) uint8.

    Raises:
        ValueError: see `rankops.io.images.picture`; the message begins with `where`. Or the network does not know the
            size of its images.
    """
    image = image_of(network.recipe, where=type(network).__name__)
    if isinstance(encoded, bytes):
        encoded = _decoded(encoded)
    return picture(encoded, colors=image["colors"], size=(image["width"], image["height"]), where=where)


def pictures_of(network: Any, frames: list[bytes], *, where: str) -> Tensor:
    """Return the frames of one clip as a network takes them, (n, [3,] height, width) uint8.

    Raises:
        ValueError: no frames, of too many pixels in all, or one that is no picture of the network's size.
    """
    pictures, total = [], 0
    for place, frame in enumerate(frames):
        pictures.append(picture_of(network, frame, where=f"{where}, frame {place}"))
        total += pictures[-1].shape[-2] * pictures[-1].shape[-1]
        if total > PIXELS:  # they go through the network together
            raise ValueError(f"{where}: frames of more than {PIXELS:,} pixels in all: send fewer")
    if not pictures:
        raise ValueError(f"{where}: no frames, expected at least one")
    return torch.cat(pictures)


def _decoded(encoded: bytes) -> bytes:
    """Undo base64, of which no PNG or JPEG consists: MLflow's server decodes it in some forms of a request alone."""
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return encoded


def in_batches(
    network: Any, images: Iterable[bytes], predict: Callable[[Tensor], pa.Table], *, first: int = 0
) -> pa.Table:
    """Return the predictions of encoded pictures, in their order; see `predicted`. Messages count them from `first`."""
    pictures = (picture_of(network, encoded, where=f"row {number}") for number, encoded in enumerate(images, first))
    return predicted(pictures, predict)


def predicted(pictures: Iterable[Tensor], predict: Callable[[Tensor], pa.Table]) -> pa.Table:
    """Return the predictions of pictures of one size, in their order; `PIXELS` bounds how many go together.

    Args:
        pictures: (1, [3,] height, width) each; at least one.
        predict: of images (n, [3,] height, width), a table with a column `id`.
    """
    waiting = iter(pictures)
    first = next(waiting)
    at_once, tables = max(1, PIXELS // (first.shape[-2] * first.shape[-1])), []
    part = [first, *islice(waiting, at_once - 1)]
    while part:
        tables.append(predict(torch.cat(part)))
        part = list(islice(waiting, at_once))
    table = pa.concat_tables(tables)
    return table.set_column(0, "id", pa.array(range(len(table)), pa.int64()))


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
    except (RuntimeError, IndexError, ValueError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(message if message.startswith(f"row {number}") else f"row {number}: {message}") from error


def order_of(label_ranks: list[int]) -> list[int]:
    """Return the labels that are there, the most important first; equally important ones in their own order.

    >>> order_of([1, 0, 3, 1])
    [2, 0, 3]
    """
    return sorted((label for label, rank in enumerate(label_ranks) if rank > 0), key=lambda label: -label_ranks[label])

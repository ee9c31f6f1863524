"""Pictures of a request: read for a network, in batches that bound memory; errors that name the row."""

import base64
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.io.images import PIXELS, picture

__all__ = ["colors_of", "in_batches", "of_row", "order_of", "picture_of", "pictures_of", "predicted"]


def colors_of(network: Any) -> int:
    """Return the colors of the images that a network takes: 1 (gray) or 3, also for networks that take either."""
    option = inspect.signature(type(network)).parameters.get("colors")
    args: dict = vars(network)["recipe"]["args"]
    return args.get("colors", option.default if option else 3)


def picture_of(network: Any, encoded: bytes | Path | None, *, where: str) -> Tensor:
    """Return a picture as a network takes it, (1, [3,] height, width) uint8.

    Raises:
        ValueError: see `rankops.io.images.picture`; the message begins with `where`.
    """
    return picture(encoded, colors=colors_of(network), where=where)


def pictures_of(network: Any, frames: list[bytes], *, where: str) -> Tensor:
    """Return the frames of one clip as a network takes them, (n, [3,] height, width) uint8.

    Raises:
        ValueError: no frames, of several sizes, of too many pixels in all, or one that is no picture.
    """
    pictures, total = [], 0
    for place, frame in enumerate(frames):
        pictures.append(picture_of(network, _decoded(frame), where=f"{where}, frame {place}"))
        total += pictures[-1].shape[-2] * pictures[-1].shape[-1]
        if total > PIXELS:  # they go through the network together
            raise ValueError(f"{where}: frames of more than {PIXELS:,} pixels in all: send fewer or smaller ones")
    if not pictures:
        raise ValueError(f"{where}: no frames, expected at least one")
    if len({frame.shape for frame in pictures}) > 1:
        sizes = sorted({tuple(frame.shape[-2:]) for frame in pictures})
        raise ValueError(f"{where}: frames of sizes {sizes}, expected one size in a clip")
    return torch.cat(pictures)


def _decoded(frame: bytes) -> bytes:
    """Undo base64: MLflow's server decodes it in a column of bytes, but not in a column of lists of them."""
    try:
        return base64.b64decode(frame, validate=True)
    except ValueError:
        return frame


def in_batches(network: Any, images: Iterable[bytes], predict: Callable[[Tensor], pa.Table]) -> pa.Table:
    """Return the predictions of encoded pictures of any sizes, in their order; see `predicted`."""
    pictures = (
        (f"row {number}", picture_of(network, encoded, where=f"row {number}")) for number, encoded in enumerate(images)
    )
    return predicted(pictures, predict)


def predicted(pictures: Iterable[tuple[str, Tensor]], predict: Callable[[Tensor], pa.Table]) -> pa.Table:
    """Return the predictions of pictures of any sizes, in their order.

    Pictures of one size that follow each other closely go through the network together; `PIXELS` bounds how many, and
    so the memory that is needed.

    Args:
        pictures: what messages call them, and their pixels (1, [3,] height, width); at least one.
        predict: of images (n, [3,] height, width), a table with a column `id`.

    Raises:
        ValueError: a picture is too small for the network.
    """
    tables, waiting, pixels = [], [], 0
    for where, image in pictures:
        pixels += image.shape[-2] * image.shape[-1]
        if waiting and pixels > PIXELS:
            tables.append(_by_shape(waiting, predict))
            waiting, pixels = [], image.shape[-2] * image.shape[-1]
        waiting.append((where, image))
    table = pa.concat_tables([*tables, _by_shape(waiting, predict)])
    return table.set_column(0, "id", pa.array(range(len(table)), pa.int64()))


def _by_shape(pictures: list[tuple[str, Tensor]], predict: Callable[[Tensor], pa.Table]) -> pa.Table:
    by_shape: dict[torch.Size, list[int]] = {}
    for place, (_, image) in enumerate(pictures):
        by_shape.setdefault(image.shape, []).append(place)
    parts = []
    for shape, places in by_shape.items():
        try:
            parts.append(predict(torch.cat([pictures[place][1] for place in places])))
        except (RuntimeError, IndexError) as error:  # PyTorch's, where nothing is left after the last halving
            raise ValueError(
                f"{pictures[places[0]][0]}: the network does not take an image of {shape[-1]} x {shape[-2]} pixels "
                f"({str(error).splitlines()[0]}); expected the size that it was trained on"
            ) from error
    order = np.argsort([place for places in by_shape.values() for place in places])
    return pa.concat_tables(parts).take(order)


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

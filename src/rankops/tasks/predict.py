"""Requests of the tasks: their images are decoded with care, batched by size, and every error names its row.

A request is a list of rows. A row is a mapping of column names to values; its key `where`, if it has one, is what
messages call it instead of "row 3".
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rankops.io.images import PIXELS, picture

__all__ = ["colors_of", "in_batches", "of_row", "order_of", "respond_clips", "respond_images", "respond_images_or_texts"]

Row = Mapping[str, Any]
DECODED = 16  # images at a time, by all threads; each may have `PIXELS`


def colors_of(network: nn.Module) -> int:
    """Return the colors of the images that a network takes: 1 (gray) or 3, which is also for networks that take both.

    >>> colors_of(nn.Sequential(nn.Conv2d(3, 8, 5)))
    3
    """
    return next(layer.in_channels for layer in network.modules() if isinstance(layer, nn.Conv2d))


def order_of(label_ranks: Sequence[int]) -> list[int]:
    """Return the labels that an image has, the most important first; equally important ones in their own order.

    >>> order_of([1, 0, 3, 1])
    [2, 0, 3]
    """
    return sorted((label for label, rank in enumerate(label_ranks) if rank > 0), key=lambda label: -label_ranks[label])


@contextmanager
def of_row(where: str) -> Iterator[None]:
    """Turn any error about a row into a ValueError that names the row.

    >>> with of_row("row 3"):
    ...     raise RuntimeError("too small")
    Traceback (most recent call last):
    ...
    ValueError: row 3: too small
    """
    try:
        yield
    except (RuntimeError, IndexError, ValueError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(message if message.startswith(where) else f"{where}: {message}") from error


def _named(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    return [(row.get("where") or f"row {number}", row) for number, row in enumerate(rows)]


def _decoded(rows: list[tuple[str, Row]], column: str, colors: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the image (1, [3,] height, width) of each row; a few at a time, in threads."""

    def decode(named: tuple[str, Row]) -> tuple[str, Tensor]:
        return named[0], picture(named[1].get(column), colors=colors, where=named[0])

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for start in range(0, len(rows), DECODED):
            yield from pool.map(decode, rows[start : start + DECODED])


def in_batches(function: Callable[[Tensor], Iterable], images: Iterable[tuple[str, Tensor]]) -> list[Any]:
    """Apply a function to images of any sizes; those of one size that follow each other closely go together.

    Args:
        function: takes images (n, [3,] height, width) to n results.
        images: the name of each for messages, and its pixels (1, [3,] height, width), taken as they are needed. At most
            `PIXELS` go together, which bounds the memory.

    Returns:
        The result of each image, in their order.

    Raises:
        ValueError: the network does not take an image; the message names it and its size.

    >>> sizes = [("row 0", torch.zeros(1, 8, 8)), ("row 1", torch.zeros(1, 4, 8)), ("row 2", torch.ones(1, 8, 8))]
    >>> in_batches(lambda images: images.sum((1, 2)).tolist(), sizes)
    [0.0, 0.0, 64.0]
    """
    results, waiting, pixels = [], [], 0
    for name, image in images:
        size = image.shape[-2] * image.shape[-1]
        if waiting and pixels + size > PIXELS:
            results += _of_batch(function, waiting)
            waiting, pixels = [], 0
        waiting.append((name, image))
        pixels += size
    return results + _of_batch(function, waiting)


def _of_batch(function: Callable[[Tensor], Iterable], images: list[tuple[str, Tensor]]) -> list[Any]:
    places: dict[torch.Size, list[int]] = {}
    for place, (_, image) in enumerate(images):
        places.setdefault(image.shape, []).append(place)
    results: dict[int, Any] = {}
    for shape, same in places.items():
        try:
            answers = function(torch.cat([images[place][1] for place in same]))
        except (RuntimeError, IndexError) as error:  # PyTorch's, where nothing is left after the last halving
            raise ValueError(
                f"{images[same[0]][0]}: the network does not take an image of {shape[-1]} x {shape[-2]} pixels "
                f"({str(error).splitlines()[0]}); expected the size that it was trained on"
            ) from error
        results |= zip(same, answers, strict=True)
    return [results[place] for place in range(len(images))]


def respond_images(
    function: Callable[[Tensor], Iterable], rows: Sequence[Row], *, colors: int, column: str = "image"
) -> list[Any]:
    """Return `function` of the image of each row.

    Args:
        function: see `in_batches`.
        rows: of a request, with encoded images (PNG or JPEG bytes) or paths of them.
        colors: see `colors_of`.
        column: that has the images.

    Raises:
        ValueError: an image is not readable, too large or too small; the message names its row.
    """
    return in_batches(function, _decoded(_named(rows), column, colors))


def respond_clips(
    function: Callable[[Tensor], Any], rows: Sequence[Row], *, colors: int, column: str = "frames"
) -> list[Any]:
    """Return `function` of the clip of each row, (1, frames, [3,] height, width).

    Args:
        function: takes one clip.
        rows: of a request, with lists of encoded images (PNG or JPEG bytes, or base64 of them).
        colors: see `colors_of`.
        column: that has the clips.

    Raises:
        ValueError: a clip has no frames, frames of different sizes, more than `PIXELS` pixels in all, or a frame that
            is not readable; the message names its row.
    """
    results = []
    for where, row in _named(rows):
        with of_row(where):
            results.append(function(_clip(row[column], colors=colors, where=where)))
    return results


def _clip(frames: Sequence[bytes], *, colors: int, where: str) -> Tensor:
    images: list[Tensor] = []
    for number, frame in enumerate(frames):
        images.append(picture(_decoded_base64(frame), colors=colors, where=f"{where}, frame {number}"))
        if sum(image.shape[-2] * image.shape[-1] for image in images) > PIXELS:  # they go through the network together
            raise ValueError(f"frames of more than {PIXELS:,} pixels in all: send fewer or smaller ones")
    if not images:
        raise ValueError("no frames, expected at least one")
    if len({image.shape for image in images}) > 1:
        sizes = sorted({tuple(image.shape[-2:]) for image in images})
        raise ValueError(f"frames of sizes {sizes}, expected one size in a clip")
    return torch.cat(images).unsqueeze(0)


def _decoded_base64(frame: bytes) -> bytes:
    """MLflow's server decodes base64, which no image is, in a column of bytes but not in one of lists of them."""
    try:
        return base64.b64decode(frame, validate=True)
    except ValueError:
        return frame


def respond_images_or_texts(
    images: Callable[[Tensor], Iterable],
    text: Callable[[str], Any],
    rows: Sequence[Row],
    *,
    colors: int,
    columns: tuple[str, str] = ("image", "caption"),
) -> list[Any]:
    """Return `images` of the image, or `text` of the text, of each row.

    Args:
        images: see `in_batches`.
        text: takes one text.
        rows: of a request; each has one of the two columns.
        colors: see `colors_of`.
        columns: that have the images and the texts.

    Raises:
        ValueError: a row has both or neither, or cannot be read; the message names it.
    """
    results: dict[int, Any] = {}
    shown: dict[int, tuple[str, Row]] = {}
    for place, (where, row) in enumerate(_named(rows)):
        image, words = (row.get(column) for column in columns)
        if isinstance(image, bytes) == isinstance(words, str):
            raise ValueError(f"{where}: expected either {columns[0]} or {columns[1]}")
        if isinstance(words, str):
            with of_row(where):
                results[place] = text(words)
        else:
            shown[place] = where, row
    results |= zip(shown, in_batches(images, _decoded([*shown.values()], columns[0], colors)), strict=True)
    return [results[place] for place in range(len(rows))]

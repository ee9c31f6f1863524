"""Move images: at random in training, or in several fixed views whose scores are averaged."""

import math
from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn

__all__ = ["shifted", "views", "warped"]


def _check_moves(*, shift: int, zoom: float, rotation: float) -> None:
    """Raise if a move is out of range, see `warped`.

    Raises:
        ValueError: a `shift` or `rotation` below 0, or a `zoom` below 1.
    """
    if not shift >= 0:
        raise ValueError(f"shift is {shift}, expected at least 0, in pixels")
    if not 1 <= zoom < math.inf:
        raise ValueError(f"zoom is {zoom}, expected at least 1: factors are drawn between 1 / zoom and zoom")
    if not 0 <= rotation < math.inf:
        raise ValueError(f"rotation is {rotation}, expected at least 0, in degrees")


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Shift each image at random by up to `most` pixels in both directions; fill with black.

    Args:
        images: (n, colors, height, width).
        most: largest shift, in pixels.
        generator: source of the random shifts.

    >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
    >>> shifted(images, 0, torch.Generator()).equal(images)
    True
    """
    if most == 0:
        return images
    count, colors, height, width = images.shape
    moves = torch.randint(0, 2 * most + 1, (2, count, 1), generator=generator).to(images.device)
    rows = torch.arange(height, device=images.device) + moves[0]
    columns = torch.arange(width, device=images.device) + moves[1]
    padded = nn.functional.pad(images, [most] * 4)
    numbers = torch.arange(count, device=images.device)[:, None, None, None]
    color = torch.arange(colors, device=images.device)[None, :, None, None]
    return padded[numbers, color, rows[:, None, :, None], columns[:, None, None, :]]


def warped(
    images: Tensor, generator: torch.Generator, *, shift: int = 0, zoom: float = 1.0, rotation: float = 0.0
) -> Tensor:
    """Scale and rotate each image about its center and shift it, at random; fill with black.

    One factor scales a whole image, so label ranks by size still hold as long as nothing leaves the image. Shifts are
    by fractions of a pixel, with linear interpolation. Without zoom and rotation, this is `shifted`: whole pixels, the
    same random numbers, and identical results.

    Args:
        images: (n, colors, height, width) uint8, on any device.
        generator: source of all random numbers, on the CPU.
        shift: largest shift in each direction, in pixels.
        zoom: largest factor, at least 1; factors are between 1 / zoom and zoom, uniform in their logarithm.
        rotation: largest angle in each direction, in degrees.

    Returns:
        Images with the same shape, type, and device.

    Raises:
        ValueError: a `shift` or `rotation` below 0, or a `zoom` below 1.
        TypeError: images need interpolation but are not uint8.

    >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
    >>> warped(images, torch.Generator(), zoom=0.9)
    Traceback (most recent call last):
    ...
    ValueError: zoom is 0.9, expected at least 1: factors are drawn between 1 / zoom and zoom
    """
    _check_moves(shift=shift, zoom=zoom, rotation=rotation)
    if zoom == 1 and rotation == 0:
        return shifted(images, shift, generator)
    # Always draw all four, so that one option does not change the random numbers of another.
    moves = torch.rand(4, len(images), generator=generator).mul(2).sub(1)
    return _moved(images, moves, shift=shift, zoom=zoom, rotation=rotation)


def views(
    images: Tensor, *, count: int, shift: int = 0, zoom: float = 1.0, rotation: float = 0.0
) -> Iterator[Tensor]:  # fmt: skip
    """Yield several views of the images: first unchanged, then moved as in `warped`.

    Each view moves all images in the same way, and the views are always the same, so that the result for an image does
    not depend on the other images. The mean of scores over views has a smaller error than the scores of one view.

    Args:
        images: (n, colors, height, width) uint8, on any device.
        count: number of views, at least 1.
        shift, zoom, rotation: the largest moves, see `warped`.

    Returns:
        An iterator over `count` tensors of the images' shape, type, and device; each is computed on demand.

    Raises:
        ValueError: a `count` below 1, or see `warped`.
        TypeError: images need moving but are not uint8.

    >>> images = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
    >>> [view.shape == images.shape for view in views(images, count=3, zoom=1.1)]
    [True, True, True]
    """
    if count < 1:
        raise ValueError(f"count is {count}, expected at least 1: the first view is the unchanged image")
    _check_moves(shift=shift, zoom=zoom, rotation=rotation)
    moves = torch.rand(count - 1, 4, 1, generator=torch.Generator().manual_seed(0)).mul(2).sub(1)
    moved = (
        _moved(images, move.expand(4, len(images)), shift=shift, zoom=zoom, rotation=rotation) for move in moves
    )  # fmt: skip
    return chain([images], moved)


def _moved(images: Tensor, moves: Tensor, *, shift: int, zoom: float, rotation: float) -> Tensor:
    """Move each image by its column of (4, n): down, right, scale, rotation, as fractions (-1 to 1) of the largest."""
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images are {images.dtype}, expected torch.uint8: results are rounded to whole brightness values"
        )
    height, width = images.shape[-2:]
    down, right, scale, turn = moves
    factor, angle = torch.exp(scale * math.log(zoom)), turn * math.radians(rotation)
    # Where each pixel comes from, p -> A (p - move), with p from the center; A undoes the scaling and the turn.
    cosine, sine = torch.cos(angle) / factor, torch.sin(angle) / factor
    down, right = down * shift, right * shift
    from_x, from_y = -(cosine * right + sine * down), -(cosine * down - sine * right)
    # affine_grid counts in half widths and half heights.
    places = torch.stack([
        torch.stack([cosine, sine * height / width, from_x * 2 / width], dim=-1),
        torch.stack([-sine * width / height, cosine, from_y * 2 / height], dim=-1),
    ], dim=1)  # fmt: skip
    grid = nn.functional.affine_grid(places.to(images.device), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images.float(), grid, align_corners=False).round().to(torch.uint8)

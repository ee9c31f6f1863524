"""Images of people: decoded with care, resized and encoded."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps
from torch import Tensor

from rankgrad.io.parquet import parquet_file
from rankgrad.io.pictures import BROKEN, FORMATS, PHOTO_PIXELS, check_plain, opened, reason, turned

__all__ = ["as_jpeg", "as_png", "open_photo", "photo_facts", "picture", "squared"]

QUALITY = 95  # of the stored JPEG


def _upright(image: Image.Image, mode: str) -> Image.Image:
    """The image turned as its EXIF data say, gray (`L`) or `RGB`; what neither can show is refused."""
    upright = turned(image)
    if upright.has_transparency_data and np.asarray(upright.convert("RGBA"))[..., 3].min() < 255:
        raise ValueError("transparent in places")
    return upright.convert(mode)


def squared(image: Image.Image, size: int) -> Image.Image:
    """Return the largest square in the middle of an image, `size` pixels on a side (bilinear, antialiased).

    >>> squared(Image.new("L", (40, 20), 200), 8).getpixel((0, 7))
    200
    """
    return _fitted(image, (size, size))


def _fitted(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The largest middle part of an image that has the proportions of a size, at that size."""
    return ImageOps.fit(image, size, Image.Resampling.BILINEAR)


def open_photo(contents: bytes, size: int, mode: str = "RGB") -> Image.Image:
    """Decode an image of one of `FORMATS` as RGB, or as gray (`L`), `size` pixels on a side, see `squared`.

    Raises:
        ValueError: it is truncated, empty, of more than `PHOTO_PIXELS`, transparent in places, of more than 8 bits a
            color or several frames, or no image at all.
    """
    try:
        with Image.open(BytesIO(contents), formats=FORMATS) as image:
            if image.width * image.height > PHOTO_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels, expected at most {PHOTO_PIXELS:,}")
            check_plain(image)
            image.load()
            return squared(_upright(image, mode), size)
    except MemoryError:
        raise
    except Exception as error:  # whatever a decoder makes of contents that are none of its own
        raise ValueError(f"not a whole image ({reason(error, ', '.join(FORMATS))})") from error


def as_jpeg(image: Image.Image) -> bytes:
    """JPEG bytes of an RGB image."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def as_png(image: Image.Image) -> bytes:
    """PNG bytes of a gray image, which lose nothing."""
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # mostly black images are small at any level
    return buffer.getvalue()


def picture(
    encoded: bytes | Path | None,
    *,
    colors: int,
    where: str,
    size: tuple[int, int] | None = None,
    stored: str | None = None,
) -> Tensor:
    """Pixels of one picture, gray (1, height, width) or colored (1, 3, height, width), uint8, upright.

    Args:
        encoded: bytes of a picture of one of `FORMATS`, or a file of them.
        colors: 1 or 3.
        where: what the error message begins with.
        size: width and height to which its largest middle part is resized, as `squared` does; None for as it is.
        stored: `JPEG` for the pixels that are left after it was stored so, as pictures of training are.

    Raises:
        ValueError: see `rankgrad.io.pictures.opened`; or it has pixels that neither gray nor RGB can say.
    """
    with opened(encoded, where=where) as image:
        upright = _upright(image, "L" if colors == 1 else "RGB")
        sized = upright if size is None else _fitted(upright, size)
        pixels = np.array(Image.open(BytesIO(as_jpeg(sized))) if stored == "JPEG" else sized)
    return torch.from_numpy(pixels if colors == 1 else pixels.transpose(2, 0, 1).copy()).unsqueeze(0)


def photo_facts(path: Path, column: str, *, piece: int, threads: int) -> pd.DataFrame:
    """Return of the photos of each row: files, number, a hash of their pixels, whether all decode, modes and sizes."""
    rows: list[dict[str, Any]] = []
    with parquet_file(path) as file, ThreadPoolExecutor(threads) as pool:
        for batch in file.iter_batches(batch_size=piece, columns=[column]):
            cells = [cell if isinstance(cell, list) else [cell] for cell in batch.column(0).to_pylist()]
            rows += pool.map(_facts_of, cells)
    return pd.DataFrame(rows)


def _facts_of(photos: list[dict[str, Any] | None]) -> dict[str, Any]:
    files, modes, sizes, decodes, pixels = {}, {}, {}, True, sha256()
    for photo in photos:
        photo = photo or {"bytes": None, "path": None}
        files[photo["path"] or ""] = None
        try:
            with Image.open(BytesIO(photo["bytes"] or b""), formats=["JPEG", "PNG"]) as image:
                image.load()
            modes[image.mode] = sizes[f"{image.width} x {image.height}"] = None
            pixels.update(image.tobytes())
        except BROKEN:
            decodes = False
    seen = {"file": files, "mode": modes, "size": sizes}
    facts = {name: ", ".join(values) for name, values in seen.items()}
    return facts | {"photos": len(photos), "decodes": decodes, "pixels": pixels.hexdigest()}

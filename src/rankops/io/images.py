"""Images of people: decoded with care, resized, encoded, and read from Parquet."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image, ImageOps
from torch import Tensor

from rankops.io.parquet import IMAGE
from rankops.io.pictures import FORMATS, PHOTO_PIXELS, check_plain, opened, reason

__all__ = ["as_jpeg", "image_batches", "image_count", "open_photo", "picture", "squared"]

QUALITY = 95  # of the stored JPEG
PIECE = 64  # rows read together


def _upright(image: Image.Image, mode: str) -> Image.Image:
    """The image turned as its EXIF data say, gray (`L`) or `RGB`; what neither can show is refused."""
    upright = ImageOps.exif_transpose(image)
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


def open_photo(contents: bytes, size: int) -> Image.Image:
    """Decode an image of one of `FORMATS` as RGB, `size` pixels on a side, see `squared`.

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
            return squared(_upright(image, "RGB"), size)
    except MemoryError:
        raise
    except Exception as error:  # whatever a decoder makes of contents that are none of its own
        raise ValueError(f"not a whole image ({reason(error, ', '.join(FORMATS))})") from error


def as_jpeg(image: Image.Image) -> bytes:
    """JPEG bytes of an RGB image."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def picture(encoded: bytes | Path | None, *, colors: int, where: str, size: tuple[int, int] | None = None) -> Tensor:
    """Pixels of one picture, gray (1, height, width) or colored (1, 3, height, width), uint8, upright.

    Args:
        encoded: bytes of a picture of one of `FORMATS`, or a file of them.
        colors: 1 or 3.
        where: what the error message begins with.
        size: width and height to which its largest middle part is resized, as `squared` does; None for as it is.

    Raises:
        ValueError: see `rankops.io.pictures.opened`; or it has pixels that neither gray nor RGB can say.
    """
    with opened(encoded, where=where) as image:
        upright = _upright(image, "L" if colors == 1 else "RGB")
        pixels = np.array(upright if size is None else _fitted(upright, size))
    return torch.from_numpy(pixels if colors == 1 else pixels.transpose(2, 0, 1).copy()).unsqueeze(0)


def _opened(path: Path) -> pq.ParquetFile:
    """A Parquet file of images, buffered: a row group, which may be the whole file, would otherwise be read at once."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected Parquet with a column image: {{bytes, path}}")
    try:
        file = pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
        schema = file.schema_arrow
        names = schema.names
    except (pa.ArrowException, OSError, ValueError) as error:  # the last are names that are no UTF-8 too
        raise _broken_file(path, error) from error
    if "image" not in names:
        raise ValueError(f"{path}: no column image; it has {', '.join(names) or 'none'}")
    if (count := names.count("image")) > 1:
        raise ValueError(f"{path}: {count} columns are called image, expected one")
    kind = schema.field("image").type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ValueError(f"{path}: column image is of type {schema.field('image').type}, expected {IMAGE} or binary")
    return file


def _broken_file(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path}: not a whole Parquet file ({error}); make or fetch it again")


def image_count(path: Path) -> int:
    """Return how many rows a Parquet file of images has.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a Parquet file, or it has no column of images.
    """
    with _opened(path) as file:
        return file.metadata.num_rows


def image_batches(path: Path, *, columns: Sequence[str] = ()) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read a Parquet file of encoded images in pieces, so that memory does not grow with the file.

    Args:
        path: with a column `image`, of `rankops.io.parquet.IMAGE` or of bytes.
        columns: others to read beside it.

    Yields:
        The number of the first row, and the rows; `image` is the bytes.

    Raises:
        FileNotFoundError, ValueError: see `image_count`.
    """
    first = 0
    with _opened(path) as file:
        kind, names = file.schema_arrow.field("image").type, file.schema_arrow.names
        if twice := [name for name in columns if names.count(name) > 1]:
            raise ValueError(f"{path}: several columns {twice[0]}, expected one")
        try:
            for batch in file.iter_batches(batch_size=PIECE, columns=["image", *columns]):
                if pa.types.is_struct(kind):
                    encoded = batch["image"].field("bytes")
                    batch = batch.set_column(batch.schema.get_field_index("image"), "image", encoded)
                yield first, batch
                first += len(batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _broken_file(path, error) from error

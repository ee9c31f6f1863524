"""Parquet tables with images in them: read with clear errors, in the common `image: {bytes, path}` form."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from PIL import Image

__all__ = ["IMAGE", "decode_images", "encode_images", "read_table"]

# How datasets libraries store an image in Parquet, so that any of them shows it.
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def read_table(path: str | Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of a Parquet file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a whole Parquet file, or a column is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; make it with `dvc repro`")
    try:
        there = pq.read_schema(path).names
        missing = [name for name in columns if name not in there]
        if not missing:
            return pq.read_table(path, columns=list(columns))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error}); make it again with `dvc repro`") from error
    raise ValueError(f"{path}: no column {', '.join(missing)}; it has {', '.join(there)}")


def _in_threads(function: Callable, items: Sequence, threads: int) -> list:
    """`function` of each item; many items a task, because handing over one costs as much as decoding one."""
    parts = [items[start : start + 256] for start in range(0, len(items), 256)]
    with ThreadPoolExecutor(threads) as pool:
        return [result for part in pool.map(lambda part: [function(item) for item in part], parts) for result in part]


def encode_images(images: np.ndarray, *, threads: int, names: Sequence[str] | None = None) -> pa.Array:
    """Grey images (n, height, width) uint8 as PNG, lossless, in the form of `IMAGE`."""

    def encode(image: np.ndarray) -> bytes:
        buffer = BytesIO()
        # The fastest level: mostly black images are small at any.
        Image.fromarray(image).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    encoded = _in_threads(encode, images, threads)
    return pa.StructArray.from_arrays(
        [pa.array(encoded, pa.binary()), pa.array(names or [None] * len(encoded), pa.string())], fields=list(IMAGE)
    )


def decode_images(column: pa.ChunkedArray, *, path: str | Path, threads: int) -> np.ndarray:
    """Grey images (n, height, width) uint8 of an `IMAGE` column.

    Args:
        column: the column, as `read_table` gives it.
        path: of the file, for messages.
        threads: to decode with.

    Raises:
        ValueError: an image is corrupt, not grey, or of another size than the first; the message names its row.
    """

    def decode(numbered: tuple[int, bytes | None]) -> np.ndarray:
        row, encoded = numbered
        try:
            with Image.open(BytesIO(encoded or b""), formats=["PNG"]) as image:
                image.load()
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ValueError(f"{path}: row {row}: not a whole PNG image ({error}); make it again") from error
        if image.mode != "L":
            raise ValueError(f"{path}: row {row}: image of mode {image.mode}, expected grey (L)")
        return np.asarray(image)

    encoded = pa.compute.struct_field(column.combine_chunks(), "bytes").to_pylist()
    decoded = _in_threads(decode, list(enumerate(encoded)), threads)
    for row, image in enumerate(decoded):
        if image.shape != decoded[0].shape:
            raise ValueError(f"{path}: row {row}: image of {image.shape}, expected {decoded[0].shape} as in row 0")
    return np.stack(decoded) if decoded else np.zeros((0, 0, 0), np.uint8)

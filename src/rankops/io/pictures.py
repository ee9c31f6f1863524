"""Open pictures of people with care: what a header claims is checked before it is unpacked. Needs no torch."""

import struct
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

__all__ = ["BROKEN", "PIXELS", "opened"]

# What Pillow raises for contents that are no whole image; which of them depends on the format.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, struct.error, Image.DecompressionBombError)
# Of one picture, and of what goes through the network at once. A file of some kilobytes can unpack to gigabytes, and a
# network needs hundreds of bytes for each pixel.
PIXELS = 2**22

# Pillow warns of pictures twenty times as large as those that are refused here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


@contextmanager
def opened(encoded: bytes | Path | None, *, where: str, size: tuple[int, int] | None = None) -> Generator[Image.Image]:
    """Open a PNG or JPEG, of which only the header is read; errors of what is done with it are of the same form.

    Args:
        encoded: PNG or JPEG bytes, or a file of them.
        where: what the error message begins with.
        size: width and height that it must have, upright or on its side; None for any.

    Raises:
        ValueError: not a whole PNG or JPEG, of another size or of more than `PIXELS`.
    """
    try:
        source = encoded if isinstance(encoded, Path) else BytesIO(encoded or b"")
        with Image.open(source, formats=["PNG", "JPEG"]) as image:
            if image.width * image.height > PIXELS or (size and sorted(image.size) != sorted(size)):
                raise ValueError(f"{image.width} x {image.height} pixels")
            yield image
    except (*BROKEN, TypeError) as error:  # that is text instead of bytes
        message = "no PNG or JPEG" if isinstance(error, UnidentifiedImageError) else error
        expected = f"at most {PIXELS:,} pixels" if size is None else f"{size[0]} x {size[1]} pixels, as in training"
        raise ValueError(
            f"{where}: unusable image ({message}); expected a whole PNG or JPEG of {expected}, 8 bits a color, "
            "not transparent"
        ) from error

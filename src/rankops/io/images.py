"""Pictures: decoded with care, resized, encoded."""

import struct
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

__all__ = ["PIXELS", "BrokenFile", "as_jpeg", "open_photo", "picture", "squared"]

QUALITY = 95  # of the stored JPEG
# What Pillow raises for contents that are no whole image; which of them depends on the format.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, struct.error, Image.DecompressionBombError)


class BrokenFile(ValueError):
    """A photo or video that is there and cannot be decoded: the one fault that `skip_broken` forgives."""


def _as_rgb(image: Image.Image) -> Image.Image:
    """RGB from gray, black and white, CMYK, palettes, 16 bits and transparency; what is transparent is black."""
    if image.mode.startswith("I;16"):
        # Pillow's own conversion cuts at 255 and gives white.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        black = Image.new("RGB", image.size)
        black.paste(image, mask=image.getchannel("A"))
        return black
    if image.mode not in ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr"):
        raise ValueError(f"pixels of mode {image.mode}, expected gray, a palette, RGB or CMYK; save it as a JPEG")
    return image.convert("RGB")


def squared(image: Image.Image, size: int) -> Image.Image:
    """The largest square in the middle of an image, `size` pixels on a side, RGB.

    The same as the short side resized to `size` and the middle cut out, bilinear and antialiased, but in one step: no
    rounding of the longer side, and no large image between for a narrow strip.

    Args:
        image: of any mode and size.
        size: pixels on a side.

    >>> squared(Image.new("L", (40, 20), 200), 8).getpixel((0, 7))
    (200, 200, 200)
    """
    image = _as_rgb(image)
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))


def open_photo(path: str | Path, size: int) -> Image.Image:
    """An image file of any kind as RGB, `size` pixels on a side; see `squared`. Turned as its EXIF data say.

    Raises:
        FileNotFoundError: no such file.
        BrokenFile: it is truncated, empty, too large to be a photo, or no image at all.
    """
    contents = Path(path).read_bytes()  # outside: a disk that fails does not make a photo broken
    try:
        with Image.open(BytesIO(contents)) as image:
            image.load()
            return squared(ImageOps.exif_transpose(image), size)
    except BROKEN as error:
        raise BrokenFile(f"{path}: not a whole image ({error}); get it again, or set skip_broken: true") from error


def as_jpeg(image: Image.Image) -> bytes:
    """JPEG bytes of an RGB image."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


# Of one picture, and of what goes through the network at once. A file of some kilobytes can unpack to gigabytes, and a
# network needs hundreds of bytes for each pixel.
PIXELS = 2**22

# Pillow warns of pictures twenty times as large as those that are refused here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def picture(encoded: bytes | Path | None, *, colors: int, where: str) -> Tensor:
    """Pixels of one picture, gray (1, height, width) or colored (1, 3, height, width), uint8, upright.

    What its header claims is looked at before it is unpacked.

    Args:
        encoded: PNG or JPEG bytes, or a file of them.
        colors: 1 or 3.
        where: what the error message begins with.

    Raises:
        ValueError: not a whole PNG or JPEG, of more than `PIXELS`, or with pixels that neither gray nor RGB can say.
    """
    try:
        source = encoded if isinstance(encoded, Path) else BytesIO(encoded or b"")
        with Image.open(source, formats=["PNG", "JPEG"]) as image:
            if image.width * image.height > PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels")
            if image.mode.startswith("I"):
                raise ValueError("16 bits a pixel")
            upright = ImageOps.exif_transpose(image)
            if upright.has_transparency_data and upright.convert("RGBA").getextrema()[3][0] < 255:
                raise ValueError("transparent in places")
            pixels = np.array(upright.convert("L" if colors == 1 else "RGB"))
    except (*BROKEN, TypeError) as error:  # that is text instead of bytes
        found = "no PNG or JPEG" if isinstance(error, UnidentifiedImageError) else error
        raise ValueError(
            f"{where}: not a readable image ({found}); expected a whole PNG or JPEG of at most {PIXELS:,} pixels, "
            "8 bits a color, not transparent"
        ) from error
    return torch.from_numpy(pixels if colors == 1 else pixels.transpose(2, 0, 1).copy()).unsqueeze(0)

"""Read untrusted images safely: check the header before decoding anything. Does not need torch."""

import base64
import re
import struct
import warnings
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO

from PIL import ExifTags, Image, ImageOps, TiffImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile

__all__ = [
    "BROKEN",
    "PHOTO_PIXELS",
    "as_jpeg",
    "as_png",
    "bytes_in",
    "check_plain",
    "open_photo",
    "opened",
    "squared",
    "turned",
    "without_base64",
]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")  # other decoders start programs or have flaws
QUALITY = 95  # of stored JPEG images
PHOTO_PIXELS = 2**26  # largest photo before resizing: 67 million pixels take half a gigabyte

# Errors that Pillow raises for incomplete or invalid images; which one depends on the format.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, struct.error, Image.DecompressionBombError)

TURNS = {  # how to turn an image upright, by its EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow warns about images of the sizes that are rejected here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def bytes_in(text: str) -> bytes:
    r"""Decode base64 text or a data URI, in either base64 alphabet, with or without padding.

    Raises:
        ValueError: the text is neither.

    >>> bytes_in("data:image/gif;base64,R0lG"), bytes_in("-_8")
    (b'GIF', b'\xfb\xff')
    """
    head, comma, encoded = text.partition(",") if text[:5].lower() == "data:" else ("", "", text)
    start = repr(text[:40] + "..." * (len(text) > 40))
    if comma and not head.lower().endswith(";base64"):
        raise ValueError(f"{start} is a data URI without base64, expected one such as data:image/png;base64,...")
    if re.fullmatch("(?:[0-9a-fA-F]{2})+", encoded):
        raise ValueError(f"{start} is hexadecimal, expected an image in base64")
    letters = "".join(encoded.split()).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"{start} is not base64, expected an image encoded in base64, not a path or URL") from error


def without_base64(contents: bytes) -> bytes:
    """Return the bytes of an image from bytes or base64; some MLflow servers pass base64."""
    try:
        return base64.b64decode(contents, validate=True)
    except ValueError:
        return contents


def check_plain(image: ImageFile) -> None:
    """Raise ValueError if Pillow would read an image wrongly: 16 bits per color, several frames, a damaged PNG.

    Args:
        image: an image that was only opened, because only the header describes what is stored.
    """
    if image.mode.startswith(("I", "F")) or any(re.search(";16[BLN]", str(tile.args)) for tile in image.tile):
        raise ValueError("more than 8 bits a color")
    tags = getattr(image, "tag_v2", {})  # Pillow reads the 16-bit planes of a TIFF as 8-bit planes
    if max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (8,))) > 8:
        raise ValueError("more than 8 bits a color")
    if any(form != 1 for form in tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))):
        raise ValueError("colors that are not unsigned integers")
    if getattr(image, "is_animated", False) and image.format != "MPO":  # cameras store previews of a photo in this way
        raise ValueError("several frames")
    if image.format == "PNG" and image.fp:
        position = image.fp.tell()
        image.fp.seek(0)
        _check_sums(image.fp.read())
        image.fp.seek(position)


def _check_sums(contents: bytes) -> None:
    """Raise ValueError if a chunk of a PNG is truncated or its checksum is wrong; Pillow does not check pixel data."""
    start, name = 8, b""
    while name != b"IEND":
        end = start + 8 + int.from_bytes(contents[start : start + 4])
        name = contents[start + 4 : start + 8]
        if zlib.crc32(contents[start + 4 : end]).to_bytes(4) != contents[end : end + 4]:
            raise ValueError(f"damaged or truncated after byte {start}")
        start = end + 4


def turned(image: Image.Image) -> Image.Image:
    """Return an image turned by its EXIF orientation; ignore all other EXIF data, even if damaged.

    >>> turned(Image.new("L", (2, 1))).size
    (2, 1)
    """
    image.load()  # in a PNG, EXIF data may follow the pixels; for a TIFF, Pillow itself turns the image
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation))
    except (*BROKEN, AttributeError, OverflowError, TypeError):  # browsers do not turn such images either
        turn = None
    return image if turn is None else image.transpose(turn)


@contextmanager
def opened(encoded: bytes | None, *, where: str = "") -> Generator[Image.Image]:
    """Open an image and read only its header; turn any error into a ValueError with the same wording.

    Args:
        encoded: the bytes of one of `FORMATS`.
        where: beginning of the error message.

    Raises:
        ValueError: the image is incomplete, or has more than `PHOTO_PIXELS`, since a file of a few kilobytes can decode
            to gigabytes.
    """
    try:
        with Image.open(BytesIO(encoded or b""), formats=FORMATS) as image:
            if image.width * image.height > PHOTO_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels")
            check_plain(image)
            yield image
    except (*BROKEN, TypeError) as error:  # text instead of bytes is a TypeError
        # Pillow's own message for a file that is not an image contains a memory address.
        found = f"not {', '.join(FORMATS)}" if isinstance(error, UnidentifiedImageError) else error
        raise ValueError(
            f"{where}{': ' if where else ''}unusable image ({found}); expected a complete image with at most "
            f"{PHOTO_PIXELS:,} pixels, 8 bits per color, no transparency, and one frame"
        ) from error


def open_photo(
    encoded: bytes | None,
    size: tuple[int, int] | int | None,
    mode: str = "RGB",
    *,
    where: str = "",
    pad: bool = False,
) -> Image.Image:
    """Decode an image as RGB or gray (`L`), turn it upright, crop its center, and resize it (bilinear, antialiased).

    Args:
        encoded: see `opened`.
        size: width and height, or the side of a square; None keeps the size.
        mode: `RGB` or `L`.
        where: beginning of the error message.
        pad: add black bars instead of cropping.

    Raises:
        ValueError: see `opened`; or parts of the image are transparent.
    """
    with opened(encoded, where=where) as image:
        upright = turned(image)
        if upright.has_transparency_data and any(upright.convert("RGBA").getchannel("A").histogram()[:255]):
            raise ValueError("partly transparent")
        converted = upright.convert(mode)
        return converted if size is None else squared(converted, size, pad=pad)


def squared(image: Image.Image, size: tuple[int, int] | int, *, pad: bool = False) -> Image.Image:
    """Crop the center of an image to the proportions of a size, or pad it, then resize it to that size.

    >>> square = Image.new("L", (40, 20), 200)
    >>> squared(square, 8).getpixel((0, 7)), squared(square, 8, pad=True).getpixel((0, 7))
    (200, 0)
    """
    resize = ImageOps.pad if pad else ImageOps.fit
    return resize(image, (size, size) if isinstance(size, int) else size, Image.Resampling.BILINEAR)


def as_jpeg(image: Image.Image) -> bytes:
    """Return the JPEG bytes of an RGB image."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def as_png(image: Image.Image) -> bytes:
    """Return the (lossless) PNG bytes of an image."""
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # mostly black images are small at any level
    return buffer.getvalue()

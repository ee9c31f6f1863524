"""Read strangers' pictures with care: a header is checked before anything is unpacked. Needs no torch."""

import base64
import re
import struct
import warnings
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

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

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")  # others start programs, or have faults of their own
QUALITY = 95  # of the stored JPEG
PHOTO_PIXELS = 2**26  # of a photo, before it is resized: 67 million take half a gigabyte

# What Pillow raises for contents that are no whole image; which of them depends on the format.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, struct.error, Image.DecompressionBombError)

TURNS = {  # by the orientation of EXIF
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow warns of pictures as large as those that are refused here.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def bytes_in(text: str) -> bytes:
    r"""Return the bytes that text holds in base64, or as a data URI: of either alphabet, with padding or without.

    Raises:
        ValueError: it holds none.

    >>> bytes_in("data:image/gif;base64,R0lG"), bytes_in("-_8")
    (b'GIF', b'\xfb\xff')
    """
    head, comma, encoded = text.partition(",") if text[:5].lower() == "data:" else ("", "", text)
    start = repr(text[:40] + "..." * (len(text) > 40))
    if comma and not head.lower().endswith(";base64"):
        raise ValueError(f"{start} is a data URI without base64, expected such as data:image/png;base64,...")
    if re.fullmatch("(?:[0-9a-fA-F]{2})+", encoded):
        raise ValueError(f"{start} is hexadecimal, expected a picture in base64")
    letters = "".join(encoded.split()).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"{start} is no base64, expected a picture in it, not its path or address") from error


def without_base64(contents: bytes) -> bytes:
    """Return the bytes of a picture from bytes or base64, which some of MLflow's servers pass on."""
    try:
        return base64.b64decode(contents, validate=True)
    except ValueError:
        return contents


def check_plain(image: ImageFile) -> None:
    """Raise ValueError if an image holds other than Pillow would give: 16 bits a color, several frames, a damaged PNG.

    Args:
        image: just opened: only the header says what is stored.
    """
    if image.mode.startswith(("I", "F")) or any(re.search(";16[BLN]", str(tile.args)) for tile in image.tile):
        raise ValueError("more than 8 bits a color")
    tags = getattr(image, "tag_v2", {})  # of a TIFF, whose planes of 16 bits Pillow takes for ones of 8
    if max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (8,))) > 8:
        raise ValueError("more than 8 bits a color")
    if any(form != 1 for form in tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))):
        raise ValueError("colors that are no whole numbers from 0 on")
    if getattr(image, "is_animated", False) and image.format != "MPO":  # cameras store previews of a photo so
        raise ValueError("several frames")
    if image.format == "PNG" and image.fp:
        position = image.fp.tell()
        image.fp.seek(0)
        _check_sums(image.fp.read())
        image.fp.seek(position)


def _check_sums(contents: bytes) -> None:
    """Raise ValueError if a chunk of a PNG is cut off or has another sum than is said: Pillow checks none of pixels."""
    start, name = 8, b""
    while name != b"IEND":
        end = start + 8 + int.from_bytes(contents[start : start + 4])
        name = contents[start + 4 : start + 8]
        if zlib.crc32(contents[start + 4 : end]).to_bytes(4) != contents[end : end + 4]:
            raise ValueError(f"damaged or truncated behind byte {start}")
        start = end + 4


def turned(image: Image.Image) -> Image.Image:
    """Return an image turned as its EXIF data say; what else they say, and whether they are whole, is no matter.

    >>> turned(Image.new("L", (2, 1))).size
    (2, 1)
    """
    image.load()  # a PNG may have them behind its pixels, and of a TIFF Pillow itself heeds them
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation))
    except (*BROKEN, AttributeError, OverflowError, TypeError):  # browsers show such pictures as they are
        turn = None
    return image if turn is None else image.transpose(turn)


@contextmanager
def opened(encoded: bytes | Path | None, *, where: str = "") -> Generator[Image.Image]:
    """Open a picture and read only its header; whatever is wrong with it is a ValueError of one form.

    Args:
        encoded: bytes of one of `FORMATS`, or a file of them.
        where: what the error message begins with.

    Raises:
        ValueError: not a whole picture, or of more than `PHOTO_PIXELS`: a file of some kilobytes can unpack to
            gigabytes.
    """
    try:
        source = encoded if isinstance(encoded, Path) else BytesIO(encoded or b"")
        with Image.open(source, formats=FORMATS) as image:
            if image.width * image.height > PHOTO_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels")
            check_plain(image)
            yield image
    except (*BROKEN, TypeError) as error:  # text instead of bytes is a TypeError
        # Pillow's own words for what is no picture would name a place in memory.
        found = f"no {', '.join(FORMATS)}" if isinstance(error, UnidentifiedImageError) else error
        raise ValueError(
            f"{where}{': ' if where else ''}unusable image ({found}); expected a whole picture of at most "
            f"{PHOTO_PIXELS:,} pixels, 8 bits a color, not transparent, one frame"
        ) from error


def open_photo(
    encoded: bytes | Path | None,
    size: tuple[int, int] | int | None,
    mode: str = "RGB",
    *,
    where: str = "",
    pad: bool = False,
) -> Image.Image:
    """Decode a picture as RGB or as gray (`L`), upright, its largest middle part resized (bilinear, antialiased).

    Args:
        encoded: see `opened`.
        size: width and height, or the side of a square; None leaves the size as it is.
        mode: `RGB` or `L`.
        where: what the error message begins with.
        pad: whether the whole picture is resized, between black bars, in place of its middle.

    Raises:
        ValueError: see `opened`; or it is transparent in places.
    """
    with opened(encoded, where=where) as image:
        upright = turned(image)
        if upright.has_transparency_data and any(upright.convert("RGBA").getchannel("A").histogram()[:255]):
            raise ValueError("transparent in places")
        converted = upright.convert(mode)
        return converted if size is None else squared(converted, size, pad=pad)


def squared(image: Image.Image, size: tuple[int, int] | int, *, pad: bool = False) -> Image.Image:
    """Return the largest middle part of an image that has the proportions of a size, or all of it, at that size.

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
    """Return the PNG bytes of an image, which lose nothing."""
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # mostly black images are small at any level
    return buffer.getvalue()

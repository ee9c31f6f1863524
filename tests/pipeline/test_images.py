"""Pictures of people: turned upright, cut to size, and refused by name where they are damaged or of another kind."""

import struct
import zlib
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageFile
from torchvision.transforms.v2 import functional

from rankgrad.inputs.image import picture
from rankgrad.io.pictures import as_jpeg, check_plain, open_photo

from conftest import encoded, smooth  # isort: skip

SIZE = 32
FIRST, SECOND = smooth(1), smooth(2)


def png(header: tuple[int, ...], rows: bytes) -> bytes:
    """A PNG by its header: width, height, bits, color, and what is always 0."""
    chunks_by_name = {b"IHDR": struct.pack(">IIBBBBB", *header, 0, 0, 0), b"IDAT": zlib.compress(rows), b"IEND": b""}
    chunks = [struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
              for name, data in chunks_by_name.items()]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def deep(color: int, channels: int) -> bytes:
    return png((4, 4, 16, color), (b"\0" + bytes(range(8 * channels))) * 4)


def several(kind: str) -> bytes:
    return encoded(FIRST, kind, save_all=True, append_images=[SECOND])


WHOLE = encoded(smooth(1, (300, 300)))


def test_a_photo_is_the_short_side_resized_and_the_middle_cut_out():
    ours = np.asarray(open_photo(encoded(smooth(1, (90, 60))), SIZE)).astype(int)
    theirs = functional.resize(functional.pil_to_tensor(smooth(1, (90, 60))), [SIZE], antialias=True)
    difference = np.abs(ours - functional.center_crop(theirs, [SIZE, SIZE]).permute(1, 2, 0).numpy())
    assert np.median(difference) <= 1
    assert difference[1:-1, 1:-1].mean() < 2
    for size in ((5000, 3), (3, 5000), (1, 1)):
        assert open_photo(encoded(smooth(1, size)), SIZE).size == (SIZE, SIZE)
    assert open_photo(several("MPO"), SIZE).size == (SIZE, SIZE)  # a camera's preview is no second frame


@pytest.mark.parametrize(
    ("contents", "found"),
    [
        (b"no image", "JPEG, PNG, BMP, GIF, TIFF, WEBP"), (encoded(FIRST, "EPS"), "JPEG"),
        (encoded(FIRST, "PPM"), "JPEG"), (encoded(FIRST, "JPEG")[:800], "runcated|broken"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "image"), (WHOLE[:-12], "damaged or truncated"),
        (WHOLE[: 2 * len(WHOLE) // 3] + bytes(len(WHOLE) // 3 + 1), "damaged or truncated"),
        (encoded(Image.new("RGBA", (9, 9), (9, 9, 9, 7))), "transparent"),
        (encoded(Image.new("RGB", (9, 9), (9, 8, 7)), transparency=(9, 8, 7)), "transparent"),
        (deep(0, 1), "more than 8 bits"), (deep(6, 4), "more than 8 bits"),
        (encoded(FIRST.convert("L"), "TIFF", tiffinfo={339: 2}), "unsigned"),
        *((several(kind), "several frames") for kind in ("PNG", "GIF", "TIFF", "WEBP")),
        (png((8193, 8192, 8, 0), bytes(10_000)), "8193 x 8192 pixels"),
        (png((50_000, 50_000, 8, 0), bytes(10_000)), "2500000000 pixels"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_others_are_refused_by_their_place(contents, found, monkeypatch):
    if "pixels" in found:
        monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match=f"row 3: .*({found})"):
        picture(contents, colors=3, where="row 3")


def test_tags_of_a_tiff_decide_as_pillow_takes_planes_of_16_bits_for_ones_of_8():
    with pytest.raises(ValueError, match="more than 8 bits"):
        check_plain(SimpleNamespace(mode="RGB", tile=[], tag_v2={258: (16, 16, 16)}))


def test_what_is_stored_as_a_jpeg_is_read_as_training_pictures_were():
    options = {"colors": 3, "where": "a", "size": (16, 16)}
    stored = as_jpeg(open_photo(encoded(FIRST), 16))
    assert picture(encoded(FIRST), **options, stored="JPEG").equal(picture(stored, **options))
    assert not picture(encoded(FIRST), **options).equal(picture(stored, **options))
    assert Image.open(BytesIO(stored)).format == "JPEG"

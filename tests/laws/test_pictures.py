"""A picture has the pixels that were drawn, upright, whichever way it comes in; a damaged one is refused by place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from laws.changes import damaged
from laws.law import law, refused_at
from rankgrad.inputs.image import Image as Photo
from rankgrad.inputs.image import picture
from rankgrad.io.pictures import open_photo, squared

from conftest import encoded  # isort: skip

# What a camera does to a picture that is upright, by EXIF's number of it.
STORED = {
    1: lambda up: up, 2: np.fliplr, 3: lambda up: np.rot90(up, 2), 4: np.flipud, 5: lambda up: np.swapaxes(up, 0, 1),
    6: lambda up: np.rot90(up, 1), 7: lambda up: np.rot90(np.swapaxes(up, 0, 1), 2), 8: lambda up: np.rot90(up, -1),
}  # fmt: skip
MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "JPEG": ("L", "RGB", "CMYK"), "BMP": ("1", "L", "P", "RGB"),
    "TIFF": ("1", "L", "RGB", "RGBA", "I;16", "F", "CMYK", "LAB"), "GIF": ("L", "P"), "WEBP": ("RGB", "RGBA"),
    "PPM": ("L", "RGB"), "ICO": ("RGBA",), "TGA": ("L", "RGB"),
}  # fmt: skip
sizes = st.tuples(st.integers(2, 12), st.integers(2, 12))


def pixels(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.uint8, shape)


def stored(image: Image.Image, kind: str, orientation: int = 1) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    damaged = orientation == 1 and kind in ("PNG", "WEBP")
    return encoded(image, kind, exif=b"Exif\0\0garbage" if damaged else exif, lossless=True)


@law(50)
@given(
    shown=sizes.flatmap(lambda size: st.one_of(pixels(size), pixels((*size, 3)))),
    kind=st.sampled_from(["PNG", "TIFF", "WEBP", "BMP"]),
    orientation=st.sampled_from([*STORED]),
    gray=st.booleans(),
    pad=st.booleans(),
)
def test_a_picture_has_the_pixels_that_were_drawn_upright(shown, kind, orientation, gray, pad):
    orientation = 1 if kind == "BMP" else orientation
    colored = shown if shown.ndim == 3 else np.stack([shown] * 3, -1)
    contents = stored(Image.fromarray(np.ascontiguousarray(STORED[orientation](shown))), kind, orientation)
    (pixels_,) = picture(contents, colors=3, where="")
    assert np.array_equal(pixels_.numpy().transpose(1, 2, 0), colored)
    if gray:
        (pixels_,) = picture(contents, colors=1, where="")
        assert np.array_equal(pixels_.numpy(), np.asarray(Image.fromarray(shown).convert("L")))
    size = min(shown.shape[:2])
    square = np.asarray(squared(Image.fromarray(colored), size, pad=pad))
    if shown.shape[0] == shown.shape[1]:
        assert np.array_equal(square, colored)
    assert np.array_equal(np.asarray(open_photo(contents, size, pad=pad)), square)
    about = {"kind": "image", "colors": 3, "height": size, "width": size, "pad": pad}
    (prepared,) = Photo.prepared([contents], about, where="")
    assert np.array_equal(prepared.numpy().transpose(1, 2, 0), square)


@st.composite
def any_pictures(draw) -> bytes:
    kind = draw(st.sampled_from([*MODES]))
    mode, gray = draw(st.sampled_from(MODES[kind])), draw(sizes.flatmap(pixels))
    image = Image.fromarray(gray)
    if mode == "LAB":
        image = Image.new("LAB", image.size, 7)
    elif image.mode != mode:
        image = (image if mode in ("I;16", "F", "LA") else image.convert("RGB")).convert(mode)
    return draw(damaged(stored(image, kind, draw(st.integers(0, 9)))))


@pytest.mark.filterwarnings("ignore")  # of Pillow, of damaged files
@law(40)
@given(contents=any_pictures(), colors=st.sampled_from([1, 3]), size=st.integers(1, 30))
def test_a_damaged_picture_is_taken_whole_or_refused_by_its_place(contents, colors, size):
    with refused_at("^photo 7: "):
        (pixels_,) = picture(contents, colors=colors, where="photo 7")
        assert (pixels_.dim(), str(pixels_.dtype)) == (2 if colors == 1 else 3, "torch.uint8")
    with refused_at("unusable image"):
        assert open_photo(contents, size).size == (size, size)

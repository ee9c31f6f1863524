"""Pictures of every format and mode, whole and damaged: as stages and requests read them."""

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from rankops.io.images import open_photo, picture
from tools.fuzz.attempt import WrongAnswer, refused
from tools.fuzz.mutation import changed_bytes

MODES = {"PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "JPEG": ("L", "RGB", "CMYK"),
         "BMP": ("1", "L", "P", "RGB"), "GIF": ("L", "P"),
         "TIFF": ("1", "L", "RGB", "RGBA", "I;16", "F", "CMYK", "LAB"), "WEBP": ("RGB", "RGBA"),
         "PPM": ("L", "RGB"), "ICO": ("RGBA",), "TGA": ("L", "RGB")}  # fmt: skip
EXACT = {("PNG", "L"), ("PNG", "RGB"), ("BMP", "L"), ("BMP", "RGB"), ("TIFF", "L"), ("TIFF", "RGB")}


def draw(random: np.random.Generator) -> dict[str, Any]:
    kind = list(MODES)[random.integers(len(MODES))]
    mode, side = MODES[kind][random.integers(len(MODES[kind]))], (int(one) for one in random.integers(1, 20, 2))
    pixels = Image.fromarray(random.integers(0, 256, (*side, 3), dtype=np.uint8))
    image = pixels.convert("L").convert(mode) if mode in ("I;16", "F", "LA") else pixels.convert("RGB")
    image = image if image.mode == mode else image.convert(mode) if mode != "LAB" else Image.new("LAB", image.size, 7)
    buffer = BytesIO()
    image.save(buffer, kind, **({"exif": _turned(random)} if kind in ("JPEG", "PNG", "WEBP") else {}))
    times = int(random.choice([0, 1, 1, 2, 5]))
    return {"contents": changed_bytes(buffer.getvalue(), random, times=times).hex(), "whole": times == 0, "kind": kind,
            "mode": mode, "colors": int(random.choice([1, 3])), "size": int(random.integers(1, 30))}  # fmt: skip


def _turned(random: np.random.Generator) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = int(random.integers(0, 10))
    return exif


def check(contents: str, whole: bool, kind: str, mode: str, colors: int, size: int) -> None:
    encoded = bytes.fromhex(contents)
    with refused(r"^photo 7: "):
        (shown,) = picture(encoded, colors=colors, where="photo 7")
        if shown.dim() != (2 if colors == 1 else 3) or str(shown.dtype) != "torch.uint8":
            raise WrongAnswer(f"a picture {tuple(shown.shape)} {shown.dtype}")
        if whole and (kind, mode) in EXACT and kind != "PNG":
            known = np.asarray(Image.open(BytesIO(encoded)).convert("L" if colors == 1 else "RGB"))
            if not np.array_equal(shown.numpy() if colors == 1 else shown.numpy().transpose(1, 2, 0), known):
                raise WrongAnswer("other pixels")
    with refused("not a whole image"):
        if open_photo(encoded, size).size != (size, size):
            raise WrongAnswer("another size")
    if whole and (kind, mode) in EXACT:
        picture(encoded, colors=colors, where="")

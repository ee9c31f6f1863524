"""Pictures, one per row: decoded, of one size, gray or RGB; requests are prepared in the same way as training data."""

from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from rankgrad.augmentation import warped
from rankgrad.inputs._base import AT_ONCE, About, Inputs, InputType, in_json

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Image", "StoredPicture", "of_tensor", "picture"]

SIDE = 2048  # most pixels per side of a model's input
PIXELS = 2**22  # most pixels in a network's batch; each needs hundreds of bytes
MOSTLY = 0.8  # fraction of cells
LAPLACE = torch.tensor([[[[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]]])


class StoredPicture(NamedTuple):
    """A picture in a user's Parquet file: the file, and the row from 0."""

    path: Path
    row: int


def of_tensor(images: Tensor) -> Inputs:
    """Return pictures (n, [colors,] height, width), uint8, as inputs."""
    images = images.unsqueeze(1) if images.dim() == 3 else images
    sizes = dict(zip(("colors", "height", "width"), map(int, images.shape[1:]), strict=True))
    return Inputs({"kind": "image", **sizes}, images)


class Image(InputType):
    """A picture."""

    name, backbones, cell = "image", ("image",), bytes
    piece, pictures, files = 64, True, True
    suffixes = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

    @classmethod
    def fits(cls, cells: list[Any]) -> bool:
        """Return whether cells are pictures in a Parquet file, or text that is mostly paths of pictures."""
        if isinstance(cells[0], StoredPicture):
            return True
        texts = [cell.lower() for cell in cells if isinstance(cell, str)]
        return bool(texts) and sum(text.endswith(cls.suffixes) for text in texts) > MOSTLY * len(texts)

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        from rankgrad.io.parquet import IMAGE

        return IMAGE

    @classmethod
    def read(cls, path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        from rankgrad.inputs._stored import read_pictures

        items, sizes, counts = read_pictures(path, cls.name, threads=threads, memory=memory)
        about = {"kind": cls.name, **sizes}
        return (Inputs(about, items, counts), None) if cls.sampled else (Inputs(about, items), counts)

    @classmethod
    def facts(cls, path: Path, *, lists: bool, threads: int) -> "pd.DataFrame":
        """Return for the photos of each row: files, number, a hash of the pixels, whether all decode, modes, sizes."""
        import pandas as pd

        from rankgrad.io.parquet import parquet_file

        rows: list[dict[str, Any]] = []
        with parquet_file(path) as file, ThreadPoolExecutor(threads) as pool:
            for batch in file.iter_batches(batch_size=cls.piece, columns=[cls.name]):
                cells = [cell if isinstance(cell, list) else [cell] for cell in batch.column(0).to_pylist()]
                rows += pool.map(_facts_of, cells)
        return pd.DataFrame(rows)

    @staticmethod
    def expected(*, size: int | None) -> dict[str, Any]:
        return {"photos": 1, "decodes": True, "mode": "RGB", "size": f"{size} x {size}"}

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[np.ndarray]:
        from rankgrad.io.parquet import decode_image, encoded_images

        return [
            decode_image(contents, where=f"{path}: row {row}")
            for row, contents in enumerate(encoded_images(column, path=path))
        ]

    @staticmethod
    def runtime(inputs: Inputs) -> dict[str, Any]:
        return {"colors": inputs.about["colors"]}

    @staticmethod
    def check(about: About) -> None:
        if (colors := about.get("colors")) not in (1, 3) or type(colors) is not int:
            raise ValueError(f"input.colors is {colors!r:.60}, expected 1 or 3")
        for name in ("height", "width"):
            if type(side := about.get(name)) is not int or not 1 <= side <= SIDE:
                raise ValueError(f"input.{name} is {side!r:.60}, expected 1 to {SIDE}")

    @staticmethod
    def at_once(inputs: Inputs) -> int:
        return max(1, min(AT_ONCE, PIXELS // (inputs.about["height"] * inputs.about["width"])))

    @staticmethod
    def moved(items: Tensor, generator: torch.Generator, **moves: Any) -> Tensor:
        """Return randomly moved pictures, see `rankgrad.augmentation.warped`."""
        return warped(items, generator, **moves)

    @staticmethod
    def checked(cell: Any, place: str) -> bytes:
        """Return the bytes of a picture; in JSON, it is base64."""
        from rankgrad.io.pictures import bytes_in, without_base64

        if isinstance(cell, bytes):
            return without_base64(cell)
        if not isinstance(cell, str):
            raise ValueError(f"{place} is {in_json(cell)}, expected an image in base64")
        try:
            return bytes_in(cell)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error

    @staticmethod
    def prepared(cells: list[bytes], about: About, *, where: str) -> Tensor:
        """Return pictures (n, colors, height, width), rotated upright and resized, gray or RGB as in training."""
        size, names = (about["width"], about["height"]), [where]
        if len(cells) > 1:
            names = [f"{where}, image {number}" for number in range(len(cells))]
        pictures = [
            picture(
                cell, colors=about["colors"], size=size, where=name, stored=about.get("stored"),
                whole=about.get("pad", False),
            )
            for cell, name in zip(cells, names, strict=True)
        ]  # fmt: skip
        images = torch.cat(pictures)
        return images.unsqueeze(1) if images.dim() == 3 else images

    @staticmethod
    def written(cell: bytes, about: About) -> Any:
        return f"data:;base64,{b64encode(cell).decode()}"

    @staticmethod
    def values(cell: Any, about: About) -> int:
        return about["height"] * about["width"]

    @staticmethod
    def example(about: About) -> Any:
        from PIL import Image as Pillow

        picture = BytesIO()
        Pillow.new("L", (about["width"], about["height"])).save(picture, "PNG")
        return picture.getvalue()

    @staticmethod
    def described(about: About) -> str:
        colors = "gray" if about["colors"] == 1 else "RGB"
        how = "padded to a square" if about.get("pad") else "cut to the middle"
        return (
            f"an image of any size: turned upright, {how} and resized to {about['width']} x "
            f"{about['height']} pixels, {colors}"
        )

    @staticmethod
    def quantities(items: Tensor, about: About) -> dict[str, float]:
        """Return means over images (n, colors, height, width), uint8; ink is the fraction of pixels above one half."""
        gray = items.float().mean(1, keepdim=True) / 255
        edges = conv2d(pad(gray, (1, 1, 1, 1), mode="replicate"), LAPLACE)
        values_of = {
            "brightness": gray.mean((1, 2, 3)),
            "contrast": gray.std((1, 2, 3), correction=0),
            "ink": (gray > 0.5).float().mean((1, 2, 3)),
            "sharpness": edges.std((1, 2, 3), correction=0),
        }
        return {name: values.mean().item() for name, values in values_of.items()}


def picture(
    encoded: bytes | None,
    *,
    colors: int,
    where: str,
    size: tuple[int, int] | None = None,
    stored: str | None = None,
    whole: bool = False,
) -> Tensor:
    """Return the pixels of one upright picture, gray (1, height, width) or RGB (1, 3, height, width), uint8.

    Args:
        encoded: the bytes of a picture.
        colors: 1 or 3.
        where: the beginning of the error message.
        size: width and height, see `rankgrad.io.pictures.open_photo`.
        stored: `JPEG` to encode and decode the picture as JPEG, as was done with training pictures.
        whole: keep the whole picture and add black bars, instead of cropping to the center.

    Raises:
        ValueError: see `rankgrad.io.pictures.open_photo`.
    """
    from PIL import Image as Pillow

    from rankgrad.io.pictures import as_jpeg, open_photo

    shown = open_photo(encoded, size, "L" if colors == 1 else "RGB", where=where, pad=whole)
    pixels = np.array(Pillow.open(BytesIO(as_jpeg(shown))) if stored == "JPEG" else shown)
    return torch.from_numpy(pixels if colors == 1 else pixels.transpose(2, 0, 1).copy()).unsqueeze(0)


def _facts_of(photos: list[dict[str, Any] | None]) -> dict[str, Any]:
    from PIL import Image as Pillow

    from rankgrad.io.pictures import BROKEN

    files, modes, sizes, decodes, pixels = {}, {}, {}, True, sha256()
    for photo in photos:
        photo = photo or {"bytes": None, "path": None}
        files[photo["path"] or ""] = None
        try:
            with Pillow.open(BytesIO(photo["bytes"] or b""), formats=["JPEG", "PNG"]) as image:
                image.load()
            modes[image.mode] = sizes[f"{image.width} x {image.height}"] = None
            pixels.update(image.tobytes())
        except BROKEN:
            decodes = False
    seen = {"file": files, "mode": modes, "size": sizes}
    facts = {name: ", ".join(values) for name, values in seen.items()}
    return facts | {"photos": len(photos), "decodes": decodes, "pixels": pixels.hexdigest()}

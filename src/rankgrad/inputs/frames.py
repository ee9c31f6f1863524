"""Frames of clips: a network sees a random frame of each clip in training, and all frames when it predicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.inputs import image
from rankgrad.inputs._base import About, Inputs, as_list
from rankgrad.inputs.image import PIXELS, Image

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Frames", "of_tensor"]


def of_tensor(frames: Tensor) -> Inputs:
    """Return frames of clips (n, frames, [colors,] height, width), uint8, as inputs."""
    pictures = image.of_tensor(frames.flatten(0, 1))
    counts = torch.full((len(frames),), frames.shape[1])
    return Inputs(pictures.about | {"kind": "frames"}, pictures.items, counts)


class Frames(Image):
    """A clip with any number of frames: one of them in each epoch, and the mean over all when predicting."""

    name, cell = "frames", list[bytes]
    piece, sampled, suffixes = 16, True, ()

    @classmethod
    def fits(cls, cells: list[Any]) -> bool:
        return False  # a column of paths is taken for images

    @staticmethod
    def from_table(columns: list[str], cells: Any) -> Any:
        return cells.files(columns)

    @staticmethod
    def stored(*, width: int | None = None, single: bool = False) -> "pa.DataType":
        import pyarrow as pa

        return pa.list_(Image.stored())

    @staticmethod
    def shown(column: "pa.ChunkedArray", *, path: Path, threads: int) -> list[np.ndarray]:
        """Return the first frame of each clip."""
        import pyarrow as pa

        first = pa.array([clip[0] for clip in column.to_pylist()], Image.stored())
        return Image.shown(pa.chunked_array([first]), path=path, threads=threads)

    @staticmethod
    def checked(cell: Any, place: str) -> list[bytes]:  # ty: ignore[incompatible-method-override]
        return [Image.checked(frame, f"{place} {number}") for number, frame in enumerate(as_list(cell, place))]

    @staticmethod
    def prepared(cells: list[Any], about: About, *, where: str) -> Tensor:
        """Return the frames of one clip."""
        frames = cells[0]
        if len(frames) * about["height"] * about["width"] > PIXELS:  # they go through the network together
            raise ValueError(f"{where}: the frames have more than {PIXELS:,} pixels in total; send fewer frames")
        if not len(frames):
            raise ValueError(f"{where}: no frames, expected at least one")
        pictures = [
            Image.prepared([frame], about, where=f"{where}, frame {number}") for number, frame in enumerate(frames)
        ]
        return torch.cat(pictures)

    @staticmethod
    def gathered(rows: list[Tensor], about: About) -> Inputs:
        return Inputs(about, torch.cat(rows), torch.tensor([len(frames) for frames in rows]))

    @staticmethod
    def written(cell: list[bytes], about: About) -> list[str]:  # ty: ignore[incompatible-method-override]
        return [Image.written(frame, about) for frame in cell]

    @staticmethod
    def values(cell: Any, about: About) -> int:
        return len(cell) * about["height"] * about["width"]

    @staticmethod
    def example(about: About) -> list[bytes]:
        return [Image.example(about)]

    @staticmethod
    def described(about: About) -> str:
        return Image.described(about).replace("an image", "the frames of a clip, each", 1)

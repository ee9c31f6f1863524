"""Frames of clips: a network sees a random one of each in training, and all of them when it predicts."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rankgrad.inputs._base import Inputs
from rankgrad.inputs._stored import read_pictures
from rankgrad.inputs.image import Image, check_lists
from rankgrad.io.pictures import PIXELS

__all__ = ["Frames", "of_tensor"]


def of_tensor(frames: Tensor) -> Inputs:
    """Return the frames (n, frames, [colors,] height, width) uint8 of clips as inputs."""
    counts, frames = torch.full((len(frames),), frames.shape[1]), frames.flatten(0, 1)
    frames = frames.unsqueeze(1) if frames.dim() == 3 else frames
    sizes = dict(zip(("colors", "height", "width"), map(int, frames.shape[1:]), strict=True))
    return Inputs({"kind": "frames", **sizes}, frames, counts)


class Frames(Image):
    """A clip of any number of frames: one of them in each epoch, the mean of what is said of all when predicting."""

    name, backbone, cell = "frames", "image", "images"

    @staticmethod
    def read(path: Path, *, lists: bool, threads: int, memory: float) -> tuple[Inputs, Tensor | None]:
        check_lists(path, "frames", lists=True)
        items, sizes, counts = read_pictures(path, "frames", threads=threads, memory=memory)
        return Inputs({"kind": "frames", **sizes}, items, counts), None

    @staticmethod
    def prepared(cells: list[Any], about: dict[str, Any], *, where: str) -> Tensor:
        """Return the frames of one clip."""
        frames = cells[0]
        if len(frames) * about["height"] * about["width"] > PIXELS:  # they go through the network together
            raise ValueError(f"{where}: frames of more than {PIXELS:,} pixels in all: send fewer")
        if not len(frames):
            raise ValueError(f"{where}: no frames, expected at least one")
        pictures = [
            Image.prepared([frame], about, where=f"{where}, frame {place}") for place, frame in enumerate(frames)
        ]
        return torch.cat(pictures)

    @staticmethod
    def gathered(rows: list[Tensor], about: dict[str, Any]) -> Inputs:
        return Inputs(about, torch.cat(rows), torch.tensor([len(frames) for frames in rows]))

    @staticmethod
    def values(cell: Any, about: dict[str, Any]) -> int:
        return len(cell) * about["height"] * about["width"]

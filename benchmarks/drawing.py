"""Batched drawing against a loop over digits with PIL, and the whole stage (PNG, Parquet) against drawing alone."""

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image

from benchmarks.results import write
from rankops.datasets.ranked_mnist import RankedMnist
from rankops.datasets.scenes.digits import SIDE, Digits, load
from rankops.datasets.scenes.drawing import draw

ROUNDS = 7
SCENE = {
    "rows": dict.fromkeys(("train", "val", "test", "gate"), 2),
    "digits_per_image": (3, 6),
    "scale": (1.0, 4.0),
    "overlap": 0.0,
    "seed": 0,
}


def by_pil(glyphs: np.ndarray, sizes: list, tops: list, lefts: list, canvas: int) -> np.ndarray:
    """The same pictures, digit by digit: real-valued sizes and places, antialiased, summed."""
    images = []
    for glyphs_, sizes_, tops_, lefts_ in zip(glyphs, sizes, tops, lefts, strict=True):
        image = np.zeros((canvas, canvas), np.uint16)
        for glyph, size, top, left in zip(glyphs_, sizes_, tops_, lefts_, strict=True):
            if size > 0:
                # The pixels that the box touches, and the part of the (padded) glyph that they show.
                first_row, first_column = math.floor(top), math.floor(left)
                rows, columns = math.ceil(top + size) - first_row, math.ceil(left + size) - first_column
                step, pad = SIDE / size, math.ceil(SIDE / size)
                x, y = pad + (first_column - left) * step, pad + (first_row - top) * step
                padded = Image.fromarray(np.pad(glyph, pad))
                box = (x, y, x + columns * step, y + rows * step)
                digit = padded.resize((columns, rows), Image.Resampling.BILINEAR, box=box)
                image[first_row : first_row + rows, first_column : first_column + columns] += np.asarray(digit)
        images.append(image.clip(0, 255).astype(np.uint8))
    return np.stack(images)


def by_pil_whole_pixels(glyphs: np.ndarray, sizes: list, tops: list, lefts: list, canvas: int) -> np.ndarray:
    """Less than asked for, and so faster: sizes and places cut to whole pixels, digits pasted."""
    images = []
    for glyphs_, sizes_, tops_, lefts_ in zip(glyphs, sizes, tops, lefts, strict=True):
        image = Image.new("L", (canvas, canvas))
        for glyph, size, top, left in zip(glyphs_, sizes_, tops_, lefts_, strict=True):
            if size > 0:
                digit = Image.fromarray(glyph).resize((round(size), round(size)), Image.Resampling.BILINEAR)
                image.paste(digit, (round(left), round(top)))
        images.append(np.asarray(image))
    return np.stack(images)


def seconds(function: Callable, *args: object, **options: object) -> float:
    start = time.perf_counter()
    function(*args, **options)
    return time.perf_counter() - start


def whole_stage(dataset: RankedMnist, digits: Digits, count: int) -> None:
    """Draw scenes and write them as the stage does."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pq.ParquetWriter(Path(folder) / "train.parquet", dataset.schema, compression="zstd") as writer,
    ):
        for part in dataset.tables(digits, "train", [count], threads=2):
            writer.write_table(part)


def main() -> None:
    torch.set_num_threads(2)
    digits = load("data/raw/subset", "train")
    figures = {}
    for canvas, count in ((64, 2000), (224, 500)):  # as many as the stage draws at once
        dataset = RankedMnist(canvas=canvas, **SCENE)
        recipe = dataset.draw(digits, range(count), torch.Generator().manual_seed(0))
        glyphs = digits.images[digits.rows_of(recipe["glyph"])]
        boxes = [recipe[name] for name in ("size", "top", "left")]
        lists = [values.tolist() for values in boxes]
        arrays = glyphs.numpy()
        loops = {"pil": by_pil, "pil_whole_pixels": by_pil_whole_pixels}
        times = {name: [] for name in ("product", "stage", *loops)}
        for _ in range(ROUNDS + 1):  # in turn, so that a slow moment of the machine hits all
            times["product"].append(seconds(draw, glyphs, *boxes, canvas=canvas))
            for name, loop in loops.items():
                times[name].append(seconds(loop, arrays, *lists, canvas))
            times["stage"].append(seconds(whole_stage, dataset, digits, count))
        product = np.array(times["product"][1:])
        figures[f"{canvas} px"] = {"images/s": count / float(np.median(product))}
        for name in loops:
            ratios = np.array(times[name][1:]) / product
            figures[f"{canvas} px"][f"{name}: times as fast"] = float(np.median(ratios))
            if name == "pil":
                figures[f"{canvas} px"] |= {"lowest": float(ratios.min()), "highest": float(ratios.max())}
        figures[f"{canvas} px"]["whole stage: times as long"] = float(np.median(np.array(times["stage"][1:]) / product))
        same = draw(glyphs, *boxes, canvas=canvas).numpy().astype(int)
        figures[f"{canvas} px"]["mean gray difference"] = float(abs(same - by_pil(arrays, *lists, canvas)).mean())
    write("drawing", figures)


if __name__ == "__main__":
    main()

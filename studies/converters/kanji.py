"""Kanji as pictures with their components ranked by size, from the strokes of KanjiVG."""

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from zipfile import ZipFile

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageDraw

from rankgrad.io.pictures import as_png
from rankgrad.ranks import dense_ranks
from studies.converters.packages import PackagedFile
from studies.converters.writing import block_of, convert, drawn_splits

FILE = PackagedFile(
    package="kanjivg",
    version="20260714",
    wheel="5190e7ec4eb513dbe6865b2ed52c58287fc10ea514b9409e4cf66ce7db41644d",
    origin="The data are KanjiVG by Ulrich Apel and others, CC BY-SA 3.0: name them where you show or pass on pictures",
)
SIZE = 64  # pixels per side
BLOCK = block_of(
    "kanji", size=SIZE, image="image", gray=True, label_ranks="rank_*", id="code", split="split", gate_share=0
)
MEMBER = re.compile(r"kanji/([0-9a-f]{5})\.svg")  # a code point; others are variants of these
ATTRIBUTE = "{http://kanjivg.tagaini.net}"
CANVAS, WIDTH = 109, 3  # side of a drawing and width of a stroke, in KanjiVG's units
LABELS = 2, 6  # smallest and largest number of labels of a kanji
LEAST = 100  # fewest kanji with a component
FINER = 4  # pictures are drawn this many times larger, then averaged
POINTS = {"M": 1, "C": 3, "S": 2}  # points of each path command
TIMES = np.linspace(0, 1, 9)[:, None]
BERNSTEIN = np.hstack([(1 - TIMES) ** 3, 3 * TIMES * (1 - TIMES) ** 2, 3 * TIMES**2 * (1 - TIMES), TIMES**3])


class Drawing(NamedTuple):
    """A kanji: the points (n, 2) of each stroke and of each component; if a component occurs twice, the larger one."""

    name: str
    strokes: list[np.ndarray]
    components: dict[str, list[np.ndarray]]


def drawings(raw: Path) -> tuple[list[Drawing], list[str]]:
    """Return the kanji with 2 to 6 labels, and the labels: components with two or more strokes that many kanji have."""
    every = []
    with ZipFile(raw / FILE.name) as archive:
        for name in archive.namelist():
            if member := MEMBER.fullmatch(name):
                every.append(_drawing(chr(int(member[1], 16)), archive.read(name)))
    counts = Counter(label for drawing in every for label in drawing.components)
    labels = sorted(label for label, count in counts.items() if count >= LEAST)
    few, many = LABELS
    return [drawing for drawing in every if few <= len(drawing.components.keys() & set(labels)) <= many], labels


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each kanji: a gray picture, and the rank of each component by the area of its bounding box."""
    kanji, labels = drawings(raw)
    areas = torch.zeros(len(kanji), len(labels), dtype=torch.float64)
    for row, drawing in enumerate(kanji):
        for column, label in enumerate(labels):
            if label in drawing.components:
                areas[row, column] = area_of(drawing.components[label])
    names = [drawing.name for drawing in kanji]
    ranks = pd.DataFrame(dense_ranks(areas).numpy(), columns=[f"rank_{label}" for label in labels])
    pictures = [as_png(Image.fromarray(draw(drawing.strokes, SIZE))) for drawing in kanji]
    codes = [f"{ord(name):05x}" for name in names]  # two characters may have the same normal form
    return ranks.assign(code=codes, image=pictures, split=drawn_splits(names, test=0.2, val=0.13))


def draw(strokes: list[np.ndarray], size: int) -> np.ndarray:
    """Draw strokes, points (n, 2) of KanjiVG's canvas, white on black: (size, size) uint8, antialiased."""
    scale = size * FINER / CANVAS
    image = Image.new("L", (size * FINER, size * FINER))
    pen, radius = ImageDraw.Draw(image), WIDTH * scale / 2
    for points in strokes:
        pen.line((points * scale).ravel().tolist(), fill=255, width=round(2 * radius), joint="curve")
        for end in points[[0, -1]] * scale:
            pen.ellipse([*(end - radius), *(end + radius)], fill=255)
    return np.asarray(image.reduce(FINER))


def area_of(strokes: list[np.ndarray]) -> float:
    """Return the area of the bounding box of strokes, with their width, in KanjiVG's units."""
    return float(np.prod(np.ptp(np.concatenate(strokes), axis=0) + WIDTH))


def _drawing(name: str, svg: bytes) -> Drawing:
    tree = ElementTree.fromstring(svg)
    strokes = {element: _points(element.attrib["d"]) for element in tree.iter("{http://www.w3.org/2000/svg}path")}
    named = [element for element in tree.iter() if f"{ATTRIBUTE}element" in element.attrib]
    groups: dict[Any, list[np.ndarray]] = defaultdict(list)
    for index, group in enumerate(named[1:]):  # the first is the whole kanji
        label, piece, number = (group.get(f"{ATTRIBUTE}{key}") for key in ("element", "part", "number"))
        # Other strokes may split a component into pieces; join them.
        groups[label, number if piece else index] += [strokes[child] for child in group.iter() if child in strokes]
    components: dict[str, list[np.ndarray]] = {}
    for (label, _), lines in groups.items():
        if len(lines) > 1 and label != name:
            components[label] = max(lines, components.get(label, lines), key=area_of)
    return Drawing(name, list(strokes.values()), components)


def _points(path: str) -> np.ndarray:
    """Return points (n, 2) along a path of moves and cubic Bézier curves."""
    points, end, control = [], np.zeros(2), np.zeros(2)
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = np.array(re.findall(r"-?\d*\.?\d+", numbers), float)
        for corners in values.reshape(-1, POINTS[command.upper()], 2):
            corners = corners + end * command.islower()
            if command in "Ss":  # continues in the direction of the last curve
                corners = np.vstack([2 * end - control, corners])
            points.append(BERNSTEIN @ np.vstack([end, corners]) if command not in "Mm" else corners)
            control, end = corners[-2:][0], corners[-1]
    return np.concatenate(points)


if __name__ == "__main__":
    convert(table, BLOCK, FILE)

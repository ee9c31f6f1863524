"""Kanji as pictures with their components ranked by size, from the strokes of KanjiVG."""

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from PIL import Image, ImageDraw

from rankgrad.datasets.files.expected import between, in_set, unique
from rankgrad.datasets.public.packages import PackagedFile
from rankgrad.datasets.public.reading import (
    DrawnSplits,
    Reading,
    require,
    row_facts,
    rows_expected,
    with_classes,
)
from rankgrad.io.parquet import IMAGE, as_fixed_lists, decode_images, encode_images, matrix, read_table
from rankgrad.ranks import dense_ranks

__all__ = ["FILE", "Drawing", "Kanji", "area_of", "draw"]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("image", IMAGE), ("label_ranks", pa.list_(pa.int64()))]
)  # of any classes
FILE = PackagedFile(
    package="kanjivg",
    version="20260714",
    wheel="5190e7ec4eb513dbe6865b2ed52c58287fc10ea514b9409e4cf66ce7db41644d",
    origin="The data are KanjiVG by Ulrich Apel and others, CC BY-SA 3.0: name them where you show or pass on pictures",
)
MEMBER = re.compile(r"kanji/([0-9a-f]{5})\.svg")  # a code point; others are variants of these
ATTRIBUTE = "{http://kanjivg.tagaini.net}"
CANVAS, WIDTH = 109, 3  # side of a drawing and width of a stroke, in KanjiVG's units
LABELS = 2, 6  # of a kanji, at least and at most
FINER = 4  # pictures are drawn so many times larger, then averaged
POINTS = {"M": 1, "C": 3, "S": 2}  # of each command of a path
TIMES = np.linspace(0, 1, 9)[:, None]
BERNSTEIN = np.hstack([(1 - TIMES) ** 3, 3 * TIMES * (1 - TIMES) ** 2, 3 * TIMES**2 * (1 - TIMES), TIMES**3])


class Drawing(NamedTuple):
    """A kanji: points (n, 2) of each stroke, and those of each component; where one is there twice, of the larger."""

    name: str
    strokes: list[np.ndarray]
    components: dict[str, list[np.ndarray]]


@dataclass(frozen=True, kw_only=True)
class Kanji(DrawnSplits):
    """Gray pictures of kanji with `label_ranks` of frequent components (0 = absent, larger = more important).

    Labels are the components of two strokes or more that at least `least` kanji have. The larger a component's bounding
    box is, the more important it is. Kanji with 2 to 6 labels are used, and split by a hash of `seed` and
    the character.

    Attributes:
        least: number of kanji that have a component.
    """

    least: int = 100
    val_share: float = 0.13

    layout: ClassVar[str] = f"""\
kanji/
  {FILE.name}   `rankgrad fetch kanji` downloads it
"""
    schema: ClassVar[pa.Schema] = SCHEMA

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ValueError(f"least is {self.least}, expected at least 1")
        super().__post_init__()

    def schema_of(self, raw: Path) -> pa.Schema:
        return with_classes(SCHEMA, self.read(raw)[1])

    def check(self, raw: str | Path) -> None:
        self.read(Path(raw))

    def read(self, raw: Path) -> tuple[list[Drawing], list[str]]:
        """Return the kanji that are used, and the labels.

        Raises:
            FileNotFoundError: no such file.
            ValueError: it is damaged, a drawing is none, or no kanji has two labels.
        """
        path = require(raw / FILE.name, self.layout)
        try:
            with ZipFile(path) as archive:
                texts = {found: archive.read(found[0]) for found in map(MEMBER.fullmatch, archive.namelist()) if found}
        except (BadZipFile, OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a whole wheel ({error}); get it again") from error
        drawings = []
        for found, text in texts.items():
            try:
                drawings.append(_drawing(chr(int(found[1], 16)), text))
            except (ElementTree.ParseError, KeyError, ValueError) as error:
                raise ValueError(
                    f"{path}: {found[0]}: not a drawing of strokes ({error}); get the file again"
                ) from error
        counts = Counter(label for drawing in drawings for label in drawing.components)
        labels = sorted(label for label, count in counts.items() if count >= self.least)
        used = [one for one in drawings if LABELS[0] <= len(one.components.keys() & set(labels)) <= LABELS[1]]
        if not used:
            raise ValueError(
                f"{path}: none of {len(drawings)} kanji has {LABELS[0]} to {LABELS[1]} of the {len(labels)} components "
                f"that are in at least {self.least} kanji: get the file again, or choose a smaller `least`"
            )
        return used, labels

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        size = reading.size
        assert size is not None  # as the params are checked
        drawings, labels = self.read(Path(raw))
        splits = self.drawn([one.name for one in drawings], seed=reading.seed)
        chosen = [one for one, where in zip(drawings, splits, strict=True) if split in (where, "all")]
        if not chosen:
            raise ValueError(f"{raw}: no kanji of {split} among {len(drawings)}; choose a larger share")
        areas = [
            [area_of(one.components[label]) if label in one.components else 0.0 for label in labels] for one in chosen
        ]
        columns = {
            "id": range(len(chosen)),
            "name": [one.name for one in chosen],
            "image": encode_images(np.stack([draw(one.strokes, size) for one in chosen]), threads=reading.threads),
            "label_ranks": as_fixed_lists(dense_ranks(torch.tensor(areas, dtype=torch.float64))),
        }
        yield pa.table(columns, schema=with_classes(SCHEMA, labels))

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        path = Path(folder) / f"{split}.parquet"
        read = read_table(path, SCHEMA.names)
        images = decode_images(read["image"], path=path, threads=threads)
        ranks = matrix(read, "label_ranks", path=path)
        facts = row_facts(split, read) | {
            "size": " x ".join(map(str, images.shape[:0:-1])),
            "brightest": images.max((1, 2)),
            "pixels": [sha256(image.tobytes()).hexdigest() for image in images],
            "labels": (ranks != 0).sum(1).numpy(),
            "ranks_are_1_upwards": (dense_ranks(ranks) == ranks).all(1).numpy(),
        }
        return {"rows": pd.DataFrame(facts).set_index(["split", "id"])}

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "rows": [
                *rows_expected(rows),
                unique("name"),  # a kanji in two splits would be tested on what it was trained on
                in_set("same_picture_as", ""),
                in_set("size", f"{size} x {size}"),
                between("brightest", 128),  # something is drawn
                between("labels", *LABELS),
                in_set("ranks_are_1_upwards", True),
            ]
        }


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
    found: dict[Any, list[np.ndarray]] = defaultdict(list)
    for place, group in enumerate(named[1:]):  # the first is all of it
        label, part, number = (group.get(f"{ATTRIBUTE}{key}") for key in ("element", "part", "number"))
        # Strokes between those of a component split it into parts, which belong together.
        found[label, number if part else place] += [strokes[one] for one in group.iter() if one in strokes]
    components: dict[str, list[np.ndarray]] = {}
    for (label, _), several in found.items():
        if len(several) > 1 and label != name:
            components[label] = max(several, components.get(label, several), key=area_of)
    return Drawing(name, list(strokes.values()), components)


def _points(path: str) -> np.ndarray:
    """Return points (n, 2) along a path of moves and cubic Bézier curves."""
    points, end, control = [], np.zeros(2), np.zeros(2)
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = np.array(re.findall(r"-?\d*\.?\d+", numbers), float)
        for given in values.reshape(-1, POINTS[command.upper()], 2):
            given = given + end * command.islower()
            if command in "Ss":  # goes on in the direction of the last curve
                given = np.vstack([2 * end - control, given])
            points.append(BERNSTEIN @ np.vstack([end, given]) if command not in "Mm" else given)
            control, end = given[-2:][0], given[-1]
    return np.concatenate(points)

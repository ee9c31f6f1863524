"""Shared code of all datasets of scenes: options and their checks, tables in pieces, facts, and expectations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.files.expected import Expectations, between, in_set, joined, rows_of, unique
from rankgrad.datasets.scenes import drawing, layout, measures
from rankgrad.datasets.scenes.digits import CLASSES, DIGITS_OF, Digits, read
from rankgrad.inputs import InputType
from rankgrad.inputs.frames import Frames
from rankgrad.inputs.image import Image
from rankgrad.io.parquet import as_fixed_lists, encode_images, matrix, read_table
from rankgrad.seeding import generator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipe", "Scenes", "schema_of"]

BOX = ("size", "top", "left", "glyph")  # columns of a box
# The columns of a dataset's table, without `id` and images, one row per scene: tensors (n,) or (n, 10), or lists.
Recipe = dict[str, Any]


def schema_of(columns: dict[str, pa.DataType], *, frames: int | None = None) -> pa.Schema:
    """Return the schema of a dataset's table: `id`, the image or frames, then these columns."""
    images = (Image.name, Image.stored()) if frames is None else (Frames.name, pa.list_(Image.stored(), frames))
    return pa.schema([("id", pa.int64()), images, *columns.items()])


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """Scenes of digits on a canvas. Each dataset is a subclass in its own file; its fields are its options.

    A subclass has `schema` and `draw`, and extends `pictures`, `recipe_facts`, `expected`, and `__post_init__` (which
    checks options) if needed.

    Attributes:
        rows: the number of rows of each split.
        canvas: pixels per side.
        digits_per_image: the smallest and the largest number.
        scale: smallest and largest; a digit of scale s has s * canvas / 8 pixels per side (28 s at the paper's 224).
        overlap: the largest fraction of the smaller box that two boxes may share.
        seed: for all random draws.
    """

    rows: dict[str, int]
    canvas: int
    digits_per_image: tuple[int, int]
    scale: tuple[float, float]
    overlap: float
    seed: int

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # the check of the params refuses unknown options
    schema: ClassVar[pa.Schema]
    input_type: ClassVar[type[InputType]] = Image
    foldable: ClassVar[bool] = False
    splits: ClassVar[tuple[str, ...]] = tuple(DIGITS_OF)
    frames: ClassVar[int] = 1
    family: ClassVar[int] = 1  # number of scenes that belong together, such as twins
    piece: ClassVar[int] = 2000  # most scenes to draw at once
    boxes: ClassVar[dict[str, tuple[str, str]]] = {"digits": ("label", "")}  # what numbers them; prefix of columns

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is invalid; the message begins with its name.
        """
        (few, many), (small, large) = self.digits_per_image, self.scale
        if set(self.rows) != set(DIGITS_OF):
            raise ValueError(f"rows is of {', '.join(self.rows)}, expected the splits {', '.join(DIGITS_OF)}")
        for split, rows in self.rows.items():
            if rows < 2:
                raise ValueError(f"rows.{split} is {rows}, expected at least 2")
        if self.canvas < 16:
            raise ValueError(f"canvas is {self.canvas}, expected at least 16 pixels")
        if not 1 <= few <= many <= CLASSES:
            raise ValueError(f"digits_per_image is {few} to {many}, expected the smaller first, from 1 to {CLASSES}")
        if not 0 < small <= large <= 8:
            raise ValueError(
                f"scale is {small} to {large}, expected the smaller first, above 0 and up to 8: a digit of scale 8 "
                "fills the canvas"
            )
        if self.canvas / 8 * small < 2:
            raise ValueError(
                f"scale is {small} to {large}: on a canvas of {self.canvas} px, a digit of scale {small} has "
                f"{self.canvas / 8 * small:g} px, expected at least 2: set a larger scale or canvas"
            )
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap is {self.overlap}, expected a fraction from 0 to 1")
        if self.overlap == 0 and few * (small / 8) ** 2 > 1:
            raise ValueError(
                f"digits_per_image is {few} to {many}: {few} digits of scale {small} cover "
                f"{few * (small / 8) ** 2:.0%} of the canvas; set fewer or smaller digits, or some overlap"
            )

    # Methods that datasets implement or extend.

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        """Draw the recipes of scenes.

        Args:
            digits: the digits of the split.
            numbers: the numbers of the rows.
            generator: source of all draws.

        Raises:
            ValueError: a class has no digit, or scenes with these options cannot be drawn.
        """
        raise NotImplementedError

    def pictures(self, recipe: Recipe, digits: Digits) -> Tensor:
        """Return the images (n, [frames,] canvas, canvas) uint8 of recipes.

        A glyph that is not among `digits` is drawn as another glyph; validation reports it.
        """
        size, top, left, glyph = self.places(recipe)
        return drawing.draw(digits.images[digits.rows_of(glyph)], size, top, left, canvas=self.canvas)

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        """Return further facts to check, one row per scene."""
        return {}

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        """Return the expectations for scenes and for boxes, see `rankgrad.datasets.files.expected`.

        Args:
            rows: the number of rows of each split, over all deliveries.
            size: size of photos; generated scenes have their canvas instead.
        """
        small, large = (self.canvas / 8 * scale for scale in self.scale)
        scenes = [
            *rows_of(rows),
            unique("pixels"),
            in_set("side", self.canvas),
            between("digits", *self.digits_per_image),
            between("difference_from_recipe", high=1),  # rounding may differ by a gray level between processors
            between("overlap", high=self.overlap + 1e-4),
        ]
        boxes = [
            in_set("glyph_is_of_this_split", True),
            in_set("inside_canvas", True),
            between("size", small * (1 - 1e-6), large * (1 + 1e-6)),
            between("ink_in_box", self.least_ink),
        ]
        expected = {"scenes": scenes} | {name: list(boxes) for name in self.boxes}
        expected["digits"].append(in_set("glyph_has_this_label", True))
        return expected

    @property
    def least_ink(self) -> float:
        """The smallest mean gray level of a box."""
        return 1.0

    # Methods that stages call.

    def opened(self, raw: str | Path, reading: Reading) -> "SceneRows":
        return SceneRows(self, Path(raw), reading)

    @property
    def name(self) -> str:
        """The name of the dataset's file, which the params use."""
        return type(self).__module__.rpartition(".")[2]

    def tables(self, digits: Digits, split: str, counts: list[int], *, threads: int) -> Iterator[pa.Table]:
        """Draw a split in pieces, so that memory does not grow with the number of scenes.

        Args:
            digits: the digits of the split.
            split: the name of the split.
            counts: rows of each delivery; each has its own draws, and follows the earlier ones.
            threads: number of threads for encoding images.

        Raises:
            ValueError: see `draw`.
        """
        first = 0
        for delivery, count in enumerate(counts, 1):
            draws = generator(self.seed, self.name, split, *([f"snapshot {delivery}"] if delivery > 1 else []))
            for start, rows in self._pieces(count):
                numbers = range(first + start, first + start + rows)
                recipe = self.draw(digits, numbers, draws)
                pixels = self.pictures(recipe, digits).view(-1, self.canvas, self.canvas)
                images = encode_images(pixels.numpy(), threads=threads)
                if self.frames > 1:
                    images = pa.FixedSizeListArray.from_arrays(images, self.frames)
                columns = [_column(recipe[field.name], field.type) for field in list(self.schema)[2:]]
                yield pa.table([pa.array(numbers, pa.int64()), images, *columns], schema=self.schema)
            first += count

    def facts(
        self, folder: str | Path, splits: Sequence[str], *, raw: str | Path, threads: int
    ) -> "dict[str, pd.DataFrame]":
        """Return the facts that expectations check; every scene is drawn again from its recipe.

        Args:
            folder: folder of the stored splits.
            splits: the splits to check.
            raw: folder of the digits.
            threads: number of threads for decoding images.

        Returns:
            A table with one row per scene, and for each type of `boxes` a table with one row per box.

        Raises:
            FileNotFoundError, ValueError: a file is missing or corrupt, or an image is.
        """
        digits = read(raw)
        return joined([self._facts_of(Path(folder), split, digits[DIGITS_OF[split]], threads) for split in splits])

    def _facts_of(self, folder: Path, split: str, digits: Digits, threads: int) -> "dict[str, pd.DataFrame]":
        path = folder / f"{split}.parquet"
        fields = list(self.schema)[2:]
        stored = read_table(path, ["id", *(field.name for field in fields)])
        inputs, _ = self.input_type.read(path, lists=False, threads=threads, memory=math.inf)
        shape = () if self.frames == 1 else (self.frames,)
        images, ids = inputs.items.view(len(stored), *shape, *inputs.items.shape[2:]), stored["id"].to_numpy()
        recipe = {field.name: _values(stored, field, path) for field in fields}
        scenes = {
            "side": np.full(len(ids), images.shape[-1]),
            "pixels": measures.hashes(images),
            "difference_from_recipe": self._differences(recipe, digits, images),
            "digits": (recipe["size"] > 0).sum(1).numpy(),
            "overlap": measures.largest_overlap(*self.places(recipe)[:3]).numpy(),
        }
        tables = {"scenes": _indexed(scenes | self.recipe_facts(recipe, split), split=split, id=ids)}
        still = images if self.frames == 1 else images[:, self.frames // 2]
        for name, (number, prefix) in self.boxes.items():
            row, slot, columns = measures.box_facts(still, digits, [recipe[prefix + column] for column in BOX])
            if name == "digits":
                columns["glyph_has_this_label"] = columns["glyph_class"] == slot.numpy()
            tables[name] = _indexed(columns, split=split, id=ids[row.numpy()], **{number: slot.numpy()})
        return tables

    def places(self, recipe: Recipe) -> tuple[Tensor, ...]:
        """Return sizes, tops, lefts, and glyphs of all boxes, with the (n, 10) columns of each type concatenated."""
        prefixes = [prefix for _, prefix in self.boxes.values()]
        columns = []
        for name in BOX:
            columns.append(torch.cat([recipe[prefix + name] for prefix in prefixes], dim=1))
        return tuple(columns)

    def images(self, recipe: Recipe, digits: Digits) -> Tensor:
        """Return the images of any number of recipes, see `pictures`."""
        return torch.cat(list(self._drawn(recipe, digits)))

    def _drawn(self, recipe: Recipe, digits: Digits) -> Iterator[Tensor]:
        """Draw in pieces, since glyphs need much more memory than images."""
        for start, rows in self._pieces(len(recipe["size"])):
            yield self.pictures({name: values[start : start + rows] for name, values in recipe.items()}, digits)

    def _pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        return layout.pieces(rows, pixels=self.frames * self.canvas**2, most=self.piece, multiple_of=self.family)

    def _differences(self, recipe: Recipe, digits: Digits, images: Tensor) -> np.ndarray:
        """Return the largest difference in gray levels between each scene and its recipe."""
        if images.shape[-1] != self.canvas:
            return np.full(len(images), 255)
        result, start = [], 0
        for drawn in self._drawn(recipe, digits):
            stored = images[start : start + len(drawn)]
            result.append((drawn.short() - stored.short()).abs().flatten(1).amax(1))
            start += len(drawn)
        return torch.cat(result).numpy()


class SceneRows:
    """The rows of scenes, see `rankgrad.datasets.files.dataset.Source`."""

    def __init__(self, scenes: Scenes, raw: Path, reading: Reading):
        self.scenes, self.digits, self.threads = scenes, read(raw), reading.threads
        new = 2 * max(1, round(scenes.rows["train"] * reading.growth / 2))  # even, since captions come in twins
        self.counts = {split: [rows] for split, rows in scenes.rows.items()}  # by delivery
        self.counts["train"] += [new] * (reading.snapshot - 1)
        self.total = sum(map(sum, self.counts.values()))

    def rows(self, split: str) -> Iterator[pa.Table]:
        return self.scenes.tables(self.digits[DIGITS_OF[split]], split, self.counts[split], threads=self.threads)

    def manifest(self) -> dict[str, Any]:
        return {}

    def collection(self, splits: Sequence[Path]) -> pa.Table | None:
        return None


def _indexed(columns: dict[str, Any], **index: Any) -> "pd.DataFrame":
    import pandas as pd  # takes half a second to import; only validation needs it

    table = pd.DataFrame(index | columns)
    return table.set_index(list(index))


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):
        return pa.array(values, kind)
    return as_fixed_lists(values) if values.dim() == 2 else pa.array(values.numpy(), kind)


def _values(read: pa.Table, field: pa.Field, path: Path) -> Any:
    """Convert a stored column to the form that `draw` returns."""
    if not pa.types.is_fixed_size_list(field.type):
        return torch.from_numpy(read[field.name].to_numpy().astype(field.type.to_pandas_dtype()))
    if pa.types.is_string(field.type.value_type):
        return read[field.name].to_pylist()
    return matrix(read, field.name, path=path, length=field.type.list_size)

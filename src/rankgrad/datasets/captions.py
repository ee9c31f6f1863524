"""Captions: pairs of scenes of digits that differ only in the order of two digits, with five true sentences each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, in_set
from rankgrad.datasets.ranked_mnist import RECIPE, RankedMnist
from rankgrad.datasets.scenes.base import Recipe, schema_of
from rankgrad.datasets.scenes.digits import CLASSES, Digits

__all__ = ["Captions", "CAPTIONS", "SCHEMA", "sentences"]  # noqa: RUF022 - the dataset comes first

CAPTIONS = 5  # as many as COCO has per image
FAMILY = 2
ROUNDS = 1000
# Captions name only visible differences: a digit is larger if its side is at least a fifth longer, and lies in a
# direction if it is an eighth of the canvas away, and 1.5 times as far as in the other direction.
LARGER = 1.2
APART = 1 / 8
STEEP = 1.5
# How often a caption has an adjective for a large or small digit, and how often it mentions a third digit. Longer
# captions are true of fewer scenes of other families; some captions are short, as people's are.
ADJECTIVE = 0.5
THIRD = 0.75

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PLACES = ("above", "below", "left", "right")
SIZES = ("larger", "smaller")
WORDS = {
    "above": ("above", "over", "higher than"),
    "below": ("below", "under", "lower than"),
    "left": ("left of", "to the left of"),
    "right": ("right of", "to the right of"),
    "larger": ("larger than", "bigger than"),
    "smaller": ("smaller than", "not as big as"),
    "large": ("large", "big"),
    "small": ("small", "little"),
}

SCHEMA = schema_of({"captions": pa.list_(pa.string(), CAPTIONS), "family": pa.int64(), **RECIPE})


@dataclass(frozen=True, kw_only=True)
class Captions(RankedMnist):
    """Ranked MNIST scenes in pairs of twins, rows 2k and 2k + 1, in which two digits swap positions and sizes.

    Twins share classes, glyphs, sizes, and positions, and differ only in which of the two digits has which size and
    position. The number of digits is uniform.
    """

    schema: ClassVar[pa.Schema] = SCHEMA
    family: ClassVar[int] = FAMILY

    def __post_init__(self) -> None:
        super().__post_init__()
        few, many = self.digits_per_image
        if few < 2:
            raise ValueError(f"digits_per_image is {few} to {many}, expected 2 or more, since captions compare digits")
        for split, rows in self.rows.items():
            if rows % FAMILY:
                raise ValueError(
                    f"rows.{split} is {rows}, expected a multiple of {FAMILY}, since scenes come in pairs of twins"
                )

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        recipe = self._in_twos(digits, len(numbers) // FAMILY, generator)
        return recipe | {
            "captions": sentences(recipe, canvas=self.canvas, generator=generator),
            "family": torch.tensor(numbers) // FAMILY,
        }

    def _in_twos(self, digits: Digits, families: int, generator: torch.Generator) -> Recipe:
        """Draw scenes until each has two digits that differ clearly in size and position, and swap two such digits."""
        few, many = self.digits_per_image
        counts = torch.randint(few, many + 1, (families,), generator=generator)
        first: Recipe = {}
        exchanged = torch.zeros(families, 2, dtype=torch.int64)
        # Draw each number of digits separately: scenes with more digits have a clear pair more often, and would
        # otherwise become too frequent.
        for count in range(few, many + 1):
            pending = (counts == count).nonzero().flatten()
            for _ in range(ROUNDS):
                if not len(pending):
                    break
                drawn = self.recipes(digits, len(pending), (count, count), generator)
                relation, by_size, _ = _clear(drawn, self.canvas)
                clear = ((relation >= 0) & (by_size >= 0)).triu(1).flatten(1)
                good = clear.any(1)
                done = pending[good]
                for name, values in drawn.items():
                    first.setdefault(name, values.new_zeros(families, CLASSES))[done] = values[good]
                if len(done):
                    chosen = torch.multinomial(clear[good].float(), 1, generator=generator).squeeze(1)
                    exchanged[done] = torch.stack([chosen // CLASSES, chosen % CLASSES], dim=1)
                pending = pending[~good]
            if len(pending):
                raise ValueError(
                    f"scale is {self.scale[0]} to {self.scale[1]}: in {len(pending)} scenes of {count} digits, no two "
                    f"differ clearly in size and position after {ROUNDS} draws; set scales further apart, or smaller"
                )
        order = torch.arange(CLASSES).repeat(families, 1).scatter(1, exchanged, exchanged.flip(1))
        twins = {name: values if name == "glyph" else values.gather(1, order) for name, values in first.items()}
        return {name: torch.stack([first[name], twins[name]], dim=1).flatten(0, 1) for name in first}

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        """Return facts about recipes; tests check that captions are true, and false for the twin."""
        rows = torch.arange(len(recipe["family"]))
        twin = (rows ^ 1).clamp(max=len(rows) - 1)
        boxes = torch.stack([recipe[name] for name in ("size", "top", "left")], dim=2)  # (n, 10, 3)
        moved = (boxes != boxes[twin]).any(2)
        first, second = moved.int().argmax(1), CLASSES - 1 - moved.flip(1).int().argmax(1)
        exchanged = (moved.sum(1) == 2) & (boxes[rows, first] == boxes[twin, second]).all(1)
        exchanged &= (boxes[rows, second] == boxes[twin, first]).all(1)
        return super().recipe_facts(recipe, split) | {
            "twins_stand_together": (recipe["family"] == rows // FAMILY).numpy(),
            "two_digits_are_exchanged": exchanged.numpy(),
            "twin_has_the_same_glyphs": (recipe["glyph"] == recipe["glyph"][twin]).all(1).numpy(),
            "different_captions": [len(set(captions)) for captions in recipe["captions"]],
            "captions_name_its_digits": [*map(_name_digits, recipe["captions"], recipe["glyph"].tolist())],
        }

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        expected = super().expected(rows)
        expected["scenes"] += [
            in_set("twins_stand_together", True),
            in_set("two_digits_are_exchanged", True),
            in_set("twin_has_the_same_glyphs", True),
            in_set("different_captions", CAPTIONS),
            in_set("captions_name_its_digits", True),
        ]
        return expected


def _name_digits(captions: list[str | None], glyphs: list[int]) -> bool:
    """Return whether each caption of a scene names at least two digits, and only digits of the scene."""
    present = {word for word, glyph in zip(NUMBERS, glyphs, strict=True) if glyph >= 0}
    for caption in captions:
        named = [word for word in (caption or "").split() if word in NUMBERS]
        if len(named) < 2 or not present.issuperset(named):
            return False
    return True


def _clear(recipe: Recipe, canvas: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the clear relations in each scene as indices; -1 means none.

    Returns:
        The index in PLACES of where digit i is relative to j (n, 10, 10), the index in SIZES of its relative size
        (n, 10, 10), and whether it is large (0) or small (1) compared with the other digits (n, 10).
    """
    size, top, left = (recipe[name].double() for name in ("size", "top", "left"))
    present = size > 0
    pairs = present.unsqueeze(2) & present.unsqueeze(1)
    centers = torch.stack([top + size / 2, left + size / 2])
    away = centers.unsqueeze(2) - centers.unsqueeze(3)  # how far j lies below, and to the right of, i
    far = away.abs()
    clear = (far >= APART * canvas) & (far >= STEEP * far.flip(0)) & pairs
    relation = torch.where(clear[0], 0 + (away[0] < 0).long(), torch.where(clear[1], 2 + (away[1] < 0).long(), -1))
    larger = (size.unsqueeze(2) >= LARGER * size.unsqueeze(1)) & pairs
    by_size = torch.where(larger, 0, torch.where(larger.mT, 1, -1))
    mean_of_others = (size.sum(1, keepdim=True) - size) / (present.sum(1, keepdim=True) - 1)
    adjective = torch.where(size >= LARGER * mean_of_others, 0, torch.where(size * LARGER <= mean_of_others, 1, -1))
    return relation, by_size, torch.where(present, adjective, -1)


def _uniform(generator: torch.Generator) -> Iterator[float]:
    while True:
        yield from torch.rand(4096, generator=generator).tolist()


class _Scene:
    """The relations that captions of a scene may state, and random draws to choose the words.

    Args:
        place, by_size, adjective: results of `_clear` for the scene, as nested lists.
        draws: random numbers from `_uniform`.
    """

    def __init__(self, place: list[list[int]], by_size: list[list[int]], adjective: list[int], draws: Iterator[float]):
        self.relations = {}
        for digit in range(CLASSES):
            for other in range(CLASSES):
                relations = []
                if place[digit][other] >= 0:
                    relations.append(PLACES[place[digit][other]])
                if by_size[digit][other] >= 0:
                    relations.append(SIZES[by_size[digit][other]])
                if relations:
                    self.relations[digit, other] = relations
        self.adjective = adjective
        self.draws = draws

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[int(next(self.draws) * len(options))]

    def word(self, what: str) -> str:
        return self.one_of(WORDS[what])

    def noun(self, digit: int, article: str = "a", *, adjective: bool = True) -> str:
        """Return a digit in words, such as `a three` or `the big three`."""
        name = NUMBERS[digit]
        if adjective and self.adjective[digit] >= 0 and next(self.draws) < ADJECTIVE:
            name = f"{self.word(('large', 'small')[self.adjective[digit]])} {name}"
        return f"{article}n {name}" if article == "a" and name == "eight" else f"{article} {name}"

    def sentence(self, digit: int, other: int) -> str:
        """Return a sentence about two digits that have a relation, and often about a third."""
        relation = self.one_of(self.relations[digit, other])
        if relation in PLACES:
            result = self._of_place(digit, relation, other)
        else:
            # An adjective such as `big` would already answer the comparison.
            subject, introduced = (self.noun(digit, article, adjective=False) for article in ("the", "a"))
            ending = f"{self.word(relation)} {self.noun(other, 'the', adjective=False)}"
            result = self.one_of([f"{subject} is {ending}", f"there is {introduced} and it is {ending}"])
        pair = (digit, other)
        thirds = [(third, of) for third, of in self.relations if third not in pair and of in pair]
        if thirds and next(self.draws) < THIRD:
            third, of = self.one_of(thirds)
            relation = self.one_of(self.relations[third, of])
            result += f" and {self.noun(third)} {self.word(relation)} the {NUMBERS[of]}"
        return result

    def _of_place(self, digit: int, relation: str, other: int) -> str:
        preposition = self.word(relation)
        size = [name for name in self.relations[digit, other] if name in SIZES]
        form = self.one_of(range(6 if size else 5))
        if form == 5:
            subject, object_ = (self.noun(number, "the", adjective=False) for number in (digit, other))
            return f"{subject} {preposition} {object_} is {self.word(size[0])} it"
        subject, object_ = (self.noun(number, "the" if form == 2 else "a") for number in (digit, other))
        return (
            f"{subject} {preposition} {object_}",
            f"there is {subject} {preposition} {object_}",
            f"{subject} is {preposition} {object_}",
            f"{preposition} {object_} is {subject}",
            f"{preposition} {object_} there is {subject}",
        )[form]


def sentences(recipe: Recipe, *, canvas: int, generator: torch.Generator) -> list[list[str]]:
    """Return five different captions for each scene, all true, and at least four of them false for its twin.

    Four describe the relation of the two digits that are swapped in the twin; the fifth describes any two digits.

    Args:
        recipe: the scenes, with twins next to each other.
        canvas: pixels per side.
        generator: source of all draws.
    """
    exchanged = (recipe["size"][0::FAMILY] != recipe["size"][1::FAMILY]).nonzero()[:, 1].view(-1, 2).tolist()
    draws = _uniform(generator)
    result = []
    for row, clear in enumerate(zip(*(values.tolist() for values in _clear(recipe, canvas)), strict=True)):
        scene = _Scene(*clear, draws)
        pair = exchanged[row // FAMILY]
        free = scene.one_of(range(CAPTIONS))
        captions: list[str] = []
        while len(captions) < CAPTIONS:
            pairs = list(scene.relations) if len(captions) == free else [pair, pair[::-1]]
            caption = scene.sentence(*scene.one_of(pairs))
            if caption not in captions:
                captions.append(caption)
        result.append(captions)
    return result

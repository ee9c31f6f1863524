"""Captions: scenes of digits in pairs that differ in order alone, each with five sentences that are true of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rankops.datasets.scenes import facts, layout, ranked_mnist
from rankops.datasets.scenes.digits import Digits
from rankops.datasets.scenes.ranked_mnist import Recipes, pictures
from rankops.io.parquet import IMAGE, encode_images, read_table

__all__ = [
    "CAPTIONS", "FAMILY", "SCHEMA", "Claim", "expectations", "holds", "load", "measure", "parse", "recipes",
    "sentences", "tables",
]  # fmt: skip

CLASSES = 10
CAPTIONS = 5  # as many as COCO has for an image
FALSE_OF_TWIN = CAPTIONS - 1  # at least so many of a scene's captions; the last may tell of what twins share
FAMILY = 2
ROUNDS = 1000
# What is said must be seen: a digit is larger than another by a fifth of its side at least, and lies in a direction if
# it is off by an eighth of the canvas, and by half as much again as across.
LARGER = 1.2
APART = 1 / 8
STEEP = 1.5
# How often a digit that is known to be large or small is called so, and a third digit is told of. Sentences that tell
# more fit fewer scenes of other families; some tell little, as people's do.
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

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("image", IMAGE),
        ("captions", pa.list_(pa.string(), CAPTIONS)),
        ("family", pa.int64()),
        *((name, pa.list_(kind, CLASSES)) for name, kind in ranked_mnist.RECIPE.items()),
    ]
)


@dataclass(frozen=True)
class Claim:
    """What a sentence says of a digit: `large` or `small` among the others, or its relation to another digit."""

    digit: int
    what: str  # a key of WORDS
    other: int | None = None


def _facts(recipe: Recipes, canvas: int) -> tuple[Tensor, Tensor, Tensor]:
    """What is clearly so in each scene; -1 = nothing is.

    Returns:
        Place in PLACES of digit i as seen from j (n, 10, 10), its size in SIZES (n, 10, 10), and whether it is large
        (0) or small (1) among the others (n, 10).
    """
    size, top, left = (values.double() for values in (recipe.size, recipe.top, recipe.left))
    there = size > 0
    pairs = there.unsqueeze(2) & there.unsqueeze(1)
    centers = torch.stack([top + size / 2, left + size / 2])
    away = centers.unsqueeze(2) - centers.unsqueeze(3)  # how far j lies below, and to the right of, i
    far = away.abs()
    clear = (far >= APART * canvas) & (far >= STEEP * far.flip(0)) & pairs
    place = torch.where(clear[0], 0 + (away[0] < 0).long(), torch.where(clear[1], 2 + (away[1] < 0).long(), -1))
    larger = (size.unsqueeze(2) >= LARGER * size.unsqueeze(1)) & pairs
    by_size = torch.where(larger, 0, torch.where(larger.mT, 1, -1))
    others = (size.sum(1, keepdim=True) - size) / (there.sum(1, keepdim=True) - 1)
    adjective = torch.where(size >= LARGER * others, 0, torch.where(size * LARGER <= others, 1, -1))
    return place, by_size, torch.where(there, adjective, -1)


def recipes(
    digits: Digits,
    rows: int,
    *,
    canvas: int,
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    generator: torch.Generator,
) -> Recipes:
    """Draws scenes in twos: rows 2k and 2k + 1 are twins, in which two digits have changed places and sizes.

    The first is drawn as Ranked MNIST is, again and again until two of its digits differ clearly in size and lie
    clearly in a direction from each other; two such are exchanged in the twin. Everything else is the same, so that
    twins share classes, glyphs, sizes and places, and differ in order alone.

    Args:
        digits: of one split.
        rows: number of scenes, even.
        canvas, scale, overlap: see `ranked_mnist.recipes`.
        digits_per_image: least and most, at least 2; their number is uniform over pairs of twins.
        generator: source of all draws.

    Raises:
        ValueError: rows is odd, a scene may have fewer than two digits, no digits differ clearly, or see
            `ranked_mnist.recipes`.
    """
    least, most = digits_per_image
    if rows % FAMILY:
        raise ValueError(f"captions: {rows} rows, expected an even number: scenes come in twos")
    if not 2 <= least <= most <= CLASSES:
        raise ValueError(
            f"captions: digits_per_image is {least} to {most}, expected the smaller first, from 2 to {CLASSES}: a "
            "caption tells of two digits"
        )
    families = rows // FAMILY
    counts = torch.randint(least, most + 1, (families,), generator=generator)
    first = {
        "label_ranks": torch.zeros(families, CLASSES, dtype=torch.int64),
        **{name: torch.zeros(families, CLASSES) for name in ("size", "top", "left")},
        "glyph": torch.full((families, CLASSES), -1),
    }
    exchanged = torch.zeros(families, 2, dtype=torch.int64)
    # Each number of digits by itself: scenes with many of them have a clear pair more often, and none may be favored.
    for count in range(least, most + 1):
        pending = (counts == count).nonzero().flatten()
        for _ in range(ROUNDS):
            if not len(pending):
                break
            drawn = ranked_mnist.recipes(
                digits, len(pending), canvas=canvas, digits_per_image=(count, count), scale=scale, overlap=overlap,
                generator=generator,
            )  # fmt: skip
            place, by_size, _ = _facts(drawn, canvas)
            clear = ((place >= 0) & (by_size >= 0)).triu(1).flatten(1)
            good = clear.any(1)
            done = pending[good]
            for name, values in first.items():
                values[done] = getattr(drawn, name)[good]
            if len(done):
                chosen = torch.multinomial(clear[good].float(), 1, generator=generator).squeeze(1)
                exchanged[done] = torch.stack([chosen // CLASSES, chosen % CLASSES], dim=1)
            pending = pending[~good]
        if len(pending):
            raise ValueError(
                f"captions: in {len(pending)} scenes of {count} digits of scale {scale[0]} to {scale[1]} no two digits "
                f"differ clearly in size and place after {ROUNDS} draws: scales further apart, or smaller digits"
            )
    order = torch.arange(CLASSES).repeat(families, 1).scatter(1, exchanged, exchanged.flip(1))

    def in_twos(name: str) -> Tensor:
        values = first[name]
        twin = values if name == "glyph" else values.gather(1, order)
        return torch.stack([values, twin], dim=1).flatten(0, 1)

    return Recipes(**{name: in_twos(name) for name in first})


def _uniform(generator: torch.Generator) -> Iterator[float]:
    while True:
        yield from torch.rand(4096, generator=generator).tolist()


class _Scene:
    """What may be said of one scene, and the draws that choose how.

    Args:
        place, by_size, adjective: of `_facts`, as nested lists.
        digits: that are there.
        draws: from `_uniform`.
    """

    def __init__(self, place: list[list[int]], by_size: list[list[int]], adjective: list[int], draws: Iterator[float]):
        self.relations = {}
        for digit in range(CLASSES):
            for other in range(CLASSES):
                known = [PLACES[place[digit][other]]] if place[digit][other] >= 0 else []
                known += [SIZES[by_size[digit][other]]] if by_size[digit][other] >= 0 else []
                if known:
                    self.relations[digit, other] = known
        self.adjective = adjective
        self.draws = draws

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[int(next(self.draws) * len(options))]

    def word(self, what: str) -> str:
        return self.one_of(WORDS[what])

    def noun(self, digit: int, article: str = "a", *, adjective: bool = True) -> str:
        """Such as `a three` or `the big three`."""
        name = NUMBERS[digit]
        if adjective and self.adjective[digit] >= 0 and next(self.draws) < ADJECTIVE:
            name = f"{self.word(('large', 'small')[self.adjective[digit]])} {name}"
        return f"{article}n {name}" if article == "a" and name == "eight" else f"{article} {name}"

    def sentence(self, digit: int, other: int) -> str:
        """About two digits that have a relation, and often a third."""
        relation = self.one_of(self.relations[digit, other])
        if relation in PLACES:
            said = self._of_place(digit, relation, other)
        else:
            # Who is called big here would give the comparison away.
            one, introduced = (self.noun(digit, article, adjective=False) for article in ("the", "a"))
            two, compared = self.noun(other, "the", adjective=False), self.word(relation)
            said = self.one_of([f"{one} is {compared} {two}", f"there is {introduced} and it is {compared} {two}"])
        thirds = [
            pair for pair in self.relations if pair[0] not in (digit, other) and pair[1] in (digit, other)
        ]  # fmt: skip
        if thirds and next(self.draws) < THIRD:
            third, of = self.one_of(thirds)
            relation = self.one_of(self.relations[third, of])
            said += f" and {self.noun(third)} {self.word(relation)} the {NUMBERS[of]}"
        return said

    def _of_place(self, digit: int, relation: str, other: int) -> str:
        where = self.word(relation)
        size = [name for name in self.relations[digit, other] if name in SIZES]
        form = self.one_of(range(6 if size else 5))
        if form == 5:
            one, two = (self.noun(number, "the", adjective=False) for number in (digit, other))
            return f"{one} {where} {two} is {self.word(size[0])} it"
        one, two = (self.noun(number, "the" if form == 2 else "a") for number in (digit, other))
        return (
            f"{one} {where} {two}",
            f"there is {one} {where} {two}",
            f"{one} is {where} {two}",
            f"{where} {two} is {one}",
            f"{where} {two} there is {one}",
        )[form]


def sentences(recipe: Recipes, *, canvas: int, generator: torch.Generator) -> list[list[str]]:
    """Five different captions of each scene, in a varied grammar; all are true, and at least four false of its twin.

    Four tell how the two digits that twins exchange stand to each other; the fifth tells of any two.

    Args:
        recipe: from `recipes`, twins together.
        canvas: pixels on a side.
        generator: source of all draws.
    """
    exchanged = (recipe.size[0::FAMILY] != recipe.size[1::FAMILY]).nonzero()[:, 1].view(-1, 2).tolist()
    draws = _uniform(generator)
    result = []
    for row, facts in enumerate(zip(*(values.tolist() for values in _facts(recipe, canvas)), strict=True)):
        scene = _Scene(*facts, draws)
        pair = exchanged[row // FAMILY]
        free = scene.one_of(range(CAPTIONS))
        said: list[str] = []
        while len(said) < CAPTIONS:
            one, two = scene.one_of(list(scene.relations)) if len(said) == free else scene.one_of([pair, pair[::-1]])
            caption = scene.sentence(one, two)
            if caption not in said:
                said.append(caption)
        result.append(said)
    return result


_MEANINGS = {word: meaning for meaning, words in WORDS.items() for word in words}
_PHRASE = re.compile(rf"\b({'|'.join(sorted(_MEANINGS, key=len, reverse=True))})\b")
_NUMBER = rf"({'|'.join(NUMBERS)})"
_NOUN = rf"(?:the|an(?= eight)|a(?! eight)) (?:<(large|small)> )?{_NUMBER}"
_RELATION = rf"<({'|'.join(PLACES + SIZES)})>"
_TAIL = rf"(?: and {_NOUN} {_RELATION} the {_NUMBER})?"
_DIRECT = re.compile(rf"(?:there is )?{_NOUN} (?:is |and it is )?{_RELATION} {_NOUN}{_TAIL}")
_TURNED = re.compile(rf"{_RELATION} {_NOUN} (?:there )?is {_NOUN}{_TAIL}")
_TWICE = re.compile(rf"{_NOUN} {_RELATION} {_NOUN} is {_RELATION} it{_TAIL}")


def parse(caption: str) -> list[Claim]:
    """What a caption says, read back by the grammar.

    Raises:
        ValueError: it is not a sentence of the grammar.

    >>> parse("under a big three is an eight")
    [Claim(digit=3, what='large', other=None), Claim(digit=8, what='below', other=3)]
    """
    marked = _PHRASE.sub(lambda found: f"<{_MEANINGS[found[1]]}>", caption)
    if match := _DIRECT.fullmatch(marked):
        adjective, digit, relation, other_adjective, other, *tail = match.groups()
        relations = [relation]
    elif match := _TURNED.fullmatch(marked):
        relation, other_adjective, other, adjective, digit, *tail = match.groups()
        relations = [relation]
    elif match := _TWICE.fullmatch(marked):
        adjective, digit, relation, other_adjective, other, again, *tail = match.groups()
        relations = [relation, again]
    else:
        raise ValueError(f"caption {caption!r} is no sentence of the grammar, such as 'a large three above a seven'")
    number = NUMBERS.index
    claims = [
        Claim(number(name), what) for what, name in ((adjective, digit), (other_adjective, other)) if what is not None
    ]
    claims += [Claim(number(digit), what, number(other)) for what in relations]
    adjective, digit, relation, other = tail
    if digit is not None:
        claims += [Claim(number(digit), adjective)] if adjective else []
        claims.append(Claim(number(digit), relation, number(other)))
    return claims


def holds(claim: Claim, boxes: dict[int, tuple[float, float, float]], *, canvas: int) -> bool | None:
    """Whether a claim is true of a scene: True if clearly so, False if not so at all, None between the two.

    Args:
        claim: from `parse`.
        boxes: size, top and left of each digit that is there.
        canvas: pixels on a side.

    >>> boxes = {3: (24.0, 0.0, 0.0), 7: (12.0, 40.0, 4.0)}
    >>> holds(Claim(3, "above", 7), boxes, canvas=64), holds(Claim(7, "large"), boxes, canvas=64)
    (True, False)
    """
    if claim.digit not in boxes or (claim.other is not None and claim.other not in boxes):
        return False
    size, top, left = boxes[claim.digit]
    if claim.what in ("large", "small", "larger", "smaller"):
        if claim.other is None:
            others = [box[0] for digit, box in boxes.items() if digit != claim.digit]
            against = sum(others) / len(others) if others else size
        else:
            against = boxes[claim.other][0]
        ratio = size / against if claim.what.startswith("large") else against / size
        return True if ratio >= LARGER else False if ratio <= 1 else None
    other_size, other_top, other_left = boxes[claim.other]
    down = top + size / 2 - (other_top + other_size / 2)
    right = left + size / 2 - (other_left + other_size / 2)
    along, across = {
        "above": (-down, right), "below": (down, right), "left": (-right, down), "right": (right, down)
    }[claim.what]  # fmt: skip
    if along >= APART * canvas and along >= STEEP * abs(across):
        return True
    if along <= 0 or (abs(across) >= APART * canvas and abs(across) >= STEEP * along):
        return False
    return None


def tables(
    digits: Digits, rows: int, *, threads: int, generator: torch.Generator, first: int = 0, **options: Any
) -> Iterator[pa.Table]:
    """One split in pieces, so that memory does not grow with the number of images.

    Args:
        digits: of the split.
        rows: number of images, even.
        threads: to encode images with.
        generator: source of all draws.
        first: number of the first row, where others came before; even.
        options: as for `recipes`.

    Raises:
        ValueError: see `recipes`.
    """
    if rows % FAMILY or first % FAMILY:
        raise ValueError(f"captions: {rows} rows after {first}, expected even numbers: scenes come in twos")
    canvas = options["canvas"]
    # Twins stay together.
    for start, count in layout.pieces(rows, pixels=canvas**2, most=2000, multiple_of=FAMILY):
        recipe = recipes(digits, count, generator=generator, **options)
        captions = sentences(recipe, canvas=canvas, generator=generator)
        images = pictures(recipe, digits, canvas=canvas)
        numbers = range(first + start, first + start + count)
        columns = {
            "id": pa.array(numbers, pa.int64()),
            "image": encode_images(images.numpy(), threads=threads),
            "captions": pa.array(captions, pa.list_(pa.string(), CAPTIONS)),
            "family": pa.array([row // FAMILY for row in numbers], pa.int64()),
        }
        yield pa.table(columns | ranked_mnist.recipe_columns(recipe), schema=SCHEMA)


def load(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, list[list[str]], Tensor, Recipes]:
    """Images (n, canvas, canvas) uint8, captions of each, families (n,) and recipes of one split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, an image is, or an image has not 5 captions.
    """
    path = Path(folder) / f"{split}.parquet"
    images, recipe = ranked_mnist.load(folder, split, threads=threads)
    read = read_table(path, ["captions", "family"])
    captions = read["captions"].to_pylist()
    for row, several in enumerate(captions):
        if several is None or len(several) != CAPTIONS or None in several:
            raise ValueError(f"{path}: row {row}: captions are {several}, expected {CAPTIONS} texts")
    return images, captions, torch.from_numpy(read["family"].to_numpy().copy()), recipe


def _read_back(captions: list[list[str]], recipe: Recipes, canvas: int, twins: list[int | None]) -> dict[str, list]:
    """For each caption of each scene: is it understood, true of the scene, and false of the twin?"""
    columns = zip(*(getattr(recipe, name).tolist() for name in ("size", "top", "left")), strict=True)
    scenes = [
        {digit: box for digit, box in enumerate(zip(*values, strict=True)) if box[0] > 0} for values in columns
    ]  # fmt: skip
    facts: dict[str, list] = {"understood": [], "true": [], "false_of_twin": []}
    for row, several in enumerate(captions):
        twin = twins[row]
        for caption in several:
            try:
                claims = parse(caption)
            except ValueError:
                claims = []
            facts["understood"].append(bool(claims))
            facts["true"].append(
                bool(claims) and all(holds(claim, scenes[row], canvas=canvas) is True for claim in claims)
            )
            facts["false_of_twin"].append(
                twin is not None and any(holds(claim, scenes[twin], canvas=canvas) is False for claim in claims)
            )
    return facts


def measure(
    folder: str | Path, digits: Digits, split: str, *, threads: int
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What the expectations are held against.

    Captions are read back by `parse` and held against the recipe by `holds`, which share no code with `sentences`.

    Returns:
        One row a scene, as `ranked_mnist.measure` has them and what twins have in common; one row a digit on a scene;
        one row a caption.
    """
    _, captions, family, recipe = load(folder, split, threads=threads)
    scene, digit = ranked_mnist.measure(folder, digits, split, threads=threads)
    members: dict[int, list[int]] = {}
    for row, name in enumerate(family.tolist()):
        members.setdefault(name, []).append(row)
    twins = [
        next(other for other in members[name] if other != row) if len(members[name]) == FAMILY else None
        for row, name in enumerate(family.tolist())
    ]
    facts = _read_back(captions, recipe, scene["side"][0].item() if len(family) else 0, twins)
    false = torch.tensor(facts["false_of_twin"], dtype=torch.bool).view(-1, CAPTIONS)
    # A scene without a twin is compared with itself, and so has too few differences.
    twin = torch.tensor([row if other is None else other for row, other in enumerate(twins)])
    boxes = torch.stack([recipe.size, recipe.top, recipe.left], dim=2)
    moved = (boxes != boxes[twin]).any(2)
    exchanged = moved.sum(1) == 2
    one = exchanged.nonzero()  # (m, 1)
    two = moved[exchanged].nonzero()[:, 1].view(-1, 2)
    exchanged[exchanged.clone()] = (boxes[one, two] == boxes[twin[one], two.flip(1)]).flatten(1).all(1)
    scene |= {
        "twins_stand_together": (family == torch.arange(len(family)) // FAMILY).numpy(),
        "two_digits_are_exchanged": exchanged.numpy(),
        "twin_has_the_same_glyphs": (recipe.glyph == recipe.glyph[twin]).all(1).numpy(),
        "different_captions": [len(set(several)) for several in captions],
        "captions_false_of_twin": false.sum(1).numpy(),
    }
    caption = {
        "split": [split] * len(false) * CAPTIONS,
        "id": scene["id"].repeat(CAPTIONS),
        "number": list(range(CAPTIONS)) * len(false),
        "caption": [caption for several in captions for caption in several],
        "understood": facts["understood"],
        "true": facts["true"],
    }
    return scene, digit, caption


def expectations(
    *, canvas: int, rows: dict[str, int], digits_per_image: tuple[int, int], scale: tuple[float, float], overlap: float
) -> dict[str, list[dict[str, Any]]]:
    """What must hold for scenes, digits and captions, as plain data: `type` and arguments of an expectation."""
    # Twins have the same digits: their numbers vary by chance as those of half as many scenes.
    both = {
        name: [one | {"threshold": FAMILY * one["threshold"]} if "threshold" in one else one for one in several]
        for name, several in ranked_mnist.expectations(
            canvas=canvas, rows=rows, digits_per_image=digits_per_image, scale=scale, overlap=overlap
        ).items()
    }
    both["scenes"] += [
        {"type": facts.IN_SET, "column": "twins_stand_together", "value_set": [True]},
        {"type": facts.IN_SET, "column": "two_digits_are_exchanged", "value_set": [True]},
        {"type": facts.IN_SET, "column": "twin_has_the_same_glyphs", "value_set": [True]},
        {"type": facts.IN_SET, "column": "different_captions", "value_set": [CAPTIONS]},
        {"type": facts.BETWEEN, "column": "captions_false_of_twin", "min_value": FALSE_OF_TWIN},
    ]
    return both | {
        "captions": [
            {"type": "expect_table_row_count_to_equal", "value": CAPTIONS * sum(rows.values())},
            {"type": facts.IN_SET, "column": "understood", "value_set": [True]},
            {"type": facts.IN_SET, "column": "true", "value_set": [True]},
        ]
    }

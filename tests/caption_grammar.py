"""What a caption says, and whether it is true: shares no code with what writes captions."""

import re
from dataclasses import dataclass

from rankgrad.datasets.captions import APART, LARGER, NUMBERS, PLACES, SIZES, STEEP, WORDS


@dataclass(frozen=True)
class Claim:
    """What a sentence says of a digit: `large` or `small` among the others, or its relation to another digit."""

    digit: int
    what: str  # a key of WORDS
    other: int | None = None


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
    """What a caption says, read back by the grammar."""
    marked = _PHRASE.sub(lambda match_: f"<{_MEANINGS[match_[1]]}>", caption)
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
    """Whether a claim is true of the boxes of size, top and left: clearly (True), not at all (False), or between."""
    if claim.digit not in boxes or (claim.other is not None and claim.other not in boxes):
        return False
    size, top, left = boxes[claim.digit]
    if claim.what in ("large", "small", "larger", "smaller"):
        rivals = [digit for digit in boxes if digit != claim.digit] if claim.other is None else [claim.other]
        against = sum(boxes[digit][0] for digit in rivals) / len(rivals) if rivals else size
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

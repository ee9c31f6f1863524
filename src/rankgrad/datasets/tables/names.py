"""Find names that are probably one name written in two ways."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping

__all__ = ["near_names", "typos_in"]

LETTERS, WORD, COMPARED = 5, 60, 10_000  # fewest letters and most characters of a name with a typo; most names
RARE, SHARE, MOST = 2, 0.01, 20  # a typo is in so few rows, or in this share of them, but at most in so many
TYPED = 10  # the right name is in so many times as many rows

ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek, and Cyrillic; in other scripts, a mark makes another letter
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def near_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that differ only in case, characters between words, accents, ä and ae, or leading zeros.

    >>> near_names(["cat", "Cat", "T-shirt", "t shirt", "poet", "pot"])
    [('Cat', 'cat'), ('T-shirt', 't shirt')]
    >>> near_names(["Müller", "Mueller", "cafe", "café", "Straße", "Strasse"])
    [('Mueller', 'Müller'), ('cafe', 'café'), ('Strasse', 'Straße')]
    >>> near_names(["lab_05", "lab_5", "10", "1", "v1.05", "v1.5"])
    [('lab_05', 'lab_5')]
    """
    groups = defaultdict[str, set[str]](set)
    for name in names:
        plain = re.sub(r"(?<![\d.,])0+(?=\d)", "", re.sub(r"[\s_-]+", " ", name.casefold()))  # which makes ss of ß
        for spelling in (plain, plain.translate(UMLAUTS)):
            groups[ACCENTS.sub("", unicodedata.normalize("NFD", spelling))].add(name)
    near = [sorted(group) for group in groups.values() if len(group) > 1]
    return [*dict.fromkeys((first, second) for first, second, *_ in near)]


def typos_in(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of a rare name and a frequent one that differ by one character that is no digit, or by two swapped.

    Pairs that `near_names` returns are left out. Of more than 10,000 names, such as ids, none is compared.

    Args:
        counts: in how many rows each name occurs.

    >>> typos_in({"Berlin": 20, "Berlln": 2, "Merlin": 9, "house 12": 90, "house 1": 1, "modle": 1, "model": 10})
    [('Berlln', 'Berlin'), ('modle', 'model')]
    """
    words = [name for name in counts if len(name) <= WORD and sum(map(str.isalpha, name)) >= LETTERS]
    words = sorted(words, key=counts.__getitem__, reverse=True) if len(counts) <= COMPARED else []
    frequent: dict[str, str] = {}
    for name in words:
        if counts[name] >= TYPED:
            for spelling in _blanked(name):
                frequent.setdefault(spelling, name)
    limit = max(RARE, min(SHARE * sum(counts.values()), MOST))
    typos, rare = [], [name for name in words if counts[name] <= limit]
    for name in rare:
        near = {frequent[spelling] for spelling in _blanked(name) if spelling in frequent}
        near.update(spelling for spelling in _swapped(name) if spelling in counts)
        for other in sorted(near):
            is_frequent = counts[other] >= TYPED * counts[name]
            if is_frequent and _digits(name) == _digits(other) and not near_names([name, other]):
                typos.append((name, other))
    return typos


def _digits(name: str) -> list[str]:
    return [*filter(str.isdigit, name)]


def _swapped(name: str) -> list[str]:
    """Return a name with each two neighboring characters swapped."""
    return [f"{name[:index]}{name[index : index + 2][::-1]}{name[index + 2 :]}" for index in range(len(name) - 1)]


def _blanked(name: str) -> list[str]:
    """Return a name with a blank for, or before, each character; names that one edit makes equal share one."""
    replaced = [f"{name[:index]}\0{name[index + 1 :]}" for index in range(len(name))]
    return replaced + [f"{name[:index]}\0{name[index:]}" for index in range(len(name) + 1)]

"""Small changes of what was right: of values in a tree of JSON, and of bytes."""

import copy
from typing import Any

import numpy as np

__all__ = ["changed_bytes", "changed_tree"]

ODD: tuple[Any, ...] = (
    None, "", "a", "0", "1e999", "\0", "é\u202e😀", "../x", "a" * 3000, -1, 0, 1, 2, 3, 7, 10**6, 2**31, 2**63, 10**30,
    0.0, -0.5, 0.1, 1.5, 1e-300, 1e300, float("nan"), float("inf"), True, False, [], {}, [[]], [None], {"": None},
)  # fmt: skip


def changed_tree(tree: Any, random: np.random.Generator, *, times: int) -> Any:
    """Return a tree with some values replaced, removed, repeated, moved or wrapped."""
    tree = copy.deepcopy(tree)
    for _ in range(times):
        parents = [*_parents(tree)]
        if not parents:
            break
        parent = parents[random.integers(len(parents))]
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not keys:
            continue
        key, other = keys[random.integers(len(keys))], parents[random.integers(len(parents))]
        match random.integers(10):
            case 0 | 1:
                parent[key] = copy.deepcopy(ODD[random.integers(len(ODD))])
            case 2 | 6 | 7 | 8:
                parent[key] = _another(parent[key], [*_values(tree)], random)
            case 3:
                del parent[key]
            case 4:
                parent[key] = [copy.deepcopy(parent[key])] * int(random.integers(1, 4))
            case 5 if isinstance(other, dict):
                other[str(ODD[random.integers(len(ODD))])] = copy.deepcopy(parent[key])
            case _:
                parent[key] = copy.deepcopy(next(iter(other.values() if isinstance(other, dict) else other), None))
    return tree


def _another(value: Any, there: list[Any], random: np.random.Generator) -> Any:
    """Return another value of the same type: what gets past a look at types alone."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(value * float(random.choice([0, -1, 0.5, 2, 10, 1000])) + int(random.choice([0, 0, 1])))
    alike = [one for one in there if type(one) is type(value)]
    return copy.deepcopy(alike[random.integers(len(alike))]) if alike else value


def _values(tree: Any) -> Any:
    yield tree
    if isinstance(tree, dict | list):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _values(one)


def _parents(tree: Any) -> Any:
    if isinstance(tree, dict | list):
        yield tree
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _parents(one)


def changed_bytes(contents: bytes, random: np.random.Generator, *, times: int) -> bytes:
    """Return bytes of which some are changed, cut off, repeated or put elsewhere."""
    for _ in range(times):
        begin, end = sorted(int(one) for one in random.integers(len(contents) + 1, size=2))
        match random.integers(6):
            case 0 | 1:
                contents = contents[:begin] + bytes([random.integers(256)]) + contents[begin + 1 :]
            case 2:
                contents = contents[:end]
            case 3:
                contents = contents[:begin] + contents[end:]
            case 4:
                contents = contents[:end] + contents[begin : begin + 50] + contents[end:]
            case _:
                odd = [
                    b"\xff\xff\xff\xff",
                    b"\0" * 8,
                    b"\n",
                    b",",
                    b'"',
                    b"nan",
                    b"-1",
                    b"1e400",
                    b"\xef\xbb\xbf",
                    b"\r",
                ]
                contents = contents[:begin] + odd[random.integers(len(odd))] + contents[begin:]
    return contents

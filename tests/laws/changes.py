"""Small changes of what was right: of values in a tree of JSON, and of bytes."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

ODD: tuple[Any, ...] = (
    None, "", "a", "0", "1e999", "\0", "é\u202e😀", "../x", "a" * 3000, -1, 0, 1, 2, 3, 7, 10**6, 2**31, 2**63, 10**30,
    0.0, -0.5, 0.1, 1.5, 1e-300, 1e300, float("nan"), float("inf"), True, False, [], {}, [[]], [None], {"": None},
)  # fmt: skip
ODD_BYTES = (b"\xff\xff\xff\xff", b"\0" * 8, b"\n", b",", b'"', b"nan", b"-1", b"1e400", b"\xef\xbb\xbf", b"\r")


def _values(tree: Any) -> list[Any]:
    inside = list(tree.values()) if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    return [tree, *(value for branch in inside for value in _values(branch))]


@st.composite
def changed(draw, tree: Any, *, most: int = 2) -> Any:
    """Draw a tree in which a few values are replaced, removed, repeated or moved."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, most))):
        parents = [value for value in _values(tree) if isinstance(value, dict | list) and value]
        if not parents:
            break
        parent = draw(st.sampled_from(parents))
        key = draw(st.sampled_from([*parent] if isinstance(parent, dict) else range(len(parent))))
        of_its_type = [value for value in _values(tree) if type(value) is type(parent[key])]
        match draw(st.sampled_from(["odd", "alike", "scaled", "removed", "repeated", "added"])):
            case "odd":
                parent[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
            case "alike":
                parent[key] = copy.deepcopy(draw(st.sampled_from(of_its_type)))
            case "scaled" if type(parent[key]) in (int, float):
                parent[key] = type(parent[key])(parent[key] * draw(st.sampled_from([0, -1, 0.5, 2, 10, 1000])))
            case "repeated":
                parent[key] = [copy.deepcopy(parent[key])] * draw(st.integers(1, 3))
            case "added" if isinstance(parent, dict):
                parent[str(draw(st.sampled_from(ODD)))] = copy.deepcopy(parent[key])
            case _:
                del parent[key]
    return tree


@st.composite
def damaged(draw, contents: bytes) -> bytes:
    """Draw bytes of which some are changed, cut off, repeated or put elsewhere."""
    for _ in range(draw(st.integers(1, 3))):
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(contents))] * 2)))
        match draw(st.sampled_from(["changed", "cut", "removed", "repeated", "odd"])):
            case "changed":
                contents = contents[:begin] + bytes([draw(st.integers(0, 255))]) + contents[begin + 1 :]
            case "cut":
                contents = contents[:end]
            case "removed":
                contents = contents[:begin] + contents[end:]
            case "repeated":
                contents = contents[:end] + contents[begin : begin + 50] + contents[end:]
            case _:
                contents = contents[:begin] + draw(st.sampled_from(ODD_BYTES)) + contents[begin:]
    return contents


def as_json(tree: Any) -> str:
    """Return a tree as Python writes it, with NaN and Infinity."""
    return json.dumps(tree, ensure_ascii=False)

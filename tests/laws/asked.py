"""Requests that Hypothesis draws to the networks of tests/networks.py, and the numbers that each row comes to."""

import base64
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image

from rankgrad import lookup
from rankgrad.datasets.files.splits import Labels, Split
from rankgrad.inputs.image import of_tensor
from rankgrad.inputs.text import of_strings
from rankgrad.io.checkpoints import load_model

from networks import NETWORKS, folder_of  # isort: skip

ALL = [*NETWORKS, "query_ranking by name", "score_ranking of features by name", "retrieval by text"]
SORTERS = ("handcrafted", "lstm")
IDS = st.integers(0, 99) | st.sampled_from(["a", "b 7", "größe"])
SMALL = st.floats(-8, 8, width=32)


@dataclass
class Asked:
    """A request: the network's name, rows as JSON has them, and what the network says of each, where that is known."""

    name: str
    rows: list[Any]
    expected: list[list[float]] | None = None

    @property
    def network(self) -> str:
        return self.name.removesuffix(" by name").removesuffix(" by text")

    @property
    def raw(self) -> list[Any]:
        """Rows as a task is asked by them: pictures are bytes."""
        return [{name: _decoded(name, cell) for name, cell in row.items()} for row in self.rows]

    @property
    def model(self) -> Any:
        return loaded(self.network)

    @property
    def task(self) -> Any:
        return lookup.find("tasks", self.model.recipe["task"])()


@cache
def loaded(name: str) -> Any:
    return load_model(folder_of(name))


def _decoded(name: str, cell: Any) -> Any:
    if name == "frames":
        return [base64.b64decode(one) for one in cell]
    return base64.b64decode(cell) if name == "image" else cell


def _picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (16, 16), dtype=np.uint8)


def _sent(pixels: np.ndarray) -> str:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


@st.composite
def by_name(draw, vector: list[float], names: list[str]) -> dict[str, Any]:
    """Draw features by their names, in any order, of a vector; a brand that is none of them may be any."""
    row: dict[str, Any] = {}
    for name, value in zip(names, vector, strict=True):
        column, _, brand = name.partition("=")
        if not brand:
            row[column] = value
        elif value or column not in row:
            row[column] = brand if value else draw(st.sampled_from([None, "lada"]))
    return {name: row[name] for name in draw(st.permutations([*row]))}


@st.composite
def requests(draw, names=ALL, *, most: int = 5) -> Asked:
    """Draw a request of a few rows to one of the networks."""
    asked = Asked(draw(st.sampled_from(names)), [])
    count, name = draw(st.integers(1, most)), asked.network
    seeds = draw(st.lists(st.integers(0, 999), min_size=count, max_size=count, unique=True))
    if name in SORTERS:
        asked.rows = draw(st.lists(st.lists(SMALL, min_size=3, max_size=3), min_size=count, max_size=count))
        asked.expected = asked.model(torch.tensor(asked.rows)).tolist()
        return asked
    if asked.name == "retrieval by text":
        captions = st.sampled_from(["a large three", "three", "a", "Large, three"])
        asked.rows = [{"caption": draw(captions)} for _ in seeds]
        return asked
    if name in ("label_ranking", "multilabel", "retrieval"):
        asked.rows = [{"image": _sent(_picture(seed))} for seed in seeds]
        if name != "retrieval":
            stored = of_tensor(torch.from_numpy(np.stack([_picture(seed) for seed in seeds])))
            truth = Labels(*[torch.zeros(count, 4, dtype=torch.uint8)] * 2) if name == "multilabel" else None
            asked.expected = asked.task.predict(asked.model, Split(stored, truth))["scores"].to_pylist()
    elif name == "score_ranking":
        photos = [_sent(_picture(seed)) for seed in seeds]
        asked.rows = [{"frames": [photo, *draw(st.lists(st.sampled_from(photos), max_size=1))]} for photo in photos]
    elif name == "score_ranking of text":
        words = st.lists(st.sampled_from(["a", "red", "dress", "hat"]), min_size=1, max_size=4).map(" ".join)
        asked.rows = [{"text": draw(words)} for _ in seeds]
        stored = of_strings([row["text"] for row in asked.rows])
        found = asked.task.predict(asked.model, Split(stored, torch.zeros(count)))["score"].to_pylist()
        asked.expected = [[score] for score in found]
    else:
        _draw_features(draw, asked, count)
    if draw(st.booleans()):
        ids = draw(st.lists(IDS, min_size=count, max_size=count))
        ids = ids if len({*map(type, ids)}) == 1 else [*map(str, ids)]
        asked.rows = [row | {"id": one} for row, one in zip(asked.rows, ids, strict=True)]
    return asked


def _draw_features(draw, asked: Asked, count: int) -> None:
    queries, names = asked.network == "query_ranking", asked.model.recipe["input"]["names"]
    brands = st.sampled_from([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
    vectors = st.tuples(SMALL, SMALL) if queries else st.tuples(SMALL, brands, SMALL).map(
        lambda parts: (parts[0], *parts[1], parts[2]))  # fmt: skip
    asked.expected = []
    for _ in range(count):
        documents = [list(one) for one in draw(st.lists(vectors, min_size=1, max_size=3 if queries else 1))]
        asked.expected.append(asked.model(torch.tensor(documents))[:, 0].tolist())
        cells = [draw(by_name(one, names)) for one in documents] if asked.name.endswith("by name") else documents
        asked.rows.append({"features": cells if queries else cells[0]})


def numbers_of(answer: Any) -> list[float]:
    """Return the scores of an answer, whichever task it is of."""
    if not isinstance(answer, dict):
        return answer
    return answer["scores"] if "scores" in answer else [answer["score"]]

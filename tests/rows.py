"""Rows of each input type and task: small tables, untrained networks for them, and requests of the same rows.

A new input type is a line of `TYPES`.
"""

import base64
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from rankgrad import lookup
from rankgrad.io.checkpoints import build, save_model

from conftest import encoded, task_of  # isort: skip

SIDE = 16
WORDS = ["large", "small", "red", "two", "above"]
NAMES = ["price", "brand=blue", "brand=red", "age[empty=50.0]", "age[empty]"]
CONVNET = {"name": "convnet", "args": {"channels": [4, 6]}}
# Nothing that has a default.
PHASE = {"epochs": 1, "patience": 1, "schedule": {"name": "cosine"}, "optimizer": {"name": "AdamW"}}
TWO = {"batch_size": 6, "probe": PHASE, "finetune": PHASE}
LABELS = PHASE | {"batch_size": 6}
TRAINING = {
    "label_ranking": {"scorer": LABELS, "thresholds": LABELS},
    "query_ranking": {"ranker": PHASE | {"batch_size": 4}},
}

Draws = np.random.Generator


def picture(draws: Draws) -> bytes:
    return encoded(Image.fromarray(draws.integers(0, 256, (SIDE, SIDE), np.uint8)))


def clip(draws: Draws) -> list[bytes]:
    return [picture(draws) for _ in range(draws.integers(1, 4))]


def vector(draws: Draws) -> list[float]:
    """Of a price, a brand, which may be none of the two that the model knows, and an age, which may be empty."""
    brand = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]][draws.integers(3)]
    price, age = draws.normal(50, 20, 2).tolist()
    return [price, *brand, *([50.0, 1.0] if draws.integers(3) == 0 else [age, 0.0])]


def words(draws: Draws) -> str:
    return " ".join(draws.choice(WORDS, draws.integers(1, 5)))


# Of each type: a backbone that takes it, and what draws a raw cell.
TYPES: dict[str, tuple[dict[str, Any], Callable[[Draws], Any]]] = {
    "image": (CONVNET, picture),
    "frames": (CONVNET, clip),
    "features": ({"name": "perceptron", "args": {"hidden": [6]}}, vector),
    "text": ({"name": "words", "args": {"size": 6, "word_size": 4}}, words),
    "text_pair": ({"name": "words", "args": {"size": 6, "word_size": 4}}, lambda draws: [words(draws), words(draws)]),
}


def of_table(cell: Any) -> Any:
    """Return a raw cell as a stored table has it."""
    if isinstance(cell, bytes):
        return {"bytes": cell, "path": None}
    return [of_table(item) for item in cell] if isinstance(cell, list) else cell


def of_lines(cell: Any) -> Any:
    """Return a raw cell as a table of JSON lines has it: files are data URIs."""
    if isinstance(cell, bytes):
        return f"data:;base64,{base64.b64encode(cell).decode()}"
    return [of_lines(item) for item in cell] if isinstance(cell, list) else cell


def of_json(cell: Any) -> Any:
    """Return a raw cell as a request has it."""
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(cell, dict):
        return {name: of_json(item) for name, item in cell.items()}
    return [of_json(item) for item in cell] if isinstance(cell, list) else cell


def by_name(cell: list[Any], draws: Draws) -> Any:
    """Return a vector, or each of a list, by its features' names, in any order."""
    if isinstance(cell[0], list):
        return [by_name(vector_of_list, draws) for vector_of_list in cell]
    price, blue, red, age, is_empty = cell
    row = {"price": price, "brand": "blue" if blue else "red" if red else draws.choice(["", "lada"]).item()}
    row["age"] = draws.choice([None, math.nan, ""]) if is_empty else age
    return {name: row[name] for name in draws.permutation([*row]).tolist()}


def cells(task: str, kind: str, count: int, draws: Draws) -> list[Any]:
    """Return raw inputs of rows, lists of them where a row is a query."""
    draw_cell = TYPES[kind][1]
    if not lookup.find("tasks", task).reads.lists:
        return [draw_cell(draws) for _ in range(count)]
    result = []
    for size in draws.integers(1, 6, count):
        result.append([draw_cell(draws) for _ in range(size)])
    return result


def table(task: str, kind: str, rows: list[Any], draws: Draws) -> pa.Table:
    """Return raw inputs as a stored table, with a truth of the task."""
    count, lists = len(rows), lookup.find("tasks", task).reads.lists
    truth: dict[str, Any] = {
        "label_ranking": lambda: {"label_ranks": draws.integers(0, 3, (count, 4)).tolist()},
        "multilabel": lambda: {"labels": [[row % 2, (row + 1) % 2] for row in range(count)]},
        "score_ranking": lambda: {"target": draws.random(count)},
        "query_ranking": lambda: {"relevance": [[1, *draws.integers(0, 3, len(row) - 1).tolist()] for row in rows]},
        "retrieval": lambda: {"captions": [[words(draws)] * draws.integers(1, 3) for _ in rows]},
    }[task]()
    input_type = lookup.find("inputs", kind)
    stored = input_type.stored()
    about = {
        "id": range(count),
        "name": [f"row {row}" for row in range(count)],
        "group": [f"customer {row // 3}" for row in range(count)],
        "weight": 1 + draws.random(count),
    }
    metadata = {"label_ranking": {"classes": list("abcd")}, "multilabel": {"classes": ["cat", "dog"]}}.get(task, {})
    metadata |= {"features": NAMES} if kind == "features" else {}
    column = pa.array(of_table(rows) if input_type.pictures else rows, pa.list_(stored) if lists else stored)
    return pa.table(about | {kind: column} | truth).replace_schema_metadata(
        {key: json.dumps(value) for key, value in metadata.items()}
    )


def written(task: str, kind: str, folder: Path, rows: int = 12) -> None:
    """Write a table for training and one for validation into a folder."""
    draws = np.random.default_rng(0)
    for split in ("train", "val"):
        pq.write_table(table(task, kind, cells(task, kind, rows, draws), draws), folder / f"{split}.parquet")


def untrained(task: str, kind: str, folder: Path, draws: Draws) -> Any:
    """Return a network for a table that is written into a folder."""
    pq.write_table(table(task, kind, cells(task, kind, 12, draws), draws), folder / "train.parquet")
    made = task_of(task, TRAINING.get(task, TWO))
    model = {"name": "linear", "args": {}, "backbone": TYPES[kind][0]}
    return made.build(model, made.load(folder, "train", threads=1), seed=0)


SORTERS = {"handcrafted": ({"steepness": 5.0}, {}), "lstm": ({"hidden": 2, "layers": 1}, {"length": 3})}


def pairs() -> list[tuple[str, str]]:
    """Return each task with each type that it takes."""
    return [(task, kind) for task in lookup.names("tasks") for kind in lookup.find("tasks", task).reads.inputs]


@cache
def folder_of(name: str) -> Path:
    """Return the folder of an untrained network, such as `score_ranking of text`, or of a sorter."""
    folder, (task, _, kind) = Path(mkdtemp()), name.partition(" of ")
    if name in SORTERS:
        args, runtime = SORTERS[name]
        save_model(folder, build("sorters", name, args, seed=3, **runtime))
    else:
        save_model(folder, untrained(task, kind, folder, np.random.default_rng(0)))
    return folder

"""Small untrained networks of each task and kind of input, and a request that each answers."""

from base64 import b64encode
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from PIL import Image

from rankops.inputs._vocabulary import Vocabulary
from rankops.io.checkpoints import build, save_model

__all__ = ["NETWORKS", "folder_of", "row_of"]

PHOTO = {"name": "convnet", "args": {"channels": [4, 6]}}
IMAGE = {"kind": "image", "colors": 1, "height": 16, "width": 16}
LINEAR = {"name": "linear", "args": {}}
# Of each: what makes it, what the data decides, the recipe besides, and what it is asked.
NETWORKS: dict[str, tuple[tuple[str, str, dict], dict, dict, str]] = {
    "label_ranking": (("models", "label_ranker", {"backbone": PHOTO, "head": LINEAR, "hidden": 4}),
                      {"outputs": 4, "colors": 1}, {"task": "label_ranking", "input": IMAGE}, "image"),
    "multilabel": (("models", "network", {"backbone": PHOTO, "head": LINEAR}), {"outputs": 4, "colors": 1},
                   {"task": "multilabel", "input": IMAGE, "classes": list("abcd")}, "image"),
    "score_ranking": (("models", "network", {"backbone": PHOTO, "head": LINEAR}), {"outputs": 1, "colors": 3},
                      {"task": "score_ranking", "input": IMAGE | {"kind": "frames", "colors": 3}}, "frames"),
    "score_ranking of text": (("models", "network", {"backbone": {"name": "words", "args": {}}, "head": LINEAR}),
                              {"outputs": 1, "words": Vocabulary.of(["a red dress"]).words},
                              {"task": "score_ranking", "input": {"kind": "text"}}, "text"),
    "query_ranking": (("models", "network", {"backbone": {"name": "perceptron", "args": {}}, "head": LINEAR}),
                      {"outputs": 1, "features": 2},
                      {"task": "query_ranking", "input": {"kind": "features", "count": 2, "names": ["price", "age"]}},
                      "features"),
    "retrieval": (("models", "dual_encoder",
                   {"backbone": PHOTO, "head": LINEAR, "text": {"name": "words", "args": {}}}),
                  {"colors": 1, "words": Vocabulary.of(["a large three"]).words},
                  {"task": "retrieval", "input": IMAGE}, "either"),
    "handcrafted": (("sorters", "handcrafted", {"steepness": 5.0}), {}, {}, "scores"),
    "lstm": (("sorters", "lstm", {"hidden": 2, "layers": 1}), {"length": 3}, {}, "scores"),
}  # fmt: skip


@cache
def folder_of(name: str) -> Path:
    """Return a folder of its files."""
    (folder, kind, args), runtime, recipe, _ = NETWORKS[name]
    network, path = build(folder, kind, args, seed=3, **runtime), Path(mkdtemp())
    network.recipe |= recipe
    save_model(path, network)
    return path


def row_of(name: str, random: np.random.Generator) -> Any:
    """Return a row of a request to it, as JSON has it."""
    asked = NETWORKS[name][3]
    if asked == "scores":
        return random.normal(size=3).round(3).tolist()
    photo = lambda: _photo(random)  # noqa: E731
    row = {"image": photo, "frames": lambda: [photo(), photo()], "text": lambda: "a red hat",
           "features": lambda: [random.random(2).round(3).tolist(), {"price": 2.5, "age": 3}]}  # fmt: skip
    if asked == "either":
        return {"caption": "a large three"} if random.random() < 0.5 else {"image": photo()}
    return {asked: row[asked](), "id": int(random.integers(100))}


def _photo(random: np.random.Generator) -> str:
    buffer = BytesIO()
    side = [int(one) for one in random.integers(8, 24, 2)]
    Image.fromarray(random.integers(0, 256, side, dtype=np.uint8)).save(buffer, "PNG")
    return b64encode(buffer.getvalue()).decode()

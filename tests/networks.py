"""Small untrained networks of each task and kind of input, in folders of their files."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from rankgrad.inputs._vocabulary import Vocabulary
from rankgrad.io.checkpoints import build, save_model

PHOTO = {"name": "convnet", "args": {"channels": [4, 6]}}
IMAGE = {"kind": "image", "colors": 1, "height": 16, "width": 16}
LINEAR = {"name": "linear", "args": {}}
NAMES = ["price", "brand=blue", "brand=red", "age"]
# Of each: what makes it, what the data decides, and the recipe besides.
NETWORKS: dict[str, tuple[tuple[str, str, dict], dict, dict]] = {
    "label_ranking": (("models", "label_ranker", {"backbone": PHOTO, "head": LINEAR, "hidden": 4}),
                      {"outputs": 4, "colors": 1},
                      {"task": "label_ranking", "input": IMAGE, "classes": list("wxyz")}),
    "multilabel": (("models", "network", {"backbone": PHOTO, "head": LINEAR}), {"outputs": 4, "colors": 1},
                   {"task": "multilabel", "input": IMAGE, "classes": list("abcd")}),
    "score_ranking": (("models", "network", {"backbone": PHOTO, "head": LINEAR}), {"outputs": 1, "colors": 3},
                      {"task": "score_ranking", "input": IMAGE | {"kind": "frames", "colors": 3}}),
    "score_ranking of text": (("models", "network", {"backbone": {"name": "words", "args": {}}, "head": LINEAR}),
                              {"outputs": 1, "words": Vocabulary.of(["a red dress"]).words},
                              {"task": "score_ranking", "input": {"kind": "text"}}),
    "query_ranking": (("models", "network", {"backbone": {"name": "perceptron", "args": {}}, "head": LINEAR}),
                      {"outputs": 1, "features": 2},
                      {"task": "query_ranking", "input": {"kind": "features", "count": 2, "names": ["price", "age"]}}),
    "score_ranking of features":
        (("models", "network", {"backbone": {"name": "perceptron", "args": {}}, "head": LINEAR}),
         {"outputs": 1, "features": 4},
         {"task": "score_ranking", "input": {"kind": "features", "count": 4, "names": NAMES}}),
    "retrieval": (("models", "dual_encoder",
                   {"backbone": PHOTO, "head": LINEAR, "text": {"name": "words", "args": {}}}),
                  {"colors": 1, "words": Vocabulary.of(["a large three"]).words},
                  {"task": "retrieval", "input": IMAGE}),
    "handcrafted": (("sorters", "handcrafted", {"steepness": 5.0}), {}, {}),
    "lstm": (("sorters", "lstm", {"hidden": 2, "layers": 1}), {"length": 3}, {}),
}  # fmt: skip


@cache
def folder_of(name: str) -> Path:
    """Return a folder of its files."""
    (folder, kind, args), runtime, recipe = NETWORKS[name]
    network, path = build(folder, kind, args, seed=3, **runtime), Path(mkdtemp())
    network.recipe |= recipe
    save_model(path, network)
    return path

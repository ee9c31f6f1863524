"""Folders of models, of which the recipe says something else or the weights are damaged."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from rankops import lookup
from rankops.io.checkpoints import load_model
from tools.fuzz.attempt import WrongAnswer, refused
from tools.fuzz.mutation import changed_bytes, changed_tree
from tools.fuzz.networks import NETWORKS, folder_of, row_of


def draw(random: np.random.Generator) -> dict[str, Any]:
    name = list(NETWORKS)[random.integers(len(NETWORKS))]
    recipe = json.loads((folder_of(name) / "model.json").read_text())
    recipe_times, weights_times = ((1, 0), (2, 0), (0, 1), (0, 0), (1, 1))[random.integers(5)]
    text = json.dumps(changed_tree(recipe, random, times=recipe_times))
    if random.random() < 0.1:
        text = changed_bytes(text.encode(), random, times=1).decode("latin-1")
    return {"name": name, "recipe": text, "times": weights_times, "seed": int(random.integers(2**31))}


def check(name: str, recipe: str, times: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    with TemporaryDirectory(prefix="model-") as scratch:
        folder = Path(scratch) / "folder"
        shutil.copytree(folder_of(name), folder)
        whole = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(recipe, "latin-1", "replace")
        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(changed_bytes(weights, random, times=times))
        model = None
        with refused(str(folder)):
            model = load_model(folder)
    if model is None:
        if times == 0 and recipe == json.dumps(whole):
            raise WrongAnswer("refused a whole model")
        return
    if model.recipe["folder"] == "sorters":
        with refused("scores|length"):
            model(torch.tensor([row_of(name, random)]))
    elif "task" in model.recipe:
        with refused("^row"):
            lookup.find("tasks", model.recipe["task"])().respond(model, [row_of(name, random)])

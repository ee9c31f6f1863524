"""A folder of a model answers as the model did before it was saved; what is changed in it is refused by its name."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from laws.asked import ALL, SORTERS, Asked, requests
from laws.changes import changed, damaged
from laws.law import law, refused_at
from rankgrad.io.checkpoints import load_model, save_model

from rows import folder_of  # isort: skip


def answers_of(model: Any, request: Asked) -> Any:
    if request.name in SORTERS:
        return model(torch.tensor(request.rows)).tolist()
    return request.task.respond(model, request.rows)


@law(20)
@given(request=requests(), seed=st.integers(0, 9))
def test_a_model_answers_as_before_it_was_saved(request, seed):
    model = load_model(folder_of(request.name))
    with torch.no_grad():
        for weights in model.parameters():  # also those that begin at 0
            weights += torch.linspace(0.01, 0.3 + seed, weights.numel()).view(weights.shape)
    before = answers_of(model, request)
    with TemporaryDirectory() as scratch:
        save_model(scratch, model)
        again = load_model(scratch)
        assert answers_of(again, request) == before
        assert again.recipe == json.loads(json.dumps(model.recipe))
        save_model(f"{scratch}/twice", again)
        for name in ("model.json", "model.safetensors"):
            assert Path(scratch, "twice", name).read_bytes() == Path(scratch, name).read_bytes()


UNKNOWN = {"folder": "models", "name": "network", "task": "<unknown>", "input": {"kind": "text"},
           "args": {"backbone": {"args": {}, "name": "words"}, "head": {"args": {}, "name": "linear"}, "outputs": 1,
                    "words": ["<padding>", "<unknown>", "a", "dress", "red"]}}  # fmt: skip


@example(name="score_ranking of text", data=UNKNOWN)
@law(30)
@given(name=st.sampled_from(ALL), data=st.data())
def test_a_changed_recipe_is_refused_by_its_folder_or_makes_a_model_that_answers(name, data):
    with TemporaryDirectory(prefix="model-") as scratch:
        folder = Path(scratch) / "folder"
        shutil.copytree(folder_of(name), folder)
        recipe = json.loads((folder / "model.json").read_text())
        recipe = data if isinstance(data, dict) else data.draw(changed(recipe))
        (folder / "model.json").write_text(json.dumps(recipe))
        model = None
        with refused_at(str(folder)):
            model = load_model(folder)
    if model is None or isinstance(data, dict):
        assert model is None
        return
    request = data.draw(requests([name]))
    with refused_at("^row|scores|length"):
        if request.name in SORTERS:
            model(torch.tensor(request.rows))
        elif "task" in model.recipe:
            request.task.respond(model, request.rows)


def shapes_in(folder: Path) -> dict[str, torch.Size]:
    return {name: weights.shape for name, weights in load_model(folder).state_dict().items()}


@law(30)
@given(name=st.sampled_from([name for name in ALL if name != "handcrafted"]), data=st.data())
def test_damaged_weights_are_refused_by_their_folder_or_of_the_same_shapes(name, data):
    with TemporaryDirectory(prefix="model-") as scratch:
        folder = Path(scratch) / "folder"
        shutil.copytree(folder_of(name), folder)
        file = folder / "model.safetensors"
        file.write_bytes(data.draw(damaged(file.read_bytes())))
        with refused_at(str(folder)):
            assert shapes_in(folder) == shapes_in(folder_of(name))


def test_weights_of_which_a_bit_is_another_are_refused(tmp_path):
    shutil.copytree(folder_of("multilabel of image"), tmp_path, dirs_exist_ok=True)
    contents = bytearray((tmp_path / "model.safetensors").read_bytes())
    contents[-1] ^= 0x80  # the sign of the last one
    (tmp_path / "model.safetensors").write_bytes(contents)
    with pytest.raises(ValueError, match=str(tmp_path)):
        load_model(tmp_path)

"""The maintainers' scripts, in small projects of their own."""

import json
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from rankgrad.io.checkpoints import build, load_model, save_model
from tools import ship

from conftest import small_ranker  # isort: skip


class TestShip:
    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        save_model("models/sorters/any", build("sorters", "comparator", {"hidden": 4}, seed=0))
        save_model("models/sorters/fixed", build("sorters", "lstm", {"hidden": 4}, seed=0, length=8))
        ranker = small_ranker(size=16)
        for task in ("label_ranking", "score_ranking"):
            ranker.recipe["task"] = task
            save_model(f"models/runs/{task}", ranker)
        names = ("pretrain@any", "pretrain@fixed", "train@label_ranking", "train@score_ranking")
        stages = {name: {"cmd": "x", "deps": [], "outs": []} for name in names}
        YAML().dump({"stages": stages}, Path("dvc.lock"))

    def test_a_sorter_and_a_label_ranker_go_into_the_package_with_their_origin(self, project):
        folder = ship.ship("any")
        assert folder == Path("src/rankgrad/sorters/pretrained/any")
        assert load_model(folder).length is None
        assert json.loads((folder / "origin.json").read_text())["cmd"] == "x"
        folder = ship.ship("label_ranking")
        assert folder == Path("src/rankgrad/models/pretrained/label_ranking")
        assert {path.name for path in folder.iterdir()} == {"model.json", "model.safetensors", "origin.json"}
        weights = load_file(folder / "model.safetensors").values()
        assert {tensor.dtype for tensor in weights if tensor.is_floating_point()} == {torch.float16}
        images, trained = (
            torch.randint(0, 256, (2, 1, 16, 16), dtype=torch.uint8),
            load_model("models/runs/label_ranking"),
        )
        assert torch.allclose(load_model(folder)(images)[0], trained(images)[0], atol=1e-2)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("fixed", "sorts 8 scores"), ("none", "models/sorters/none"), ("score_ranking", "score_ranking")],
    )
    def test_others_do_not(self, project, name, expected):
        with pytest.raises((ValueError, FileNotFoundError), match=expected):
            ship.ship(name)
        assert not Path("src").exists()

"""The maintainers' scripts, in small projects of their own."""

import json
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from rankops.io.checkpoints import build, load_model, save_model
from tools import benchmark, page, ship

PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"


class TestPage:
    def test_results_replace_what_stands_between_the_lines(self, tmp_path):
        path = tmp_path / "page.md"
        path.write_text(PLACE.format("by a tool") + PLACE.format("by a script"))
        page.write_results(path, r"| new \1 |" + "\n", by="a script")
        assert path.read_text() == PLACE.format("by a tool") + PLACE.format("by a script").replace("old", r"| new \1 |")

    @pytest.mark.parametrize("text", ["", "<!-- results: x -->\nno end", PLACE * 2])
    def test_a_page_without_one_place_stays_as_it_is(self, tmp_path, text):
        path = tmp_path / "page.md"
        path.write_text(text)
        with pytest.raises(ValueError, match="page.md"):
            page.write_results(path, "new")
        assert path.read_text() == text


class TestBenchmark:
    def test_unknown_ones_are_refused(self):
        with pytest.raises(ValueError, match="drawing: expected sorters or losses"):
            benchmark.main(["drawing"])


class TestShip:
    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        save_model("models/sorters/any", build("sorters", "comparator", {"hidden": 4}, seed=0))
        save_model("models/sorters/fixed", build("sorters", "lstm", {"hidden": 4}, seed=0, length=8))
        scorer = {"name": "convnet", "args": {"channels": [4]}}
        ranker = build("models", "label_ranker", {"scorer": scorer}, seed=0, outputs=3)
        for task in ("label_ranking", "memorability"):
            ranker.recipe |= {"task": task, "image": {"colors": 1, "height": 16, "width": 16}}
            save_model(f"models/runs/{task}", ranker)
        names = ("pretrain@any", "pretrain@fixed", "train@label_ranking", "train@memorability")
        stages = {name: {"cmd": "x", "deps": [], "outs": []} for name in names}
        YAML().dump({"stages": stages}, Path("dvc.lock"))

    def test_a_sorter_goes_into_the_package_with_its_origin(self, project):
        folder = ship.ship("any")
        assert folder == Path("src/rankops/sorters/pretrained/any")
        assert load_model(folder).length is None
        assert json.loads((folder / "origin.json").read_text())["cmd"] == "x"

    def test_a_label_ranker_goes_there_in_half_precision(self, project):
        folder = ship.ship("label_ranking")
        assert folder == Path("src/rankops/models/pretrained/label_ranking")
        assert {path.name for path in folder.iterdir()} == {"model.json", "model.safetensors", "origin.json"}
        weights = load_file(folder / "model.safetensors").values()
        assert {one.dtype for one in weights if one.is_floating_point()} == {torch.float16}
        images, shipped = torch.randint(0, 256, (2, 1, 16, 16), dtype=torch.uint8), load_model(folder)
        trained = load_model("models/runs/label_ranking")
        assert torch.allclose(shipped(images)[0], trained(images)[0], atol=1e-2)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("fixed", "sorts 8 scores"), ("none", "models/sorters/none"), ("memorability", "a model of memorability")],
    )
    def test_others_do_not(self, project, name, expected):
        with pytest.raises((ValueError, FileNotFoundError), match=expected):
            ship.ship(name)
        assert not Path("src").exists()

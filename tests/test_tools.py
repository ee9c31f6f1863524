"""The maintainers' scripts, in small projects of their own."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rankops.io.checkpoints import build, load_model, save_model
from tools import benchmark, page, ship

PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"


class TestPage:
    def test_results_replace_what_stands_between_the_lines(self, tmp_path):
        path = tmp_path / "page.md"
        path.write_text(PLACE.format("by a script"))
        page.write_results(path, r"| new \1 |" + "\n")
        assert path.read_text() == PLACE.format("by a script").replace("old", r"| new \1 |")

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
        stages = {f"pretrain@{name}": {"cmd": "x", "deps": [], "outs": []} for name in ("any", "fixed")}
        YAML().dump({"stages": stages}, Path("dvc.lock"))

    def test_a_sorter_goes_into_the_package_with_its_origin(self, project):
        folder = ship.ship("any")
        assert folder == Path("src/rankops/sorters/pretrained/any")
        assert load_model(folder).length is None
        assert json.loads((folder / "origin.json").read_text())["cmd"] == "x"

    @pytest.mark.parametrize(("name", "expected"), [("fixed", "sorts 8 scores"), ("none", "models/sorters/none")])
    def test_others_do_not(self, project, name, expected):
        with pytest.raises((ValueError, FileNotFoundError), match=expected):
            ship.ship(name)
        assert not Path("src").exists()

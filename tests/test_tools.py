"""The maintainers' scripts, in small projects of their own."""

import json
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from rankops.io.checkpoints import build, load_model, save_model
from rankops.tasks.label_ranking import LabelRanking
from tools import page, ship, table_1

from conftest import small_ranker  # isort: skip

PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"


def test_results_replace_what_stands_between_the_lines_and_a_page_without_one_place_stays_as_it_is(tmp_path):
    path, other = tmp_path / "page.md", PLACE.format("by a tool")
    path.write_text(other + PLACE.format("by a script"))
    page.write_results(path, r"| new \1 |" + "\n", by="a script")
    assert path.read_text() == other + PLACE.format("by a script").replace("old", r"| new \1 |")
    for text in ("", "<!-- results: x -->\nno end", PLACE * 2):
        path.write_text(text)
        with pytest.raises(ValueError, match="page.md"):
            page.write_results(path, "new")
        assert path.read_text() == text


class TestTable1:
    def keep(self, loss: str, values: dict[str, float]) -> None:
        metrics: dict = {}
        for metric in LabelRanking.metrics:
            kind, name = metric.name.split(".")
            metrics.setdefault(kind, {})[name] = {"seeds": values}
        path = Path(f"results/table_1/label_ranking-{loss}-label_attention.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"metrics": metrics}))

    def table(self) -> str:
        return table_1.table(Path("results/table_1"), "label_attention")

    def test_margins_are_tested_over_seeds_and_every_loss_must_have_the_same(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        self.keep("cross_entropy", {"1": 0.1, "2": 0.29, "10": 0.21})
        self.keep("lsep", {"10": 0.55, "2": 0.58, "1": 0.5})  # level with RLSEP, as a seed more or less decides
        with pytest.raises(FileNotFoundError, match="label_ranking-rlsep"):
            self.table()
        self.keep("rlsep", {"1": 0.5, "2": 0.7, "10": 0.6})
        lines = [line.split(" | ") for line in self.table().splitlines() if line.startswith("| ranked 0-1")]
        assert lines[0][1:] == ["20.0 ± 9.5", "54.3 ± 4.0", "60.0 ± 10.0", "45.4 |"]
        assert [line[1:3] for line in lines[1:]] == [["cross-entropy", "+40.0"], ["LSEP", "+5.7"]]
        assert float(lines[1][3]) < 0.05 < float(lines[2][3])
        assert 0.001 <= float(lines[1][4]) < 1
        self.keep("lsep", {"1": 0.5})
        with pytest.raises(ValueError, match="different seeds"):
            self.table()


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
        [("fixed", "sorts 8 scores"), ("none", "models/sorters/none"), ("score_ranking", "a model of score_ranking")],
    )
    def test_others_do_not(self, project, name, expected):
        with pytest.raises((ValueError, FileNotFoundError), match=expected):
            ship.ship(name)
        assert not Path("src").exists()

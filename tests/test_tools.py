"""The maintainers' scripts, in small projects of their own."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import ClassVar

import pytest
from ruamel.yaml import YAML

from rankops.io.checkpoints import build, load_model, save_model
from tools import benchmark, keep, page, ship

PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"


def git(*words: str) -> str:
    person = ["-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    return subprocess.run(["git", *person, *words], capture_output=True, text=True, check=True).stdout.strip()


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


class TestKeep:
    RESULTS: ClassVar = {"ranked": {"accuracy": {"value": 0.9, "low": 0.8, "high": 0.95, "seeds": {"1": 0.9}}}}

    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        """A repository with the results of two runs, as stages and dvc.lock have them."""
        monkeypatch.chdir(tmp_path)
        run = {"task": "label_ranking", "dataset": "ranked_mnist", "seeds": [1]}
        params = {
            "compute": {"threads": 1}, "data": {"snapshot": 1}, "datasets": {"ranked_mnist": {"canvas": 112}},
            "training": {"label_ranking": {"batch_size": 64}, "retrieval": {}}, "runs": {"a": run, "b": run},
        }  # fmt: skip
        lock = {}
        for name in ("a", "b"):
            for path, content in (
                (f"metrics/runs/{name}.json", self.RESULTS),
                (f"models/runs/{name}/run.json", {"best": 1}),
            ):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(json.dumps(content))
            md5 = hashlib.md5(Path(f"metrics/runs/{name}.json").read_bytes()).hexdigest()
            data = {"path": "data/ranked_mnist/train.parquet", "md5": "1f"}
            lock[f"train@{name}"] = {"deps": [data], "outs": []}
            lock[f"evaluate@{name}"] = {"deps": [], "outs": [{"path": f"metrics/runs/{name}.json", "md5": md5}]}
        YAML().dump(params, Path("params.yaml"))
        YAML().dump({"stages": lock}, Path("dvc.lock"))
        Path(".gitignore").write_text("/metrics/\n/models/\n")
        git("init", "--quiet")
        git("add", "--all")
        git("commit", "--quiet", "--message", "made")

    def test_results_are_written_with_what_made_them(self, project):
        assert keep.keep("subset", command="make it") == [Path("results/subset/a.json"), Path("results/subset/b.json")]
        kept = json.loads(Path("results/subset/a.json").read_text())
        assert (kept["commit"], kept["command"], kept["metrics"]) == (git("rev-parse", "HEAD"), "make it", self.RESULTS)
        assert kept["params"]["dataset"] == {"canvas": 112}
        assert kept["params"]["training"] == {"batch_size": 64}
        assert kept["inputs"] == {"data/ranked_mnist/train.parquet": "1f"}
        assert kept["training"] == {"best": 1}
        assert kept["machine"]["torch"]

    def test_one_run_may_be_named(self, project):
        assert keep.keep("subset", runs=["b"]) == [Path("results/subset/b.json")]

    def test_code_or_params_in_no_commit_are_refused(self, project):
        with Path("params.yaml").open("a") as file:
            file.write("# changed\n")
        with pytest.raises(ValueError, match="params.yaml"):
            keep.keep("subset")
        assert not Path("results").exists()

    def test_results_of_another_training_are_refused_and_none_is_kept(self, project):
        Path("metrics/runs/b.json").write_text("{}")
        with pytest.raises(ValueError, match="metrics/runs/b.json"):
            keep.keep("subset")
        assert not Path("results").exists()

    def test_a_run_that_was_not_trained_is_named(self, project):
        with pytest.raises((ValueError, FileNotFoundError), match="metrics/runs/c.json|train@c"):
            keep.keep("subset", runs=["c"])

"""The experiments: a project of their own with the top one's stages, the papers' figures, and results that are kept."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from dvc.repo import Repo
from ruamel.yaml import YAML
from scipy.stats import spearmanr

from pipelines.config import scales
from pipelines.config.schema import check_shapes, merged, read
from pipelines.stages import compare, label_ranking_figures, score_sweep, synthetic_precision
from rankops.bootstrap import evaluate
from rankops.io.checkpoints import build, save_model
from tools.keep import keep

from conftest import ROOT, git  # isort: skip

FOLDER = ROOT / "experiments"
OURS, THEIRS = Path("experiments"), Path("elsewhere")


def reproduce(folder: Path) -> None:
    with contextlib.chdir(folder), Repo(".") as repo:
        repo.reproduce()


class TestProject:
    @pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_params_are_fine_and_those_of_its_default_scale_which_takes_every_other_back(self, tmp_path, every):
        shutil.copyfile(FOLDER / "params.yaml", tmp_path / "params.yaml")
        shutil.copytree(FOLDER / "scales", tmp_path / "scales")
        for scale in [*(scales.names(tmp_path) if every else ()), scales.DEFAULT]:
            scales.apply(scale, tmp_path)  # which checks them
        assert (tmp_path / "params.yaml").read_text() == (FOLDER / "params.yaml").read_text()

    def test_its_stages_are_the_top_ones(self):
        ours, theirs = (read(folder / "dvc.yaml")["stages"] for folder in (FOLDER, ROOT))
        del theirs["publish"]  # nothing is published from here
        assert {name: ours[name] for name in theirs} == theirs, "copy the stages of dvc.yaml into experiments/dvc.yaml"


class TestFigures:
    """What is measured for them; test_slow draws them all."""

    def test_soft_ranks_along_a_sweep_and_precision_of_labels_that_were_flipped(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        values = read(FOLDER / "params.yaml")
        values["sorters"] = {"laplace": values["sorters"]["laplace"]}
        precision = values["synthetic_precision"]
        precision["methods"] = {"laplace": precision["methods"]["lstm"] | {"sorter": "laplace"}}
        small = {"rows": 128, "batch_size": 32, "epochs": 3, "flipped": [0.0, 0.4], "seeds": 2}
        params = check_shapes(merged(values, {"score_sweep": {"steps": 41}, "synthetic_precision": small}))
        save_model("models/sorters/laplace", build("sorters", "laplace", {}, seed=0))
        score_sweep.main(params)
        sweep = pd.read_csv("metrics/score_sweep.csv")
        assert (sweep["exact"].iloc[0], sweep["exact"].iloc[-1]) == (32, 1)
        assert (sweep["laplace"].diff().dropna() < 0).all()
        synthetic_precision.main(params, "laplace")
        measured = json.loads(Path("metrics/synthetic_precision/laplace.json").read_text())
        assert [curve["flipped"] for curve in measured["curves"]] == [0, 0, 0.4, 0.4]
        assert {len(curve["average_precision"]) for curve in measured["curves"]} == {3}
        assert measured["iterations_per_epoch"] == 2

    def test_calibration_measures_scores_by_true_scale(self):
        size = 8.0 * torch.tensor([[1, 2, 3, 4, 0], [4, 3, 0, 2, 1]])
        scores = torch.tensor([[1.0, 2.0, 3.0, 4.0, -1.0], [4.0, 5.0, -3.0, 2.0, 2.0]])  # the second is out of order
        result = label_ranking_figures.calibration(scores, size, canvas=64, resamples=20, seed=1)
        found = {name: (scale["mean"], scale["deviation"]) for name, scale in result["scales"].items()}
        assert found == {"1": (1.5, 0.5), "2": (2.0, 0.0), "3": (4.0, 1.0), "4": (4.0, 0.0), "absent": (-2.0, 1.0)}
        assert np.sum([group["histogram"] for group in result["scales"].values()]) == 10
        assert result["exactly_ordered"]["value"] == 0.5
        assert result["spearman"] == pytest.approx(spearmanr(scores[size > 0], size[size > 0]).statistic)


class TestKeep:
    def make(self, folder: Path, seeds: list[int]) -> None:
        """A DVC project of two runs, whose stages copy what is prepared; all that git sees is committed."""
        values = read(ROOT / "params.yaml") | {"sorters": {}}
        run = values["runs"]["memorability-mse"] | {"seeds": seeds}
        values["runs"] = {"a": run, "b": run}
        values["comparisons"] = {"both": {"question": "?", "metric": "spearman", "baseline": "a", "runs": ["b"]}}
        train = {
            "cmd": "mkdir -p models/runs/${key} && cp prepared/${key}.json models/runs/${key}/run.json",
            "deps": ["src", "data"],
            "params": ["runs.${key}", "training.${item.task}"],
            "outs": ["models/runs/${key}"],
        }
        test = {
            "cmd": "mkdir -p predictions metrics/runs && cp prepared/${key}.parquet predictions && "
            "cp prepared/${key}-metrics.json metrics/runs/${key}.json",
            "deps": ["src", "models/runs/${key}"],
            "params": ["evaluate", "runs.${key}.seeds"],
            "outs": ["predictions/${key}.parquet", "metrics/runs/${key}.json"],
        }
        stages = {name: {"foreach": "${runs}", "do": do} for name, do in (("train", train), ("evaluate", test))}
        prepared = folder / "prepared"
        prepared.mkdir(exist_ok=True)
        record = {"seeds": seeds, "setting": {}, "validation": {str(seed): seed / 10 for seed in seeds}}
        for name in ("a", "b"):
            pq.write_table(pa.concat_tables([predicted(name, seed) for seed in seeds]), prepared / f"{name}.parquet")
            statistics = compare.statistics_of("score_ranking", prepared / f"{name}.parquet", seeds)
            metrics = evaluate(statistics, resamples=20, seed=0)
            (prepared / f"{name}-metrics.json").write_text(json.dumps(metrics))
            (prepared / f"{name}.json").write_text(json.dumps(record))
        (folder / "params.yaml").write_text(json.dumps(values, indent=1))
        YAML().dump({"stages": stages}, folder / "dvc.yaml")
        reproduce(folder)
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", "made")

    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory) -> Path:
        """A repository with such a project in `experiments`."""
        folder = tmp_path_factory.mktemp("made")
        with contextlib.chdir(folder):
            git("init", "--quiet")
            for path in ("src/train.py", "experiments/data/train.parquet"):
                Path(path).parent.mkdir(parents=True)
                Path(path).write_text("1")
            OURS.joinpath("src").symlink_to("../src")
            Path(".gitignore").write_text("prepared\n/*/models\n/*/predictions\n/*/metrics\ndvc.lock\n/elsewhere\n")
            with contextlib.chdir(OURS), Repo.init(".", no_scm=True) as repo, repo.config.edit() as config:
                config["core"]["no_scm"] = True
            self.make(OURS, [1, 2])
        return folder

    @pytest.fixture
    def project(self, made, tmp_path, monkeypatch):
        """A copy of it, the present folder; what makes it anew."""
        shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
        monkeypatch.chdir(tmp_path)
        return self.make

    def test_results_have_what_made_them(self, project):
        files = keep("mine", folder=OURS, command="make it")
        assert [str(file) for file in files] == [f"results/mine/{name}.json" for name in ("a", "b", "comparisons/both")]
        kept = read_json("results/mine/a.json")
        assert (kept["commit"], kept["command"]) == (git("rev-parse", "HEAD"), "make it")
        assert kept["metrics"] == read_json("experiments/metrics/runs/a.json")
        assert kept["params"]["run"]["seeds"] == kept["training"]["seeds"] == [1, 2]
        assert kept["inputs"]["src"].endswith(".dir")
        assert kept["machine"]["torch"]
        assert read_json("results/mine/comparisons/both.json")["metrics"]["runs"]["b"]["seeds"] == 2
        assert [str(file) for file in keep("one", folder=OURS, runs=["b"])] == ["results/one/b.json"]

    @pytest.mark.parametrize(("file", "committed"), [("src/train.py", True), ("experiments/params.yaml", False)])
    def test_other_code_params_or_results_than_those_of_the_lock_are_refused(self, project, file, committed):
        metrics = Path("experiments/metrics/runs/b.json")
        before = metrics.read_text()
        metrics.write_text("{}")
        with pytest.raises(ValueError, match=r"evaluate@b: metrics/runs/b\.json"):
            keep("mine", folder=OURS)
        metrics.write_text(before)
        Path(file).write_text(Path(file).read_text().replace("1", "3"))
        if committed:
            git("commit", "--quiet", "--all", "--message", "changed")
        with pytest.raises(ValueError, match="train@a.*(src|params)" if committed else f"commit: {file}"):
            keep("mine", folder=OURS)
        assert not Path("results").exists()

    def test_seeds_of_two_machines_are_merged_if_they_are_of_the_same_code(self, project):
        shutil.copytree(OURS, THEIRS)  # with the code: the link becomes a folder
        project(THEIRS, [3])
        (THEIRS / "machine.json").write_text('{"processor": "an abacus"}')
        alone = read_json(keep("alone", folder=OURS)[0])["metrics"]["spearman"]
        both = read_json(keep("mine", folder=OURS, others=[THEIRS])[0])
        leaf = both["metrics"]["spearman"]
        assert {seed: leaf["seeds"][seed] for seed in ("1", "2")} == alone["seeds"]
        assert leaf["value"] == pytest.approx(np.mean(list(leaf["seeds"].values())))
        assert leaf["low"] < leaf["value"] < leaf["high"]
        assert both["training"]["seeds"] == [1, 2, 3]
        assert both["training"]["best"] == 3
        assert both["others"] == [{"machine": {"processor": "an abacus"}, "seeds": [3]}]
        assert read_json("results/mine/comparisons/both.json")["metrics"]["runs"]["b"]["seeds"] == 3
        with pytest.raises(ValueError, match=r"mine/a\.json: .*\[3\]"):
            keep("mine", folder=OURS)  # which would lose it
        (THEIRS / "src/train.py").write_text("2")
        project(THEIRS, [3])
        with pytest.raises(ValueError, match="elsewhere: a .*src"):
            keep("mine", folder=OURS, others=[THEIRS])


def read_json(path: str | Path) -> dict:
    return json.loads(Path(path).read_text())


def predicted(run: str, seed: int) -> pa.Table:
    """Predictions of a run that err by chance, and less in the run b."""
    draws = np.random.default_rng([seed, ord(run)])
    target = np.linspace(0, 1, 30, dtype=np.float32)
    score = (target + (0.1 if run == "b" else 0.5) * draws.normal(size=30)).astype(np.float32)
    return pa.table({"id": range(30), "seed": [seed] * 30, "score": score, "target": target})

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
from dvc.repo import Repo

from pipelines.config import scales
from pipelines.config.schema import read
from pipelines.stages import compare
from rankgrad.evaluation import evaluate
from rankgrad.io import results
from studies import flip, gpu, kept
from studies.keep import keep

from conftest import ROOT, git  # isort: skip

FOLDER = ROOT / "studies"
OURS = Path("studies")


@pytest.mark.slow
def test_params_are_fine_at_every_scale_and_the_default_one_takes_every_other_back(tmp_path):
    shutil.copyfile(FOLDER / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(FOLDER / "scales", tmp_path / "scales")
    for scale in [*scales.names(tmp_path), scales.DEFAULT]:
        scales.apply(scale, tmp_path)  # which checks them
    assert (tmp_path / "params.yaml").read_text() == (FOLDER / "params.yaml").read_text()


class TestFlip:
    def test_sites_that_vary_are_columns_and_the_published_splits_stay(self):
        published = {"sequence": ["MAC", "MAD", "MGD"], "target": [1.0, 2.0, 3.0], "set": ["train", "train", "test"]}
        table = flip.as_table(pd.DataFrame(published | {"validation": [None, True, None]}))
        assert table.to_dict("list") == {"site2_A": [1, 1, 0], "site2_G": [0, 0, 1], "site3_C": [1, 0, 0],
                                         "site3_D": [0, 1, 1], "fitness": [1.0, 2.0, 3.0],
                                         "fitness_rank": [0.5, 1.0, 1.0],  # among the training rows, which are one
                                         "split": ["train", "val", "test"]}  # fmt: skip

    def test_another_archive_is_refused(self, tmp_path):
        (tmp_path / "splits.zip").write_bytes(b"another")
        with pytest.raises(ValueError, match="SHA-256"):
            flip.archive(str(tmp_path / "splits.zip"))


class TestGpu:
    """What a lent GPU does, at tiny sizes, on the CPU."""

    def test_what_is_done_is_not_done_again_and_is_kept_as_a_study(self, tmp_path, monkeypatch):
        given = ["--toy", "--device", "cpu", "--pieces", "sodeep", "--out", str(tmp_path / "out"), "--commit"]
        gpu.main([*given, "a"])
        monkeypatch.setitem(gpu.WORK, "sodeep", lambda *_: pytest.fail("done again"))
        gpu.main([*given, "a"])
        with pytest.raises(ValueError, match="sodeep was made with another commit"):
            gpu.main([*given, "b"])
        monkeypatch.setattr(kept, "FOLDER", tmp_path / "results")
        gpu.main(["--keep", str(tmp_path / "out")])
        study = kept.read("sodeep_gpu")
        value, low, high = study.leaf("lstm", "l1")
        assert low <= value <= high < 0.5
        assert (study.runs, study.made_by["commit"]) == (["lstm", "cnn-unpadded"], "a")


STAGES = """
stages:
  train:
    foreach: ${runs}
    do:
      cmd:
        - mkdir -p models/runs/${key}
        - cp prepared/${key}.json models/runs/${key}/run.json
      deps: [src, data]
      params: ["runs.${key}", "training.${item.task}"]
      outs: ["models/runs/${key}"]
  evaluate:
    foreach: ${runs}
    do:
      cmd:
        - mkdir -p predictions metrics/runs
        - cp prepared/${key}.parquet predictions
        - cp prepared/${key}.csv metrics/runs
      deps: [src, "models/runs/${key}"]
      params: [evaluate, "runs.${key}.seeds"]
      outs: ["predictions/${key}.parquet", "metrics/runs/${key}.csv"]
  rival:
    cmd: cp prepared/b.parquet predictions/c.parquet
    deps: [predictions/b.parquet]
    outs: [predictions/c.parquet]
"""


class TestKeep:
    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory) -> Path:
        """A repository with a DVC project of two runs in `studies`, whose stages copy what is prepared."""
        folder = tmp_path_factory.mktemp("made")
        values = read(ROOT / "params.yaml") | {"sorters": {}}
        run = values["runs"]["memorability-mse"] | {"seeds": [1, 2]}
        values["runs"] = {"a": run, "b": run}
        comparison = {"question": "?", "metric": "spearman", "baseline": "a", "runs": ["b"], "rivals": ["c"]}
        values["comparisons"] = {"both": comparison}
        record = {"seeds": [1, 2], "best": 2, "setting": {}, "tried": [], "validation": {"1": 0.1, "2": 0.2}}
        with contextlib.chdir(folder):
            git("init", "--quiet")
            for path in ("src/train.py", "studies/data/train.parquet", "studies/prepared/a.json"):
                Path(path).parent.mkdir(parents=True)
                Path(path).write_text("1")
            OURS.joinpath("src").symlink_to("../src")
            Path(".gitignore").write_text("prepared\n/*/models\n/*/predictions\n/*/metrics\ndvc.lock\n")
            prepared = OURS / "prepared"
            for name in ("a", "b"):
                table = pa.concat_tables([predicted(name, seed) for seed in record["seeds"]])
                pq.write_table(table, prepared / f"{name}.parquet")
                statistics = compare.statistics_of("score_ranking", prepared / f"{name}.parquet")
                results.write(prepared / f"{name}.csv", evaluate(name, statistics, resamples=20, seed=0))
                (prepared / f"{name}.json").write_text(json.dumps(record))
            (OURS / "params.yaml").write_text(json.dumps(values, indent=1))
            Path("dvc.yaml").write_text(STAGES)
            (OURS / "dvc.yaml").symlink_to("../dvc.yaml")
            with contextlib.chdir(OURS), Repo.init(".", no_scm=True) as repo:
                repo.reproduce()
            git("add", "--all")
            git("commit", "--quiet", "--message", "made")
        return folder

    @pytest.fixture
    def project(self, made, tmp_path, monkeypatch):
        """A copy of it, the present folder."""
        shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
        monkeypatch.chdir(tmp_path)

    def test_results_have_what_made_them(self, project):
        assert keep("mine", folder=OURS, command="make it") == Path("studies/made/mine")
        study, metrics = kept.read("mine"), results.read("studies/metrics/runs/a.csv")
        assert (study.made_by["commit"], study.made_by["command"]) == (git("rev-parse", "HEAD"), "make it")
        assert study.leaf("a", "spearman") == metrics.leaf("a", "spearman")
        assert study.by_seed("a", "validation") == {1: 0.1, 2: 0.2}
        assert study.made_by["params"]["runs"]["a"]["seeds"] == [1, 2]
        assert study.made_by["hashes"]["src"].endswith(".dir")
        assert study.made_by["machine"]["torch"]
        value, low, high = study.leaf("b", "spearman minus a")
        assert 0 < low < value < high
        assert study.leaf("c", "spearman minus a") == (value, low, high)
        assert study.by_seed("c", "spearman") == study.by_seed("b", "spearman")
        keep("mine", "b*", folder=OURS)
        assert kept.read("mine").runs == ["b"]
        with pytest.raises(FileNotFoundError, match="no results of e"):
            keep("mine", "b", "e", folder=OURS)

    @pytest.mark.parametrize(("file", "committed"), [("src/train.py", True), ("studies/params.yaml", False)])
    def test_other_code_params_or_results_than_those_of_the_lock_are_refused(self, project, file, committed):
        metrics = Path("studies/metrics/runs/b.csv")
        before = metrics.read_text()
        metrics.write_text("{}")
        with pytest.raises(ValueError, match=r"evaluate@b: metrics/runs/b\.csv"):
            keep("mine", folder=OURS)
        metrics.write_text(before)
        Path(file).write_text(Path(file).read_text().replace("1", "3"))
        if committed:
            git("commit", "--quiet", "--all", "--message", "changed")
        with pytest.raises(ValueError, match="train@a.*(src|params)" if committed else f"commit: {file}"):
            keep("mine", folder=OURS)
        assert not Path("studies/made").exists()

    def test_what_another_program_predicts_must_be_made_by_a_stage(self, project):
        shutil.copyfile(OURS / "predictions/b.parquet", OURS / "predictions/d.parquet")
        with pytest.raises(ValueError, match=r"d\.parquet: no stage makes it"):
            keep("mine", folder=OURS)


def predicted(run: str, seed: int) -> pa.Table:
    """Predictions of a run that err by chance, and less in the run b."""
    draws = np.random.default_rng([seed, ord(run)])
    target = np.linspace(0, 1, 30, dtype=np.float32)
    score = (target + (0.1 if run == "b" else 0.5) * draws.normal(size=30)).astype(np.float32)
    return pa.table({"id": range(30), "seed": [seed] * 30, "score": score, "target": target})

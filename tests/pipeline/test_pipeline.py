"""The whole pipeline at a tiny scale, in a clone of its own: made once with runs of every form, and in part again."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rankgrad.io import results

from conftest import encoded, smooth  # isort: skip

RANKER, RETRIEVAL = "label_ranking-rlsep", "retrieval-sodeep_recall-lstm"  # of the project's own params
MODEL = {"name": "linear", "args": {"maximum": True}, "backbone": {"name": "convnet", "args": {"channels": [8, 16]}}}
HEAD = {
    "task": "score_ranking", "dataset": "clips", "model": MODEL,
    "start": "models/runs/label_ranking-rlsep", "loss": {"name": "spearman", "args": {}}, "sorter": "laplace",
    "auxiliary": {"name": "none"}, "training": {}, "seeds": [1], "grid": {},
}  # fmt: skip
OTHERS = {
    "chosen": HEAD | {"seeds": [1, 2], "grid": {"training.probe.optimizer.args.lr": [0.003, 0.01]}},
    "from_a_head": HEAD | {"start": "models/runs/chosen", "loss": {"name": "mse", "args": {}}, "sorter": "none"},
    "voc": HEAD | {
        "task": "multilabel", "dataset": "photos", "model": MODEL | {"name": "wildcat", "args": {}},
        "start": "models/runs/none", "sorter": "none", "loss": {"name": "multilabel_soft_margin", "args": {}},
        "training": {"finetune": {"epochs": 1}},
    },
}  # fmt: skip
RUNS = (RANKER, RETRIEVAL, *OTHERS)
PHOTOS = {
    "name": "table", "raw": "data/raw/photos", "size": 32, "seed": 1,
    "args": {"file": "photos.csv", "image": "image", "labels": "label_*", "split": "split"},
}  # fmt: skip
COMPARISON = {"question": "?", "metric": "spearman", "baseline": "from_a_head", "runs": ["chosen"]}


@pytest.fixture(scope="module")
def project(new_project, tmp_path_factory):
    """After its first `make repro`: a run of each task of drawn and of read data, a choice, and a chain of starts."""
    made = new_project("project")
    made.environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # what tools leave there is not the project's
    photographs(made.folder / "data/raw/photos")
    path = made.folder / "params.yaml"
    params = YAML(typ="safe").load(path)
    for block in ("sorters", "benchmark_sorters"):
        params[block] = {name: params[block][name] for name in ("laplace", "lstm")}
    params["runs"] = {name: params["runs"][name] | {"seeds": [1]} for name in (RANKER, RETRIEVAL)} | OTHERS
    datasets = {run["dataset"]: params["datasets"].get(run["dataset"]) for run in params["runs"].values()}
    params["datasets"] = datasets | {"photos": PHOTOS}
    params["comparisons"] = {"mine": COMPARISON}
    YAML().dump(params, path)
    made.run("git add --all && git commit --quiet --message start")
    # In the tests' own environment, which is not made anew.
    made.first = made.run(f"make -o .venv/.installed BIN={Path(sys.executable).parent} repro")
    made.left = made.run("git status --porcelain")
    made.run("git add --all && git commit --quiet --message made")
    return made


def photographs(root: Path) -> None:
    """A dozen colored photographs with three labels."""
    root.mkdir(parents=True)
    lines = ["image,split,label_a,label_b,label_c"]
    for number in range(12):
        (root / f"{number}.jpg").write_bytes(encoded(smooth(number), "JPEG"))
        flags = ["1,0,0", "0,0,1", "0,1,0"][number % 3]
        lines.append(f"{number}.jpg,{('train', 'val', 'test')[number // 4]},{flags}")
    (root / "photos.csv").write_text("\n".join(lines))


def ran(output: str) -> list[str]:
    return re.findall("^Running stage '(.+)'", output, re.MULTILINE)


def changed(project) -> set[str]:
    """Stages that a `dvc repro` would run first, but for the one that says so."""
    project.run("dvc repro code")
    return set(json.loads(project.run("dvc status --json")))


def edit(project, *files: str, code: str = "# a comment") -> None:
    for file in files:
        with (project.folder / "src/rankgrad" / file).open("a") as source:
            source.write(f"{code}\n")


def test_make_repro_runs_every_stage_once_publishes_once_and_leaves_git_nothing_but_the_lock(project):
    stages = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    assert sorted(ran(project.first)) == sorted(stages)
    assert project.first.count("publish: uploaded ") == 1
    assert project.left == "?? dvc.lock\n"
    assert "datasets.photos.size 32\n" in project.read("checks/code/data@photos.txt")  # DVC's run cache ignores sizes
    again = project.run("dvc repro")
    assert ran(again) == []
    assert "Data and pipelines are up to date." in again


def test_a_setting_is_chosen_and_every_run_is_scored_reported_and_published(project):
    assert len(json.loads(project.read("models/runs/chosen/run.json"))["tried"]) == 2
    report, published = project.read("reports/index.html"), json.loads(project.read("reports/published.json"))
    assert all(name in report and name in published for name in RUNS)
    assert {file.stem for file in (project.folder / "scores").glob("*.json")} == {*RUNS}
    voc = results.read(project.folder / "metrics/runs/voc.csv").of_run("voc")
    assert sum(row.metric.startswith("average_precision.") for row in voc) == 3


def test_code_makes_stale_what_it_changes_and_a_new_component_and_comments_nothing(project):
    source = project.folder / "src/rankgrad"
    for file in ("losses/rlsep.py", "metrics/kendall.py", "models/heads/linear.py", "sorters/logistic.py"):
        shutil.copyfile(source / file, (source / file).with_stem(f"new_{file.rpartition('/')[2][:-3]}"))
    shutil.copyfile(source / "datasets/shaded_mnist.py", source / "datasets/new_shaded_mnist.py")
    edit(project, "io/parquet.py", "io/checkpoints.py", "losses/rlsep.py", "tasks/label_ranking.py")
    assert changed(project) == set()
    edit(project, "io/atomic.py", "sorters/laplace.py", code="assert True")  # the first one is plumbing
    assert changed(project) == {"check", "pretrain@laplace", "benchmark_sorters@laplace", "train@chosen"}
    project.run("git checkout --quiet . && git clean --quiet --force -d")


def test_an_option_reruns_what_it_changes_and_a_run_that_is_gone_is_set_aside(project):
    path = project.folder / "params.yaml"
    params = YAML(typ="safe").load(path)
    params["runs"]["voc"]["training"]["finetune"]["shift"] = 1
    del params["runs"][RETRIEVAL]
    YAML().dump(params, path)
    output = project.run("dvc repro report")
    assert {*ran(output)} == {"code", "check", "train@voc", "evaluate@voc", "compare", "report"}
    gone, aside = project.folder / "models/runs" / RETRIEVAL, project.folder / ".leftovers"
    assert (gone.exists(), len(list(aside.rglob(RETRIEVAL)))) == (False, 1)  # the report would show it


def test_a_failed_expectation_stops_the_graph(project):
    photographs = project.folder / "data/raw/photos"
    shutil.copyfile(photographs / "0.jpg", photographs / "8.jpg")  # a training image in the test split
    output = project.run("dvc repro evaluate@voc", fails=True)
    assert ran(output) == ["data@photos", "validate@photos"]
    assert "photos.rows: same_picture_as" in output
    assert not (project.folder / "checks/photos.passed").exists()

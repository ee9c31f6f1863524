"""The whole pipeline at a tiny scale, in a clone of its own: made once with runs of every form, made again in part."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML

from pipelines.config.plan import merged
from rankgrad.io import results

UP_TO_DATE = "Data and pipelines are up to date.\n"
DEFAULTS = (
    "label_ranking-multilabel_cross_entropy", "label_ranking-rlsep", "memorability-mse",
    "multilabel-multilabel_soft_margin",
    "retrieval-sodeep_recall-lstm",
)  # fmt: skip
MODEL = {"name": "linear", "args": {"maximum": True}, "backbone": {"name": "convnet", "args": {"channels": [8, 16]}}}
HEAD = {
    "task": "score_ranking", "dataset": "clips", "model": MODEL,
    "start": "models/runs/label_ranking-rlsep", "loss": {"name": "spearman", "args": {}}, "sorter": "laplace",
    "auxiliary": {"name": "none"}, "training": {}, "seeds": [1], "grid": {},
}  # fmt: skip
OTHERS = {
    "chosen": HEAD | {
        "training": {"probe": {"optimizer": {"name": "SGD", "args": {"lr": 0.05}}}},
        "seeds": [1, 2, 3],
        "grid": {"training.probe.optimizer.args.lr": [0.003, 0.01]},
    },
    "from_a_head": HEAD | {"start": "models/runs/chosen"},
    "labels-comparator": HEAD | {
        "task": "label_ranking", "dataset": "ranked_mnist", "start": "models/runs/none", "sorter": "comparator",
        "loss": {"name": "spearman_of_label_ranks", "args": {}},
    },
    "voc": HEAD | {
        "task": "multilabel", "dataset": "photos", "model": MODEL | {"name": "wildcat", "args": {}},
        "start": "models/runs/none", "sorter": "none", "loss": {"name": "multilabel_soft_margin", "args": {}},
        "training": {"finetune": {"epochs": 1}},
    },
}  # fmt: skip
PHOTOS = {
    "name": "table", "raw": "data/raw/photos", "size": 32, "seed": 1,
    "args": {"file": "photos.csv", "image": "image", "labels": "label_*", "split": "split"},
}  # fmt: skip
COMPARISON = {"question": "?", "metric": "spearman", "baseline": "memorability-mse", "runs": ["chosen"]}


@pytest.fixture(scope="module")
def project(new_project, tmp_path_factory):
    """After its first `make repro`: some runs of each task, and those that combine what they do not."""
    made = new_project("project")
    made.environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # what tools leave there is not the project's
    photographs(made.folder / "data/raw/photos")
    path = made.folder / "params.yaml"
    params = YAML(typ="safe").load(path)
    params["datasets"]["photos"] = PHOTOS
    for block in ("sorters", "benchmark_sorters"):
        params[block] = {name: params[block][name] for name in ("laplace", "comparator", "lstm")}
    params["runs"] = {name: params["runs"][name] for name in DEFAULTS} | OTHERS
    params["comparisons"] = {"mine": COMPARISON}
    YAML().dump(params, path)
    made.run("git add --all && git commit --quiet --message start")
    # In the tests' own environment, which is not made anew.
    made.first = made.run(f"make -o .venv/.installed BIN={Path(sys.executable).parent} repro")
    made.left = made.run("git status --porcelain")
    made.run("git add --all && git commit --quiet --message made")
    return made


def photographs(root) -> None:
    """A dozen colored photographs with three labels."""
    generator = torch.Generator().manual_seed(0)
    root.mkdir(parents=True)
    lines = ["image,split,label_a,label_b,label_c"]
    for number in range(12):
        pixels = torch.randint(0, 256, (40, 50, 3), generator=generator, dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(root / f"{number}.jpg")
        flags = [int((number + label) % 3 == 0) for label in range(3)]
        lines.append(f"{number}.jpg,{('train', 'val', 'test')[number // 4]},{','.join(map(str, flags))}")
    (root / "photos.csv").write_text("\n".join(lines) + "\n")


def ran(output: str) -> set[str]:
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")}


def changed(project) -> set[str]:
    """Stages that a `dvc repro` would run first, but for the one that says so."""
    project.run("dvc repro code")
    return set(json.loads(project.run("dvc status --json")))


def change(project, changes: dict, *, without: str | None = None) -> None:
    """Put changes into the project's params, and take a run out."""
    path = project.folder / "params.yaml"
    values = merged(YAML(typ="safe").load(path), changes)
    values["runs"].pop(without, None)
    YAML().dump(values, path)


def edit(project, *files: str, code: str = "# a comment") -> None:
    for file in files:
        with (project.folder / "src/rankgrad" / file).open("a") as source:
            source.write(f"{code}\n")


def restore(project) -> None:
    project.run("git checkout --quiet . && git clean --quiet --force -d && dvc checkout --quiet --force")


def test_make_repro_runs_every_stage_once_publishes_once_and_leaves_git_nothing_but_the_lock(project):
    stages = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    assert sorted(re.findall("^Running stage '(.+)'", project.first, re.MULTILINE)) == sorted(stages)
    assert project.first.count("publish: uploaded ") == 1
    assert project.left == "?? dvc.lock\n"
    assert project.run("dvc status") == UP_TO_DATE
    metrics = project.run("dvc metrics show")
    assert all(f"scores/{name}.json" in metrics for name in (*DEFAULTS, *OTHERS))
    again = project.run("dvc repro")
    assert ran(again) == set()
    assert UP_TO_DATE in again


def test_a_setting_is_chosen_and_every_run_is_reported_and_published(project):
    assert len(json.loads(project.read("models/runs/chosen/run.json"))["tried"]) == 2
    report, published = project.read("reports/index.html"), json.loads(project.read("reports/published.json"))
    assert all(name in report and name in published for name in (*DEFAULTS, *OTHERS))
    voc = results.read(project.folder / "metrics/runs/voc.csv").of_run("voc")
    assert sum(row.metric.startswith("average_precision.") for row in voc) == 3


def test_a_new_component_that_no_run_names_and_a_comment_in_plumbing_leave_all_as_it_is(project):
    source = project.folder / "src/rankgrad"
    for file in ("losses/rlsep.py", "metrics/kendall.py", "models/heads/linear.py", "sorters/logistic.py"):
        shutil.copyfile(source / file, (source / file).with_stem(f"new_{file.rpartition('/')[2][:-3]}"))
    shutil.copyfile(source / "datasets/shaded_mnist.py", source / "datasets/new_shaded_mnist.py")
    edit(project, "io/parquet.py", "io/checkpoints.py", "losses/rlsep.py", "tasks/label_ranking.py")
    assert changed(project) == set()
    edit(project, "io/atomic.py", code="assert True")
    assert changed(project) == {"check"}
    restore(project)


def test_an_option_reruns_what_it_changes_and_a_run_that_is_gone_is_set_aside(project):
    option = {"training": {"scorer": {"shift": 1}}}
    change(project, {"runs": {"labels-comparator": option}}, without="from_a_head")
    output = project.run("dvc repro")
    rerun = {"train@labels-comparator", "evaluate@labels-comparator"}
    assert ran(output) == {"code", "check", *rerun, "compare", "report", "publish", "summarize"}
    gone, aside = project.folder / "models/runs/from_a_head", project.folder / ".leftovers"
    assert (gone.exists(), len(list(aside.rglob("from_a_head")))) == (False, 1)  # the report would show it
    restore(project)


def test_code_and_a_snapshot_rerun_what_they_change(project):
    edit(project, "losses/multilabel_cross_entropy.py", "sorters/lstm.py", code="assert True")
    assert changed(project) >= {"check", "train@label_ranking-multilabel_cross_entropy", "pretrain@lstm"}
    assert not {"train@label_ranking-rlsep", "pretrain@laplace", "data@ranked_mnist"} & changed(project)
    restore(project)
    change(project, {"data": {"snapshot": 2}})
    assert changed(project) >= {"check", "data@clips", "validate@clips", "data@photos"}
    restore(project)
    edit(project, "sorters/laplace.py", code="assert True")
    rerun = ran(project.run("dvc repro train@chosen train@label_ranking-rlsep"))
    assert rerun == {"code", "check", "pretrain@laplace", "train@chosen"}
    restore(project)


def test_params_that_cannot_be_are_told_before_anything_runs(project):
    change(project, {"runs": {"label_ranking-multilabel_cross_entropy": {"dataset": "long_tailed_mnist"}}})
    output = project.run("dvc repro", fails=True)
    assert ran(output) == {"code", "check"}
    assert "runs.label_ranking-multilabel_cross_entropy.dataset" in output
    restore(project)


def test_a_failed_expectation_stops_the_graph(project):
    drawn = "dataset = block.built()"
    project.replace("pipelines/stages/data.py", drawn, f"{drawn}\n    object.__setattr__(dataset, 'scale', (1.0, 5.0))")
    output = project.run("dvc repro evaluate@label_ranking-multilabel_cross_entropy", fails=True)
    assert ran(output) == {"code", "data@ranked_mnist", "validate@ranked_mnist"}
    assert "ranked_mnist.digits: size: " in output
    assert not (project.folder / "checks/ranked_mnist.passed").exists()
    restore(project)
    assert project.run("dvc status") == UP_TO_DATE

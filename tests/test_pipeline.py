"""The whole pipeline at a tiny scale, in a clone of its own: made, left alone, made again in part."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML

from pipelines.config.schema import merged
from pipelines.reporting.results import read_runs
from rankops import lookup
from rankops.datasets.public.voc2007 import CLASSES

UP_TO_DATE = "Data and pipelines are up to date.\n"


@pytest.fixture(scope="module")
def project(new_project):
    """After its first `dvc repro`, without MNIST."""
    made = new_project("project")
    made.first = made.run("dvc repro")
    made.run("git add --all && git commit --quiet --message made")
    return made


def ran(output: str) -> set[str]:
    """Stages that a `dvc repro` ran."""
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")}


def changed(project) -> set[str]:
    """Stages that a `dvc repro` would run first."""
    return set(json.loads(project.run("dvc status --json")))


def change(project, changes: dict) -> None:
    """Put changes into the project's params."""
    path = project.folder / "params.yaml"
    values = merged(YAML(typ="safe").load(path), changes)
    YAML().dump(values, path)


def edit(project, file: str) -> None:
    """Add a comment to a file of the library."""
    with (project.folder / "src/rankops" / file).open("a") as code:
        code.write("# a comment\n")


def restore(project) -> None:
    project.run("git checkout --quiet . && git clean --quiet --force -d && dvc checkout --quiet --force")


def test_every_stage_ran_and_git_sees_nothing_but_the_lock(project):
    stages = set(YAML(typ="safe").load(project.folder / "dvc.lock")["stages"])
    assert ran(project.first) == stages
    assert project.run("git status --porcelain") == ""
    assert project.run("dvc status") == UP_TO_DATE
    assert "NO MNIST IN data/raw/mnist" in project.first
    assert "not MNIST" in project.read("reports/index.html")
    again = project.run("dvc repro")
    assert ran(again) == set()
    assert UP_TO_DATE in again


def test_metrics_have_the_names_of_the_task_and_an_interval_over_seeds(project):
    params = YAML(typ="safe").load(project.folder / "params.yaml")
    table = read_runs(project.folder / "metrics/runs")
    for name, run in params["runs"].items():
        rows = table[table.run == name]
        metrics = {metric.name for metric in lookup.find("tasks", run["task"]).metrics}
        assert metrics <= set(rows.metric)
        assert set(rows.seed.dropna().astype(int)) == set(run["seeds"])
        means = rows[rows.seed.isna()]
        assert (means.low <= means.high).all()
    for name in params["sorters"]:
        metrics = json.loads(project.read(f"metrics/sorters/{name}.json"))
        assert 0 < metrics["l1"]["value"] < 0.5
    for name, comparison in params["comparisons"].items():
        result = json.loads(project.read(f"metrics/comparisons/{name}.json"))
        assert set(result["runs"]) == {comparison["baseline"], *comparison["runs"]}
        for run in comparison["runs"]:
            gain = result["runs"][run]["difference"]
            assert gain["low"] <= gain["value"] <= gain["high"]


def test_predictions_have_their_fixed_form(project):
    columns = {
        "label_ranking-rlsep": ["scores", "label_ranks", "selected", "true_label_ranks"],
        "memorability-mse": ["score", "target"],
        "multilabel-multilabel_soft_margin": ["scores", "labels", "difficult"],
        "retrieval-recall-lstm": ["image_embedding", "captions", "text_embeddings", "family"],
    }
    for name, expected in columns.items():
        table = pq.read_table(project.folder / f"predictions/{name}.parquet")
        assert table.column_names == ["id", "seed", *expected]
        seeds = [1] if name.startswith("label") else [1, 2]
        assert table["seed"].unique().to_pylist() == seeds
        assert len(table) == (40 if name.startswith("memorability") else 60) * len(seeds)
    table = pq.read_table(project.folder / "predictions/label_ranking-rlsep.parquet")
    for scores, ranks, selected in zip(
        *(table[name].to_pylist() for name in columns["label_ranking-rlsep"][:3]), strict=True
    ):
        chosen = [label for label, there in enumerate(selected) if there]
        assert [rank > 0 for rank in ranks] == [bool(there) for there in selected]
        assert sorted(chosen, key=scores.__getitem__) == sorted(chosen, key=ranks.__getitem__)


def test_a_new_component_that_no_run_names_and_a_comment_in_plumbing_leave_all_as_it_is(project):
    source = project.folder / "src/rankops"
    for folder, name in (("losses", "rlsep"), ("metrics", "kendall"), ("models", "perceptron"), ("sorters", "sigmoid")):
        shutil.copyfile(source / folder / f"{name}.py", source / folder / f"new_{name}.py")
    for file in ("io/parquet.py", "io/checkpoints.py", "checks.py", "lookup.py"):
        edit(project, file)
    assert project.run("dvc status") == UP_TO_DATE
    restore(project)


def test_code_and_options_rerun_what_they_change_and_nothing_else(project):
    name = "label_ranking-lsep"
    change(project, {"runs": {name: {"loss": {"name": "lsep", "args": {"pairs": 4}}}}})
    expected = {"check", f"train@{name}", f"evaluate@{name}", "compare", "report", "publish"}
    assert ran(project.run("dvc repro")) == expected
    restore(project)  # DVC's run cache restores what it has seen
    assert ran(project.run("dvc repro")) == set()
    edit(project, "losses/lsep.py")
    assert changed(project) == {f"train@{name}"}
    restore(project)
    edit(project, "sorters/lstm.py")
    assert changed(project) == {"pretrain@lstm"}
    restore(project)
    edit(project, "sorters/laplace.py")
    rerun = ran(project.run("dvc repro train@memorability-spearman-laplace train@memorability-spearman-lstm"))
    assert rerun == {"pretrain@laplace", "train@memorability-spearman-laplace"}
    restore(project)


def test_anything_can_be_combined_with_anything(project):
    base = {"task": "memorability", "dataset": "clips", "model": {"name": "convnet", "args": {"channels": [8, 16]}}}
    base |= {"start": "models/runs/label_ranking-rlsep", "loss": {"name": "spearman", "args": {}}, "sorter": "laplace"}
    base |= {"auxiliary": {"name": "none"}, "training": {}, "seeds": [1], "grid": {}}
    ranker = {"task": "label_ranking", "dataset": "ranked_mnist", "start": "models/runs/none", "sorter": "comparator"}
    rates = {"probe": {"optimizer": {"name": "SGD", "args": {"lr": 0.05}}}}
    runs = {
        "auxiliary-laplace": base | {"auxiliary": {"name": "l1", "args": {}, "weight": 0.5, "epochs": 1}},
        "labels-comparator": base | ranker | {"loss": {"name": "spearman_of_label_ranks", "args": {}}},
        "own_rate": base | {"training": rates},
        "chosen": base | {"seeds": [1, 2, 3], "grid": {"training.probe.optimizer.args.lr": [0.003, 0.01]}},
        "from_a_head": base | {"start": "models/runs/own_rate"},
    }
    comparison = {"question": "?", "metric": "spearman", "baseline": "memorability-mse", "runs": ["chosen", "own_rate"]}
    change(project, {"runs": runs, "comparisons": {"mine": comparison}})
    assert {f"train@{name}" for name in runs} <= ran(project.run("dvc repro"))
    record = json.loads(project.read("models/runs/chosen/run.json"))
    assert len(record["tried"]) == 2
    assert record["setting"] in [tried["setting"] for tried in record["tried"]]
    report, published = project.read("reports/index.html"), json.loads(project.read("reports/published.json"))
    assert all(name in report and name in published for name in runs)
    project.run("rm -r models/runs/chosen && git checkout --quiet params.yaml dvc.lock")
    output = project.run("dvc repro", fails=True)
    assert "models/runs/own_rate" in output  # outputs of runs that the params no longer have are named
    leftovers = " ".join(f"models/runs/{run} metrics/runs/{run}.json predictions/{run}.parquet" for run in runs)
    project.run(f"rm -rf {leftovers} && dvc checkout --quiet --force && dvc repro")
    assert project.run("git status --porcelain") == ""


def test_params_that_cannot_be_are_told_before_anything_runs(project):
    change(project, {"runs": {"label_ranking-lsep": {"dataset": "clips"}}})
    output = project.run("dvc repro", fails=True)
    assert ran(output) == {"check"}
    assert "runs.label_ranking-lsep.dataset" in output
    restore(project)


def test_a_failed_expectation_stops_the_graph(project):
    change(project, {"datasets": {"ranked_mnist": {"overlap": 0.1}}})
    path = project.folder / "pipelines/stages/scenes.py"
    text = path.read_text()
    assert text.count('block.model_dump(exclude={"name"})') == 1
    path.write_text(
        text.replace('block.model_dump(exclude={"name"})', 'block.model_dump(exclude={"name"}) | {"scale": (1.0, 5.0)}')
    )
    output = project.run("dvc repro evaluate@label_ranking-lsep", fails=True)
    assert ran(output) >= {"scenes@ranked_mnist", "validate@ranked_mnist"}
    assert not any(stage.startswith(("train", "evaluate")) for stage in ran(output))
    assert "ranked_mnist.digits: size: expect_column_values_to_be_between" in output
    assert not (project.folder / "checks/ranked_mnist.passed").exists()
    restore(project)
    project.run("dvc repro")
    assert project.run("git status --porcelain") == ""


def test_a_dataset_from_disk_needs_params_alone(project, generator):
    """VOC's layout with a dozen photographs, colored; first incomplete, then whole."""
    root = project.folder / "data/raw/voc2007/VOCdevkit/VOC2007"
    (root / "JPEGImages").mkdir(parents=True)
    (root / "ImageSets/Main").mkdir(parents=True)
    run = {"task": "multilabel", "dataset": "voc2007", "model": {"name": "wildcat", "args": {"channels": [4, 8]}}}
    run |= {"start": "models/runs/none", "loss": {"name": "multilabel_soft_margin", "args": {}}, "sorter": "none"}
    run |= {"auxiliary": {"name": "none"}, "training": {"finetune": {"epochs": 1}}, "seeds": [1], "grid": {}}
    change(project, {"real_data": {"voc2007": {"size": 32, "args": {}, "seed": 1}}, "runs": {"voc": run}})
    output = project.run("dvc repro evaluate@voc", fails=True)
    assert "real_data@voc2007: " in output
    assert "aeroplane_train.txt" in output
    for number in range(12):
        pixels = torch.randint(0, 256, (40, 50, 3), generator=generator, dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(root / f"JPEGImages/{number:06d}.jpg")
    for place, name in enumerate(CLASSES):
        for split, first in (("train", 0), ("val", 4), ("test", 8)):
            flags = [f"{first + row:06d} {1 if (place + row) % 3 == 0 else -1:2d}\n" for row in range(4)]
            (root / f"ImageSets/Main/{name}_{split}.txt").write_text("".join(flags))
    stages = ran(project.run("dvc repro evaluate@voc"))
    assert stages == {"real_data@voc2007", "validate_real_data@voc2007", "train@voc", "evaluate@voc"}
    metrics = json.loads(project.read("metrics/runs/voc.json"))
    assert 0 < metrics["mean_average_precision"]["value"] <= 1
    assert len(metrics["average_precision"]) == 20
    project.run("rm -rf data/voc2007 data/raw/voc2007 models/runs/voc metrics/runs/voc.json predictions/voc.parquet")
    restore(project)


def test_a_snapshot_adds_scenes_for_training_and_changes_none(project):
    before = pq.read_table(project.folder / "data/clips/train.parquet")
    test = (project.folder / "data/clips/test.parquet").read_bytes()
    change(project, {"data": {"snapshot": 2}})
    project.run("dvc repro scenes@clips")
    after = pq.read_table(project.folder / "data/clips/train.parquet")
    assert len(after) > len(before)
    assert after.slice(0, len(before)).equals(before)
    assert (project.folder / "data/clips/test.parquet").read_bytes() == test
    restore(project)


def test_embeddings_of_captions_have_unit_length(project):
    table = pq.read_table(project.folder / "predictions/retrieval-recall-lstm.parquet")
    image, texts = table["image_embedding"][0].as_py(), table["text_embeddings"][0].as_py()
    assert len(texts) == len(table["captions"][0].as_py()) == 5
    assert np.allclose([np.linalg.norm(one) for one in (image, *texts)], 1, atol=1e-5)

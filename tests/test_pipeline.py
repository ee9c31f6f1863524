"""The whole pipeline at a tiny scale, in a clone of its own: made, left alone, made again in part, published."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import requests
import torch
from mlflow.exceptions import MlflowException
from PIL import Image
from ruamel.yaml import YAML

from pipelines.flows.processes import TRANSIENT
from pipelines.flows.promote import _bring
from pipelines.monitoring import drift
from pipelines.tracking.publish import ServerUnreachable, _files_at
from rankops.datasets.public.voc2007 import CLASSES

RUNS = ["label_ranking-cross_entropy", "label_ranking-lsep", "label_ranking-rlsep"]
PAIRS = {
    "memorability": ["memorability-mse", "memorability-spearman-lstm"],
    "multilabel": ["multilabel-multilabel_soft_margin", "multilabel-mean_average_precision-lstm"],
    "retrieval": ["retrieval-hard_negative_triplet", "retrieval-recall-lstm"],
}


@pytest.fixture(scope="module")
def project(new_project):
    """After its first `dvc repro`, without MNIST."""
    made = new_project("project")
    made.first = made.run("dvc repro")
    made.run("git add --all && git commit --quiet --message made")
    return made


# The main graph's; experiments are run by hand.
STATUS = "dvc status --json dvc.yaml"


def ran(output: str) -> set[str]:
    """Stages that a `dvc repro` ran."""
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")}


def test_a_missing_mnist_is_told_loudly_and_recorded(project):
    assert "NO MNIST IN data/raw/mnist" in project.first
    assert json.loads(project.read("data/digits/manifest.json"))["source"] == "bundled"
    assert "not MNIST" in project.read("reports/index.html")


def test_every_stage_ran_and_git_sees_nothing_but_the_lock(project):
    stages = set(YAML(typ="safe").load(project.folder / "dvc.lock")["stages"])
    assert ran(project.first) == stages
    assert len(stages) == 36
    assert project.run("git status --porcelain") == ""


def test_metrics_have_their_fixed_form(project):
    ranked = {"precision", "recall", "f1", "accuracy", "exact_match", "mean_average_precision"}
    for name in RUNS:
        figures = json.loads(project.read(f"metrics/runs/{name}.json"))
        assert ranked <= set(figures["ranked"])
        assert ranked - {"mean_average_precision"} <= set(figures["unranked"])
        for figure in (*figures["ranked"].values(), *figures["unranked"].values()):
            assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
    for name in ("cnn", "comparator", "lstm", "handcrafted", "laplace", "sigmoid"):
        figures = json.loads(project.read(f"metrics/sorters/{name}.json"))
        assert 0 < figures["l1"]["value"] < 0.5
        assert len(figures["l1_by_kind"]) == 8


def test_metrics_of_the_other_tasks_have_their_fixed_form(project):
    for task, names in PAIRS.items():
        for name in names:
            figures = json.loads(project.read(f"metrics/runs/{name}.json"))
            if task == "retrieval":
                assert set(figures) == {"image_to_text", "text_to_image"}
                for direction in figures.values():
                    assert set(direction) == {"recall_at_1", "recall_at_5", "recall_at_10", "median_rank"}
                    assert all(one["low"] <= one["value"] <= one["high"] for one in direction.values())
            else:
                figure = figures[{"memorability": "spearman", "multilabel": "mean_average_precision"}[task]]
                # A resample repeats examples, which helps average precision: with so few, the value may lie outside.
                assert -1 <= figure["low"] <= figure["high"] <= 1
                assert -1 <= figure["value"] <= 1


def test_predictions_of_the_other_tasks_have_their_fixed_form(project):
    columns = {
        "memorability": ["id", "score", "target"],
        "multilabel": ["id", "scores", "labels", "difficult"],
        "retrieval": ["id", "image_embedding", "captions", "text_embeddings"],
    }
    for task, names in PAIRS.items():
        for name in names:
            table = pq.read_table(project.folder / f"predictions/{name}.parquet")
            assert table.column_names == columns[task]
            assert len(table) == (40 if task == "memorability" else 60)
            if task == "retrieval":
                image, texts = table["image_embedding"][0].as_py(), table["text_embeddings"][0].as_py()
                assert len(texts) == len(table["captions"][0].as_py()) == 5
                assert np.allclose([np.linalg.norm(one) for one in (image, *texts)], 1, atol=1e-5)


def test_predictions_have_their_fixed_form(project):
    for name in RUNS:
        table = pq.read_table(project.folder / f"predictions/{name}.parquet")
        assert table.column_names == ["id", "scores", "label_ranks", "selected"]
        assert len(table) == 60
        scores, label_ranks, selected = (np.stack(table[part].to_numpy()) for part in table.column_names[1:])
        assert scores.shape == (60, 10)
        assert ((label_ranks > 0) == selected).all()
        for f, r in zip(scores, label_ranks, strict=True):
            chosen = np.flatnonzero(r)
            assert (chosen[np.argsort(f[chosen])] == chosen[np.argsort(r[chosen])]).all()


def test_again_nothing_runs(project):
    output = project.run("dvc repro")
    assert ran(output) == set()
    assert "Data and pipelines are up to date" in output


def test_a_loss_option_runs_that_loss_and_its_readers_alone(project):
    project.replace("params.yaml", "loss: {name: lsep, args: {pairs: null}}", "loss: {name: lsep, args: {pairs: 4}}")
    expected = {"train@label_ranking-lsep", "evaluate@label_ranking-lsep", "report", "publish"}
    assert ran(project.run("dvc repro")) == expected
    # Back again: DVC's run cache restores what it has seen, and the lock is as it was.
    project.run("git checkout --quiet params.yaml")
    assert ran(project.run("dvc repro")) == set()
    assert project.run("git status --porcelain") == ""


def test_a_sorters_option_runs_what_ranks_with_it_and_no_other_training(project):
    project.replace(
        "params.yaml",
        "fine_tune: null}\n    beside: {name: l1",
        "fine_tune: {name: Adam, args: {lr: 0.001}}}\n    beside: {name: l1",
    )
    name = "memorability-spearman-lstm"
    changed = json.loads(project.run(STATUS))
    assert set(changed) == {f"train_with_sorter@{name}", f"evaluate_with_sorter@{name}", "report", "publish"}
    assert ran(project.run(f"dvc repro train_with_sorter@{name}")) == {f"train_with_sorter@{name}"}
    project.run("git checkout --quiet params.yaml dvc.lock && dvc checkout --quiet")
    project.replace("src/rankops/sorters/lstm.py", '"""The LSTM sorter', '"""The LSTM  sorter')
    with_sorter = {f"train_with_sorter@{names[1]}" for names in PAIRS.values()}
    assert set(json.loads(project.run(STATUS))) == {"pretrain@lstm", "benchmark_sorters", *with_sorter}
    project.run("git checkout --quiet src")


def test_a_comment_in_a_loss_file_runs_that_loss_alone(project):
    project.replace("src/rankops/losses/lsep.py", '"""LSEP, the', '"""The LSEP, the')
    status = project.run(STATUS)
    changed = set(json.loads(status))
    assert changed == {"train@label_ranking-lsep"}
    project.run("git checkout --quiet src")


def test_a_new_loss_touches_nothing_until_a_run_names_it(project):
    rlsep = project.folder / "src/rankops/losses/rlsep.py"
    (rlsep.parent / "mine.py").write_text(rlsep.read_text().replace("rlsep", "mine"))
    assert json.loads(project.run(STATUS)) == {}
    after = "\n\n# The same for runs that start from trained weights"
    rows = project.read("params.yaml").split(after)
    run = "\n".join(rows[0].splitlines()[-6:]).replace("rlsep", "mine")
    (project.folder / "params.yaml").write_text(f"{rows[0]}\n{run}{after}{rows[1]}")
    new = {"train@label_ranking-mine", "evaluate@label_ranking-mine", "report", "publish"}
    assert ran(project.run("dvc repro")) == new
    (rlsep.parent / "mine.py").unlink()
    project.run("git checkout --quiet params.yaml dvc.lock && dvc checkout --quiet --force")
    assert ran(project.run("dvc repro")) == set()


@pytest.fixture
def store(project, monkeypatch):
    monkeypatch.chdir(project.folder)  # the artifacts of SQLite's runs lie below the folder that made them
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(None)


PUBLISH = "PYTHONPATH=src python -m pipelines.stages.publish"


def test_runs_can_be_compared_and_their_inputs_and_pictures_seen(project, store):
    experiment = store.get_experiment_by_name("label_ranking")
    current = json.loads(project.read("reports/published.json"))
    runs = {
        run.data.tags["rankops.key"]: run
        for run in store.search_runs([experiment.experiment_id])
        if run.data.tags["rankops.key"] in current.values()
    }
    assert {run.info.run_name for run in runs.values()} == set(RUNS)
    lock = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    for run in runs.values():
        assert run.info.status == "FINISHED"
        assert run.data.params["loss.name"] == run.data.tags["loss"]
        assert run.data.tags["digits_source"] == "bundled"
        assert len(run.data.tags["git_commit"]) == 40
        expected = json.loads(project.read(f"metrics/runs/{run.info.run_name}.json"))["ranked"]["accuracy"]
        assert run.data.metrics["ranked.accuracy"] == pytest.approx(expected["value"])
        assert run.data.metrics["ranked.accuracy.low"] == pytest.approx(expected["low"])
        assert [point.step for point in store.get_metric_history(run.info.run_id, "epoch.loss")] == [1, 2]
        data = {dep["path"]: dep["md5"] for dep in lock[f"train@{run.info.run_name}"]["deps"]}
        path = "data/ranked_mnist/train.parquet"
        assert run.data.tags[f"input.{path}"] == data[path]
        plots = {file.path for file in store.list_artifacts(run.info.run_id, "plots")}
        assert plots == {f"plots/{run.info.run_name}-{kind}.png" for kind in ("examples", "learning_curves")}


def test_versions_have_their_aliases_and_answer_any_batch_without_a_pickle(project, store, generator):
    from rankops.sorters import load_sorter

    for name in ("cnn", "lstm"):
        assert set(store.get_registered_model(f"sorter-{name}").aliases) == {"challenger", "champion"}
        address = f"models:/sorter-{name}@champion"
        sorter, served = load_sorter(address), mlflow.pyfunc.load_model(address)
        for rows in (1, 5):
            scores = torch.randn(rows, 8, generator=generator)
            assert np.allclose(served.predict(scores.numpy()), sorter(scores).numpy(), atol=1e-5)
    aliases = store.get_registered_model("label_ranking").aliases
    best = store.get_model_version("label_ranking", aliases["champion"])
    ranker = mlflow.pyfunc.load_model("models:/label_ranking@champion")
    images = pq.read_table(project.folder / "data/ranked_mnist/test.parquet")["image"].to_pylist()
    expected = pq.read_table(project.folder / f"predictions/{best.tags['run']}.parquet").to_pandas()
    for rows in (1, 7):
        answer = ranker.predict(pd.DataFrame({"image": [image["bytes"] for image in images[:rows]]}))
        for row in range(rows):
            assert answer["label_ranks"][row] == expected["label_ranks"][row].tolist()
            assert answer["scores"][row] == pytest.approx(expected["scores"][row].tolist(), abs=1e-4)
            assert len(answer["labels"][row]) == expected["selected"][row].sum()
    with pytest.raises(mlflow.MlflowException, match="row 0: not a readable image"):
        ranker.predict(pd.DataFrame({"image": [b"no image"]}))


def test_each_task_has_two_versions_and_its_champion_answers_as_the_predictions_say(project, store):
    served = {}
    for task, names in PAIRS.items():
        versions = store.search_model_versions(f"name = '{task}'")
        assert {version.tags["run"] for version in versions} == set(names)
        champion = store.get_model_version_by_alias(task, "champion")
        predictions = pq.read_table(project.folder / f"predictions/{champion.tags['run']}.parquet").to_pylist()
        served[task] = mlflow.pyfunc.load_model(f"models:/{task}@champion"), predictions[:3]
    read = lambda name: pq.read_table(project.folder / f"data/{name}/test.parquet").slice(0, 3).to_pylist()  # noqa: E731
    model, expected = served["memorability"]
    frames = [[frame["bytes"] for frame in row["frames"]] for row in read("clips")]
    answer = model.predict(pd.DataFrame({"frames": frames}))
    assert answer["score"].tolist() == pytest.approx([row["score"] for row in expected], abs=1e-4)
    model, expected = served["multilabel"]
    answer = model.predict(pd.DataFrame({"image": [row["image"]["bytes"] for row in read("long_tailed_mnist")]}))
    assert np.allclose(answer["scores"].tolist(), [row["scores"] for row in expected], atol=1e-4)
    model, expected = served["retrieval"]
    rows = read("captions")
    answer = model.predict(pd.DataFrame({"image": [row["image"]["bytes"] for row in rows]}))
    assert np.allclose(answer["embedding"].tolist(), [row["image_embedding"] for row in expected], atol=1e-4)
    answer = model.predict(pd.DataFrame({"caption": [row["captions"][1] for row in rows]}))
    assert np.allclose(answer["embedding"].tolist(), [row["text_embeddings"][1] for row in expected], atol=1e-4)


def test_the_champion_is_monitored_against_the_files_that_its_run_says_it_was_trained_on(project, store, monkeypatch):
    monkeypatch.setattr(drift, "FEWEST", 20)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    options = {"model": "models:/label_ranking@champion", "dataset": "ranked_mnist", "rows": 20}
    found = drift.compare("data/ranked_mnist/test.parquet", **options)
    lock = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]["train@label_ranking-rlsep"]["deps"]
    hashes = {dep["path"]: dep["md5"] for dep in lock}
    assert found.version == str(store.get_model_version_by_alias("label_ranking", "champion").version)
    for split in ("train", "val"):
        path = f"data/ranked_mnist/{split}.parquet"
        assert found.reference[split] == f"{path}, MD5 {hashes[path]}, which the model was trained on"


def test_the_report_says_what_ranked_map_a_ranking_without_any_mistake_has(project):
    path = project.folder / "data/ranked_mnist/test.parquet"
    images = []
    for ranks in pq.read_table(path, columns=["label_ranks"])["label_ranks"].to_pylist():
        # All pairs are predicted as they are: the precision is 1 wherever there is a positive one, and else of nothing.
        kept = [[rank if rank >= lowest else 0 for rank in ranks] for lowest in {*ranks} - {0}]
        right = [any(one > other for one, other in itertools.combinations(rest, 2)) for rest in kept]
        images.append(sum(right) / len(right))
    most = sum(images) / len(images)
    assert 0.9 < most < 1
    assert f"A ranking without any mistake has a ranked mAP of {most:.3f} here." in project.read("reports/results.md")


def test_each_row_of_the_report_leads_to_the_training_in_the_lock(project):
    lock = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    made_by = {out["md5"][:8]: stage for stage, entry in lock.items() for out in entry.get("outs", [])}
    rows = re.findall(r"^\| (\S+) .* \| ([0-9a-f]{8}) \|$", project.read("reports/results.md"), re.MULTILINE)
    trained = {name: made_by[digest] for name, digest in rows}
    for name, stage in trained.items():
        assert stage in (f"train@{name}", f"train_transfer@{name}", f"train_with_sorter@{name}", f"pretrain@{name}")
    assert set(trained) == {*RUNS, *(name for names in PAIRS.values() for name in names), "cnn", "comparator", "lstm"}


def test_publishing_again_sends_nothing(project):
    assert "sent 0 of 12 runs" in project.run(PUBLISH)


def test_a_deleted_run_comes_back_without_a_second_version(project, store):
    experiment = store.get_experiment_by_name("label_ranking")
    run = next(iter(store.search_runs([experiment.experiment_id], "tags.loss = 'cross_entropy'")))
    before = {version.version for version in store.search_model_versions("name = 'label_ranking'")}
    store.delete_run(run.info.run_id)
    assert "sent 1 of 12 runs: label_ranking-cross_entropy" in project.run(PUBLISH)
    assert "sent 0 of 12" in project.run(PUBLISH)
    assert {version.version for version in store.search_model_versions("name = 'label_ranking'")} == before


def test_a_run_that_was_not_finished_is_sent_again(project, store):
    experiment = store.get_experiment_by_name("sorters")
    run = next(iter(store.search_runs([experiment.experiment_id], "attributes.run_name = 'sorter-lstm'")))
    store.set_terminated(run.info.run_id, "RUNNING")
    assert "sent 1 of 12 runs: sorter-lstm" in project.run(PUBLISH)
    assert not store.search_runs([experiment.experiment_id], "attributes.status = 'RUNNING'")
    # Its version took the place, and the aliases, of the one whose run was never finished.
    assert len(store.search_model_versions("name = 'sorter-lstm'")) == 1
    assert set(store.get_registered_model("sorter-lstm").aliases) == {"challenger", "champion"}


def test_what_a_person_moved_stays_and_the_best_is_the_challenger(project, store):
    current = json.loads(project.read("reports/published.json")).values()
    every = store.search_model_versions("name = 'label_ranking'")
    versions = {version.tags["run"]: version for version in every if version.tags["rankops.key"] in current}
    quality = {name: pd.read_csv(project.folder / f"models/runs/{name}/history.csv")["accuracy"].max() for name in RUNS}
    best = store.get_model_version_by_alias("label_ranking", "challenger").tags["run"]
    assert quality[best] == max(quality.values())
    other = next(name for name in RUNS if name != best)
    for alias in ("challenger", "champion"):
        store.set_registered_model_alias("label_ranking", alias, versions[other].version)
    project.run(PUBLISH)
    for alias in ("challenger", "champion"):
        assert store.get_model_version_by_alias("label_ranking", alias).tags["run"] == other


def test_lost_files_are_sent_again_and_aliases_follow(project, store):
    champion = store.get_model_version_by_alias("label_ranking", "champion").tags["run"]
    shutil.rmtree(project.folder / "mlruns")
    assert "sent 12 of 12 runs" in project.run(PUBLISH)
    assert "sent 0 of 12" in project.run(PUBLISH)
    assert store.get_model_version_by_alias("label_ranking", "champion").tags["run"] == champion
    assert mlflow.pyfunc.load_model("models:/sorter-lstm@champion").predict(np.zeros((2, 8), np.float32)).shape == (
        2,
        8,
    )


def test_promoting_brings_data_that_the_checkout_lacks(project):
    shutil.rmtree(project.folder / "data/clips")
    _bring(load(project.folder / "params.yaml"), project.folder)
    assert (project.folder / "data/clips/gate.parquet").is_file()


def test_what_could_not_be_asked_for_is_not_lost(monkeypatch):
    def listed(artifact_uri: str):
        raise MlflowException("API request failed") from requests.ConnectionError("Read timed out")

    monkeypatch.setattr(mlflow.artifacts, "list_artifacts", listed)
    with pytest.raises(ServerUnreachable, match="API request failed. Nothing is lost") as caught:
        _files_at("models:/sorter-lstm/1")
    assert TRANSIENT.search(str(caught.value))


def test_an_emptied_store_is_filled_again_and_the_lock_stays(project):
    (project.folder / "mlflow.db").unlink()
    before = project.read("dvc.lock")
    assert "sent 12 of 12 runs" in project.run(PUBLISH)
    assert ran(project.run("dvc repro")) == set()
    assert project.read("dvc.lock") == before


def test_a_store_that_does_not_answer_stops_publishing_alone(project):
    said = project.run(PUBLISH, fails=True, MLFLOW_TRACKING_URI="http://someone:secret@127.0.0.1:9")
    assert "publish: the MLflow store http://127.0.0.1:9 does not answer" in said
    assert TRANSIENT.search(said)  # a flow tries again
    assert "secret" not in said
    assert "Traceback" not in said


def test_a_half_written_list_of_running_stages_is_mended(project):
    listed = project.folder / ".dvc/tmp/rwlock"
    listed.write_text("")
    assert "rwlock" in project.run("dvc repro", fails=True)
    assert "removed it" in project.run("rankops mend")
    assert ran(project.run("dvc repro")) == set()
    assert project.run("rankops mend") == ""


def test_leftovers_of_a_removed_run_are_named(project):
    shutil.copytree(project.folder / "models/runs/label_ranking-lsep", project.folder / "models/runs/label_ranking-old")
    said = project.run("dvc repro", fails=True)
    assert (
        "report: runs or sorters that params.yaml no longer has left these; rm -r models/runs/label_ranking-old" in said
    )
    project.run("rm -r models/runs/label_ranking-old && dvc repro")
    assert project.run("git status --porcelain") == ""


def test_a_failed_expectation_stops_the_graph(project):
    digits = "digits_per_image: [2, 4]\n  scale: [1.0, 4.0]"  # Ranked MNIST's
    project.replace("params.yaml", f"{digits}\n  overlap: 0.0 #", f"{digits.replace('4.0', '3.0')}\n  overlap: 0.0 #")
    wrong = 'params.ranked_mnist.model_copy(update={"scale": (1.0, 4.0)})'
    project.replace("pipelines/stages/ranked_mnist.py", "params.ranked_mnist", wrong)
    output = project.run("dvc repro", fails=True)
    assert ran(output) == {"ranked_mnist", "validate@ranked_mnist"}
    assert "ranked_mnist.digits: size: expect_column_values_to_be_between" in output
    assert "split train, id " in output
    assert not (project.folder / "checks/ranked_mnist.passed").exists()
    project.run("git checkout --quiet params.yaml pipelines && dvc repro")
    assert project.run("git status --porcelain") == ""


def test_a_dataset_from_disk_needs_params_alone(project, generator):
    """VOC's layout with a dozen photographs, colored; first incomplete, then whole."""
    root = project.folder / "data/raw/voc2007/VOCdevkit/VOC2007"
    (root / "JPEGImages").mkdir(parents=True)
    (root / "ImageSets/Main").mkdir(parents=True)
    project.replace("params.yaml", "real_data: {}", "real_data:\n  voc2007: {size: 32, args: {}, seed: 1}")
    run = (
        "  multilabel-multilabel_soft_margin-voc2007:\n    task: multilabel\n    dataset: voc2007\n"
        "    model: {name: wildcat, args: {channels: [4, 8]}}\n    loss: {name: multilabel_soft_margin, args: {}}\n"
        "    seed: 1\n"
    )
    project.replace("params.yaml", "\n# The same for runs that start", f"{run}\n# The same for runs that start")
    target = "evaluate@multilabel-multilabel_soft_margin-voc2007"
    said = project.run(f"dvc repro {target}", fails=True)
    assert "real_data@voc2007: " in said
    assert "aeroplane_train.txt" in said
    assert "JPEGImages/" in said  # the layout that it wants
    for number in range(12):
        pixels = torch.randint(0, 256, (40, 50, 3), generator=generator, dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(root / f"JPEGImages/{number:06d}.jpg")
    for place, name in enumerate(CLASSES):
        for split, first in (("train", 0), ("val", 4), ("test", 8)):
            flags = [f"{first + row:06d} {1 if (place + row) % 3 == 0 else -1:2d}\n" for row in range(4)]
            (root / f"ImageSets/Main/{name}_{split}.txt").write_text("".join(flags))
    ran_now = ran(project.run(f"dvc repro {target}"))
    name = "multilabel-multilabel_soft_margin-voc2007"
    assert ran_now == {"real_data@voc2007", "validate_real_data@voc2007", f"train@{name}", f"evaluate@{name}"}
    figures = json.loads(project.read(f"metrics/runs/{name}.json"))
    assert 0 < figures["mean_average_precision"]["value"] <= 1
    assert len(figures["average_precision"]) == 20
    project.run("git checkout --quiet params.yaml dvc.lock && rm -rf data/voc2007 data/raw/voc2007")
    project.run(f"rm -rf models/runs/{name} metrics/runs/{name}.json predictions/{name}.parquet")
    project.run("dvc checkout --quiet --force")


def test_a_comparison_gives_every_setting_and_seed_and_goes_on_where_it_was_killed(project):
    command = "PYTHONPATH=src python -m pipelines.stages.compare_losses memorability spearman-lstm"
    text = project.read("experiments/params.yaml")
    (project.folder / "experiments/params.yaml").write_text(text.replace("epochs: 15", "epochs: 1"))
    process = subprocess.Popen(command, shell=True, cwd=project.folder, env=project.environment, start_new_session=True)
    kept = project.folder / ".checkpoints/compare_losses/memorability-spearman-lstm"
    deadline = time.monotonic() + 120
    while len(list(kept.rglob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in kept.rglob("*.json")}
    assert 3 <= len(done) < 12
    project.run(command)
    result = json.loads(project.read("results/comparisons/memorability-spearman-lstm.json"))
    assert len(result["tried"]) == len({str(one["setting"]) for one in result["tried"]}) == 8
    best = max(result["tried"], key=lambda one: one["validation"])
    assert result["chosen"] == best["setting"]
    assert [one["seed"] for one in result["seeds"]] == [1, 2, 3, 4, 5]
    assert result["seeds"][0]["validation"] == best["validation"]
    assert not kept.exists() or not list(kept.rglob("*.json"))
    project.run("git checkout --quiet experiments && rm -r results/comparisons")


LABEL_RANKERS = "PYTHONPATH=src python -m pipelines.stages.compare_label_rankers label_ranking rlsep-averaged"


def test_label_rankers_are_compared_over_seeds(project):
    project.run(LABEL_RANKERS)
    seeds = json.loads(project.read("results/comparisons/label_ranking-rlsep-averaged.json"))["seeds"]
    assert [one["seed"] for one in seeds] == [1, 2]
    assert seeds[0]["figures"]["ranked.exact_match"] == seeds[0]["test"]
    assert len({one["figures"]["ranked.accuracy"] for one in seeds}) == 2
    assert not list((project.folder / ".checkpoints/compare_label_rankers").rglob("*.json"))
    project.run("rm -r results/comparisons")


@pytest.mark.slow
def test_label_rankers_one_by_one_or_together_and_killed_end_with_the_same_bits(project):
    project.replace("experiments/params.yaml", "together: 2", "together: 1")
    project.replace("params.yaml", "threads: 2", "threads: 1")
    project.run(LABEL_RANKERS)
    result = project.read("results/comparisons/label_ranking-rlsep-averaged.json")
    project.replace("experiments/params.yaml", "together: 1", "together: 2")
    project.replace("params.yaml", "threads: 1", "threads: 2")
    process = subprocess.Popen(
        LABEL_RANKERS, shell=True, cwd=project.folder, env=project.environment, start_new_session=True
    )  # fmt: skip
    kept = project.folder / ".checkpoints/compare_label_rankers/label_ranking-rlsep-averaged"
    deadline = time.monotonic() + 120
    while not list(kept.rglob("epoch-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()  # it alone: its workers end with it
    process.wait()
    while workers_in(project.folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers_in(project.folder)
    assert "goes on from" in project.run(LABEL_RANKERS)
    # One thread each, as before: the same bits.
    assert project.read("results/comparisons/label_ranking-rlsep-averaged.json") == result
    project.run("git checkout --quiet experiments params.yaml && rm -r results/comparisons")


def workers_in(folder) -> list[str]:
    """Processes of this stage, its workers among them, that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if (b"compare_label" in command or b"spawn_main" in command) and (process / "cwd").resolve() == folder:
                found.append(command.decode())
        except OSError:
            continue
    return found


def test_an_experiment_runs_from_the_command_line(project):
    output = project.run("dvc exp run --name lower -S runs.label_ranking-lsep.seed=7 train@label_ranking-lsep")
    assert ran(output) == {"train@label_ranking-lsep"}
    assert "lower" in project.run("dvc exp list --name-only")
    project.run("git checkout --quiet params.yaml dvc.lock && dvc checkout --quiet")


def test_an_experiment_elsewhere_runs_its_own_code(project):
    project.replace(
        "src/rankops/losses/rlsep.py",
        "    check_label_ranks(",
        '    raise ValueError("the code of here")\n    check_label_ranks(',
    )
    project.run("git commit --quiet --all --message broken")
    output = project.run("dvc exp run --temp train@label_ranking-rlsep", fails=True)
    assert "the code of here" in output
    project.run("git reset --quiet --hard HEAD~1")

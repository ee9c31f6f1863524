"""What MLflow holds after publishing, in a real store: runs with their seeds, versions, aliases; once, and mended."""

import hashlib
import json
import os
import shutil
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.config import Settings, load
from pipelines.running.history import keep_times
from pipelines.stages.publish import _quality, main
from pipelines.tracking import gate, registry
from pipelines.tracking.slices import slices
from pipelines.tracking.upload import PARENT, Run, Version, publish
from rankgrad.io import results
from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.io.results import Row
from rankgrad.sorters import load_sorter
from rankgrad.tasks import Metric

from conftest import ROOT, done, killed_in, small_network, store_in  # isort: skip

MODEL = "sorter-x"


def training(name: str, steepness: float | None = None, *, quality: float = 0.0) -> Run:
    """A run with two seeds, a file and, if it has a steepness, a version."""
    version = None
    if steepness is not None:
        save_model(Path("made") / name, build("sorters", "handcrafted", {"steepness": steepness}, seed=0))
        version = Version(MODEL, Path("made") / name, quality=quality)
    Path("made").mkdir(exist_ok=True)
    Path("made/metrics.json").write_text("{}")
    history = pd.DataFrame({"phase": "probe", "epoch": [1, 2], "loss": [0.5, 0.25], "l1": [0.3, float("nan")]})
    children = (
        Run(f"{name}-seed{seed}", "tests", f"{name} {seed}", metrics=[Row("", "l1", seed / 10)], history=history)
        for seed in (1, 2)
    )
    return Run(
        name, "tests", name, {"loss.name": "l1"}, [Row(name, "l1", 0.15, 0.1, 0.2)],
        {"stage": f"train@{name}"}, files={"results": [Path("made/metrics.json")]},
        seeds=tuple(children), version=version,
    )  # fmt: skip


def family(store, name: str) -> list:
    """The one run of this name and those of its seeds, after a look at all that belongs to them."""
    runs = store.search_runs([store.get_experiment_by_name("tests").experiment_id])
    runs = [run for run in runs if run.info.run_name.partition("-")[0] == name]
    parent, first, second = sorted(runs, key=lambda run: run.info.run_name)
    assert [run.info.run_name for run in (first, second)] == [f"{name}-seed1", f"{name}-seed2"]
    assert {run.data.tags[PARENT] for run in (first, second)} == {parent.info.run_id}
    assert {run.info.status for run in (parent, first, second)} == {"FINISHED"}
    assert [file.path for file in store.list_artifacts(parent.info.run_id, "results")] == ["results/metrics.json"]
    return [parent, first, second]


def aliases(store) -> dict[str, str]:
    return {alias: str(version) for alias, version in store.get_registered_model(MODEL).aliases.items()}


def numbers(store) -> set[str]:
    return {str(version.version) for version in store.search_model_versions(f"name = '{MODEL}'")}


RUNS = {"one": 0.2, "two": 0.9}  # their quality on validation


def runs() -> list[Run]:
    return [training(name, number, quality=quality) for number, (name, quality) in enumerate(RUNS.items(), 1)]


@pytest.fixture(scope="module")
def template(tmp_path_factory, _empty_store) -> Path:
    """A store in which these runs are published."""
    folder = tmp_path_factory.mktemp("published")
    with store_in(folder, _empty_store):
        assert publish(runs()) == [*RUNS]
    return (folder / "mlflow.db").rename(folder / "template.db")  # so that copies of it may name the files there


@pytest.fixture
def published(tmp_path, template):
    """The present folder has a copy of that store; its client."""
    with store_in(tmp_path, template) as client:
        yield client


def test_a_run_has_its_seeds_below_it_and_is_sent_once(published):
    store = published
    parent, first, _ = family(store, "one")
    assert parent.data.metrics == {"l1": 0.15}
    assert "| l1 | 0.1500 (0.1000 to 0.2000) |" in parent.data.tags["mlflow.note.content"]
    assert parent.data.params == {"loss.name": "l1"}
    assert parent.data.tags["stage"] == "train@one"
    assert first.data.metrics["l1"] == 0.1
    points = {name: store.get_metric_history(first.info.run_id, f"epoch/{name}") for name in ("loss", "l1", "phase")}
    assert [(point.step, point.value) for point in points["loss"]] == [(1, 0.5), (2, 0.25)]
    assert [(point.step, point.value) for point in points["l1"]] == [(1, 0.3)]  # a phase may not have every metric
    assert points["phase"] == []
    assert load_sorter(f"models:/{MODEL}@champion").steepness == 2.0
    assert publish(runs()) == []


def test_a_run_names_its_data_and_the_versions_that_it_was_made_from(store):
    tags = {"input.data/clips/train.parquet": "1f" * 16, "input.made/parent": "3d.dir"}
    child = replace(training("child", 2.0), tags=tags)
    publish([child, training("parent", 1.0)])
    run, *_ = family(store, "child")
    assert run.data.tags["from"] == f"models:/{MODEL}/1"  # the parent is sent first
    data = [(entry.dataset.name, entry.dataset.digest, entry.tags[0].value) for entry in run.inputs.dataset_inputs]
    assert data == [("clips", "1f1f1f1f", "train")]
    assert f"Made from models:/{MODEL}/1." in store.get_model_version(MODEL, "2").description


def test_a_version_whose_files_are_elsewhere_is_refused_before_anything_is_fetched(store):
    store.create_registered_model(MODEL)
    store.create_model_version(MODEL, "s3://elsewhere/model")
    with pytest.raises(ValueError, match="s3://elsewhere/model, expected"):
        registry.weights_of(f"models:/{MODEL}/1", Path("copy"))


def test_nothing_is_published_into_a_model_of_the_time_when_the_project_was_called_otherwise(store):
    store.create_registered_model(MODEL)
    store.set_registered_model_tag(MODEL, "rankops.champions", "[]")
    with pytest.raises(ValueError, match="RANKGRAD_PREFIX"):
        publish([training("child", 2.0)])
    assert store.search_model_versions(f"name = '{MODEL}'") == []


def test_the_best_on_validation_is_challenger_and_what_a_person_moves_stays(published):
    assert aliases(published) == {"challenger": "2", "champion": "2"}
    for alias in ("challenger", "champion"):
        published.set_registered_model_alias(MODEL, alias, "1")
    publish(runs())
    assert aliases(published) == {"challenger": "1", "champion": "1"}
    published.delete_registered_model_alias(MODEL, "champion")
    publish([*runs(), training("three", 4.0, quality=1.0)])
    assert aliases(published) == {"challenger": "3"}  # champion was taken away by a person
    publish(runs())  # another checkout, which knows only the older versions
    assert aliases(published) == {"challenger": "3"}


def test_what_was_deleted_or_never_finished_is_sent_again_without_a_second_version(published):
    store = published
    killed, deleted = family(store, "one")[0], family(store, "two")[1]
    store.set_terminated(killed.info.run_id, "RUNNING")
    store.delete_run(deleted.info.run_id)
    assert publish(runs()) == ["one", "two"]
    family(store, "one"), family(store, "two")
    assert numbers(store) == {"2", "3"}  # a version is that of its run
    assert aliases(store) == {"challenger": "2", "champion": "2"}
    assert publish(runs()) == []


def test_lost_files_are_sent_again_and_aliases_follow(store):
    lost = [training("one", 1.0)]
    publish(lost)
    registry.set_champion(store, MODEL, "1", by="person")
    shutil.rmtree("mlruns")
    assert publish(lost) == ["one"]
    assert load_sorter(f"models:/{MODEL}@champion").steepness == 1.0
    assert (numbers(store), aliases(store)["champion"]) == ({"2"}, "2")
    assert registry.champions(store, store.get_registered_model(MODEL))[-1] == "2"
    assert registry.chosen_by_person(store, store.get_registered_model(MODEL))


@pytest.mark.parametrize(
    ("call", "times"),
    [("set_terminated", 2), ("create_model_version", 1), ("set_registered_model_alias", 2)],
)
def test_killed_at_any_point_the_next_publishing_completes_it(store, call, times):
    number = count(1)
    with killed_in(call, lambda *_: next(number) == times):
        publish([training("one", 7.0)])
    publish([training("one", 7.0)])
    family(store, "one")
    assert (len(numbers(store)), set(aliases(store))) == (1, {"challenger", "champion"})
    assert load_sorter(f"models:/{MODEL}@champion").steepness == 7.0


def made_pipeline() -> Settings:
    """Params of one run with two seeds, a trained sorter and one without weights; what their stages leave, in files."""
    params = load(ROOT / "params.yaml")
    runs = {"memorability-mse": params.runs["memorability-mse"].model_copy(update={"seeds": [1, 2]})}
    sorters = {key: params.sorters[key] for key in ("lstm", "laplace")}
    benchmark = dict.fromkeys(sorters, "sodeep")
    files = {"data/clips/train.parquet": "2e", "models/runs/parent": "3d", "models/runs/none": "4c", "src/x.py": "5b"}
    deps = [{"path": path, "md5": md5} for path, md5 in files.items()]
    entry = {"outs": [{"path": "out", "md5": "1f"}], "deps": deps}
    stages = [f"{stage}@{key}" for stage in ("pretrain", "benchmark_sorters") for key in sorters]
    stages += ["data@clips", "train@memorability-mse", "evaluate@memorability-mse"]
    history = "phase,epoch,loss,spearman,learning_rate,best\nprobe,1,0.5,0.2,0.1,1\nfinetune,2,0.25,0.4,0.1,1\n"
    by_seed = {1: 0.45, 2: 0.55}
    spearman = [Row("memorability-mse", "spearman", 0.5, 0.4, 0.6),
                *(Row("memorability-mse", "spearman", by_seed[seed], seed=seed) for seed in by_seed)]  # fmt: skip
    record = {"seeds": [1, 2], "best": 2, "setting": {}, "tried": [], "validation": {"1": 0.3, "2": 0.4}}
    files = {
        "params.yaml": {"runs": {"memorability-mse": {"loss": "mse"}}},
        "dvc.lock": {"stages": dict.fromkeys(stages, entry)},
        "models/runs/memorability-mse/run.json": record,
        "reports/figures/memorability-mse-examples.png": "", "reports/data/clips.html": "all rows passed",
        "models/sorters/lstm/history.csv": history,
    }  # fmt: skip
    for seed in (1, 2):
        network = small_network("score_ranking", "features", seed=seed)
        save_model(f"models/runs/memorability-mse/seed{seed}", network)
        files[f"models/runs/memorability-mse/seed{seed}/history.csv"] = history
    tables = {"runs/memorability-mse": spearman}
    for key, args in {"lstm": {"hidden": 2}, "laplace": {}}.items():
        save_model(f"models/sorters/{key}", build("sorters", key, args, seed=0, length=8))
        tables[f"sorters/{key}"] = [Row(key, "l1", 0.01, 0.0, 0.02), Row(key, "parameters", 3)]
    Path("data/clips").mkdir(parents=True)
    for split in ("train", "val", "test"):  # a version says that it knows the first two
        features = np.random.default_rng(0).normal(size=(12, 2)).tolist()
        pq.write_table(pa.table({"features": features}), f"data/clips/{split}.parquet")
    for name, contents in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(contents if isinstance(contents, str) else json.dumps(contents))
    for file, rows in tables.items():
        path = Path("metrics") / f"{file}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        results.write(path, rows)
    return params.model_copy(update={"runs": runs, "sorters": sorters, "benchmark_sorters": benchmark})


def test_the_stage_sends_what_the_pipeline_made(store, capsys):
    params = made_pipeline()
    for job, seconds in enumerate((2.0, 3.0)):
        used = Path(f".checkpoints/train/memorability-mse/digest/{job}/used.json")
        used.parent.mkdir(parents=True)
        used.write_text(json.dumps({"cpu_seconds": seconds, "peak_memory_mb": 100 * seconds}))
    times = {"all": (1000, 8500), "1": (1000, 2000), "2": (2000, 8500)}
    keep_times("train", "memorability-mse", Path("models/runs/memorability-mse"), times)
    main(params)
    assert "3 of 3 runs: sorter-lstm, sorter-laplace, memorability-mse" in capsys.readouterr().out
    runs = store.search_runs([experiment.experiment_id for experiment in store.search_experiments()])
    runs = {run.info.run_name: run for run in runs}
    parent, best = runs["memorability-mse"], runs["memorability-mse-seed2"]
    curves = {"epoch/loss": 0.25, "epoch/spearman": 0.4, "epoch/learning_rate": 0.1}  # means over both seeds
    used = {"system/cpu_seconds": 5.0, "system/peak_memory_mb": 300.0}
    assert parent.data.metrics == {"judged": 0.5, "spearman": 0.5} | curves | used
    assert parent.data.params.items() >= {"loss": "mse", "model": "linear(maximum=True)", "snapshot": "1"}.items()
    inputs = {"data/clips/train.parquet": "2e", "models/runs/parent": "3d"}  # no code, no start
    assert {f"input.{path}": digest for path, digest in inputs.items()}.items() <= parent.data.tags.items()
    assert (best.info.start_time, best.info.end_time, best.data.tags["training.seconds"]) == (2000, 8500, "6.5")
    champion = store.get_model_version_by_alias("score_ranking-clips", "champion")
    assert (champion.tags["seed"], champion.run_id) == ("2", parent.info.run_id)
    weights = registry.weights_of("models:/score_ranking-clips@champion", Path("copy"))
    text = (weights / "card.md").read_text()
    assert text.startswith("spearman 0.5000 (0.4000 to 0.6000) on clips, snapshot 1")
    assert text.strip().replace("VERSION", "1").partition("\n")[2] == champion.description.strip().partition("\n")[2]
    registered, best_seed = load_model(weights), load_model("models/runs/memorability-mse/seed2")
    made_by = registered.recipe["made"]
    assert (made_by["commit"], made_by["inputs"]) == (parent.data.tags["git_commit"], inputs)
    assert made_by["metrics"]["spearman"] == {"value": 0.5, "low": 0.4, "high": 0.6}
    for weights, expected in zip(registered.parameters(), best_seed.parameters(), strict=True):
        assert weights.equal(expected)
    assert [model.name for model in store.search_registered_models()] == ["score_ranking-clips", "sorter-lstm"]


def test_a_project_with_a_prefix_keeps_its_runs_and_champions_apart(store, monkeypatch):
    params = made_pipeline()
    monkeypatch.setenv("RANKGRAD_PREFIX", "shop-")
    main(params, "memorability-mse")
    assert store.get_model_version_by_alias("shop-score_ranking-clips", "champion").version == 1
    assert {experiment.name for experiment in store.search_experiments()} == {"Default", "shop-score_ranking"}
    assert gate.models_of(params) == ["shop-sorter-lstm", "shop-score_ranking-clips"]
    monkeypatch.setenv("RANKGRAD_PREFIX", "shop/")
    with pytest.raises(ValueError, match="RANKGRAD_PREFIX is 'shop/', expected"):
        main(params)


def test_without_an_entry_in_the_lock_there_is_nothing_to_publish(store):
    params = load(ROOT / "params.yaml")
    Path("metrics/sorters").mkdir(parents=True)
    shutil.copyfile(ROOT / "params.yaml", "params.yaml")
    with pytest.raises(ValueError, match=f"dvc.lock: no entry for pretrain@{next(iter(params.sorters))}"):
        main(params)


def test_weights_are_not_published_with_metrics_or_params_of_others(store):
    """As where a run was trained anew and not evaluated, another branch has other results, or params are edited."""
    params = made_pipeline()
    lock = json.loads(Path("dvc.lock").read_text())
    trained, evaluated = (lock["stages"][f"{stage}@memorability-mse"] for stage in ("train", "evaluate"))
    metrics, model = "metrics/runs/memorability-mse.csv", "models/runs/memorability-mse"
    digest = hashlib.md5(Path(metrics).read_bytes()).hexdigest()

    def publish_with(loss: str = "mse", evaluated_model: str = "6a.dir", metrics_md5: str = digest) -> None:
        trained["outs"] = [{"path": model, "md5": "6a.dir", "hash": "md5"}]
        trained["params"] = {"params.yaml": {"runs.memorability-mse.loss": loss}}
        evaluated["deps"] = [{"path": model, "md5": evaluated_model}]
        evaluated["outs"] = [{"path": metrics, "md5": metrics_md5, "hash": "md5"}]
        Path("dvc.lock").write_text(json.dumps(lock))
        main(params, "memorability-mse")

    publish_with()
    for place, change in (
        (model, {"evaluated_model": "0f"}), (metrics, {"metrics_md5": "0f"}),
        ("runs.memorability-mse.loss", {"loss": "l1"}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=place):
            publish_with(**change)


def test_an_experiment_in_a_copy_sends_runs_and_no_versions_to_the_store_of_the_checkout(
    store, capsys, tmp_path, monkeypatch
):
    copy = tmp_path / ".dvc/tmp/exps/copy"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    params = made_pipeline()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_EXP_NAME", "faster")
    main(params)
    assert "3 of 3 runs as experiment faster" in capsys.readouterr().out
    assert not list(copy.glob("ml*"))
    sent = store.search_runs([experiment.experiment_id for experiment in store.search_experiments()])
    assert {run.data.tags["dvc.experiment"] for run in sent} == {"faster"}
    assert store.search_registered_models() == []
    assert all(run.info.artifact_uri.startswith(f"{tmp_path.as_uri()}/mlruns/") for run in sent)


def test_with_folds_the_first_version_is_chosen_by_the_gate_s_metric_whatever_direction_is_better():
    params = SimpleNamespace(runs={"mine": SimpleNamespace(dataset="x")}, datasets={"x": SimpleNamespace(folds=3)})
    rows = [Row("mine", "loss", 0.4), Row("mine", "accuracy", 0.7)]
    loss, accuracy = Metric("loss", "loss", lower_is_better=True), Metric("accuracy", "accuracy")
    assert _quality(params, "mine", rows, loss) == -0.4
    assert _quality(params, "mine", rows, accuracy) == 0.7
    assert _quality(params, "mine", [Row("mine", "loss", float("nan"))], loss) == -float("inf")


def test_slices_are_by_class_by_number_of_labels_and_by_columns(tmp_path):
    ranks = [[1, 0], [0, 1], [2, 1], [1, 0]] * 40
    lost = [row % 4 == 1 for row in range(160)]  # only the second class is, where it is alone
    columns = {"zoom": np.linspace(0, 1, 160), "shop": ["a", "b"] * 80, "slice judge": [*"aabbcdef", None, "b"] * 16}
    test = pa.table({"id": range(160), "label_ranks": ranks} | columns)
    pq.write_table(test, tmp_path / "test.parquet")
    scores = np.where(np.array(lost)[:, None], [[1.0, 0.0]], ranks).tolist()
    predicted = {"id": range(160), "seed": [3] * 160, "scores": scores, "label_ranks": ranks, "true_label_ranks": ranks,
                 "selected": (np.array(ranks) > 0).tolist()}  # fmt: skip
    pq.write_table(pa.table(predicted), tmp_path / "predictions.parquet")
    files = tmp_path / "predictions.parquet", tmp_path / "test.parquet"
    made = slices("label_ranking", "ranked.exact_match", *files, seed=3)
    rows = {piece.name: (piece.rows, round(piece.value, 3)) for piece in made}
    expected = {"class: 0": (120, 1.0), "class: 1": (80, 0.5), "labels: 1": (120, 0.667), "labels: 2": (40, 1.0),
                "shop: a": (80, 1.0), "shop: b": (80, 0.5), "judge: a": (32, 0.75)}  # fmt: skip
    assert rows.items() >= expected.items()
    assert len([name for name in rows if name.startswith("zoom: ")]) == 3
    assert {name for name in rows if name.startswith("judge: ")} == {"judge: a", "judge: b"}  # the others have few rows
    assert (made[0].value, made[-1].value) == (0.5, 1.0)


def test_the_worst_slice_comes_first_also_if_lower_is_better(tmp_path):
    scores = [[1.0, 0.0], [0.0, 1.0]] * 40  # the second judge's pairs are all wrong
    judges = ["sure", "random"] * 40
    pq.write_table(pa.table({"id": range(80), "slice judge": judges}), tmp_path / "test.parquet")
    predicted = {"id": range(80), "seed": [1] * 80, "scores": scores, "relevance": [[1, 0]] * 80}
    pq.write_table(pa.table(predicted), tmp_path / "predictions.parquet")
    files = tmp_path / "predictions.parquet", tmp_path / "test.parquet"
    for metric in ("log_loss", "pair_accuracy"):
        assert [piece.name for piece in slices("query_ranking", metric, *files, seed=1)] == [
            "judge: random",
            "judge: sure",
        ]


def test_a_version_answers_its_example_elsewhere_by_its_own_code_and_names_what_it_imports(store, tmp_path):
    shutil.rmtree("src")
    Path("src").symlink_to(ROOT / "src")
    save_model("made/model", small_network("query_ranking", "text"))
    publish([Run("x", "tests", "x", version=Version("query_ranking-shop", Path("made/model")))])
    shutil.rmtree("made")
    code = (
        "import mlflow; model = mlflow.pyfunc.load_model('models:/query_ranking-shop@champion')\n"
        "answer = model.predict(model.input_example)\n"
        "import rankgrad; print(rankgrad.__file__, list(answer.columns), len(answer))"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {"PATH": os.environ["PATH"], "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
                   "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false"}  # fmt: skip
    printed = done(sys.executable, "-c", code, folder=elsewhere, **environment).splitlines()[-1]
    assert printed.startswith(f"{tmp_path}/mlruns/")
    assert printed.endswith("['scores'] 1")
    signature = mlflow.models.get_model_info("models:/query_ranking-shop/1").signature
    assert (signature.inputs.input_names(), signature.outputs.input_names()) == (["text", "id"], ["scores"])
    (file,) = Path("mlruns").rglob("requirements.txt")
    named = {line.partition("==")[0] for line in file.read_text().split()}
    assert {"mlflow", "torch", "pillow", "pyarrow"} <= named
    assert "torchvision" not in named  # no part of such a network

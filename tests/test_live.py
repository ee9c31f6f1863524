"""Trainings that go on, as MLflow shows them: from real checkpoints, in a real store."""

import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
import torch
from torch import nn

from pipelines.config.schema import load
from pipelines.reporting.histories import best_epoch, history_of_run
from pipelines.reporting.history import write_trained
from pipelines.tracking.live import PROGRESS, going, watch
from pipelines.tracking.publish import LIVE
from rankops.training.loop import Epoch, fit

from conftest import ROOT  # isort: skip

RUN, ATTEMPT = "memorability-mse", "0123456789abcdef"


@pytest.fixture
def params():
    return load(ROOT / "params.yaml")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A store of its own, and where the checkpoints are."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    yield tmp_path / ".checkpoints"
    mlflow.set_tracking_uri(None)


def train(folder, epochs: int) -> list:
    """So many epochs of a training that keeps its state there."""
    torch.manual_seed(0)
    return list(
        fit(
            nn.Linear(2, 1),
            batches=lambda generator: [torch.randn(4, 2, generator=generator)],
            loss=lambda model, batch: model(batch).square().mean(),
            validate=lambda model: {"spearman": model.weight.abs().sum().item()},
            judged_by="spearman", epochs=epochs, batches_per_epoch=1, patience=99,
            optimizer={"name": "SGD", "args": {"lr": 0.1}}, schedule={"name": "constant"}, seed=0, device="cpu",
            precision="no", checkpoint=folder, name="test",
        )
    )  # fmt: skip


def runs() -> list:
    client = mlflow.MlflowClient(mlflow.get_tracking_uri())
    found = client.search_runs([one.experiment_id for one in client.search_experiments()])
    return [(run, client.get_metric_history(run.info.run_id, "epoch.loss")) for run in found]


def test_epochs_count_on_from_the_head_to_everything(kept, params):
    folder = kept / "train" / RUN / ATTEMPT
    head, everything = train(folder / "head", 2), train(folder / "everything", 3)
    train(folder / "thresholds", 1)  # which publishing leaves out
    train(kept / "train" / "no_such_run" / ATTEMPT, 1)
    (one,) = going(params, kept)
    assert (one.name, one.experiment, one.key) == (RUN, "memorability", f"{RUN}/{ATTEMPT}")
    assert [row["epoch"] for row in one.epochs] == [1, 2, 3, 4, 5]
    assert [row["loss"] for row in one.epochs] == [epoch.loss for epoch in head + everything]
    assert [row["spearman"] for row in one.epochs] == [epoch.validation["spearman"] for epoch in head + everything]


def test_a_sorters_training_is_found_too(kept, params):
    train(kept / "pretrain" / "lstm" / ATTEMPT, 1)
    (one,) = going(params, kept)
    assert (one.name, one.experiment, len(one.epochs)) == ("sorter-lstm", "sorters", 1)


def test_a_training_on_a_gpu_is_watched_where_there_is_none(kept, params, monkeypatch):
    step = kept / "pretrain" / "lstm" / ATTEMPT
    train(step, 1)
    (progress,) = step.glob(f"epoch-*/{PROGRESS}")
    with monkeypatch.context() as patched:  # so that it says of its tensors what it says on a GPU
        patched.setattr("torch.serialization.location_tag", lambda storage: "cuda:0")
        torch.save(torch.load(progress, weights_only=True), progress)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA device"):
            torch.load(progress, weights_only=True)
    (one,) = going(params, kept)
    assert len(one.epochs) == 1


def test_what_is_removed_while_it_is_looked_at_is_not_going(kept, params, monkeypatch):
    train(kept / "pretrain" / "lstm" / ATTEMPT, 1)
    train(kept / "train" / RUN / ATTEMPT / "head", 1)
    train(kept / "train" / RUN / f"{'f' * 16}.partial-7-removed" / "head", 1)  # half removed
    listed = Path.iterdir

    def removed(folder: Path):
        if folder == kept / "train" / RUN / ATTEMPT:
            shutil.rmtree(folder)
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", removed)
    assert [one.name for one in going(params, kept)] == ["sorter-lstm"]


def test_epochs_reach_the_store_while_the_training_goes_on_and_what_stopped_is_closed(kept, params):
    folder = kept / "train" / RUN / ATTEMPT / "everything"
    train(folder, 2)
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(params, kept, ended), kwargs={"every": 0.1})
    watching.start()
    try:
        deadline = time.monotonic() + 120

        def until(holds):
            while time.monotonic() < deadline:
                found = runs() if mlflow.get_tracking_uri().endswith("mlflow.db") else []
                if holds(found):
                    return found
                time.sleep(0.2)
            raise AssertionError(found)

        ((run, losses),) = until(lambda found: found and len(found[0][1]) == 2)
        assert run.info.status == "RUNNING"
        assert run.data.tags[LIVE] == f"{RUN}/{ATTEMPT}"
        train(folder, 4)  # goes on, as a killed one does
        ((same, losses),) = until(lambda found: len(found[0][1]) == 4)
        assert same.info.run_id == run.info.run_id
        assert [point.step for point in losses] == [1, 2, 3, 4]
        shutil.rmtree(kept / "train" / RUN)  # it failed
    finally:
        ended.set()
        watching.join(60)
    ((closed, _),) = runs()
    assert closed.info.status == "KILLED"


def test_another_watch_goes_on_with_the_same_run(kept, params):
    folder = kept / "train" / RUN / ATTEMPT / "everything"
    for epochs in (1, 3):
        train(folder, epochs)
        ended = threading.Event()
        ended.set()
        watch(params, kept, ended)
    ((run, losses),) = runs()
    assert run.info.status == "RUNNING"
    assert [point.step for point in losses] == [1, 2, 3]


def test_the_same_training_in_another_folder_has_a_run_of_its_own(kept, params, tmp_path):
    ended = threading.Event()
    ended.set()
    here, there = kept, tmp_path / "other/.checkpoints"
    for place in (here, there):
        train(place / "train" / RUN / ATTEMPT / "everything", 2)
        watch(params, place, ended)
    assert [[point.step for point in losses] for _, losses in runs()] == [[1, 2], [1, 2]]
    shutil.rmtree(here)
    watch(params, here, ended)
    assert sorted(run.info.status for run, _ in runs()) == ["KILLED", "RUNNING"]


def test_without_a_server_it_says_so_once_and_stops_nothing(kept, params, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    train(kept / "train" / RUN / ATTEMPT / "everything", 1)
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(params, kept, ended), kwargs={"every": 0.1})
    watching.start()
    time.sleep(3)
    ended.set()
    watching.join(60)
    assert not watching.is_alive()
    told = [record for record in caplog.records if "cannot be watched for now" in record.message]
    assert len(told) == 1


def test_the_history_of_two_steps_is_read_back_as_it_was_trained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no head_history.csv or history.csv there; run `dvc repro`"):
        history_of_run(tmp_path)
    progress = [
        (step, Epoch(number, loss, {"spearman": figure}, best, 0.1), f"network after {step} {number}")
        for step, number, loss, figure, best in (
            ("head", 1, 0.5, 0.25, True), ("head", 2, 0.4, 0.123456789, False),
            ("everything", 1, 0.3, 0.5, True), ("everything", 2, 0.2, 0.375, False),
        )
    ]  # fmt: skip
    task = SimpleNamespace(
        HISTORIES={"everything": "history.csv", "head": "head_history.csv"},
        save=lambda folder, network: (folder / "network").write_text(network),
    )
    training = {"head": {"epochs": 2}, "everything": {"epochs": 2}, "batch_size": 8}
    write_trained(tmp_path / "run", task, progress, name="mine", training=training)
    assert (tmp_path / "run/network").read_text() == "network after everything 2"
    history = history_of_run(tmp_path / "run")
    assert history.to_dict("list") == {
        "epoch": [1, 2, 3, 4], "loss": [0.5, 0.4, 0.3, 0.2], "spearman": [0.25, 0.123456789, 0.5, 0.375],
        "learning_rate": [0.1] * 4, "best": [1, 0, 1, 0],
    }  # fmt: skip
    assert best_epoch(history)["epoch"] == 3

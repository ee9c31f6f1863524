"""Trainings that go on, as MLflow shows them: from the histories that they write, in a real store."""

import logging
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.tracking.live import watch
from pipelines.tracking.publish import Run, publish

PARAMS = SimpleNamespace(runs={"mine": SimpleNamespace(task="memorability")}, sorters={"lstm": None})
KEPT = Path(".checkpoints")
SEED = KEPT / "train/mine/0123456789abcdef/seed2"


def train(folder: Path, epochs: int) -> None:
    """Write so many epochs, the second half in a phase of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{'probe' if epoch * 2 <= epochs else 'finetune'},{epoch},{1 / epoch},{'' if epoch == 1 else 0.5},0.1,1\n"
        for epoch in range(1, epochs + 1)
    ]
    (folder / "history.csv").write_text("".join(["phase,epoch,loss,spearman,learning_rate,best\n", *rows]))


def look(folder: Path = KEPT) -> None:
    """Look once, and once more because it ends."""
    ended = threading.Event()
    ended.set()
    watch(PARAMS, folder, ended)


def runs(store) -> list:
    experiments = [experiment.experiment_id for experiment in store.search_experiments()]
    return sorted(store.search_runs(experiments), key=lambda run: run.info.run_name)


def steps(store, run, metric: str = "epoch.loss") -> list[int]:
    return [point.step for point in store.get_metric_history(run.info.run_id, metric)]


def test_whole_epochs_of_trainings_of_the_params_are_shown(store):
    train(SEED, 2)
    train(SEED / "result", 2)
    train(KEPT / "pretrain/lstm/0123456789abcdef", 1)
    train(KEPT / "train/other/0123456789abcdef/seed1", 1)  # not in the params
    train(KEPT / "set_aside/train/mine/0123456789abcdef/seed1", 1)
    train(KEPT / "train/mine/0123456789abcdef.partial-7-removed/seed1", 1)
    look()
    mine, sorter = runs(store)
    assert (mine.info.run_name, sorter.info.run_name) == ("mine seed2", "sorter-lstm")
    names = [store.get_experiment(run.info.experiment_id).name for run in (mine, sorter)]
    assert names == ["memorability", "sorters"]
    assert mine.info.status == "RUNNING"
    assert mine.data.metrics["epoch.loss"] == 0.5
    assert steps(store, mine) == [1, 2]
    assert steps(store, mine, "epoch.spearman") == [2]  # empty in the first
    train(SEED, 4)
    for _ in range(2):  # another watcher goes on with the same run and sends nothing twice
        look()
    assert steps(store, mine) == [1, 2, 3, 4]


def test_epochs_reach_the_store_while_the_training_goes_on(store):
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(PARAMS, KEPT, ended), kwargs={"every": 0.1})
    watching.start()
    try:
        for epochs in (1, 3):
            train(SEED, epochs)
            deadline = time.monotonic() + 60
            while not (shown := runs(store)) or steps(store, shown[0]) != [*range(1, epochs + 1)]:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        ended.set()
        watching.join(60)


def test_publishing_leaves_one_run_of_a_training(store):
    train(SEED, 2)
    look()
    shutil.rmtree(SEED)
    publish([Run("mine", "memorability", "key", seeds=(Run("mine-seed2", "memorability", "seed"),))])
    assert [run.info.run_name for run in runs(store)] == ["mine", "mine-seed2"]
    look()
    assert len(runs(store)) == 2


def test_a_training_in_another_folder_has_a_run_of_its_own(store, tmp_path):
    other = tmp_path / "other/.checkpoints"
    train(SEED, 2)
    train(other / SEED.relative_to(KEPT), 3)
    look()
    look(other)
    publish([Run("mine", "memorability", "key")])
    assert [steps(store, run) for run in runs(store)] == [[], [1, 2, 3]]


def test_a_store_that_does_not_answer_is_reported_once_and_stops_nothing(store, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    train(SEED, 1)
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(PARAMS, KEPT, ended), kwargs={"every": 0.01})
    with caplog.at_level(logging.WARNING):
        watching.start()
        time.sleep(1.5)
        ended.set()
        watching.join(60)
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1


@pytest.mark.parametrize("contents", ["", "phase,epoch,loss\n"])
def test_a_history_without_an_epoch_shows_nothing(store, contents):
    SEED.mkdir(parents=True)
    (SEED / "history.csv").write_text(contents)
    look()
    assert runs(store) == []

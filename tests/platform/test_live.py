"""Trainings that go on, as MLflow shows them: from the histories that they write, in a real store."""

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from pipelines.tracking.live import watch
from pipelines.tracking.upload import Run, publish

PARAMS = SimpleNamespace(runs={"mine": SimpleNamespace(task="score_ranking")}, sorters={"lstm": None})
KEPT = Path(".checkpoints")
SEED = KEPT / "train/mine/0123456789abcdef/seed2"


def train(folder: Path, epochs: int) -> None:
    """Write so many epochs."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"probe,{epoch},{1 / epoch},{'' if epoch == 1 else 0.5},0.1,1\n" for epoch in range(1, epochs + 1)]
    (folder / "history.csv").write_text("".join(["phase,epoch,loss,spearman,learning_rate,best\n", *rows]))


@contextmanager
def watching(**options: float) -> Iterator[None]:
    """Watch in a thread; it looks once more when that ends."""
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(PARAMS, KEPT, ended), kwargs=options)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def look() -> None:
    with watching():
        pass


def runs(store) -> list:
    experiments = [experiment.experiment_id for experiment in store.search_experiments()]
    return sorted(store.search_runs(experiments), key=lambda run: run.info.run_name)


def steps(store, run, metric: str = "epoch/loss") -> list[int]:
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
    assert names == ["score_ranking", "sorters"]
    assert mine.info.status == "RUNNING"
    assert mine.data.metrics["epoch/loss"] == 0.5
    assert steps(store, mine) == [1, 2]
    assert steps(store, mine, "epoch/spearman") == [2]  # empty in the first
    train(SEED, 4)
    for _ in range(2):  # another watcher goes on with the same run and sends nothing twice
        look()
    assert steps(store, mine) == [1, 2, 3, 4]
    shutil.rmtree(SEED)
    publish([Run("mine", "score_ranking", "key", seeds=(Run("mine-seed2", "score_ranking", "seed"),))])
    look()
    assert [run.info.run_name for run in runs(store)] == ["mine", "mine-seed2", "sorter-lstm"]  # one of a training


def test_a_store_that_does_not_answer_is_reported_once_and_stops_nothing(store, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    train(SEED, 1)
    with caplog.at_level(logging.WARNING), watching(every=0.01):
        time.sleep(1.5)
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1

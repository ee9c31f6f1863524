"""Each pair of an input type and a task: read from a table, trained, predicted, saved and loaded; or refused."""

import numpy as np
import pytest
import torch

from rankgrad import lookup
from rankgrad.evaluation import evaluate
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.sorters.laplace import Laplace
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip
from rows import CONVNET, TRAINING, TWO, TYPES, written  # isort: skip

ROWS = 12
# A loss of each task that compares all scores of a list, and its sorter.
LOSSES = {
    "label_ranking": ("rlsep", None),
    "multilabel": ("average_precision", Laplace),
    "score_ranking": ("spearman", Laplace),
    "query_ranking": ("ndcg", Laplace),
    "retrieval": ("hit_rate", Laplace),
}


def trained(task: str, kind: str, folder):
    """Train a task on tables of an input, save and load the network, and predict: the task, and what it predicts."""
    made = task_of(task, TRAINING.get(task, TWO))
    data = [made.load(folder, split, threads=1) for split in ("train", "val")]
    network = made.build({"name": "linear", "args": {}, "backbone": TYPES[kind][0]}, data[0], seed=0)
    loss, sorter = LOSSES[task]
    objective = objective_of(loss, sorter=sorter and sorter())
    epochs = list(train(made, network, *data, objective=objective, seed=0, started=True, device="cpu"))
    assert [phase for phase, _ in epochs] == list(made.blocks())
    for _, epoch in epochs:
        assert np.isfinite([epoch.loss, *epoch.validation.values()]).all()
    made.finish(network, data[1])
    save_model(folder / "model", network)
    with torch.no_grad():
        predicted = made.predict(network, data[1])
        assert predicted.equals(lookup.find("tasks", task)().predict(load_model(folder / "model"), data[1]))
    return made, predicted


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("task", lookup.names("tasks"))
def test_an_input_and_a_task_are_trained_and_judged_or_say_why_not(task, kind, tmp_path):
    written(task, kind, tmp_path)
    if kind not in lookup.find("tasks", task).reads.inputs:
        with pytest.raises(ValueError, match="frames cannot be the input"):
            lookup.find("tasks", task)().load(tmp_path, "train", threads=1)
        return
    made, predicted = trained(task, kind, tmp_path)
    assert predicted["name"].to_pylist() == [f"row {row}" for row in range(ROWS)]
    statistic = made.statistic(predicted)
    assert statistic.examples == ROWS // 3
    assert {metric.name for metric in made.metrics if not metric.optional} <= set(statistic.names)
    rows = evaluate("", {1: statistic}, resamples=20, seed=0)
    (row,) = [row for row in rows if row.metric == made.metrics[0].name and row.seed is None]
    assert row.low <= row.value <= row.high


def test_a_backbone_of_another_type_is_refused(tmp_path):
    written("score_ranking", "features", tmp_path)
    task = task_of("score_ranking", TWO)
    split, model = task.load(tmp_path, "train", threads=1), {"name": "linear", "args": {}, "backbone": CONVNET}
    with pytest.raises(ValueError, match="convnet takes image, but the dataset has features"):
        task.build(model, split, seed=0)

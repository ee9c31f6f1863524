"""Inputs of a split: what does not fit into memory, several items a row, and weights."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rankgrad.inputs import one_of
from rankgrad.inputs._stored import Stored
from rankgrad.metrics.spearman import spearman
from rankgrad.sorters.laplace import Laplace
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip
from rows import CONVNET, written  # isort: skip


def trained(made, split, backbone: dict, loss: str, *, sorter=None, started: bool = True) -> tuple:
    network = made.build({"name": "linear", "args": {}, "backbone": backbone}, split, seed=0)
    options = {"objective": objective_of(loss, sorter=sorter), "seed": 0, "started": started, "device": "cpu"}
    return network, list(train(made, network, split, split, **options))


@pytest.mark.parametrize(
    ("task", "kind", "loss", "training"),
    [
        ("label_ranking", "image", "rlsep", {"scorer": {"shift": 1}, "thresholds": {"hidden": 4}}),
        ("score_ranking", "frames", "mse", {"finetune": {"shift": 1}}),
    ],
)
def test_what_memory_does_not_hold_is_trained_to_the_same_bits(task, kind, loss, training, tmp_path, caplog):
    written(task, kind, tmp_path, rows=40)
    caplog.set_level("INFO")
    made, files = task_of(task, training), sorted(tmp_path.iterdir())
    results = []
    for memory in (4.0, 1e-6):
        split = made.load(tmp_path, "train", threads=2, memory=memory)
        assert isinstance(split.inputs.items, Stored) == (memory < 1) == ("decoded batch by batch" in caplog.text)
        network, history = trained(made, split, CONVNET, loss)
        results.append((history, list(network.state_dict().values()), made.predict(network, split)))
    (history, state, predicted), (history_of_stored, state_of_stored, predicted_of_stored) = results
    assert history_of_stored == history
    torch.testing.assert_close(state_of_stored, state, rtol=0, atol=0)
    assert predicted_of_stored.equals(predicted)
    assert sorted(tmp_path.iterdir()) == files


def test_a_random_item_of_several_is_any_of_them(generator):
    counts = torch.tensor([1, 2, 5])
    drawn = torch.stack([one_of(counts, generator) for _ in range(200)])
    assert [sorted(set(column.tolist())) for column in drawn.T] == [[0], [0, 1], [0, 1, 2, 3, 4]]


LONG = {"epochs": 12, "patience": 12, "optimizer": {"args": {"lr": 1e-2}}}


@pytest.mark.parametrize(
    ("task", "loss", "training"),
    [
        ("score_ranking", "spearman", {"finetune": LONG}),
        ("label_ranking", "rlsep", {"scorer": LONG, "thresholds": {"hidden": 4}}),
        ("multilabel", "multilabel_soft_margin", {"finetune": LONG}),
    ],
)
def test_what_counts_more_decides(task, loss, training, tmp_path, generator):
    vectors, weight = torch.randn(40, 3, generator=generator), torch.tensor([100.0, 1, 1, 1]).repeat(10)
    target = torch.where(weight > 1, -1.0, 1.0) * vectors[:, 0]  # heavy rows say the opposite of the others
    of_labels = torch.stack([target, -target], 1)
    columns = {"features": vectors, "weight": weight, "target": target, "labels": of_labels > 0,
               "label_ranks": of_labels.argsort(1)}  # fmt: skip
    table = pa.table({name: values.numpy().tolist() for name, values in columns.items()})
    pq.write_table(table, tmp_path / "train.parquet")
    made = task_of(task, training)
    split, sorter = made.load(tmp_path, "train", threads=1), Laplace() if loss == "spearman" else None
    perceptron = {"name": "perceptron", "args": {"hidden": [8]}}
    network, _ = trained(made, split, perceptron, loss, sorter=sorter, started=False)
    predicted = made.predict(network, split)
    scores = torch.tensor(predicted["score" if task == "score_ranking" else "scores"].to_pylist()).view(40, -1)
    assert spearman(scores[:, 0] - scores[:, 1:].sum(1), vectors[:, 0]) < -0.2
    weighted, plain = (made.statistic(rows).of_all()[0] for rows in (predicted, predicted.drop_columns(["weight"])))
    assert weighted > plain

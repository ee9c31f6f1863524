"""Inputs of a split: what does not fit into memory, several items a row, weights and groups."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rankgrad import lookup
from rankgrad.inputs import one_of
from rankgrad.inputs._stored import Stored
from rankgrad.io.parquet import encode_images
from rankgrad.metrics.spearman import spearman
from rankgrad.sorters.laplace import Laplace
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip

ROWS = 40
PHASE = {"epochs": 2, "patience": 2, "optimizer": {"name": "AdamW", "args": {"lr": 1e-2}},
         "schedule": {"name": "cosine"}}  # fmt: skip
TWO = {"batch_size": 8, "probe": PHASE, "finetune": PHASE | {"shift": 1}}
RANKS = {"scorer": PHASE | {"batch_size": 8, "shift": 1}, "thresholds": PHASE | {"batch_size": 8, "hidden": 4}}
CONVNET = {"name": "linear", "args": {}, "backbone": {"name": "convnet", "args": {"channels": [4, 6]}}}
VECTORS = {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": [8]}}}


@pytest.fixture
def folder(tmp_path, generator):
    """Images or clips with all that a task may learn from."""
    pixels = torch.randint(0, 256, (3 * ROWS, 12, 12), generator=generator, dtype=torch.uint8).numpy()
    images, draws = encode_images(pixels, threads=1), np.random.default_rng(0)

    def write(kind: str) -> None:
        counts = draws.integers(1, 4, ROWS) if kind == "frames" else np.ones(ROWS, int)
        cells = images[: counts.sum()]
        if kind == "frames":
            cells = pa.ListArray.from_arrays(pa.array(np.append(0, counts.cumsum()), pa.int32()), cells)
        columns = {kind: cells, "label_ranks": draws.integers(0, 3, (ROWS, 4)).tolist(), "target": draws.random(ROWS)}
        pq.write_table(pa.table(columns), tmp_path / "train.parquet")

    return tmp_path, write


def trained(task: str, training: dict, splits: list, **options) -> tuple:
    made = task_of(task, training)
    network = made.build(options.pop("model", CONVNET), splits[0], seed=0)
    objective = options.pop("objective", None) or objective_of("rlsep" if task == "label_ranking" else "mse")
    options = {"objective": objective, "seed": 0, "device": "cpu", "started": True} | options
    history = [epoch for _, epoch in train(made, network, *splits, **options)]
    return made, network, history


@pytest.mark.parametrize(("task", "kind"), [("label_ranking", "image"), ("score_ranking", "frames")])
def test_what_memory_does_not_hold_is_trained_to_the_same_bits(task, kind, folder, caplog):
    path, write = folder
    write(kind)
    results, training = [], RANKS if task == "label_ranking" else TWO
    for memory in (4.0, 1e-6):
        caplog.set_level("INFO")
        splits = [lookup.find("tasks", task)().load(path, "train", threads=2, memory=memory)] * 2
        assert isinstance(splits[0].inputs.items, Stored) == (memory < 1) == ("decoded batch by batch" in caplog.text)
        made, network, history = trained(task, training, splits)
        with torch.no_grad():
            results.append((history, network.state_dict(), made.predict(network, splits[0])))
    assert results[0][0] == results[1][0]
    assert all(value.equal(results[1][1][name]) for name, value in results[0][1].items())
    assert results[0][2].equals(results[1][2])
    assert sorted(path.iterdir()) == [path / "train.parquet"]


def test_a_random_item_of_several_is_any_of_them(generator):
    counts = torch.tensor([1, 2, 5])
    drawn = torch.stack([one_of(counts, generator) for _ in range(200)])
    assert [sorted(set(column.tolist())) for column in drawn.T] == [[0], [0, 1], [0, 1, 2, 3, 4]]


class TestWeightsAndGroups:
    def split(self, tmp_path, generator, **more):
        vectors = torch.randn(ROWS, 3, generator=generator)
        # Rows of weight 100 say the opposite of the others.
        heavy = torch.arange(ROWS) % 4 == 0
        target = torch.where(heavy, -1.0, 1.0) * vectors[:, 0]
        columns = {
            "features": vectors.tolist(), "target": target.tolist(),
            "weight": torch.where(heavy, 100.0, 1.0).tolist(),
            "group": [f"customer {row // 5 + row // 36}" for row in range(ROWS)],
            "label_ranks": torch.stack([target, -target]).T.argsort(1).argsort(1).tolist(),
            "labels": torch.stack([target > 0, target <= 0]).T.long().tolist(),
        }  # fmt: skip
        pq.write_table(pa.table(columns | more), tmp_path / "train.parquet")
        return vectors, target, heavy

    @pytest.mark.parametrize(
        ("task", "loss"),
        [
            ("score_ranking", "spearman"), ("label_ranking", "rlsep"), ("multilabel", "multilabel_soft_margin"),
        ],
    )  # fmt: skip
    def test_what_counts_more_decides(self, task, loss, tmp_path, generator):
        vectors, _, _ = self.split(tmp_path, generator)
        long = PHASE | {"epochs": 12, "patience": 12}
        training = TWO | {"probe": long, "finetune": long | {"shift": 0}}
        if task == "label_ranking":
            training = {"scorer": RANKS["scorer"] | {"epochs": 12}, "thresholds": RANKS["thresholds"]}
        made = lookup.find("tasks", task)()
        splits = [made.load(tmp_path, "train", threads=1)] * 2
        objective = objective_of(loss, sorter=Laplace() if loss == "spearman" else None)
        made, network, _ = trained(task, training, splits, model=VECTORS, objective=objective, started=False)
        table = made.predict(network, splits[0])
        scores = table["score" if task == "score_ranking" else "scores"].to_pylist()
        first = torch.tensor([score if task == "score_ranking" else score[1] - score[0] for score in scores])
        sign = {"score_ranking": 1, "label_ranking": -1, "multilabel": -1}[task]
        assert sign * spearman(first, vectors[:, 0]) < -0.2
        statistic = made.statistic(table)
        assert statistic.examples == len(set(table["group"].to_pylist()))
        weighted = statistic.of_rows(np.arange(statistic.examples))[0]
        assert weighted > made.statistic(table.drop_columns(["weight", "group"])).of_rows(np.arange(ROWS))[0]

"""Each pair of an input and a task: read from a table, trained, predicted, saved, loaded and asked; or refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rankgrad import lookup
from rankgrad.evaluation import evaluate
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.io.parquet import IMAGE
from rankgrad.sorters.laplace import Laplace
from rankgrad.training.loop import train
from rankgrad.training.objective import Objective

from conftest import encoded  # isort: skip

ROWS, SIDE = 12, 16
CONVNET = {"name": "convnet", "args": {"channels": [4, 6]}}
BACKBONES = {
    "image": CONVNET,
    "frames": CONVNET,
    "features": {"name": "perceptron", "args": {"hidden": [6]}},
    "text": {"name": "words", "args": {"size": 6, "word_size": 4}},
}
# The usual loss of a task, and one on ranks, which may need a sorter.
LOSSES = {
    "label_ranking": ("multilabel_cross_entropy", "rlsep"),
    "multilabel": ("multilabel_soft_margin", "average_precision"),
    "score_ranking": ("mse", "spearman"),
    "query_ranking": ("mse", "ndcg"),
    "retrieval": ("hard_negative_triplet", "hit_rate"),
}
SORTS = ("average_precision", "spearman", "ndcg", "hit_rate")
PHASE = {"epochs": 1, "patience": 1, "schedule": {"name": "cosine"},
         "optimizer": {"name": "AdamW", "args": {"lr": 1e-3}}}  # fmt: skip
TWO = {"batch_size": 6, "probe": PHASE, "finetune": PHASE | {"shift": 1}}
LABELS = PHASE | {"batch_size": 6}
TRAINING = {
    "label_ranking": {"scorer": LABELS | {"shift": 1}, "thresholds": LABELS | {"hidden": 4}},
    "query_ranking": {"ranker": PHASE | {"batch_size": 4, "shift": 1}},
    "retrieval": TWO | {"least_count": 1, "size": 8},
}


def cell(kind: str, draws: np.random.Generator):
    """What a table has of an input, which is what a request has, but for pictures."""
    if kind == "frames":
        return [cell("image", draws) for _ in range(draws.integers(1, 4))]
    if kind == "image":
        return {"bytes": encoded(picture(draws, SIDE, SIDE)), "path": None}
    if kind == "features":
        return draws.normal(50, 20, 3).tolist()
    return " ".join(draws.choice(["large", "small", "red", "two", "above"], draws.integers(1, 5)))


def picture(draws: np.random.Generator, height: int, width: int):
    from PIL import Image

    return Image.fromarray(draws.integers(0, 256, (height, width), np.uint8))


def asked(kind: str, draws: np.random.Generator):
    """A raw input, as a person has it: photos of any size."""
    if kind == "frames":
        return [asked("image", draws) for _ in range(2)]
    return encoded(picture(draws, 30, 50), "JPEG") if kind == "image" else cell(kind, draws)


KINDS = {"image": IMAGE, "frames": pa.list_(IMAGE), "features": pa.list_(pa.float64()), "text": pa.string()}


def table(task: str, kind: str, draws: np.random.Generator) -> pa.Table:
    sizes = draws.integers(1, 6, ROWS)
    inputs = [[cell(kind, draws) for _ in range(size)] for size in sizes]
    truth = {
        "label_ranking": {"label_ranks": draws.integers(0, 3, (ROWS, 4)).tolist()},
        "multilabel": {"labels": [[row % 2, (row + 1) % 2] for row in range(ROWS)]},
        "score_ranking": {"target": draws.random(ROWS)},
        "query_ranking": {"relevance": [[1, *draws.integers(0, 3, size - 1).tolist()] for size in sizes]},
        "retrieval": {"captions": [[cell("text", draws) for _ in range(size)] for size in sizes]},
    }[task]
    column = pa.array(inputs if task == "query_ranking" else [one[0] for one in inputs],
                      pa.list_(KINDS[kind]) if task == "query_ranking" else KINDS[kind])  # fmt: skip
    more = {
        "id": range(ROWS),
        "name": [f"row {row}" for row in range(ROWS)],
        "group": [f"customer {row // 3}" for row in range(ROWS)],
        "weight": 1 + draws.random(ROWS),
    }
    said = {"label_ranking": {"classes": list("abcd")}, "multilabel": {"classes": ["cat", "dog"]}}.get(task, {})
    said |= {"features": ["one", "two", "three"]} if kind == "features" else {}
    metadata = {key: json.dumps(value) for key, value in said.items()}
    return pa.table(more | {kind: column} | truth).replace_schema_metadata(metadata)


def trained(task: str, loss: str, kind: str, folder):
    """Train a task on tables of an input, save and load the network, and predict: the task, and what it predicts."""
    made = lookup.find("tasks", task)(TRAINING.get(task, TWO))
    data = [made.load(folder, split, threads=1) for split in ("train", "val")]
    model = {"name": "linear", "args": {}, "backbone": BACKBONES[kind]}
    network = made.build(model, data[0], seed=0)
    objective = Objective({"name": loss}, sorter=Laplace() if loss in SORTS else None)
    epochs = list(train(made, network, *data, objective=objective, seed=0, started=True, device="cpu"))
    assert [phase for phase, _ in epochs] == list(made.blocks())
    for _, epoch in epochs:
        assert np.isfinite([epoch.loss, *epoch.validation.values()]).all()
    save_model(folder / "model", network)
    with torch.no_grad():
        predicted = made.predict(network, data[1])
        assert predicted.equals(lookup.find("tasks", task)().predict(load_model(folder / "model"), data[1]))
    return made, predicted


def written(task: str, kind: str, folder) -> np.random.Generator:
    """Write a table for training and one for validation, and return what draws more."""
    draws = np.random.default_rng(0)
    for split in ("train", "val"):
        pq.write_table(table(task, kind, draws), folder / f"{split}.parquet")
    return draws


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("task", LOSSES)
def test_an_input_and_a_task_are_trained_and_answer_raw_rows_or_say_why_not(task, kind, tmp_path):
    draws = written(task, kind, tmp_path)
    kinds = lookup.find("tasks", task).reads.inputs
    if kind not in kinds:
        with pytest.raises(ValueError, match="frames are no input"):
            lookup.find("tasks", task)().load(tmp_path, "train", threads=1)
        return
    for loss in LOSSES[task]:
        made, predicted = trained(task, loss, kind, tmp_path)
    assert predicted["name"].to_pylist() == [f"row {row}" for row in range(ROWS)]
    statistic = made.statistic(predicted)
    assert statistic.examples == ROWS // 3
    assert {metric.name for metric in made.metrics} <= set(statistic.names)
    rows = evaluate("", {1: statistic}, resamples=20, seed=0)
    (row,) = [row for row in rows if row.metric == made.metrics[0].name and row.seed is None]
    assert row.low <= row.value <= row.high
    raw = [[asked(kind, draws) for _ in range(2)] if task == "query_ranking" else asked(kind, draws) for _ in range(2)]
    answers = made.respond(
        load_model(tmp_path / "model"), [{kind: one, "id": f"mine {row}"} for row, one in enumerate(raw)]
    )
    assert [answer["id"] for answer in answers] == ["mine 0", "mine 1"]
    assert json.loads(json.dumps(answers)) == answers
    if "labels" in answers[0]:
        assert all(isinstance(label, str) for label in answers[0]["labels"])
    (alone,) = made.respond(load_model(tmp_path / "model"), [{kind: raw[1]}])
    for name, value in alone.items():
        if name != "labels":
            assert value == pytest.approx(answers[1][name], abs=1e-5)


def test_a_backbone_of_another_kind_is_refused(tmp_path):
    pq.write_table(table("score_ranking", "features", np.random.default_rng(0)), tmp_path / "train.parquet")
    task = lookup.find("tasks", "score_ranking")(TWO)
    split, model = task.load(tmp_path, "train", threads=1), {"name": "linear", "args": {}, "backbone": CONVNET}
    with pytest.raises(ValueError, match="convnet takes image, but the dataset has features: choose a backbone of"):
        task.build(model, split, seed=0)

"""Numbers of a person's own table keep their order, from the file to the metric and to an answer."""

import csv
import datetime
import re
from collections.abc import Sequence
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from laws.tables import read
from rankgrad.cli.answers import write
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.evaluation import evaluate
from rankgrad.numbers import Writing, exact, number_in, writings_of
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip

ROWS, QUERIES = 120, 12
STEP = np.arange(ROWS)
NUMBERS = {
    "seconds": 1_764_288_000 + STEP,
    "milliseconds": 1_764_288_000_123 + STEP,
    "cents": 523_456_700 + 7 * STEP,
    "days": 20_260_101 + STEP,
    "tenths": (1_764_288_000 + STEP) / 10,
}
FORMATS = ["csv", "jsonl", "parquet"]
PHASE = {"epochs": 1, "patience": 30, "schedule": {"name": "cosine"},
         "optimizer": {"name": "Adam", "args": {"lr": 0.1}}}  # fmt: skip
TRAINING = {
    "score_ranking": {"batch_size": 40, "probe": PHASE | {"epochs": 0}, "finetune": PHASE | {"epochs": 20}},
    "query_ranking": {"ranker": PHASE | {"batch_size": 4}},
}


def written(folder: Path, frame: pd.DataFrame, kind: str) -> dict[str, str]:
    """Write a table with splits, and return the options that say so."""
    table = frame.assign(
        split=np.tile(["train", "train", "val", "test", "gate"], len(frame) // 5), key=range(len(frame))
    )
    if "query" in frame:
        table["split"] = table["query"].mod(4).map(dict(enumerate(["train", "val", "test", "gate"])))
    write = {
        "csv": lambda path: table.to_csv(path, index=False),
        "jsonl": lambda path: table.to_json(path, orient="records", lines=True, double_precision=15),
        "parquet": lambda path: table.to_parquet(path),
    }
    write[kind](folder / f"mine.{kind}")
    return {"file": f"mine.{kind}", "split": "split"}


def stored(options: dict, raw: Path, folder: Path) -> dict[str, pd.DataFrame]:
    """Make the tables of a dataset in a folder, and return them."""
    folder.mkdir()
    splits = read(options, raw)
    for split, table in splits.items():
        pq.write_table(table, folder / f"{split}.parquet")
    return {split: table.to_pandas() for split, table in splits.items()}


ROLES = {
    "target": {"features": ["x"], "target": "y"},
    "train_target": {"features": ["x"], "target": "t", "train_target": "y"},
    "weight": {"features": ["x"], "target": "t", "weight": "y"},
    "relevance": {"features": ["x"], "relevance": "y", "group": "g"},
    "features": {"features": ["x", "y"], "target": "t"},
    "vectors": {"features": "v", "target": "t"},
}
JOINED = {  # two numbers as they are written, of which float64 makes one, and two that it tells apart
    "whole": ("1152921504606846977", "1152921504606846976", "1152921504606851072"),
    "nanoseconds": ("1764288000.123456701", "1764288000.123456700", "1764288000.1234600"),
    "tiny": ("1e-400", "0", "1e-300"),
}


def literally(folder: Path, kind: str, cells: Sequence[str]) -> str:
    """Write a table with numbers as they are spelled, and return the file's name."""
    path = folder / f"a.{kind}"
    rows = [{"x": 1 + row, "t": row, "g": 1, "y": cell, "v": cell} for row, cell in enumerate(cells)]
    if kind == "csv":
        path.write_text("\n".join(["x,t,g,y,v", *(f"{r['x']},{r['t']},1,{r['y']},{r['v']} 1" for r in rows)]))
    elif kind == "jsonl":
        lines = [f'{{"x": {r["x"]}, "t": {r["t"]}, "g": 1, "y": {r["y"]}, "v": [{r["v"]}, 1]}}' for r in rows]
        path.write_text("\n".join(lines))
    else:
        numbers = [Decimal(cell) for cell in cells]
        are_integers = all(number == int(number) for number in numbers)
        column = pa.array([int(number) for number in numbers] if are_integers else numbers)
        vectors = pa.array([[number, type(number)(1)] for number in column.to_pylist()])
        columns = {"x": [r["x"] for r in rows], "t": [r["t"] for r in rows], "g": [1] * len(rows)}
        pq.write_table(pa.table(columns | {"y": column, "v": vectors}), path)
    return path.name


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("numbers", JOINED)
def test_numbers_that_float64_makes_equal_are_refused_by_two_rows(tmp_path, numbers, role, kind):
    first, other, apart = JOINED[numbers]
    if kind == "parquet" and numbers == "tiny":
        pytest.skip("no decimal of Arrow is so small")
    if role == "weight" and other == "0":
        pytest.skip("no weight is 0")
    few = ["3", other, "4"]
    with pytest.raises(ValueError, match=r"row 4: [yv](\[0\])? is .* here and .* in row 2"):
        Table(file=literally(tmp_path, kind, [*few, first]), **ROLES[role]).check_head(tmp_path)
    is_too_large = role == "relevance" and float(apart) > 60  # for a grade, of which it is refused for that alone
    with pytest.raises(ValueError, match="at most 60") if is_too_large else nullcontext():
        Table(file=literally(tmp_path, kind, [*few, apart]), **ROLES[role]).check_head(tmp_path)


def test_numbers_of_svmlight_that_float64_makes_equal_are_refused_by_two_rows(tmp_path):
    first, other, _ = JOINED["whole"]
    for row, name in (("{} qid:1 1:2", "label"), ("1 qid:1 2:{}", "feature 2")):
        (tmp_path / "a.txt").write_text("\n".join(row.format(cell) for cell in (other, "7", first)))
        with pytest.raises(ValueError, match=f"row 3: {name} is .* here and .* in row 1"):
            Table(file="a.txt", features="all", relevance="label", group="qid").check_head(tmp_path)


@pytest.mark.parametrize("cell", ["1", "1.0", "+1", "1e0", "10e-1", "01", "1.", " 1\u00a0", b"1", True, Decimal("1.0")])
def test_one_number_in_several_writings_is_one(cell):
    assert number_in(cell) == 1
    assert exact(cell if isinstance(cell, str) else 1) == 1


@pytest.mark.parametrize(
    "cell", ["1_000", "\uff11\uff12", "\u0661", b"1_0", "0x10", "1,5", "1.306.5", "inf", "nan", "", None, [1], "1 000"]
)
def test_what_is_no_number_is_none_at_any_door(cell):
    with pytest.raises(ValueError, match="expected a number"):
        number_in(cell)


@pytest.mark.parametrize(
    ("cell", "writing", "number"),
    [("1.306,5", Writing(",", "."), 1306.5), ("12\u202f345,5", Writing(",", " "), 12345.5),
     ("1\u2019000", Writing(".", "'"), 1000),
     ("-1,234,567", Writing(".", ","), -1234567), ("1234,5", Writing(",", "."), 1234.5), (",5", Writing(","), 0.5)],
)  # fmt: skip
def test_numbers_are_read_by_their_writing(cell, writing, number):
    assert number_in(cell, writing) == number
    assert writing in writings_of([cell, "7"]) or writings_of([cell, "7"])


@pytest.mark.parametrize("form", ["{:.17g}", "{!r}", "{:.15g}"])
def test_numbers_as_programs_write_float64_are_read_from_json_as_numbers(tmp_path, form):
    numbers = [form.format(number) for number in (0.1, 1 / 3, 1764288000.1234567, 3e-300, 2.5e-9)]
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"x": {number}}}' for number in numbers))
    cells = read_sheet([tmp_path / "a.jsonl"], list, kind=None).frame["x"]
    assert [*map(type, cells)] == [float] * len(numbers)
    assert cells.tolist() == [*map(float, numbers)]


TIMES = [[datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)]] * 9
LISTS = {
    "seconds": pa.array(TIMES, pa.list_(pa.timestamp("s"))),
    "nanoseconds": pa.array(TIMES, pa.list_(pa.timestamp("ns"))),
    "durations": pa.array([[datetime.timedelta(minutes=1), datetime.timedelta(days=1)]] * 9),
}


@pytest.mark.parametrize("kind", LISTS)
def test_times_in_vectors_are_no_numbers(tmp_path, kind):
    pq.write_table(pa.table({"v": LISTS[kind], "y": range(9)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"v is .*expected a list of numbers"):
        Table(file="a.parquet", features="v", target="y").check_head(tmp_path)


def test_scores_that_differ_in_float32_differ_in_a_csv(tmp_path):
    scores = np.float32(0.1) + np.arange(20, dtype=np.float32) * np.float32(2**-27)
    write(tmp_path / "o.csv", [[{"id": row, "score": score} for row, score in enumerate(scores.tolist())]])
    read_back = [float(row["score"]) for row in csv.DictReader((tmp_path / "o.csv").open(newline=""))]
    assert np.float32(read_back).tolist() == scores.tolist()


def test_embeddings_stay_as_small_as_they_were_and_a_later_delivery_is_alike(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    options = {"file": "mine.parquet", "features": "v", "target": "y"}

    def write(raw, vectors):
        raw.mkdir()
        frame = pd.DataFrame({"v": list(vectors), "y": STEP})
        frame.to_parquet(raw / "mine.parquet")

    write(tmp_path / "first", vectors)
    splits = stored(options, tmp_path / "first", tmp_path / "data")
    assert {row.dtype for rows in splits.values() for row in rows["features"]} == {np.dtype(np.float32)}
    (tmp_path / "grown").mkdir()
    (tmp_path / "first").rename(tmp_path / "grown/first")
    write(tmp_path / "grown/2026-11-30", vectors.astype(np.float64))
    source = Table(**options).opened(tmp_path / "grown", Reading(snapshot=2))
    with pytest.raises(ValueError, match="row 1: features are float64, expected float32 as in the first delivery"):
        list(source.rows("train"))


def test_a_column_of_which_float32_joins_many_is_told_of_by_its_counts(tmp_path, caplog):
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"km": draws.random(20_000), "views": np.arange(20_000.0), "y": draws.random(20_000)})
    frame.loc[0, "views"] = 1e15
    options = written(tmp_path, frame, "csv") | {"target": "y", "features": ["km", "views"]}
    message = Table(**options).opened(tmp_path, Reading()).fitted["understood"]["joined"]
    assert re.fullmatch(r"views has 8000 different values, of which standardized ones in float32 keep \d", message)
    assert sum(message in record.message for record in caplog.records if record.levelname == "WARNING") == 1
    frame = frame.assign(lab=np.arange(20_000) % 5, y=frame["y"] * 1e4 ** (np.arange(20_000) % 5))
    options = written(tmp_path, frame, "csv") | {"target": "y", "features": ["km"], "group": "lab"}
    for within in (False, True):  # each lab has a scale of its own
        fitted = Table(**options | {"within": within}).opened(tmp_path, Reading()).fitted
        assert ("joined" in fitted["understood"]) == (not within)


def model_of(hidden: list[int], **args) -> dict:
    return {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": hidden} | args}}


@pytest.mark.parametrize("loss", ["mse", "ranknet"])
@pytest.mark.parametrize("name", ["seconds", "days", "thousandths"])
def test_a_network_learns_a_perfect_order_and_the_metric_says_so(tmp_path, name, loss):
    numbers = 0.5 + STEP * 1e-9 if name == "thousandths" else NUMBERS[name]
    options = written(tmp_path, pd.DataFrame({"x": numbers, "y": numbers}), "parquet")
    stored(options | {"features": ["x"], "target": "y"}, tmp_path, tmp_path / "data")
    task = task_of("score_ranking", TRAINING["score_ranking"])
    splits = {split: task.load(tmp_path / "data", split, threads=1) for split in ("train", "val", "test")}
    network = task.build(model_of([]), splits["train"], seed=0)
    objective = objective_of(loss)
    list(train(task, network, splits["train"], splits["val"], objective=objective, seed=0, device="cpu"))
    with torch.no_grad():
        predicted = task.predict(network, splits["test"])
    assert predicted["target"].to_pylist() == numbers[3::5].tolist()
    assert evaluate("", {1: task.statistic(predicted)}, resamples=1, seed=0)[0].value == pytest.approx(1)

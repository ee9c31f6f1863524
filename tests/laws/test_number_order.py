"""Numbers of a person's own table keep their order, from the file to the metric and to an answer."""

import csv
import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from laws.tables import SPLITS, made, read
from rankgrad.cli.answers import write
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.evaluation import evaluate
from rankgrad.numbers import Writing, exact, number_in
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip

ROWS = 120
JOINED = {  # two numbers as they are written, of which float64 makes one, and two that it tells apart
    "whole": ("1152921504606846977", "1152921504606846976", "1152921504606851072"),
    "nanoseconds": ("1764288000.123456701", "1764288000.123456700", "1764288000.1234600"),
    "tiny": ("1e-400", "0", "1e-300"),
}


ROLES = [{"features": ["t"], "target": "y"}, {"features": "v", "target": "t"}]


def literally(folder: Path, kind: str, cells: Sequence[str]) -> str:
    """Write numbers as they are spelled, in a column and in one of vectors, and return the file's name."""
    path = folder / f"a.{kind}"
    if kind == "csv":
        path.write_text("\n".join(["t,y,v", *(f"{row},{cell},{cell} 1" for row, cell in enumerate(cells))]))
    elif kind == "jsonl":
        lines = [f'{{"t": {row}, "y": {cell}, "v": [{cell}, 1]}}' for row, cell in enumerate(cells)]
        path.write_text("\n".join(lines))
    else:
        numbers = [Decimal(cell) for cell in cells]
        are_integers = all(number == int(number) for number in numbers)
        column = pa.array([int(number) for number in numbers] if are_integers else numbers)
        vectors = pa.array([[number, type(number)(1)] for number in column.to_pylist()])
        pq.write_table(pa.table({"t": range(len(cells)), "y": column, "v": vectors}), path)
    return path.name


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("roles", ROLES, ids=["column", "vectors"])
@pytest.mark.parametrize("numbers", JOINED)
def test_numbers_that_float64_makes_equal_are_refused_by_two_rows(tmp_path, numbers, roles, kind):
    first, other, apart = JOINED[numbers]
    if kind == "parquet" and numbers == "tiny":
        pytest.skip("no decimal of Arrow is so small")
    few = ["3", other, "4"]
    with pytest.raises(ValueError, match=r"row 4: [yv](\[0\])? is .* here and .* in row 2"):
        Table(file=literally(tmp_path, kind, [*few, first]), **roles).check_head(tmp_path)
    Table(file=literally(tmp_path, kind, [*few, apart]), **roles).check_head(tmp_path)


def test_numbers_of_svmlight_that_float64_makes_equal_are_refused_by_two_rows(tmp_path):
    first, other, _ = JOINED["whole"]
    for row, name in (("{} qid:1 1:2", "label"), ("1 qid:1 2:{}", "feature 2")):
        (tmp_path / "a.txt").write_text("\n".join(row.format(cell) for cell in (other, "7", first)))
        with pytest.raises(ValueError, match=f"row 3: {name} is .* here and .* in row 1"):
            Table(file="a.txt", features="all", relevance="label", group="qid").check_head(tmp_path)


@pytest.mark.parametrize(
    "cell", ["1_000", "\uff11\uff12", b"1_0", "0x10", "1,5", "1.306.5", "inf", "nan", "", None, [1], "1 000"]
)
def test_what_is_no_number_is_none_at_any_door(cell):
    with pytest.raises(ValueError, match="expected a number"):
        number_in(cell)


ONES = ["+1", "10e-1", "01", "1.", " 1\u00a0", b"1", True, Decimal("1.0")]
WRITTEN = [(cell, Writing(), 1) for cell in ONES] + [
    ("12\u202f345,5", Writing(",", " "), 12345.5), ("1\u2019000", Writing(".", "'"), 1000), (",5", Writing(","), 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "writing", "number"), WRITTEN)
def test_numbers_are_read_by_their_writing(cell, writing, number):
    assert number_in(cell, writing) == number
    if isinstance(cell, str):
        assert exact(cell, writing) == Decimal(number)


@pytest.mark.parametrize("form", ["{:.17g}", "{!r}"])
def test_numbers_as_programs_write_float64_are_read_from_json_as_numbers(tmp_path, form):
    numbers = [form.format(number) for number in (0.1, 1 / 3, 1764288000.1234567, 3e-300, 2.5e-9)]
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"x": {number}}}' for number in numbers))
    cells = read_sheet([tmp_path / "a.jsonl"], list, kind=None).frame["x"]
    assert [*map(type, cells)] == [float] * len(numbers)
    assert cells.tolist() == [*map(float, numbers)]


@pytest.mark.parametrize("time", [datetime.datetime(2026, 1, 2), datetime.timedelta(minutes=1)], ids=str)
def test_times_in_vectors_are_no_numbers(tmp_path, time):
    pq.write_table(pa.table({"v": [[time, time]] * 9, "y": range(9)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"v is .*expected a list of numbers"):
        Table(file="a.parquet", features="v", target="y").check_head(tmp_path)


def test_scores_that_differ_in_float32_differ_in_a_csv(tmp_path):
    scores = np.float32(0.1) + np.arange(20, dtype=np.float32) * np.float32(2**-27)
    write(tmp_path / "o.csv", [[{"id": row, "score": score} for row, score in enumerate(scores.tolist())]])
    read_back = [float(row["score"]) for row in csv.DictReader((tmp_path / "o.csv").open(newline=""))]
    assert np.float32(read_back).tolist() == scores.tolist()


def test_embeddings_stay_as_small_as_they_were_and_a_later_delivery_is_alike(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(ROWS, 4))
    for folder, kind in (("first", np.float32), ("2026-11-30", np.float64)):
        (tmp_path / folder).mkdir()
        columns = {"v": list(vectors.astype(kind)), "y": range(ROWS)}
        pd.DataFrame(columns).to_parquet(tmp_path / folder / "mine.parquet")
    options = {"file": "mine.parquet", "features": "v", "target": "y"}
    splits = read(options, tmp_path)
    assert {table["features"].type.value_type for table in splits.values()} == {pa.float32()}
    source = Table(**options).opened(tmp_path, Reading(snapshot=2))
    with pytest.raises(ValueError, match="row 1: features are float64, expected float32 as in the first delivery"):
        list(source.rows("train"))


def test_a_column_of_which_float32_joins_many_is_told_of_by_its_counts(tmp_path, caplog):
    draws, count = np.random.default_rng(0), 10_000
    lab = np.arange(count) % 20  # of five scales, in each of the splits
    columns = {"km": draws.random(count), "views": [1e15, *range(1, count)], "y": draws.random(count)}
    columns |= {"lab": lab, "scaled": columns["y"] * 1e5 ** (lab // 4), "split": [*SPLITS] * (count // 4)}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    options = {"file": "a.csv", "split": "split"}
    _, fitted, _ = made(options | {"features": ["km", "views"], "target": "y"}, tmp_path)
    message = fitted["understood"]["joined"]
    assert re.fullmatch(r"views has \d+ different values, of which standardized ones in float32 keep \d", message)
    assert sum(message in record.message for record in caplog.records if record.levelname == "WARNING") == 1
    options |= {"features": "km", "target": "scaled", "group": "lab"}
    for within in (False, True):  # each lab has a scale of its own
        source = Table(**options, within=within).opened(tmp_path, Reading())
        assert ("joined" in source.fitted["understood"]) == (not within)


PHASE = {"epochs": 0, "patience": 30, "schedule": {"name": "cosine"},
         "optimizer": {"name": "Adam", "args": {"lr": 0.1}}}  # fmt: skip
LINEAR = {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": []}}}


def test_a_network_learns_a_perfect_order_and_the_metric_says_so(tmp_path):
    numbers = 0.5 + 1e-9 * np.arange(ROWS)
    split = np.tile(["train", "train", "val", "test", "gate"], ROWS // 5)
    pq.write_table(pa.table({"x": numbers, "y": numbers, "split": split}), tmp_path / "mine.parquet")
    splits = read({"file": "mine.parquet", "split": "split", "features": ["x"], "target": "y"}, tmp_path)
    for name, table in splits.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    task = task_of("score_ranking", {"batch_size": 40, "probe": PHASE, "finetune": PHASE | {"epochs": 20}})
    learned, validated, tested = (task.load(tmp_path, name, threads=1) for name in ("train", "val", "test"))
    network = task.build(LINEAR, learned, seed=0)
    list(train(task, network, learned, validated, objective=objective_of("mse"), seed=0, device="cpu"))
    with torch.no_grad():
        predicted = task.predict(network, tested)
    assert predicted["target"].to_pylist() == numbers[3::5].tolist()
    assert evaluate("", {1: task.statistic(predicted)}, resamples=1, seed=0)[0].value == pytest.approx(1)

"""Numbers of a person's own table keep their order, from the file to the metric and to an answer."""

import csv
import datetime
import json
import re
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from starlette.testclient import TestClient

from pipelines.monitoring.measure import measure
from pipelines.serving import server
from pipelines.serving.served_model import Model
from rankgrad import lookup
from rankgrad.cli.answers import write
from rankgrad.cli.rows import Roles, read
from rankgrad.datasets.public.reading import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.text import read_json
from rankgrad.evaluation import evaluate
from rankgrad.inputs._feature_names import number_in
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.training.loop import train
from rankgrad.training.objective import Objective

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
    own = frame.assign(split=np.tile(["train", "train", "val", "test", "gate"], len(frame) // 5), key=range(len(frame)))
    if "query" in frame:
        own["split"] = own["query"].mod(4).map(dict(enumerate(["train", "val", "test", "gate"])))
    write = {
        "csv": lambda path: own.to_csv(path, index=False),
        "jsonl": lambda path: own.to_json(path, orient="records", lines=True, double_precision=15),
        "parquet": lambda path: own.to_parquet(path),
    }
    write[kind](folder / f"mine.{kind}")
    return {"file": f"mine.{kind}", "split": "split"}


def stored(options: dict, raw: Path, folder: Path) -> dict[str, pd.DataFrame]:
    """Make the tables of a dataset in a folder, and return them."""
    table = Table(**options)
    table.check(raw)
    fitted = json.loads(json.dumps(table.fit(raw, seed=1)))
    folder.mkdir()
    for split in table.splits:
        (made,) = table.tables(raw, split, Reading(None, 1, 1, fitted, []))
        pq.write_table(made, folder / f"{split}.parquet")
    return {split: pq.read_table(folder / f"{split}.parquet").to_pandas() for split in table.splits}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", NUMBERS)
def test_every_role_keeps_every_number(tmp_path, name, kind):
    numbers = NUMBERS[name]
    frame = pd.DataFrame({"x": numbers, "y": numbers, "clicks": numbers, "much": numbers, "brand": "vw"})
    options = written(tmp_path, frame, kind) | {"target": "y", "train_target": "clicks", "weight": "much", "id": "key"}
    for number, features in enumerate(({"features": ["x"]}, {"features": ["x"], "categories": "brand"})):
        found = stored(options | features, tmp_path, tmp_path / f"data{number}")
        whole = pd.concat(found.values()).assign(name=lambda rows: rows["name"].astype(int)).sort_values("name")
        for column in ("target", "weight"):
            assert whole[column].tolist() == numbers.tolist(), column
        assert [row[0] for row in whole["features"]] == numbers.tolist()


@pytest.mark.parametrize("kind", FORMATS)
def test_grades_and_vectors_of_documents_keep_every_number(tmp_path, kind):
    numbers = NUMBERS["seconds"]
    vectors = [f"{one} 1" for one in numbers] if kind == "csv" else [[int(one), 1] for one in numbers]
    frame = pd.DataFrame({"v": vectors, "grade": numbers, "query": STEP % QUERIES, "much": 1 + STEP % QUERIES / 10})
    roles = {"features": "v", "relevance": "grade", "group": "query", "weight": "much"}
    whole = pd.concat(stored(written(tmp_path, frame, kind) | roles, tmp_path, tmp_path / "data").values())
    assert sorted(np.concatenate(whole["relevance"].tolist()).tolist()) == numbers.tolist()
    assert sorted(one[0] for row in whole["features"] for one in row) == numbers.tolist()
    assert set(whole["weight"]) == set(frame["much"])


ROLES = {
    "target": {"features": ["x"], "target": "y"},
    "train_target": {"features": ["x"], "target": "t", "train_target": "y"},
    "weight": {"features": ["x"], "target": "t", "weight": "y"},
    "relevance": {"features": ["x"], "relevance": "y", "group": "g"},
    "features": {"features": ["x", "y"], "target": "t"},
    "vectors": {"features": "v", "target": "t"},
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("role", ROLES)
def test_numbers_that_float64_makes_equal_are_refused_by_two_rows(tmp_path, role, kind):
    numbers = [2**60 + 4096 * one for one in range(10)]
    for number, told in ((2**60 + 4097, f"row 10: [yv](\\[0\\])? is {2**60 + 4097} here and {2**60 + 4096} in row 2"),
                         (2**60 + 6 * 4096, None)):  # fmt: skip
        numbers[-1] = number
        vectors = [f"{one}|1" for one in numbers] if kind == "csv" else [[one, 1] for one in numbers]
        frame = pd.DataFrame({"x": range(10), "t": range(10), "g": 1, "y": numbers, "v": vectors})
        table = Table(**written(tmp_path, frame, kind) | ROLES[role] | {"split": None})
        if told is None:
            table.check(tmp_path)
        else:
            with pytest.raises(ValueError, match=told):
                table.check(tmp_path)


def test_labels_of_svmlight_that_float64_makes_equal_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(f"{2**60 + one} qid:1 1:{one}" for one in range(9)))
    with pytest.raises(ValueError, match=f"row 2: label is {2**60 + 1} here and {2**60} in row 1"):
        Table(file="a.txt", format="svmlight", features="all", target="label").check(tmp_path)


def test_features_of_svmlight_that_float64_makes_equal_are_refused(tmp_path):
    options: dict = {"file": "a.txt", "features": "all", "relevance": "label", "group": "qid"}
    for step in (1, 4096):
        lines = [f"{one % 3} qid:{one // 3} 2:{2**60 + step * one} # 1:7" for one in range(9)]
        (tmp_path / "a.txt").write_text("\n".join(lines))
        if step == 1:
            with pytest.raises(ValueError, match=rf"row 2: all\[2\] is {2**60 + 1} here and {2**60} in row 1"):
                Table(**options).check(tmp_path)
        else:
            Table(**options).check(tmp_path)


SMALL_STEPS = [Decimal(12_345_678) + Decimal(one).scaleb(-18) for one in range(10)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("role", ["target", "train_target", "weight", "relevance", "features"])
def test_decimals_that_float64_makes_equal_are_refused_by_two_rows(tmp_path, role, kind):
    for numbers in (SMALL_STEPS, [*map(Decimal, range(1, 11))]):
        columns = {"x": range(10), "t": range(10), "g": ["1"] * 10, "y": pa.array(numbers, pa.decimal128(38, 18))}
        if kind == "csv":
            pd.DataFrame(columns | {"y": [str(one) for one in numbers]}).to_csv(tmp_path / "a.csv", index=False)
        else:
            pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        table = Table(file=f"a.{kind}", **ROLES[role])
        if numbers is SMALL_STEPS:
            with pytest.raises(ValueError, match=r"row 2: y is 12345678\.0+1 here and 12345678\.0+ in row 1"):
                table.check(tmp_path)
        else:
            table.check(tmp_path)


def test_a_number_too_small_for_float64_is_not_0(tmp_path):
    for small in ("1e-400", "1e-99999999999999999999"):
        (tmp_path / "a.csv").write_text(f"x,y\n1,0\n2,{small}\n3,1\n")
        with pytest.raises(ValueError, match=f"row 2: y is {small} here and 0 in row 1"):
            Table(file="a.csv", features=["x"], target="y").check(tmp_path)


def test_one_number_in_several_writings_is_one(tmp_path):
    cells = ["1", "1.0", "+1", "1e0", "10e-1", "01", "1.", "+1e 0"]
    pd.DataFrame({"x": range(8), "y": cells}).to_csv(tmp_path / "a.csv", index=False)
    Table(file="a.csv", features=["x"], target="y").check(tmp_path)


def test_numbers_of_json_with_a_point_that_float64_makes_equal_are_refused(tmp_path):
    lines = [f'{{"x": "\\ud83d{one}", "y": {2**60 + one}.0}}' for one in range(9)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"row 2: y is {2**60 + 1}.0 here and .* in row 1"):
        Table(file="a.jsonl", text="x", target="y").check(tmp_path)


NANOSECONDS = [f"1764288000.{123456700 + one}" for one in range(9)]  # of more digits than float64 has


@pytest.mark.parametrize("role", ["target", "train_target", "weight", "relevance", "features", "vectors"])
def test_seconds_with_nanoseconds_in_json_are_refused_by_two_rows(tmp_path, role):
    for numbers in (NANOSECONDS, [one[:17] for one in NANOSECONDS[:1]] * 9):
        lines = [f'{{"x": {k}, "t": {k}, "g": "1", "y": {one}, "v": [{one}, 1]}}' for k, one in enumerate(numbers)]
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
        table = Table(file="a.jsonl", **ROLES[role])
        if numbers is NANOSECONDS:
            with pytest.raises(ValueError, match=r"row 2: [yv](\[0\])? is 1764288000.123456701 here and .* in row 1"):
                table.check(tmp_path)
        else:
            table.check(tmp_path)


@pytest.mark.parametrize("form", ["{:.17g}", "{!r}", "{:.15g}"])
def test_numbers_as_programs_write_float64_are_read_from_json_as_numbers(tmp_path, form):
    numbers = [form.format(one) for one in (0.1, 1 / 3, 1764288000.1234567, 3e-300, 2.5e-9)]
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"x": {one}}}' for one in numbers))
    cells = read_json(tmp_path / "a.jsonl", ["x"], encoding="utf-8", head=None)["x"]
    assert [*map(type, cells)] == [float] * len(numbers)
    assert cells.tolist() == [*map(float, numbers)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_digits_beyond_float64_in_vectors_are_refused_by_two_rows(tmp_path, kind):
    vectors: list = [[Decimal(one), Decimal(1)] for one in NANOSECONDS]
    if kind == "csv":
        vectors = [f"{one} 1" for one in NANOSECONDS]
    frame = pd.DataFrame({"v": vectors, "y": range(9)})
    frame.to_csv(tmp_path / "a.csv", index=False) if kind == "csv" else frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"row 2: v\[0\] is 1764288000.123456701 here and .* in row 1"):
        Table(file=f"a.{kind}", features="v", target="y").check(tmp_path)


def test_labels_of_svmlight_with_digits_beyond_float64_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(f"{one} 1:{k}" for k, one in enumerate(NANOSECONDS)))
    with pytest.raises(ValueError, match=r"row 2: label is 1764288000.123456701 here and .* in row 1"):
        Table(file="a.txt", format="svmlight", features="all", target="label").check(tmp_path)


TIMES = [[datetime.datetime(2026, 1, 1, 0, one), datetime.datetime(2026, 1, 2)] for one in range(9)]
LISTS = {
    "seconds": pa.array(TIMES, pa.list_(pa.timestamp("s"))),
    "nanoseconds": pa.array(TIMES, pa.list_(pa.timestamp("ns"))),
    "durations": pa.array([[one - TIMES[0][0] for one in row] for row in TIMES]),
}


@pytest.mark.parametrize("kind", [*LISTS, "npz"])
def test_times_in_vectors_are_no_numbers(tmp_path, kind):
    if kind == "npz":
        np.savez(tmp_path / "a.npz", v=np.array(TIMES, "M8[ns]"), y=np.arange(9))
    else:
        pq.write_table(pa.table({"v": LISTS[kind], "y": range(9)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"v is .*expected (a list of|real) numbers"):
        Table(file="a.npz" if kind == "npz" else "a.parquet", features="v", target="y").check(tmp_path)


def test_scores_that_differ_in_float32_differ_in_a_csv(tmp_path):
    scores = np.float32(0.1) + np.arange(20, dtype=np.float32) * np.float32(2**-27)
    write(tmp_path / "o.csv", [[{"id": row, "score": score} for row, score in enumerate(scores.tolist())]])
    found = [float(row["score"]) for row in csv.DictReader((tmp_path / "o.csv").open(newline=""))]
    assert np.float32(found).tolist() == scores.tolist()


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_embeddings_stay_as_small_as_they_were_and_a_later_delivery_is_alike(tmp_path, suffix):
    vectors = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    options = {"file": f"mine.{suffix}", "features": "v", "target": "y"}

    def write(raw, vectors):
        raw.mkdir()
        frame = pd.DataFrame({"v": list(vectors), "y": STEP})
        frame.to_parquet(raw / "mine.parquet") if suffix == "parquet" else np.savez(raw / "mine.npz", v=vectors, y=STEP)

    write(tmp_path / "first", vectors)
    found = stored(options, tmp_path / "first", tmp_path / "data")
    assert {row.dtype for rows in found.values() for row in rows["features"]} == {np.dtype(np.float32)}
    write(tmp_path / "later", vectors.astype(np.float64))
    table = Table(**options)
    fitted = table.fit(tmp_path / "first", seed=1)
    with pytest.raises(ValueError, match="row 1: features are float64, expected float32 as in the first delivery"):
        list(table.tables(tmp_path / "later", "all", Reading(None, 1, 1, fitted, [])))


def test_a_column_of_which_float32_joins_many_is_told_of_by_its_counts(tmp_path, caplog):
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"km": draws.random(20_000), "views": np.arange(20_000.0), "y": draws.random(20_000)})
    frame.loc[0, "views"] = 1e15
    options = written(tmp_path, frame, "csv") | {"target": "y", "features": ["km", "views"]}
    told = Table(**options).fit(tmp_path, seed=1)["understood"]["joined"]
    assert re.fullmatch(r"views has 8000 different values, of which standardized ones in float32 keep \d", told)
    assert [told in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]


def model_of(hidden: list[int], **args) -> dict:
    return {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": hidden} | args}}


@pytest.mark.parametrize("loss", ["mse", "ranknet"])
@pytest.mark.parametrize("name", ["seconds", "days", "thousandths"])
def test_a_network_learns_a_perfect_order_and_the_metric_says_so(tmp_path, name, loss):
    numbers = 0.5 + STEP * 1e-9 if name == "thousandths" else NUMBERS[name]
    options = written(tmp_path, pd.DataFrame({"x": numbers, "y": numbers}), "parquet")
    stored(options | {"features": ["x"], "target": "y"}, tmp_path, tmp_path / "data")
    task = lookup.find("tasks", "score_ranking")(TRAINING["score_ranking"])
    splits = {split: task.load(tmp_path / "data", split, threads=1) for split in ("train", "val", "test")}
    network = task.build(model_of([]), splits["train"], seed=0)
    objective = Objective({"name": loss, "args": {}})
    list(train(task, network, splits["train"], splits["val"], objective=objective, seed=0, device="cpu"))
    with torch.no_grad():
        predicted = task.predict(network, splits["test"])
    assert predicted["target"].to_pylist() == numbers[3::5].tolist()
    assert evaluate("", {1: task.statistic(predicted)}, resamples=1, seed=0)[0].value == pytest.approx(1)


@pytest.mark.parametrize("task", TRAINING)
def test_a_raw_row_is_answered_as_the_stored_one_by_every_door_and_no_two_alike(tmp_path, task):
    numbers, queries = NUMBERS["milliseconds"], task == "query_ranking"
    frame = pd.DataFrame({"x": numbers, "tax": numbers[::-1] / 7, "y": STEP % 3, "query": STEP % QUERIES})
    options = written(tmp_path, frame if queries else frame.drop(columns="query"), "csv") | {"features": ["x", "tax"]}
    options |= {"relevance": "y", "group": "query"} if queries else {"target": "x", "features": ["tax"], "id": "key"}
    stored(options, tmp_path, tmp_path / "data")
    made = lookup.find("tasks", task)(TRAINING[task])
    split, test = (made.load(tmp_path / "data", name, threads=1) for name in ("train", "test"))
    network = made.build(model_of([] if not queries else [8], within_group=queries), split, seed=0)
    save_model(tmp_path / "model", network)
    network = load_model(tmp_path / "model")
    with torch.inference_mode():
        predicted = made.predict(network, test)
    column = "scores" if queries else "score"
    expected = [*map(np.atleast_1d, predicted[column].to_pylist())]
    assert len(np.unique(np.concatenate(expected))) == sum(map(len, expected))  # no two documents, no two rows

    own = pd.read_csv(tmp_path / "mine.csv", dtype={"split": str})
    own = own[own["split"] == "test"]
    own = own.sort_values("query", kind="stable") if queries else own
    own.to_csv(tmp_path / "raw.csv", index=False)
    names = options["features"]
    cells = own[names].to_dict("records")
    groups = [own["query"].eq(one).to_numpy() for one in own["query"].unique()] if queries else None
    rows = [{"features": [cell for cell, of in zip(cells, group, strict=True) if of]} for group in groups] if queries \
        else [{"features": cell} for cell in cells]  # fmt: skip

    served = Model()
    served.load_context(SimpleNamespace(artifacts={"weights": tmp_path / "model"}))
    app = TestClient(server.app_of(tmp_path / "model"))
    roles = Roles(id="key", query="query" if queries else None)

    def asked():
        return read([tmp_path / "raw.csv"], network.recipe, roles)

    answers = {
        "respond": made.respond(network, rows),
        "predict": made.respond(network, [row.asked() for row in asked()]),
        "pyfunc": served.predict(None, pd.DataFrame(rows)).to_dict("records"),
        "HTTP": app.post("/invocations", json={"dataframe_records": rows}).json()["predictions"],
    }
    for door, found in answers.items():
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.atleast_1d(one[column]), other, rtol=1e-5, atol=1e-6, err_msg=door)
    monitored = measure(asked(), network, chosen=range(ROWS))
    if not queries:
        assert monitored.inputs["tax"].tolist() == own["tax"].tolist()
        np.testing.assert_allclose(monitored.answers["score"], np.concatenate(expected), rtol=1e-5, atol=1e-6)
        assert len(np.unique(monitored.embedding)) == len(own)


def test_a_network_of_float32_numbers_rounds_what_it_is_asked_as_it_did(tmp_path):
    from rankgrad.inputs.features import Features, of_tensor

    vectors = torch.rand(20, 2) * 1e6
    about = {kind: of_tensor(vectors.to(kind)).about for kind in (torch.float32, torch.float64)}
    for kind, known in about.items():
        assert Features.prepared([[0.1, 1764288001]], known, where="").dtype == kind


@pytest.mark.parametrize("cell", ["1_000", "\uff11\uff12", "\u0661\u0662", b"1_0", "0x10", "1,5"])
def test_a_text_that_is_no_number_in_training_is_none_in_a_question(cell):
    with pytest.raises(ValueError, match="x is .*, expected a number"):
        number_in(cell, "x")
    assert [number_in(one, "x") for one in (" 5\u00a0", b"1e3", "+.5")] == [5, 1000, 0.5]

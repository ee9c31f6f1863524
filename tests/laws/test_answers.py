"""A row has one answer: stored and evaluated, predicted from a file, by MLflow's pyfunc, and over HTTP."""

import json
from datetime import datetime, timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from mlflow.models import validate_schema
from mlflow.types import Schema
from starlette.testclient import TestClient

from laws.asked import in_form
from laws.law import law
from pipelines.serving import served_model
from pipelines.serving.server import FORMS, app_of
from pipelines.tracking.signature import signature_of
from rankgrad import lookup
from rankgrad.cli.answers import answers
from rankgrad.datasets.tables.rows import asked
from rankgrad.io.checkpoints import load_model, save_model

from rows import SORTERS, by_name, cells, folder_of, of_json, of_lines, pairs, table  # isort: skip

PAIRS = pairs()


@cache
def served(folder: Path) -> tuple[TestClient, served_model.Model]:
    model = served_model.Model()
    model.load(folder)
    return TestClient(app_of(folder)), model


def posted(folder: Path, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a server to a good request."""
    http = served(folder)[0].post("/invocations", json=body)
    assert http.status_code == 200, http.text
    return http.json()


def of_file(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers to rows in a file."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "rows.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        return [*chain.from_iterable(answers(folder, [file]))]


def numbers_of(answer: dict[str, Any]) -> list[float]:
    """Return what a network says of a row, in an answer or a row of predictions."""
    for name in ("scores", "embedding", "image_embedding"):
        if name in answer:
            return answer[name]
    return [answer["score"]]


def check(answers_: list[dict[str, Any]], expected: list[list[float]]) -> None:
    assert len(answers_) == len(expected)
    for answer, numbers in zip(answers_, expected, strict=True):
        assert numbers_of(answer) == pytest.approx(numbers, rel=1e-5, abs=1e-6)


def check_doors(
    task: str, kind: str, seed: int, *, count: int = 3, size: int = 2, named: bool = False, form: str = FORMS[0]
) -> None:
    """Check that rows that are drawn have one answer each, by every door, alone and among others."""
    model_folder, draws = folder_of(f"{task} of {kind}"), np.random.default_rng(seed)
    made, network, stored = lookup.find("tasks", task)(), load_model(model_folder), cells(task, kind, count, draws)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pq.write_table(table(task, kind, stored, draws), folder / "test.parquet")
        expected = [*map(numbers_of, made.predict(network, made.load(folder, "test", threads=1)).to_pylist())]
    raw = [by_name(row, draws) for row in stored] if kind == "features" and named else stored
    sent = [{kind: of_json(row), "id": f"row {number}"} for number, row in enumerate(raw)]
    lines = [{kind: of_lines(row), "id": number} for number, row in enumerate(stored if made.reads.lists else raw)]
    model = served(model_folder)[1]
    check(of_file(model_folder, lines), expected)
    check([made.respond(network, [{kind: row}])[0] for row in raw], expected)
    with mock.patch.object(served_model, "ROWS_OF_TURN", size):
        pyfunc = model.predict(None, pd.DataFrame({kind: raw, "id": [row["id"] for row in sent]})).to_dict("records")
        http = posted(model_folder, in_form(form, sent))["predictions"]
    for answers_ in (pyfunc, http):
        check(answers_, expected)
        assert [answer["id"] for answer in answers_] == [row["id"] for row in sent]
    for answer in pyfunc if "labels" in pyfunc[0] else []:
        # The highest first; a label of rank 0 is not there.
        order = dict(zip(model.recipe["classes"], answer.get("label_ranks", answer["scores"]), strict=True))
        there = [name for name in order if order[name] or "label_ranks" not in answer]
        assert answer["labels"] == sorted(there, key=order.__getitem__, reverse=True)


@pytest.mark.parametrize(("task", "kind"), PAIRS)
@law(3)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), size=st.sampled_from([1, 2, 32]), named=st.booleans(),
       form=st.sampled_from(FORMS))  # fmt: skip
def test_a_row_has_one_answer_by_every_door_alone_or_among_others(task, kind, seed, count, size, named, form):
    check_doors(task, kind, seed, count=count, size=size, named=named, form=form)


OWN = {"image": ["file"], "frames": ["clip"], "features": ["vector"], "text": ["title"], "text_pair": ["ask", "reply"]}


@cache
def trained_on_own_columns(task: str, kind: str) -> Path:
    """Return the folder of a network that knows the columns of a person's table."""
    network, folder = load_model(folder_of(f"{task} of {kind}")), Path(mkdtemp())
    network.recipe["input"] |= {"columns": OWN[kind], "id": "sku", "decimal": ",", "dates": {"age": "DMY"}}
    network.recipe["input"] |= {"caption": "words"} if task == "retrieval" else {}
    network.recipe["input"] |= {"rejected": "worse"} if (task, kind) == ("query_ranking", "text_pair") else {}
    save_model(folder, network)
    return folder


@cache
def signature_of_own(task: str, kind: str) -> Schema:
    return signature_of(trained_on_own_columns(task, kind)).inputs


def in_own_columns(task: str, kind: str, cell: Any, draws: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Return a row in a person's columns, and the same input by its type's name."""
    if kind == "text_pair" and task == "query_ranking":
        (ask, reply), (_, worse) = cell[0], cell[-1]
        return {"ask": ask, "reply": reply, "worse": worse}, [[ask, reply], [ask, worse]]
    if kind == "text_pair":
        return dict(zip(OWN[kind], cell, strict=True)), cell
    if kind == "features" and task != "query_ranking":
        row, price = by_name(cell, draws), f"{cell[0]:.9g}"
        row["price"] = price.replace(".", ",")
        if not cell[4]:
            row["age"] = f"{datetime(1970, 1, 1) + timedelta(cell[3]):%d.%m.%Y %H:%M:%S.%f}"
        return row, [float(price), *cell[1:]]
    return {OWN[kind][0]: of_lines(cell)}, cell


@pytest.mark.parametrize(("task", "kind"), PAIRS)
@law(2)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_a_row_in_the_columns_of_the_training_is_answered_as_by_the_name_of_its_type(task, kind, seed, count):
    draws, model_folder = np.random.default_rng(seed), trained_on_own_columns(task, kind)
    pairs_of_rows = [in_own_columns(task, kind, cell, draws) for cell in cells(task, kind, count, draws)]
    own = [of_json(row) | {"sku": f"row {number}"} for number, (row, _) in enumerate(pairs_of_rows)]
    named = [{kind: of_json(cell), "id": row["sku"]} for row, (_, cell) in zip(own, pairs_of_rows, strict=True)]
    if task == "retrieval":
        own.append({"words": "a large two", "sku": "by words"})
        named.append({"caption": "a large two", "id": "by words"})
    expected, http = (posted(model_folder, {"dataframe_records": rows})["predictions"] for rows in (named, own))
    model, pyfunc = served(model_folder)[1], []
    for rows in filter(None, (own[:count], own[count:])):  # those of a request have the same columns
        validate_schema(pd.DataFrame(rows), signature_of_own(task, kind))
        pyfunc += model.predict(None, pd.DataFrame(rows)).to_dict("records")
    for answers_ in (of_file(model_folder, own), http, pyfunc):
        check(answers_, [*map(numbers_of, expected)])
        assert [answer["id"] for answer in answers_] == [row["sku"] for row in own]


def test_a_frame_without_a_known_column_is_refused_with_those_of_the_training():
    _, model = served(trained_on_own_columns("score_ranking", "features"))
    with pytest.raises(MlflowException, match="row 1: no column price.*features.*price, brand, age"):
        model.predict(None, pd.DataFrame())


PRICED = {"price": 1, "brand": "red", "age": 2}
LETOR = {"names": None, "columns": ["all"], "lowest": 1, "id": None, "query": "qid", "other_columns": ["qid", "docid"]}
REFUSED = [  # model, changes of what it knows of its table, row, and message
    ("score_ranking of image", {}, {"file": "a.png"}, "the picture.* base64"),
    ("score_ranking of frames", {}, {"clip": ["a.png"]}, "the picture.* base64"),
    ("score_ranking of features", {}, PRICED | {"features": [1, 0, 0, 2, 0]}, ".*features and price"),
    ("score_ranking of features", {}, PRICED | {"prize": 1}, "unknown column 'prize'.*features, id.*price, brand"),
    ("score_ranking of features", {}, PRICED | {"price": "1.5"}, "price is '1.5', expected a number"),
    ("score_ranking of features", {}, {"price": 1, "age": 2}, "no column brand"),
    ("score_ranking of text_pair", {}, {"ask": "a", "reply": None}, "reply is empty"),
    ("query_ranking of features", {}, PRICED, ".*expected a whole query"),
    ("query_ranking of features", LETOR, {"features": [[1, 0, 0, 2, 0]], "qid": 1014}, "qid is not for requests"),
    ("query_ranking of features", LETOR, {"features": [[1, 0, 0, 2, 0]], "docid": ["a"]}, "docid is not for requests"),
    ("query_ranking of features", LETOR, {"prize": 1}, "unknown column 'prize'; the model takes features, id$"),
    ("query_ranking of features", {"columns": ["winner"], "rejected": "loser"}, {"winner": "a"}, "no column loser"),
    ("query_ranking of text_pair", {}, {"ask": "a", "reply": "b"}, "no column worse"),
    ("query_ranking of text_pair", {}, {"ask": "a", "reply": "b", "worse": None}, "worse is empty"),
]


@pytest.mark.parametrize(("name", "about", "row", "message"), REFUSED)
def test_a_request_reads_no_file_and_is_refused_by_its_column(name, about, row, message):
    task, _, kind = name.partition(" of ")
    recipe = load_model(trained_on_own_columns(task, kind)).recipe
    recipe["input"] |= about
    with pytest.raises(ValueError, match=f"^row 1: {message}"):
        [*asked([row], recipe, [kind, "id"])]


JUDGED = {"kind": "text_pair", "columns": ["query", "passage"], "id": "sku", "query": "query", "empty": ["n/a"]}
QUERY = {"text_pair": [["red", "a"], ["red", "b"]]}
LISTED = [
    ({"query": "red", "passage": ["a", "b"]}, QUERY),
    ({"query": ["red", "red"], "passage": ["a", "b"], "sku": ["x", 7]}, QUERY | {"id": ["x", 7]}),
    ({"query": ["Red", "red "], "passage": ["a", "b"]}, {"text_pair": [["Red", "a"], ["red", "b"]]}),
    ({"query": ["red", "blue"], "passage": ["a", "b"]}, "query has 2 queries, expected one"),
    ({"query": [["red"]], "passage": ["a"]}, r"query has \['red'\], expected text or a number"),
    ({"query": "red", "passage": ["a", "b"], "sku": "x"}, QUERY | {"id": "x"}),
    ({"query": "red", "passage": ["a", "b"], "sku": ["x"]}, "lists of different lengths: passage 2, sku 1"),
    ({"query": "red", "passage": "a"}, "a single document, expected a whole query.*lists of query, passage"),
    ({"query": "red", "passage": ("a", None)}, "document 2: passage is empty"),
    ({"query": "red", "passage": ["n/a", "b"]}, "document 1: passage is empty"),
]


@pytest.mark.parametrize(("row", "expected"), LISTED)
@pytest.mark.parametrize("rejected", [None, "worse"])
def test_the_documents_of_a_query_are_lists_in_the_columns_of_the_training(row, expected, rejected):
    if rejected and row["passage"] == "a":
        expected = "no column worse"
    rows = asked([row], {"task": "query_ranking", "input": JUDGED | {"rejected": rejected}}, ["text_pair", "id"])
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=f"^row 1: {expected}"):
            list(rows)
    else:
        assert [*rows] == [expected]


def test_a_row_has_one_query_and_its_pictures_stay_bytes():
    about = {"kind": "features", "columns": ["x", "y"], "names": ["x", "y"], "query": "session"}
    row = {"session": ["a", "b"], "x": [1, 2], "y": [3, 4]}
    with pytest.raises(ValueError, match="^row 1: session has 2 queries"):
        list(asked([row], {"task": "query_ranking", "input": about}, ["features", "id"]))
    recipe = {"task": "query_ranking", "input": {"kind": "image", "columns": ["photo"]}}
    [asked_for] = asked([{"photo": [b"\x89PNG", b"\x89PNG"]}], recipe, ["image", "id"])
    assert asked_for == {"image": [b"\x89PNG", b"\x89PNG"]}


@pytest.mark.parametrize("task", ["score_ranking", "query_ranking"])
def test_each_answer_to_an_unknown_name_has_a_warning(task):
    row: Any = {"price": 1, "brand": "lada", "age": 2}
    row = [row, row | {"brand": "red"}] if task == "query_ranking" else row
    for _ in range(2):
        answer = posted(folder_of(f"{task} of features"), {"inputs": [{"features": row}]})
        assert answer["warnings"] == ["row 1: brand: the model does not know 'lada'"]


def test_words_that_were_not_in_training_have_a_warning_in_a_text_and_in_a_caption(caplog):
    for task, role, text in (("score_ranking", "text", "zebra, large!"), ("retrieval", "caption", "two zebras")):
        rows = [{role: "large two"}, {role: text}]
        [warning] = posted(folder_of(f"{task} of text"), {"dataframe_records": rows})["warnings"]
        zebra = next(word for word in text.replace(",", "").split() if word.startswith("zebra"))
        assert warning.endswith(f"first: row 2, {role}: the model does not know '{zebra}'")
    of_file(folder_of("score_ranking of text"), [{"text": "large two"}, {"text": "two zebra"}])
    assert "text: 1 rows have words that the model does not know" in caplog.text
    assert "row 2, text: the model does not know 'zebra'" in caplog.text


@pytest.mark.parametrize("kind", [kind for task, kind in PAIRS if task == "retrieval"])
def test_a_caption_has_its_embedding_also_among_rows_of_items(kind):
    task, folder = lookup.find("tasks", "retrieval")(), folder_of(f"retrieval of {kind}")
    network = load_model(folder)
    [item] = cells("retrieval", kind, 1, np.random.default_rng(1))
    captions = ["a large two", "red, above"]
    expected = task.embed_captions(network, captions).tolist()
    rows = [{"caption": captions[0]}, {kind: item}, {"caption": captions[1]}]
    sent = [rows[0], {kind: of_json(item)}, rows[2]]
    for answers_ in (task.respond(network, rows), posted(folder, {"dataframe_records": sent})["predictions"]):
        check([answers_[0], answers_[2]], expected)
        check([answers_[1]], [task.respond(network, [rows[1]])[0]["embedding"]])


def test_a_caption_without_a_known_word_has_no_embedding_and_others_are_answered():
    rows = [{"caption": "a large purple two"}, {"caption": "purple elephants"}]
    client, _ = served(folder_of("retrieval of image"))
    answers_ = client.post("/invocations", json={"dataframe_records": rows}).json()["predictions"]
    assert [answer["embedding"] is None for answer in answers_] == [False, True]
    assert "'purple elephants'" in answers_[1]["error"]
    assert "error" not in answers_[0]


@law(5)
@given(rows=st.lists(st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_scores_have_the_ranks_of_the_sorter_by_every_door(rows):
    for name in SORTERS:
        folder = folder_of(name)
        pyfunc = served(folder)[1].predict(None, np.array(rows)).tolist()
        expected = load_model(folder)(torch.tensor(rows)).tolist()
        for ranks in (pyfunc, posted(folder, {"inputs": rows})["predictions"]):
            assert np.allclose(ranks, expected, rtol=1e-5, atol=1e-5)

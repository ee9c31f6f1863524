"""A row is answered as the network says of what it stands for: alone or among others, by HTTP, MLflow or the task."""

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from laws.asked import ALL, SORTERS, Asked, numbers_of, requests
from laws.changes import changed, damaged
from laws.law import law, same
from pipelines.serving import served_model
from pipelines.serving.request_log import RequestLog
from pipelines.serving.server import app_of

from networks import folder_of  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:.*input example was not provided")
FEATURES = [name for name in ALL if "features" in name or "query" in name or name in SORTERS]


@cache
def served(name: str) -> TestClient:
    kept = None if name in SORTERS else RequestLog(Path(mkdtemp()))
    return TestClient(app_of(folder_of(name), requests=kept))


def post(name: str, body: bytes | str) -> Any:
    return served(name).post("/invocations", content=body, headers={"Content-Type": "application/json"})


def body_of(asked: Asked, form: str) -> dict[str, Any]:
    if form == "dataframe_split" and asked.name not in SORTERS:
        return {form: {"columns": [*asked.rows[0]], "data": [[*row.values()] for row in asked.rows]}}
    return {"inputs" if asked.name in SORTERS else "dataframe_records": asked.rows}


def check(asked: Asked, answers: list[Any]) -> None:
    """Check that each row has its own answer, and its own id."""
    assert len(answers) == len(asked.rows)
    for place, answer in enumerate(answers):
        if asked.expected:
            assert numbers_of(answer) == pytest.approx(asked.expected[place], rel=1e-4, abs=1e-5)
        if asked.name == "multilabel":
            scores = dict(zip(asked.model.recipe["classes"], answer["scores"], strict=True))
            assert answer["labels"] == sorted(scores, key=scores.__getitem__, reverse=True)
        if asked.name == "label_ranking":
            ranks = {name: rank for name, rank in zip("wxyz", answer["label_ranks"], strict=True) if rank}
            assert answer["labels"] == sorted(ranks, key=ranks.__getitem__, reverse=True)
        if isinstance(answer, dict):
            assert answer.get("id") == asked.rows[place].get("id")


@law(25)
@given(asked=requests(), form=st.sampled_from(["dataframe_records", "dataframe_split"]))
def test_the_server_answers_each_row_as_the_network_does(asked, form):
    answer = post(asked.network, json.dumps(body_of(asked, form)))
    assert answer.status_code == 200, answer.text
    check(asked, answer.json()["predictions"])
    alone = [post(asked.network, json.dumps(body_of(Asked(asked.name, [row]), form))).json() for row in asked.rows]
    assert same([one["predictions"][0] for one in alone], answer.json()["predictions"])


@law(25)
@given(asked=requests(), size=st.sampled_from([1, 2, 32]))
def test_mlflow_answers_each_row_as_the_network_and_the_task_do(asked, size):
    model = served_model.Model()
    model.load_context(SimpleNamespace(artifacts={"weights": folder_of(asked.network)}))
    with mock.patch.object(served_model, "ROWS_OF_TURN", size):
        if asked.name in SORTERS:
            answers = model.predict(None, np.array(asked.rows)).tolist()
        else:
            answers = model.predict(None, pd.DataFrame(asked.raw)).to_dict("records")
    model.turns.shutdown()
    check(asked, answers)
    if asked.name not in SORTERS:
        assert same(asked.task.respond(asked.model, asked.raw), answers)
        apart = [asked.task.respond(asked.model, [row])[0] for row in asked.raw]
        assert same(apart, answers)


@law(25)
@given(asked=requests(FEATURES), odd=st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999"]), data=st.data())
def test_a_number_that_is_none_is_refused(asked, odd, data):
    rows = json.loads(json.dumps(asked.rows))
    cell = data.draw(st.sampled_from(rows))
    cell = cell["features"] if isinstance(cell, dict) else cell
    cell = data.draw(st.sampled_from(cell)) if isinstance(cell, list) and isinstance(cell[0], list | dict) else cell
    places = [place for place in (cell if isinstance(cell, dict) else range(len(cell))) if place != "brand"]
    cell[data.draw(st.sampled_from(places))] = "odd number"
    answer = post(asked.network, json.dumps(body_of(Asked(asked.name, rows), "")).replace('"odd number"', odd))
    assert (answer.status_code, bool(answer.json()["message"])) == (400, True)


def test_a_row_of_fewer_cells_than_columns_is_refused():
    body = {"dataframe_split": {"columns": ["text", "id"], "data": [["a red hat"], ["a red hat", 76]]}}
    assert post("score_ranking of text", json.dumps(body)).status_code == 400


@law(30)
@given(asked=requests(), form=st.sampled_from(["dataframe_records", "dataframe_split"]), data=st.data())
def test_a_damaged_request_is_answered_by_numbers_or_refused(asked, form, data):
    body = json.dumps(data.draw(changed(body_of(asked, form), most=3))).encode()
    if data.draw(st.sampled_from([False, False, True])):
        body = data.draw(damaged(body))
    answer = post(asked.network, body)
    if answer.status_code == 200:
        json.dumps(answer.json(), allow_nan=False)
    else:
        assert (answer.status_code, bool(answer.json()["message"])) == (400, True), answer.text

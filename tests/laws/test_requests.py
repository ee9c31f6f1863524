"""Odd requests over HTTP are answered by numbers or refused in a line; what is kept of good ones is answered again."""

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from laws.asked import ALL, SORTERS, in_form, requests
from laws.changes import changed, damaged
from laws.law import law
from pipelines.serving.request_log import RequestLog
from pipelines.serving.server import FORMS, app_of

from rows import folder_of  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:.*input example was not provided")
FEATURES = [name for name in ALL if "features" in name or name in SORTERS]


@cache
def served(name: str) -> TestClient:
    kept = None if name in SORTERS else RequestLog(Path(mkdtemp()))
    return TestClient(app_of(folder_of(name), requests=kept))


def post(name: str, body: bytes | str) -> Any:
    return served(name).post("/invocations", content=body, headers={"Content-Type": "application/json"})


@law(25)
@given(request=requests(FEATURES), odd=st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999"]), data=st.data())
def test_a_number_that_is_none_is_refused(request, odd, data):
    rows = json.loads(json.dumps(request.sent))
    cell = data.draw(st.sampled_from(rows))
    cell = cell["features"] if isinstance(cell, dict) else cell
    cell = data.draw(st.sampled_from(cell)) if isinstance(cell, list) and isinstance(cell[0], list | dict) else cell
    empty = {"brand"} | ({"age"} if odd == "NaN" else set())  # which may be empty
    keys = [key for key in (cell if isinstance(cell, dict) else range(len(cell))) if key not in empty]
    cell[data.draw(st.sampled_from(keys))] = "odd number"
    body = json.dumps(in_form("dataframe_records", rows))
    answer = post(request.name, body.replace('"odd number"', odd))
    assert (answer.status_code, bool(answer.json()["message"])) == (400, True)


def test_a_row_of_fewer_cells_than_columns_is_refused():
    body = {"dataframe_split": {"columns": ["text", "id"], "data": [["a red hat"], ["a red hat", 76]]}}
    assert post("score_ranking of text", json.dumps(body)).status_code == 400


def test_half_a_character_is_replaced():
    answer = post("score_ranking of text", r'{"inputs": [{"text": "a red hat", "id": "x\ud83d"}]}')
    assert answer.json()["predictions"][0]["id"] == "x\ufffd"


@law(30)
@given(request=requests(), form=st.sampled_from(FORMS), data=st.data())
def test_a_damaged_request_is_answered_by_numbers_or_refused(request, form, data):
    body = json.dumps(data.draw(changed(in_form(form, request.sent), most=3))).encode()
    if data.draw(st.sampled_from([False, False, True])):
        body = data.draw(damaged(body))
    answer = post(request.name, body)
    if answer.status_code == 200:
        json.dumps(answer.json(), allow_nan=False)
    else:
        assert (answer.status_code, bool(answer.json()["message"])) == (400, True), answer.text

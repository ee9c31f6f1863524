"""Requests to MLflow's server of a model, in this process: rows of any JSON, and bodies that are none."""

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from pipelines.serving.request_log import RequestLog
from pipelines.serving.server import app_of
from tools.fuzz.attempt import WrongAnswer
from tools.fuzz.mutation import changed_bytes, changed_tree
from tools.fuzz.networks import NETWORKS, folder_of, row_of


def draw(random: np.random.Generator) -> dict[str, Any]:
    name = list(NETWORKS)[random.integers(len(NETWORKS))]
    count, times = int(random.integers(1, 5)), int(random.choice([0, 1, 1, 2, 4]))
    rows = [row_of(name, random) for _ in range(count)]
    rows = [row for row in rows if not isinstance(row, dict) or row.keys() == rows[0].keys()]
    asked: dict[str, Any] = {"inputs": rows}
    if isinstance(rows[0], dict):
        columns = {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}
        asked = [{"dataframe_records": rows}, {"dataframe_split": columns}][random.integers(2)]
    changed = changed_tree(asked, random, times=times)
    body = json.dumps(changed)
    if random.random() < 0.1:
        body = changed_bytes(body.encode(), random, times=2).decode("latin-1")
    return {"name": name, "body": body, "rows": len(rows) if body == json.dumps(asked) else None}


@cache
def _served(name: str) -> TestClient:
    kept = None if NETWORKS[name][3] == "scores" else RequestLog(Path(mkdtemp()))
    return TestClient(app_of(folder_of(name), requests=kept))


def _asked(name: str, body: str) -> Any:
    return _served(name).post(
        "/invocations", content=body.encode("latin-1", "replace"), headers={"Content-Type": "application/json"}
    )


def check(name: str, body: str, rows: int | None) -> None:
    """Check an answer; of `rows`, how many there are in a request that is right, each is answered as it is alone."""
    answer = _asked(name, body)
    if answer.status_code == 200:
        answers = answer.json()["predictions"]
        json.dumps(answers, allow_nan=False)
    elif answer.status_code != 400 or not answer.json()["message"]:
        raise WrongAnswer(f"status {answer.status_code}: {answer.text}")
    if rows is None:
        return
    if answer.status_code != 200 or len(answers) != rows:
        raise WrongAnswer(f"status {answer.status_code} to {rows} rows: {answer.text}")
    [(form, asked)] = json.loads(body).items()
    last = asked | {"data": asked["data"][-1:]} if isinstance(asked, dict) else asked[-1:]
    [alone] = _asked(name, json.dumps({form: last})).json()["predictions"]
    _same(alone, answers[-1])


def _same(one: Any, other: Any) -> None:
    """Raise where answers differ beyond rounding."""
    if isinstance(one, dict | list):
        if len(one) != len(other):
            raise WrongAnswer(f"alone {one}, among others {other}")
        for key in one if isinstance(one, dict) else range(len(one)):
            _same(one[key], other[key])
    elif one != other and not (isinstance(one, float) and abs(one - other) <= 1e-3 * (1 + abs(one))):
        raise WrongAnswer(f"alone {one}, among others {other}")

"""Requests that Hypothesis draws to the untrained networks of tests/rows.py, and to sorters."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rankgrad import lookup
from rankgrad.io.checkpoints import load_model

from rows import SORTERS, by_name, cells, folder_of, of_json, pairs  # isort: skip

ALL = [*(f"{task} of {kind}" for task, kind in pairs()), *SORTERS]
IDS = st.integers(0, 99) | st.sampled_from(["a", "b 7", "größe"])
SMALL = st.floats(-8, 8, width=32)


@dataclass
class Asked:
    """A request: the network's name, and rows as a task is asked by them: pictures are bytes."""

    name: str
    rows: list[Any]

    @property
    def sent(self) -> list[Any]:
        """Rows as JSON has them."""
        return of_json(self.rows)

    @property
    def model(self) -> Any:
        return loaded(self.name)

    @property
    def task(self) -> Any:
        return lookup.find("tasks", self.model.recipe["task"])()


def in_form(form: str, rows: list[Any]) -> dict[str, Any]:
    """Return rows of the same columns in one of MLflow's forms; scores to be ranked have a single one."""
    if not isinstance(rows[0], dict):
        return {"inputs": rows}
    data = [[*row.values()] for row in rows]
    columns = dict(zip(rows[0], map(list, zip(*data, strict=True)), strict=True))
    table = {"columns": [*columns], "data": data}
    return {form: {"dataframe_split": table, "inputs": columns}.get(form, rows)}


@cache
def loaded(name: str) -> Any:
    return load_model(folder_of(name))


@st.composite
def requests(draw, names=ALL) -> Asked:
    """Draw a request of a few rows to one of the networks: some have ids, and features are by name in some."""
    name, count = draw(st.sampled_from(names)), draw(st.integers(1, 5))
    if name in SORTERS:
        rows = st.lists(SMALL, min_size=3, max_size=3)
        return Asked(name, draw(st.lists(rows, min_size=count, max_size=count)))
    task, _, kind = name.partition(" of ")
    draws, ids = np.random.default_rng(draw(st.integers(0, 10**6))), draw(st.none() | st.lists(IDS, min_size=count))
    inputs = cells(task, kind, count, draws)
    if kind == "features" and draw(st.booleans()):
        inputs = [by_name(cell, draws) for cell in inputs]
    rows = [{kind: cell} for cell in inputs]
    return Asked(name, rows if ids is None else [row | {"id": row_id} for row, row_id in zip(rows, ids, strict=False)])

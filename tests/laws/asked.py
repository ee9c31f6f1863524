"""Requests that Hypothesis draws to the untrained networks of tests/rows.py, and to sorters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rankgrad import lookup

from rows import SORTERS, by_name, cells, of_json, pairs  # isort: skip

ALL = [*(f"{task} of {kind}" for task, kind in pairs()), *SORTERS]
IDS = st.integers(0, 99) | st.sampled_from(["a", "b 7", "größe"])


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
    def task(self) -> Any:
        return lookup.find("tasks", self.name.partition(" of ")[0])()


def in_form(form: str, rows: list[Any]) -> dict[str, Any]:
    """Return rows of the same columns in one of MLflow's forms; scores to be ranked have a single one."""
    if not isinstance(rows[0], dict):
        return {"inputs": rows}
    data = [[*row.values()] for row in rows]
    columns = dict(zip(rows[0], map(list, zip(*data, strict=True)), strict=True))
    table = {"columns": [*columns], "data": data}
    return {form: {"dataframe_split": table, "inputs": columns}.get(form, rows)}


@st.composite
def requests(draw, names=ALL) -> Asked:
    """Draw a request of a few rows to one of the networks: some have ids, and features are by name in some."""
    name, count = draw(st.sampled_from(names)), draw(st.integers(1, 5))
    draws = np.random.default_rng(draw(st.integers(0, 10**6)))
    if name in SORTERS:
        return Asked(name, draws.uniform(-8, 8, (count, 3)).tolist())
    task, _, kind = name.partition(" of ")
    ids = draw(st.none() | st.lists(IDS, min_size=count))
    inputs = cells(task, kind, count, draws)
    if kind == "features" and draw(st.booleans()):
        inputs = [by_name(cell, draws) for cell in inputs]
    rows = [{kind: cell} for cell in inputs]
    return Asked(name, rows if ids is None else [row | {"id": row_id} for row, row_id in zip(rows, ids, strict=False)])

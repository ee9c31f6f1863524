"""Params of which something is changed are read back as they were read, or refused by their place."""

import json
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from laws.changes import changed
from laws.law import law, refused_at
from pipelines.config.plan import merged
from pipelines.config.rules import check_values
from pipelines.config.schema import read

from conftest import ROOT  # isort: skip

VALID = sorted((ROOT / "tests/params/valid").glob("*.yaml"))
BLOCKS = ("datasets", "sorters", "training", "runs", "gate", "compute", "evaluate", "benchmark_sorters")
PLACE = r"^params\.yaml: [\w.\[\]'\" -]+"


@cache
def _text() -> str:
    return json.dumps(read(ROOT / "params.yaml"))


def params_with(changes: dict[str, Any]) -> dict[str, Any]:
    """The project's params with these changes, and a run a task besides theirs: each costs time to check."""
    shipped = json.loads(_text())
    kept = {run["task"]: name for name, run in shipped["runs"].items()}
    shipped["runs"] = {
        name: run for name, run in shipped["runs"].items() if name in {*kept.values(), *changes.get("runs", ())}
    }
    return merged(shipped | {"comparisons": {}}, changes)


@law(2, most=100)
@given(data=st.data())
def test_changed_params_are_read_back_as_they_were_read_or_refused_by_their_place(data):
    valid = params_with(YAML(typ="safe").load(data.draw(st.sampled_from(VALID))) if data.draw(st.booleans()) else {})
    block = data.draw(st.sampled_from([name for name in BLOCKS if name in valid]))
    params = valid | {block: data.draw(changed(valid[block], most=3))}
    with refused_at(PLACE):
        settings = check_values(params)
        assert check_values(settings.model_dump(exclude_unset=True)) == settings

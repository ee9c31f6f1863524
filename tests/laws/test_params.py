"""Params of which something is changed are read back as they were read, or refused by their place."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from laws.changes import changed
from laws.law import law, refused_at
from pipelines.config.plan import merged
from pipelines.config.rules import check_values
from pipelines.config.schema import read

from conftest import ROOT, params_of  # isort: skip

VALID = sorted((ROOT / "tests/params/valid").glob("*.yaml"))
BLOCKS = ("datasets", "sorters", "training", "runs", "gate", "compute", "evaluate", "benchmark_sorters")
PLACE = r"^params\.yaml: [\w.\[\]'\" -]+"


def params_with(changes: dict[str, Any]) -> dict[str, Any]:
    """The project's params with these changes, and a run a task besides theirs: each costs time to check."""
    runs = read(ROOT / "params.yaml")["runs"]
    of_tasks = {run["task"]: name for name, run in runs.items()}
    kept = {*of_tasks.values(), *changes.get("runs", ())}
    return params_of(merged({"runs": {name: run for name, run in runs.items() if name in kept}}, changes))


@law(2, most=100)
@given(data=st.data())
def test_changed_params_are_read_back_as_they_were_read_or_refused_by_their_place(data):
    valid = params_with(YAML(typ="safe").load(data.draw(st.sampled_from(VALID))) if data.draw(st.booleans()) else {})
    block = data.draw(st.sampled_from([name for name in BLOCKS if name in valid]))
    params = valid | {block: data.draw(changed(valid[block], most=3))}
    with refused_at(PLACE):
        settings = check_values(params)
        assert check_values(settings.model_dump(exclude_unset=True)) == settings

"""Params that differ in a few places from the project's own, or from those that tests hold to be right."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from pipelines.config.rules import check_values
from pipelines.config.schema import merged, read
from tools.fuzz.attempt import WrongAnswer, refused
from tools.fuzz.mutation import changed_tree

VALID = sorted(Path("tests/params/valid").glob("*.yaml"))


@cache
def _text() -> str:
    return json.dumps(read("params.yaml"))


def _with(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the project's params with these changes and a run a task besides theirs: each costs time to check."""
    own = json.loads(_text())
    kept = {run["task"]: name for name, run in own["runs"].items()}
    own["runs"] = {name: run for name, run in own["runs"].items() if name in {*kept.values(), *changes.get("runs", ())}}
    return merged(own | {"comparisons": {}}, changes)


def draw(random: np.random.Generator) -> dict[str, Any]:
    changes = YAML(typ="safe").load(VALID[random.integers(len(VALID))]) if random.random() < 0.2 else {}
    own = _with(changes)
    blocks = ["datasets", "sorters", "training", "runs", "gate", "compute", "evaluate", "score_vectors"]
    block = str(random.choice([one for one in blocks if one in own]))
    return {
        "changes": changes,
        "block": block,
        "value": changed_tree(own[block], random, times=int(random.integers(1, 4))),
    }


def check(changes: dict[str, Any], block: str, value: Any) -> None:
    params = _with(changes) | {block: value}
    with refused(r"^params\.yaml: [\w.\[\]'\" -]+"):
        settings = check_values(params)
        again = check_values(settings.model_dump(exclude_unset=True))
        if again != settings:
            raise WrongAnswer("what was read is read otherwise")

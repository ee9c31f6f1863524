"""Inputs that once broke what reads them: what `make fuzz` found is in tests/cases/, a file a failure."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tools.fuzz.attempt import TARGETS, failure

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_failed_once_is_taken_or_refused_by_name(path):
    found = json.loads(path.read_text())
    assert failure(found["target"], found["case"]) is None


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_draws_the_same_case_from_the_same_seed(target):
    draw = import_module(f"tools.fuzz.{target}").draw
    first, again = (json.dumps(draw(np.random.default_rng(5))) for _ in range(2))
    assert first == again

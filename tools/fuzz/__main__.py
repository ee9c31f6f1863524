"""Try random inputs, and keep what fails: `python -m tools.fuzz [TARGET ...] [--count 1000] [--seconds 600]`.

A target is a file beside this one: `draw` makes a case, which is plain JSON, and `check` raises unless the project
takes it rightly or refuses it by a message that names the place. The smallest case of each failure goes into
tests/cases/, which the tests run from then on.
"""

import argparse
import hashlib
import json
import logging
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from tools.fuzz.attempt import TARGETS, failure

CASES = Path("tests/cases")


def fuzz(
    target: str, *, count: int, seconds: float, seed: int, first: int = 0
) -> tuple[int, dict[str, tuple[int, dict, str]]]:
    """Return how many inputs were tried, and of each failure how often it was found, its smallest case and story."""
    draw, found, end = import_module(f"tools.fuzz.{target}").draw, {}, time.monotonic() + seconds
    for number in range(first, first + count):
        if time.monotonic() > end:
            return number - first, found
        case = draw(np.random.default_rng([seed, TARGETS.index(target), number]))
        if failed := failure(target, case):
            often, smallest, story = found.get(failed[0], (0, case, failed[1]))
            if len(json.dumps(case)) < len(json.dumps(smallest)):
                smallest, story = case, failed[1]
            found[failed[0]] = often + 1, smallest, story
    return count, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--count", type=int, default=1000, help="inputs of each target")
    parser.add_argument("--seconds", type=float, default=600, help="for each target, after which it is ended")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input, to go on from")
    given = parser.parse_args()
    if unknown := {*given.targets} - {*TARGETS}:
        parser.error(f"{', '.join(sorted(unknown))}: no such target, expected {', '.join(TARGETS)}")
    torch.set_num_threads(1)
    logging.disable()
    failed = 0
    for target in given.targets or TARGETS:
        began = time.monotonic()
        bounds = {"count": given.count, "seconds": given.seconds}
        tried, found = fuzz(target, **bounds, seed=given.seed, first=given.first)
        failed += len(found)
        print(f"{target}: {tried} inputs, {len(found)} failures, {time.monotonic() - began:.0f} s", flush=True)
        for what, (often, case, story) in found.items():
            path = CASES / f"{target}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"target": target, "failure": what, "case": case}, indent=1) + "\n")
            print(f"  {often:6} {what}\n         {path}\n{story if given.count == 1 else ''}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Adding a loss, metric, model or sorter is one new file: it inherits the contracts, and nothing else is edited."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADDED = {
    "losses/margin.py": '''
"""A margin between each target and the next."""

from typing import Literal

from torch import Tensor

from rankops.checks import check_choice
from rankops.losses.inputs import Reduction, groups, pointwise

__all__ = ["margin"]

Power = Literal["one", "two"]


def margin(
    scores: Tensor,
    target: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    power: Power = "one",
    width: float = 1.0,
) -> Tensor:
    """Scores should be no further from their targets than a width.

    Args:
        scores, target: (..., d).
        power: of the excess, `one` or `two`.
        width: what costs nothing.
    """
    given = groups(scores, target=target, dim=dim, mask=mask, weights=weights, check_finite=check_finite)
    check_choice("power", power, Power)
    excess = ((given.scores - given.truth.to(given.scores.dtype)).abs() - width / 10).relu()
    return pointwise(given, excess if power == "one" else excess.square(), reduction)
''',
    "losses/careless.py": '''
"""A loss that breaks the contract: it moves the random state, and an option does nothing."""

import torch
from torch import Tensor

from rankops.checks import check_target

__all__ = ["careless"]


def careless(scores: Tensor, target: Tensor, *, unused: float = 1.0) -> Tensor:
    """Scores should equal their targets.

    Args:
        unused: nothing.
    """
    check_target(scores, target)
    torch.rand(1)
    return (scores - target).square().mean()
''',
    "metrics/top_one.py": '''
"""Whether the best comes first."""

import torch
from torch import Tensor

from rankops.checks import check_scores, check_target

__all__ = ["top_one"]


def top_one(scores: Tensor, target: Tensor, *, dim: int = -1) -> Tensor:
    """Compute whether the largest score is that of the largest target.

    Args:
        scores, target: one shape.
        dim: of a group.
    """
    check_target(scores, target)
    check_scores(scores, dim=dim)
    scores, target = scores.movedim(dim, -1), target.movedim(dim, -1)
    best = scores.detach() == scores.detach().amax(-1, keepdim=True)
    return (best & (target == target.amax(-1, keepdim=True))).sum(-1).double() / best.sum(-1)
''',
    "models/linear_probe.py": '''
"""A linear map of vectors."""

from torch import Tensor, nn

__all__ = ["LinearProbe"]


class LinearProbe(nn.Module):
    """A linear map of vectors, with a hidden layer.

    Args:
        features, outputs: of a vector, and of the result.
        hidden: width.
    """

    def __init__(self, *, features: int, outputs: int, hidden: int = 64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.Linear(hidden, outputs))

    def forward(self, vectors: Tensor) -> Tensor:
        return self.layers(vectors.to(self.layers[0].weight.dtype))
''',
    "sorters/arctan.py": '''
"""Sums of arctangents."""

import math

from torch import Tensor

from rankops.sorters.base import Sorter

__all__ = ["Arctan"]


class Arctan(Sorter):
    """Sums of arctangents of score differences.

    Args:
        steepness: of each.
    """

    scale_invariant = False

    def __init__(self, *, steepness: float = 10.0):
        super().__init__()
        self.steepness = steepness

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        beats = 0.5 + (self.steepness * (scores.unsqueeze(-2) - scores.unsqueeze(-1))).atan() / math.pi
        return 0.5 + (beats if mask is None else beats * mask.unsqueeze(-2)).sum(-1)
''',
}


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    """What pytest prints for the contracts of the new files, and for the doctests of the lookup, in a copy."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("src/rankops", "tests/contracts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, copy / file)
    for file, text in ADDED.items():
        (copy / "src/rankops" / file).write_text(text.lstrip())
    names = " or ".join(Path(file).stem for file in ADDED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/contracts", "src/rankops/lookup.py", "--ignore",
         "tests/contracts/test_adding.py", "-k", f"({names} or lookup) and not compile", "-q", "-rA", "-p",
         "no:cacheprovider"],
        cwd=copy, env=os.environ | {"PYTHONPATH": str(copy / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [Path(file).stem for file in ADDED if "careless" not in file])
def test_a_new_file_inherits_the_contracts_and_passes_them(report, name):
    passed = [line for line in report.splitlines() if line.startswith("PASSED") and name in line]
    assert len(passed) >= 4, report[-3000:]
    assert not [line for line in report.splitlines() if line.startswith(("FAILED", "ERROR")) and name in line]


def test_one_that_breaks_them_fails(report):
    failed = [line for line in report.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert all("careless" in line for line in failed)
    assert [line for line in failed if "changes_nothing_else" in line]
    assert [line for line in failed if "every_option" in line]
    assert "PASSED src/rankops/lookup.py::rankops.lookup.names" in report

"""A new loss, metric, model or sorter is one file, which inherits the contracts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A new file, the one that it is a copy of, and the name in it that changes.
ADDED = {
    "losses/second_l1.py": ("l1", "l1"),
    "metrics/second_kendall.py": ("kendall", "kendall"),
    "models/backbones/second_perceptron.py": ("perceptron", "Perceptron"),
    "models/heads/second_two_layer.py": ("two_layer", "TwoLayer"),
    "sorters/second_handcrafted.py": ("handcrafted", "Handcrafted"),
}
SOME = ("nothing_else", "every_option")  # of the contracts: all new files are copies of what passes them
CONTRACTS = [f"tests/contracts/test_{name}.py" for name in ("measures", "models", "sorters")]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    """What pytest prints for some contracts of the new files, and for the doctests of the lookup, in a copy."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("src/rankgrad", "tests/contracts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, copy / file)
    for file, (source, name) in ADDED.items():
        path = copy / "src/rankgrad" / file
        text = path.with_stem(source).read_text()
        path.write_text(text.replace(name, f"second_{name}" if name.islower() else f"Second{name}"))
    # One that moves the random state and has an option that does nothing.
    careless = (copy / "src/rankgrad/losses/second_l1.py").read_text().replace("second_l1", "careless")
    careless = careless.replace("sigmoid: bool = False", "sigmoid: bool = False, unused: float = 1.0")
    careless = careless.replace("        sigmoid: put", "        unused: nothing.\n        sigmoid: put")
    body, _, last = careless.rpartition("    return ")
    careless = f"{body}    import torch; torch.rand(1)\n    return {last}"
    (copy / "src/rankgrad/losses/careless.py").write_text(careless)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *CONTRACTS, "src/rankgrad/lookup.py", "-q", "-rA", "-p", "no:cacheprovider",
         "-k", f"(second and ({' or '.join(SOME)})) or careless or lookup"],
        cwd=copy, env=os.environ | {"PYTHONPATH": str(copy / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [Path(file).stem for file in ADDED])
def test_a_new_file_inherits_the_contracts_and_passes_them(report, name):
    passed = [line for line in report.splitlines() if line.startswith("PASSED") and name in line]
    assert all(any(contract in line for line in passed) for contract in SOME), report[-3000:]


def test_one_that_breaks_them_fails(report):
    failed = [line for line in report.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert all("careless" in line for line in failed)
    assert [line for line in failed if "changes_nothing_else" in line]
    assert [line for line in failed if "every_option" in line]
    assert "PASSED src/rankgrad/lookup.py::rankgrad.lookup.names" in report

"""A new loss is one file, which inherits the contracts; where it breaks them, they fail."""

import os
import re
import shutil
import sys

from conftest import ROOT, done  # isort: skip

CONTRACTS = "tests/contracts/test_measures.py"


def test_a_new_file_inherits_the_contracts_and_fails_those_that_it_breaks(tmp_path):
    for folder in ("src/rankgrad", "tests/contracts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    # One that moves the random state and has an option that does nothing.
    careless = (ROOT / "src/rankgrad/losses/l1.py").read_text().replace("l1", "careless")
    careless = careless.replace("sigmoid: bool = False", "sigmoid: bool = False, unused: float = 1.0")
    careless = careless.replace("        sigmoid: put", "        unused: nothing.\n        sigmoid: put")
    body, _, last = careless.rpartition("    return ")
    (tmp_path / "src/rankgrad/losses/careless.py").write_text(
        f"{body}    import torch; torch.rand(1)\n    return {last}"
    )
    report = done(
        sys.executable, "-m", "pytest", CONTRACTS, "-rA", "-p", "no:cacheprovider", "-k", "careless",
        folder=tmp_path, fails=True, PYTHONPATH=tmp_path / "src", HOME=os.environ["HOME"],
    )  # fmt: skip
    passed, failed = (re.findall(rf"^{outcome} .*::(\w+)", report, re.MULTILINE) for outcome in ("PASSED", "FAILED"))
    assert passed
    assert {"test_a_loss_has_the_gradient_of_its_value_and_changes_nothing_else", "test_every_option_changes_the_value",
            "test_an_option_that_is_not_a_number_is_refused"} <= {*failed}  # fmt: skip

"""The examples with other people's trainers, if their packages are installed here or by `make trainers`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT  # isort: skip

pytestmark = pytest.mark.slow

PATH = f"{ROOT / '.venv-trainers/bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("path", (ROOT / "examples/trainers").glob("*.py"), ids=lambda path: path.stem)
def test_a_trainer_learns_with_our_loss(path, tmp_path):
    python = shutil.which("python", path=PATH)
    environment = {"PATH": PATH, "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment |= dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9") | {"HF_HUB_OFFLINE": "1"}
    ended = subprocess.run([python, path], capture_output=True, text=True, env=environment, cwd=tmp_path)
    if "This example needs" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    values = re.findall(r"(-?\d\.\d+) untrained, (-?\d\.\d+) trained", ended.stdout)
    assert values
    assert all(float(after) > float(before) + 0.1 for before, after in values)

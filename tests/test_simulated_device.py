"""Trainings and predictions on another device than the CPU, simulated: what a GPU would refuse is found without one."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def test_nothing_is_left_on_the_cpu():
    """In a process of its own, which has the simulated device to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", FOLDER / "on_simulated_device.py"],
        cwd=FOLDER.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

"""Trainings and predictions on another device than the CPU, simulated: what a GPU would refuse is found without one."""

import sys

from conftest import done  # isort: skip


def test_nothing_is_left_on_the_cpu():
    """In a process of its own, which has the simulated device to its end."""
    words = ["-p", "no:cacheprovider", "-p", "no:xdist", "tests/on_simulated_device.py"]
    done(sys.executable, "-m", "pytest", *words)

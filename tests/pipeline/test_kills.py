"""A `dvc repro` killed again and again: no orphan, nothing half written, and the lock of an undisturbed one.

RANKGRAD_KILLS says how often (5), RANKGRAD_KILL_TARGET which stage it makes (all of them).
"""

import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from conftest import Project, processes_in, wait_for  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("RANKGRAD_KILLS", "5"))
TARGET = os.environ.get("RANKGRAD_KILL_TARGET", "")


def made(new_project, name: str) -> Project:
    """A project whose trainings take long enough to be killed within, two seeds at a time."""
    project = new_project(name)
    params = project.read("params.yaml")
    params = re.sub(r"(jobs:\n  count:) 1", r"\1 2", params).replace("epochs: 2", "epochs: 6")
    (project.folder / "params.yaml").write_text(params)
    return project


def start(project: Project, *command: str) -> subprocess.Popen:
    return subprocess.Popen(
        ["dvc", "repro", *command], cwd=project.folder, env=project.environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill(project: Project, dvc: subprocess.Popen, *, tree: bool) -> None:
    """Kill dvc alone or all that works there; whatever is left must end by itself."""
    for process in processes_in(project.folder) if tree else [dvc.pid]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    dvc.wait()
    wait_for(lambda: not processes_in(project.folder), patience=4.0)
    project.run("python -m pipelines.ops.dvc_repair", PYTHONPATH="src")  # as `make repro` does


def check(project: Project, expected: str) -> None:
    assert project.read("dvc.lock") == expected
    assert not [path for path in project.folder.rglob("*.partial-*") if ".dvc" not in path.parts]
    assert not list(project.folder.glob(".checkpoints/**/epoch-*"))


@pytest.fixture(scope="module")
def undisturbed(new_project) -> tuple[str, float]:
    """The lock, and how long it took."""
    project, begin = made(new_project, "undisturbed"), time.monotonic()
    project.run(f"dvc repro {TARGET}")
    return project.read("dvc.lock"), time.monotonic() - begin


def test_killed_at_random_moments_it_ends_with_the_same_lock(undisturbed, new_project):
    expected, took = undisturbed
    project, moments = made(new_project, "killed"), random.Random(0)
    for number in range(KILLS):
        dvc = start(project, *TARGET.split())
        try:
            dvc.wait(moments.uniform(0, 2 * took / KILLS))
        except subprocess.TimeoutExpired:
            kill(project, dvc, tree=number % 2 == 0)
    project.run(f"dvc repro {TARGET}")
    check(project, expected)


def test_a_training_in_two_processes_ends_with_its_dvc_and_is_resumed(new_project):
    project, target = made(new_project, "two_processes"), "train@label_ranking-rlsep"
    project.replace("params.yaml", "processes: 1", "processes: 2")
    project.run(f"dvc repro {target}")
    expected = project.read("dvc.lock")
    for tree in (False, True):
        dvc = start(project, "--force", "--single-item", target)
        wait_for(lambda: list(project.folder.glob(".checkpoints/train/**/epoch-*")), patience=300)
        kill(project, dvc, tree=tree)
    project.run(f"dvc repro --force --single-item {target}")
    check(project, expected)

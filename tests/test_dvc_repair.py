"""A dvc that was killed while it wrote: nothing is run again, and the lock ends as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.cli import doctor
from pipelines.ops import dvc_lock
from pipelines.ops.dvc_repair import repair

from conftest import done, git, wait_for  # isort: skip

STAGES = """
stages:
  draw: {cmd: echo drawn >> ran.txt && cp seed.txt scenes.txt, deps: [seed.txt], outs: [scenes.txt]}
  train: {cmd: echo trained >> ran.txt && cp scenes.txt model.txt, deps: [scenes.txt], outs: [model.txt]}
"""


def repro() -> None:
    with Repo(".") as repo:
        repo.reproduce()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    Repo.init(".").close()
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "seed.txt").write_text("1")
    repro()
    git("add", "--all")
    git("commit", "--quiet", "--message", "made")
    return tmp_path


# Emptied; within an entry; after a whole entry and within a hash, which DVC both takes for a lock.
@pytest.mark.parametrize(
    "end", ["", "    outs:\n    - pa", "  train:\n", "    - path: model.txt\n      hash: md5\n      md5: 0"]
)
@pytest.mark.parametrize("committed", [True, False])
def test_wherever_a_lock_ends_nothing_is_run_again(project, end, committed):
    lock = project / "dvc.lock"
    whole = lock.read_text()
    if not committed:
        git("rm", "--quiet", "--cached", "dvc.lock")
        git("commit", "--quiet", "--message", "no lock")
    lock.write_text(whole[: whole.rfind(end[:-1]) if end else 0] + end)
    repair()
    repro()
    assert lock.read_text() == whole
    assert (project / "ran.txt").read_text() == "drawn\ntrained\n"
    assert repair() == []


def test_half_a_list_of_running_stages_goes_and_what_a_person_or_a_living_dvc_may_be_writing_stays(project):
    running = project / ".dvc/tmp/rwlock"
    for torn in ('{"train.txt": {"wr', "", "[]", "null", '{"/x": 5}'):
        running.write_text(torn)
        assert len(repair()) == 1
        assert not running.exists()
    running.write_text("{}")
    assert repair() == []
    assert running.exists()
    lock = project / "dvc.lock"
    lock.write_text("")
    with Repo(".") as repo, repo.lock:
        assert "dvc is running" in repair()[0]
    assert lock.read_text() == ""
    lock.unlink()
    lock.mkdir()
    with pytest.raises(ValueError, match=r"dvc\.lock: cannot be read"):
        repair()


@pytest.mark.parametrize("file", ["dvc.lock", "dvc.yaml", "params.yaml"])
@pytest.mark.parametrize("marks", ["<<<<<<< HEAD\n{}=======\n>>>>>>> other\n", "{}=======\n>>>>>>> other\n"])
def test_what_is_half_merged_is_left_to_a_person_who_is_told_where_and_what_to_do(tmp_path, monkeypatch, file, marks):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / file
    path.write_text(merged := marks.format("stages: {}\n"))
    line = merged[: merged.index("<<<" if merged[0] == "<" else "===")].count("\n") + 1
    with pytest.raises(ValueError, match=rf"^{file}: half merged, line {line} .*dvc repro"):
        repair()
    assert path.read_text() == merged
    (found,) = list(doctor._dvc())
    assert (found.name, found.state) == (file, "broken")
    assert ("git checkout --ours" in found.advice) == (file == "dvc.lock")


def test_the_command_changes_nothing_if_git_does_not_answer(project):
    (project / "dvc.lock").write_text("")
    command = [sys.executable, "-m", "pipelines.ops.dvc_repair"]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    owned = environment | {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}  # a container
    said = done(*command, folder=project, fails=True, **owned)
    assert ("ownership" in said, "Traceback" in said) == (True, False)
    assert (project / "dvc.lock").read_text() == ""
    assert "dvc.lock" in done(*command, folder=project, **environment)


def test_a_second_repro_says_whom_it_waits_for_and_begins_when_that_is_done(tmp_path):
    (tmp_path / "dvc").write_text(
        '#!/bin/sh\necho "begin $*" >> log\nuntil [ -e done ]; do sleep 0.02; done\necho end >> log\n'
    )
    (tmp_path / "dvc").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pipelines.ops.repro"]
    first = subprocess.Popen([*command, "first"], cwd=tmp_path, env=environment)
    wait_for((tmp_path / "log").exists)
    said = tmp_path / "said"
    with said.open("w") as file:
        second = subprocess.Popen([*command, "second"], cwd=tmp_path, env=environment, stderr=file)
    wait_for(lambda: f"process {first.pid}" in said.read_text())
    (tmp_path / "done").touch()
    assert (first.wait(), second.wait()) == (0, 0)
    begun = [f"begin --wait-for-lock repro {which}" for which in ("first", "second")]
    assert (tmp_path / "log").read_text().splitlines() == [begun[0], "end", begun[1], "end"]
    assert "process" not in done(*command, "third", folder=tmp_path, **environment)


@pytest.mark.parametrize("content", ["stages: [a]", "stages: 5", "- a", "{a", "<<<<<<< ours\nstages: {}\n=======\n"])
def test_what_is_no_lock_is_refused_by_its_readers_and_one_without_stages_has_none(tmp_path, content):
    lock = tmp_path / "dvc.lock"
    assert dvc_lock.stages(lock) == {}
    for empty in ("", "schema: '2.0'\n", "stages:\n"):
        lock.write_text(empty)
        assert dvc_lock.stages(lock) == {}
    lock.write_text(content)
    with pytest.raises(ValueError, match=r"dvc.lock.*git checkout"):
        dvc_lock.stages(lock)


@pytest.mark.parametrize("status", [0, 3])
def test_without_words_all_other_stages_run_and_then_publish_in_any_case_unless_one_failed(tmp_path, status):
    (tmp_path / "dvc.yaml").write_text("stages: {a: {cmd: a}, publish: {cmd: b}, each: {foreach: [], do: {cmd: c}}}\n")
    (tmp_path / "dvc").write_text(f'#!/bin/sh\necho "$@" >> log\n[ $# = 4 ] || exit 0\nexit {status}\n')
    (tmp_path / "dvc").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-m", "pipelines.ops.repro"], cwd=tmp_path, env=environment)
    assert ended.returncode == status
    commands = ["--wait-for-lock repro a each", "--wait-for-lock repro --single-item --force publish"]
    assert (tmp_path / "log").read_text().splitlines() == commands[: 1 if status else 2]

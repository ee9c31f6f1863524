"""A dvc that was killed in the middle of writing: nothing is run again, and the lock ends as it was."""

import os
import subprocess
from pathlib import Path

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from pipelines import half_written
from pipelines.cli import app

STAGES = """
stages:
  draw: {cmd: echo drawn >> ran.txt && cp seed.txt scenes.txt, deps: [seed.txt], outs: [scenes.txt]}
  train: {cmd: echo trained >> ran.txt && cp scenes.txt model.txt, deps: [scenes.txt], outs: [model.txt]}
"""
IDENTITY = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True, env={**os.environ, **IDENTITY})


def repro() -> None:
    with Repo(".") as repo:
        repo.reproduce()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(half_written, "PATIENCE", 0.0)
    git("init", "--quiet")
    Repo.init(".").close()
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "seed.txt").write_text("1")
    repro()
    git("add", "--all")
    git("commit", "--quiet", "--message", "made")
    return tmp_path


def mended() -> str:
    done = CliRunner().invoke(app, ["mend"], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


# Emptied; within an entry; after a whole entry, and within a hash, which DVC both takes for a lock.
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
    start = whole.rfind(end[:-1]) if end else 0
    lock.write_text(half := whole[:start] + end)
    said = mended()
    if "half written" in said:
        assert (project / ".dvc/tmp/half-written/dvc.lock").read_text() == half
        assert ("that of the last commit again" if committed else "removed it") in said
    repro()
    assert lock.read_text() == whole
    assert (project / "ran.txt").read_text() == "drawn\ntrained\n"
    assert mended() == ""


def test_an_emptied_lock_is_one_that_dvc_refuses(project):
    (project / "dvc.lock").write_text("")
    with pytest.raises(Exception, match="validation failed"):
        repro()
    assert "dvc.lock was half written, by an interrupted dvc" in mended()
    repro()


def test_the_lock_of_the_experiments_is_mended_too(project):
    path = project / "experiments/dvc.lock"
    path.parent.mkdir()
    path.write_text("schema: '2.0'\nsta")
    assert "experiments/dvc.lock was half written, by an interrupted dvc; removed it" in mended()
    assert not path.exists()


def test_a_lock_with_the_marks_of_a_merge_is_left_to_a_person(project):
    lock = project / "dvc.lock"
    lock.write_text(merged := f"<<<<<<< HEAD\n{lock.read_text()}=======\n>>>>>>> other\n")
    assert mended() == ""
    assert lock.read_text() == merged


def test_a_lock_that_is_being_written_is_waited_for(project, monkeypatch):
    lock, asked = project / "dvc.lock", []
    whole = lock.read_text()
    monkeypatch.setattr(half_written, "PATIENCE", 5.0)

    def faulty(text: str) -> bool:
        asked.append(text)
        lock.write_text(whole)  # by now dvc has come to its end
        return text != whole

    monkeypatch.setattr(half_written, "_no_lock", faulty)
    lock.write_text("")
    assert mended() == ""
    assert asked[:2] == ["", whole]

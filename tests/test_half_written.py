"""A dvc that was killed in the middle of writing: nothing is run again, and the lock ends as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.flows.processes import Commands, TransientFailure
from pipelines.ops import dvc_lock, dvc_repair

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
    git("init", "--quiet")
    Repo.init(".").close()
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "seed.txt").write_text("1")
    repro()
    git("add", "--all")
    git("commit", "--quiet", "--message", "made")
    return tmp_path


def mended() -> str:
    done = CliRunner().invoke(app, ["repair"], catch_exceptions=False)
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
        assert (project / ".dvc/tmp/half-written/dvc.lock.1").read_text() == half
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


def test_a_lock_that_a_living_dvc_may_be_writing_is_left_to_it(project):
    lock = project / "dvc.lock"
    lock.write_text("")
    with Repo(".") as repo, repo.lock:
        assert mended() == "dvc.lock: not whole, but a dvc is at work here, which may be writing it\n"
    assert lock.read_text() == ""
    assert "half written" in mended()


def test_a_lock_that_was_whole_by_the_time_that_nobody_wrote_it_is_left_alone(project, monkeypatch):
    lock, asked = project / "dvc.lock", []
    whole = lock.read_text()

    def faulty(text: str) -> bool:
        asked.append(text)
        lock.write_text(whole)  # by now dvc has come to its end
        return text != whole

    monkeypatch.setattr(dvc_repair, "_no_lock", faulty)
    lock.write_text("")
    assert mended() == ""
    assert asked == ["", whole]


def test_where_git_does_not_answer_nothing_is_changed(project, monkeypatch):
    (project / "dvc.lock").write_text("")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as of a checkout that a container mounts
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    done = CliRunner().invoke(app, ["repair"])
    assert done.exit_code == 1
    assert "dubious ownership" in done.output
    assert (project / "dvc.lock").read_text() == ""


def test_what_dvc_says_of_half_written_locks_is_known_to_be_over_the_next_time(project):
    whole = (project / "dvc.lock").read_text()
    for half in ("", whole[: whole.index("    outs:")] + "    outs", whole.partition("      md5")[0] + "      md"):
        (project / "dvc.lock").write_text(half)
        with pytest.raises(TransientFailure):
            Commands().run([str(Path(sys.executable).parent / "dvc"), "repro"], folder=project)
        assert "half written" in mended()
    Commands().run([str(Path(sys.executable).parent / "dvc"), "repro"], folder=project)


@pytest.mark.parametrize(
    ("written", "said"),
    [("stages: [a]", "found a list"), ("stages: 5", "found a int"), ("- a", "found a list"), ("{a", "while parsing"),
     ("<<<<<<< ours\nstages: {}\n=======\n", "")],
)  # fmt: skip
def test_what_is_no_lock_is_refused_and_what_to_do_is_told(tmp_path, written, said):
    (tmp_path / "dvc.lock").write_text(written)
    with pytest.raises(ValueError, match=rf"dvc.lock: not a lock file of DVC.s .*{said}.*: end the merge"):
        dvc_lock.stages(tmp_path / "dvc.lock")


@pytest.mark.parametrize("written", [None, "", "schema: '2.0'\n", "stages:\n"])
def test_a_lock_without_stages_has_none(tmp_path, written):
    if written is not None:
        (tmp_path / "dvc.lock").write_text(written)
    assert dvc_lock.stages(tmp_path / "dvc.lock") == {}


def test_what_there_was_of_each_lock_is_kept_beside_earlier_ones(project):
    halves = ["schema: '2.0'\nst", "schema: '2.0'\nsta"]
    for half in halves:
        (project / "dvc.lock").write_text(half)
        assert "half written" in mended()
    kept = project / ".dvc/tmp/half-written"
    assert [path.read_text() for path in sorted(kept.iterdir())] == halves


def test_a_half_written_list_of_running_stages_goes_and_a_whole_one_stays(project):
    listed = project / ".dvc/tmp/rwlock"
    listed.write_text('{"train.txt": {"wr')
    assert mended() == ".dvc/tmp/rwlock was half written, by an interrupted dvc; removed it\n"
    assert not listed.exists()
    listed.write_text("{}")
    assert mended() == ""
    assert listed.read_text() == "{}"

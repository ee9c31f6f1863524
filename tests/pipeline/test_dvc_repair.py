"""A dvc that was killed while it wrote: nothing is run again, and the lock ends as it was."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.config import load
from pipelines.ops import dvc_lock, repro, status
from pipelines.ops.dvc_repair import repair
from pipelines.ops.leftovers import set_aside

from conftest import ROOT, git, wait_for  # isort: skip

STAGES = """
stages:
  draw: {cmd: echo drawn >> ran.txt && cp seed.txt scenes.txt, deps: [seed.txt], outs: [scenes.txt]}
  train: {cmd: echo trained >> ran.txt && cp scenes.txt model.txt, deps: [scenes.txt], outs: [model.txt]}
"""
MERGED = "<<<<<<< HEAD\nstages: {}\n=======\n>>>>>>> other\n"


def reproduce() -> None:
    with Repo(".") as repo:
        repo.reproduce()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    Repo.init(".").close()
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "seed.txt").write_text("1")
    reproduce()
    git("add", "--all")
    git("commit", "--quiet", "--message", "made")
    return tmp_path


# Emptied; within an entry; within a hash, which DVC takes for a lock.
@pytest.mark.parametrize("end", ["", "    outs:\n    - pa", "    - path: model.txt\n      hash: md5\n      md5: 0"])
@pytest.mark.parametrize("committed", [True, False])
def test_wherever_a_lock_ends_nothing_is_run_again(project, end, committed):
    lock, running = project / "dvc.lock", project / ".dvc/tmp/rwlock"
    complete = lock.read_text()
    if not committed:
        git("rm", "--quiet", "--cached", "dvc.lock")
        git("commit", "--quiet", "--message", "no lock")
    lock.write_text(complete[: complete.rfind(end[:-1]) if end else 0] + end)
    running.write_text('{"train.txt": {"wr')
    repair()
    reproduce()
    assert lock.read_text() == complete
    assert (project / "ran.txt").read_text() == "drawn\ntrained\n"
    assert repair() == []


def test_what_a_person_must_end_and_what_git_cannot_tell_stays_as_it_is(project, monkeypatch):
    lock = project / "dvc.lock"
    lock.write_text(MERGED)
    with pytest.raises(ValueError, match=r"dvc.lock: has merge conflicts"):
        repair()
    assert lock.read_text() == MERGED
    lock.write_text("")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as in a container
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    with pytest.raises(ValueError, match="ownership"):
        repair()
    assert lock.read_text() == ""


@pytest.mark.parametrize("content", ["stages: [a]", "- a", MERGED])
def test_what_is_no_lock_is_refused_by_its_readers_and_one_without_stages_has_none(tmp_path, content):
    lock = tmp_path / "dvc.lock"
    assert dvc_lock.stages(lock) == {}
    for empty in ("", "schema: '2.0'\n", "stages:\n"):
        lock.write_text(empty)
        assert dvc_lock.stages(lock) == {}
    lock.write_text(content)
    with pytest.raises(ValueError, match=r"dvc.lock.*git checkout"):
        dvc_lock.stages(lock)


def test_what_the_params_no_longer_define_is_moved_to_where_nothing_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = load(ROOT / "params.yaml")
    run, dataset, comparison = next(iter(params.runs)), next(iter(params.datasets)), next(iter(params.comparisons))
    params.comparisons[comparison].rivals.append("of_another")  # program
    kept = [Path("models/runs", run), Path("models/runs/none"), Path("reports/data", f"{dataset}.html"),
            Path("predictions", f"{run}.parquet"), Path("predictions/of_another.parquet"),
            Path("models/sorters/none")]  # fmt: skip
    gone = [Path("models/runs/gone"), Path("metrics/runs/gone.csv"), Path("reports/data/gone.html")]
    for times in (1, 2):
        for path in kept + gone:
            path.mkdir(parents=True, exist_ok=True)
        assert len(set_aside(params)) == len(gone)
        assert set_aside(params) == []
        assert all(path.exists() for path in kept)
        assert len([*Path(".leftovers").rglob("*gone*")]) == times * len(gone)  # nothing is deleted


class TestRepro:
    @pytest.fixture
    def begin(self, tmp_path, monkeypatch):
        """Starts `make repro` in a project whose dvc is a script: it notes its words, then does what it is told."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        Path("dvc.yaml").write_text("stages: {a: {cmd: a}, publish: {cmd: b}, each: {foreach: [], do: {cmd: c}}}\n")

        def begin(then: str, *words: str) -> Future:
            Path("dvc").write_text(f'#!/bin/sh\necho "$@" >> log\n{then}\n')
            Path("dvc").chmod(0o755)
            return pool.submit(repro.main, *words)

        with ThreadPoolExecutor() as pool:
            yield begin

    def test_a_second_one_says_whom_it_waits_for_and_begins_when_that_is_done(self, begin, capsys):
        then = "until [ -e done ]; do sleep 0.02; done; echo end >> log"
        first = begin(then, "first")
        wait_for(Path("log").exists)
        second, said = begin(then, "second"), []
        wait_for(lambda: said.append(capsys.readouterr().err) or f"process {os.getpid()}" in "".join(said))
        Path("done").touch()
        assert (first.result(), second.result()) == (None, None)
        begun = [f"--wait-for-lock repro {which}" for which in ("first", "second")]
        assert Path("log").read_text().splitlines() == [begun[0], "end", begun[1], "end"]

    @pytest.mark.parametrize("exit_status", [0, 3])
    def test_without_words_all_other_stages_run_and_then_publish_in_any_case_unless_one_failed(
        self, begin, capsys, exit_status
    ):
        status.failed("before", "another day", 1)
        status.failed("a@x", "no rows", 1)
        Path(status.FOLDER / "a@x.json").rename("failed.json")
        then = f"[ $# = 4 ] || exit 0\nmkdir -p {status.FOLDER}\ncp failed.json {status.FOLDER}"
        ended = begin(f"{then}\nexit {exit_status}").exception()
        assert getattr(ended, "code", 0) == exit_status
        messages = capsys.readouterr().err
        assert ("a@x: no rows" in messages, "another day" in messages) == (exit_status > 0, False)
        commands = ["--wait-for-lock repro a each", "--wait-for-lock repro --single-item --force publish"]
        assert Path("log").read_text().splitlines() == commands[: 1 if exit_status else 2]

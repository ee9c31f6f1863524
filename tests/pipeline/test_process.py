"""Processes end with the one that started them, also if that is killed before they have imported anything."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from rankgrad.io.atomic import replaced_file, replaced_folder

from conftest import ROOT, processes_in, wait_for  # isort: skip

PROGRAMS = f"{Path(sys.executable).parent}:/usr/bin:/bin"
ENVIRONMENT = {"PATH": PROGRAMS, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "GIT_CONFIG_GLOBAL": "/dev/null"}
STAGE = """
from pathlib import Path
from pipelines.ops import process

{before}
process.tie_to_starter()
Path("tied").touch()
import time
time.sleep(60)
"""
OTHER_SYSTEM = "process.LINUX = False"


@pytest.fixture
def folder(tmp_path):
    """A DVC project with one stage that goes on for a minute."""
    Repo.init(str(tmp_path), no_scm=True).close()
    (tmp_path / "dvc.yaml").write_text("stages: {long: {cmd: PYTHONHASHSEED=0 python stage.py, outs: [made]}}\n")
    (tmp_path / "stage.py").write_text(STAGE.format(before=""))
    yield tmp_path
    for process in processes_in(tmp_path):
        os.kill(process, signal.SIGKILL)


def start(folder: Path, *command: str, **environment: str) -> subprocess.Popen:
    with (folder / "output").open("w") as output:
        return subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT | environment, stdout=output, stderr=output, start_new_session=True
        )


def kill(process: subprocess.Popen, folder: Path) -> None:
    """Kill a process alone; what works in the folder must end by itself."""
    process.kill()
    process.wait()
    wait_for(lambda: not processes_in(folder), patience=20.0)  # they would go on for a minute


# The first shell stays between dvc and the stage, the other does not.
@pytest.mark.parametrize(("shell", "late"), [("/bin/sh", True), ("/bin/bash", False)])
def test_a_stage_ends_with_its_dvc(folder, shell, late):
    dvc = start(folder, "dvc", "repro", SHELL=shell)
    wait_for(lambda: (folder / "tied").exists() if late else set(processes_in(folder)) - {dvc.pid})
    kill(dvc, folder)


@pytest.mark.parametrize("before", ["", OTHER_SYSTEM])  # the kernel tells, or a thread looks
def test_a_stage_that_a_person_starts_ends_with_the_shell(folder, before):
    (folder / "stage.py").write_text(STAGE.format(before=before))
    shell = start(folder, "bash", "-c", "python stage.py; true")
    wait_for((folder / "tied").exists)
    kill(shell, folder)


def test_a_stage_whose_dvc_is_gone_already_does_nothing(folder):
    orphan = start(folder, sys.executable, "stage.py", DVC_STAGE="long")
    orphan.wait(60)
    assert orphan.returncode == os.EX_TEMPFAIL
    assert not (folder / "tied").exists()


JOBS = """
import os, time
from joblib import Parallel, delayed
from pipelines.ops.process import tie_to

def work(number):
    open(f"job{number}", "w")
    time.sleep(60)

if __name__ == "__main__":
    Parallel(2, initializer=tie_to, initargs=(os.getpid(),))(delayed(work)(number) for number in range(2))
"""


def test_joblibs_workers_end_with_the_stage(folder):
    (folder / "jobs.py").write_text(JOBS)
    stage = start(folder, sys.executable, "jobs.py")
    wait_for((folder / "job1").exists)
    kill(stage, folder)


@pytest.mark.parametrize("folder", [False, True])
def test_a_disk_that_takes_no_more_is_an_error_that_names_the_file_and_one_of_the_network_is_not(tmp_path, folder):
    path, replaced = tmp_path / "made", replaced_folder if folder else replaced_file
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(OSError, match=re.escape(str(path))), replaced(path) as partial:
            (partial / "file" if folder else partial).write_bytes(bytes(2**21))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(ConnectionResetError, match="^\\[Errno 104\\] reset$"), replaced(path):
        raise ConnectionResetError(104, "reset")
    assert list(tmp_path.iterdir()) == []

"""How a stage ends when memory runs out: a line that says what to lower, and outputs as they were."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from filelock import FileLock

from pipelines.stages import runner
from pipelines.stages.runner import checkpoint_folder, refuse_leftovers
from rankops.io.atomic import replaced_file, replaced_folder

ROOT = Path(__file__).parents[1]
STAGE = """
import sys, torch
from pathlib import Path
from pipelines.stages.runner import run
from rankops.io.atomic import replaced_file

def main(params, name):
    with replaced_file("scores.json") as partial:
        partial.write_text("half")
        {fails}

sys.argv = ["train.py", "label_ranking-rlsep"]
run(main)
"""


def ended(folder: Path, fails: str) -> subprocess.CompletedProcess:
    if not (folder / "params.yaml").exists():
        shutil.copy(ROOT / "params.yaml", folder)
    (folder / "scores.json").write_text("whole")
    path = f"{ROOT / 'src'}:{ROOT}"
    return subprocess.run(
        [sys.executable, "-c", STAGE.format(fails=fails)],
        cwd=folder, env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "CXX": "sh"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_file_that_another_process_writes_is_left_and_one_of_a_killed_process_removed(tmp_path):
    target = tmp_path / "report.json"
    writing, killed = (tmp_path / f"report.json.partial-{number}" for number in (os.getppid(), 2**22 + 1))
    writing.touch()
    killed.touch()
    with replaced_file(target) as partial:
        partial.write_text("whole")
    assert sorted(tmp_path.iterdir()) == [target, writing]


def test_a_device_is_not_replaced(tmp_path):
    with pytest.raises(OSError, match="neither a file nor a folder"), replaced_file("/dev/null"):
        pass
    assert Path("/dev/null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="neither a file nor a folder"), replaced_folder(tmp_path / "pipe"):
        pass


@pytest.mark.parametrize(
    ("fails", "whose"),
    [
        ("torch.empty(2**60)", "this machine's memory is full"),
        ("bytearray(2**62)", "this machine's memory is full (MemoryError)"),
        ("raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB\\nand more')",
         "the GPU's memory is full (CUDA out of memory. Tried to allocate 2 GiB)"),
        ("raise torch.AcceleratorError('CUDA error: out of memory\\nand more')",
         "the GPU's memory is full (CUDA error: out of memory)"),
        ("raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`')",
         "the GPU's memory is full (CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
        pytest.param("torch.empty(2**60, dtype=torch.uint8, device='cuda')", "the GPU's memory is full (CUDA out of",
                     marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
    ],
)  # fmt: skip
def test_full_memory_is_a_line_that_says_what_to_lower(tmp_path, fails, whose):
    done = ended(tmp_path, fails)
    assert done.returncode == 1
    assert f"train@label_ranking-rlsep: {whose}" in done.stderr
    assert "lower the batch_size" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "scores.json").read_text() == "whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".locks", "params.yaml", "scores.json"]


@pytest.mark.parametrize(("said", "backend"), [("false", "NO"), ("true", "INDUCTOR")])
def test_networks_are_compiled_where_the_params_say_so(tmp_path, said, backend):
    params = (ROOT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(params.replace("compile: false", f"compile: {said}", 1))
    asks = "from accelerate import Accelerator; print(Accelerator(cpu=True).state.dynamo_plugin.backend.value)"
    done = ended(tmp_path, asks)
    assert done.stdout.split() == [backend], done.stderr


def test_another_runtime_error_keeps_its_traceback(tmp_path):
    done = ended(tmp_path, "torch.zeros(2) + torch.zeros(3)")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "memory is full" not in done.stderr


CHILD = """
import sys, time
from pipelines.stages.runner import die_with_parent
sys.platform = {platform!r}
die_with_parent()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("of_shell", [False, True])
def test_a_stage_dies_with_what_started_it(tmp_path, platform, of_shell):
    child = [sys.executable, "-c", CHILD.format(platform=platform)]
    # A shell that waits for it, as where /bin/sh does not become its only command; it outlives dvc, which stands above.
    child = ["sh", "-c", f"{shlex.join([*child, 'pipelines.stages.train'])}; true"] if of_shell else child
    above = f"import subprocess, sys; sys.exit(subprocess.call({child!r}))"
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "CXX": "sh"}
    started = subprocess.Popen(
        [sys.executable, "-c", above], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout.readline() == "ready\n"
    stages = [one for one in psutil.Process(started.pid).children(recursive=True) if not one.children()]
    started.kill()
    started.wait()
    assert len(stages) == 1
    assert psutil.wait_procs(stages, timeout=20)[1] == []


def test_the_state_of_other_params_is_set_aside_and_gone_on_with_once_they_are_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def begun(rate: float) -> Path:
        folder = checkpoint_folder("train", "label_ranking-rlsep", params={"rate": rate}, inputs=[])
        (folder / "epoch-0001").mkdir(parents=True, exist_ok=True)
        made.append(folder)
        os.utime(folder, ns=(len(made), len(made)))  # when it was worked on
        return folder

    made: list[Path] = []
    first, second = begun(0.1), begun(0.2)
    assert list(first.parent.iterdir()) == [second]
    assert begun(0.1) == first
    third, fourth = begun(0.3), begun(0.4)
    kept = {path.name for path in Path(".checkpoints/set_aside/train/label_ranking-rlsep").iterdir()}
    assert kept == {first.name, third.name}  # of three, the two that were worked on last
    assert list(first.parent.iterdir()) == [fourth]


def test_what_else_the_params_name_does_not_take_a_trainings_state_away(tmp_path, monkeypatch):
    import rankops.losses.hinge_ap  # noqa: F401 another run's

    monkeypatch.chdir(tmp_path)
    with_all = checkpoint_folder("train", "label_ranking-rlsep", params={}, inputs=[])
    monkeypatch.delitem(sys.modules, "rankops.losses.hinge_ap")  # as if nothing had named it
    assert checkpoint_folder("train", "label_ranking-rlsep", params={}, inputs=[]) == with_all


def test_on_other_data_a_training_begins_anew_and_goes_on_once_they_are_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for contents in (b"old scenes", b"new scenes", b"old scenes"):
        Path("train.parquet").write_bytes(contents)
        found.append(checkpoint_folder("train", "label_ranking-rlsep", params={}, inputs=["train.parquet"]))
    assert found[0] == found[2] != found[1]


def test_a_state_that_is_half_removed_takes_no_place_among_those_that_are_set_aside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "label_ranking-rlsep"
    places = [
        Path(f".checkpoints/{place}/{name}/{'f' * 16}.partial-7-removed") for place in ("train", "set_aside/train")
    ]
    for half in places:
        half.mkdir(parents=True)
    folder = checkpoint_folder("train", name, params={}, inputs=[])
    assert [list(parent.iterdir()) for parent in (folder.parent, places[1].parent)] == [[], []]


def test_what_the_params_no_longer_have_is_named_and_what_is_half_written_is_not(tmp_path):
    for name in ("kept.parquet", "gone.parquet", ".gitignore", "kept.parquet.partial-7"):
        (tmp_path / name).touch()
    refuse_leftovers({str(tmp_path): ["kept", "gone"]})
    with pytest.raises(ValueError, match=rf"no longer has left these; rm -r {tmp_path}/gone\.parquet$"):
        refuse_leftovers({str(tmp_path): ["kept"]})


@pytest.fixture
def in_process(tmp_path, monkeypatch):
    """Where a stage can run within this process, with three threads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "load", lambda: SimpleNamespace(compute=SimpleNamespace(threads=3, compile=False)))
    monkeypatch.setattr(runner, "die_with_parent", lambda: None)
    monkeypatch.setattr(runner, "FileLock", lambda path, timeout: FileLock(path, timeout=0))
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "NO")
    monkeypatch.setattr(sys, "argv", ["train.py", "label_ranking-rlsep"])


@pytest.mark.usefixtures("in_process")
def test_a_stage_computes_with_as_many_threads_as_the_params_say():
    found = []
    runner.run(lambda params, name: found.append((name, torch.get_num_threads())))
    assert found == [("label_ranking-rlsep", 3)]


@pytest.mark.usefixtures("in_process")
def test_beside_another_process_of_the_same_stage_it_does_nothing_and_ends_with_what_a_flow_tries_again(capsys):
    ran = []
    Path(".locks").mkdir()
    with FileLock(".locks/train@label_ranking-rlsep.lock"), pytest.raises(SystemExit) as ended:
        runner.run(lambda *arguments: ran.append(arguments))
    assert (ended.value.code, ran) == (75, [])  # see TRANSIENT in pipelines/flows/processes.py
    assert "train@label_ranking-rlsep: another process runs this stage" in capsys.readouterr().err

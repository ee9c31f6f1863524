"""How a stage runs: one at a time, its errors in a line; and where a training keeps its state."""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import pipelines.stages
from pipelines.config import load
from pipelines.running import runner
from pipelines.running.runner import checkpoint_folder

from conftest import ROOT  # isort: skip


@pytest.fixture
def ended(tmp_path, monkeypatch, capsys):
    """Runs lines as the stage `made`, in a folder with params.yaml; gives the exit status and what it printed."""
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    stages = tmp_path / "stages"
    stages.mkdir()
    monkeypatch.setattr(runner, "STAGES", stages)
    monkeypatch.setattr(runner, "PATIENCE", 0.1)
    monkeypatch.setattr(pipelines.stages, "__path__", [*pipelines.stages.__path__, str(stages)])

    def run(*lines: str, arguments: tuple[str, ...] = ("made", "one")) -> tuple[object, str]:
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        (stages / "made.py").write_text(f"import os, torch\n\n\ndef main(params, name):\n{body}\n")
        monkeypatch.delitem(sys.modules, "pipelines.stages.made", raising=False)
        try:
            runner.run(*arguments)
        except SystemExit as status:
            return (1, status.code) if isinstance(status.code, str) else (status.code, capsys.readouterr().err)
        return 0, ""

    return run


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torch.empty(2**60)", "this machine's memory"),
        ("bytearray(2**62)", "this machine's memory is full (MemoryError)"),
        ("raise torch.OutOfMemoryError('CUDA out of memory: 2 GiB\\nmore')", "the GPU's memory is full (CUDA out of"),
        ("raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling')", "the GPU's memory"),
        ("from joblib.externals.loky.process_executor import TerminatedWorkerError as it; raise it", "jobs.count"),
        ("raise OSError(28, 'No space left', 'models/one')", "no space left on the disk for models/one"),
        ("raise ValueError('data/one: no rows\\ndata/two: no rows')", "made@one: data/two: no rows"),
    ],
)  # fmt: skip
def test_errors_that_a_user_can_mend_are_a_line_that_names_the_stage(ended, line, expected):
    code, message = ended(line)
    assert code == 1
    assert message.startswith("made@one: ")
    assert expected in message
    assert "Traceback" not in message


def test_a_bug_keeps_its_traceback_and_so_does_everything_if_asked(ended, monkeypatch):
    with pytest.raises(RuntimeError, match="size of tensor"):
        ended("torch.zeros(2) + torch.zeros(3)")
    monkeypatch.setenv("RANKGRAD_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no rows"):
        ended("raise ValueError('no rows')")


def test_a_stage_that_does_not_exist_and_missing_names_are_refused(ended):
    for words, expected in (("", "expected one of made"), ("mad one", "expected one of made"), ("made", "name"),
                            ("made a b", "too many")):  # fmt: skip
        code, message = ended(arguments=tuple(words.split()))
        assert (code, expected in message) == (1, True), message


def test_params_decide_on_threads_and_compilation(ended, monkeypatch):
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "")
    path = Path("params.yaml")
    path.write_text(path.read_text().replace("threads: 1", "threads: 3").replace("compile: false", "compile: true"))
    code, message = ended(
        "print(torch.get_num_threads(), os.environ['ACCELERATE_DYNAMO_BACKEND'], file=open('said', 'w'))"
    )
    assert code == 0, message
    assert Path("said").read_text().split() == ["3", "INDUCTOR"]


def test_a_second_process_of_a_stage_does_nothing_and_ends_with_a_status_that_flows_retry(ended):
    Path(".locks").mkdir()
    with FileLock(".locks/made@one.lock"):
        code, message = ended("open('ran', 'w')")
    assert code == os.EX_TEMPFAIL
    assert "made@one: another process" in message
    assert not Path("ran").exists()
    assert ended("open('ran', 'w')", arguments=("made", "two"))[0] == 0  # another name is another stage
    assert Path("ran").exists()


def begun(**params: float) -> Path:
    """A training's folder after an epoch."""
    known, inputs = load(ROOT / "params.yaml"), list(Path().glob("*.parquet"))
    folder = checkpoint_folder(known, "train", "label_ranking-rlsep", settings=params, inputs=inputs)
    (folder / "epoch-0001").mkdir(parents=True, exist_ok=True)
    return folder


def test_the_state_of_other_params_is_set_aside_and_resumed_once_they_are_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    aside = Path(".checkpoints/set_aside/train/label_ranking-rlsep")
    half = aside / f"{'f' * 16}.partial-7-removed"  # as a kill leaves it
    half.mkdir(parents=True)
    folders, resumed = [], []
    for time, rate in enumerate((0.1, 0.2, 0.1, 0.3, 0.4), 1):
        folder = begun(rate=rate)
        assert [*folder.parent.iterdir()] == [folder]
        resumed.append((folder / "epoch-0002").exists())
        (folder / "epoch-0002").mkdir(exist_ok=True)
        os.utime(folder, ns=(time, time))
        folders.append(folder)
    assert not half.exists()
    first, _, again, third, _ = folders
    assert (again, resumed) == (first, [False, False, True, False, False])
    # Of three, the two that were worked on last.
    assert {path.name for path in aside.iterdir()} == {first.name, third.name}


def test_other_data_are_another_state_and_another_trainings_code_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = []
    for content in (b"old scenes", b"new scenes", b"old scenes"):
        Path("train.parquet").write_bytes(content)
        result.append(begun())
    assert result[0] == result[2] != result[1]
    import rankgrad.losses.hinge_ap  # noqa: F401 imported for another run

    assert begun() == result[0]


def test_a_package_of_another_version_than_the_recorded_one_stops_a_stage(ended):
    recorded = Path("checks/code/made@one.txt")
    recorded.parent.mkdir(parents=True)
    installed = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    recorded.write_text(f"torch {installed}\n")
    assert ended() == (0, "")
    recorded.write_text("torch 1.13\n")
    status, message = ended()
    assert status == 1
    assert re.search(r"torch is.*1\.13.*dvc repro --force code", message)


@pytest.mark.parametrize(
    ("line", "changed"),
    [("pass", ""),
     ("Path('params.yaml').write_text(text.replace('rate: 1', 'rate: 2'))", "runs.one.rate"),
     ("Path('params.yaml').write_text(text.replace('rate: 3', 'rate: 4'))", ""),  # of another run
     ("Path('raw/late.csv').write_text('row')", "raw/late.csv"),
     ("Path('raw/first.csv').unlink()", "raw/first.csv"),
     ("Path('raw/.first.csv.swp').write_text('')", "")],  # an editor's
)  # fmt: skip
@pytest.mark.parametrize("by_dvc", [True, False])  # which records them afterwards
def test_a_stage_whose_sources_change_meanwhile_fails_and_flows_try_again(ended, monkeypatch, line, changed, by_dvc):
    made = "{foreach: '${runs}', do: {params: ['runs.${key}.rate'], deps: ['${item.raw}']}}"
    Path("dvc.yaml").write_text(f"stages: {{made: {made}}}")
    Path("params.yaml").write_text("runs: {one: {raw: raw, rate: 1}, two: {raw: raw, rate: 3}}")
    Path("raw").mkdir()
    Path("raw/first.csv").write_text("row")
    monkeypatch.setattr(runner, "load", lambda: load(ROOT / "params.yaml"))
    if by_dvc:
        monkeypatch.setenv("DVC_STAGE", "made@one")
    code, message = ended("from pathlib import Path", "text = Path('params.yaml').read_text()", line)
    assert code == (os.EX_TEMPFAIL if changed and by_dvc else 0)
    assert code == 0 or changed in message

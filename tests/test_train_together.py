"""One training in two processes: it ends where one process does, alike in both; and nothing outlives its error."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.ops.launch import _pickled, train_together
from rankops.io.checkpoints import build
from rankops.training.loop import compute, fit, random_batches
from rankops.training.objective import Criterion, grouped

ROOT = Path(__file__).parents[1]
OPTIONS = {
    "judged_by": "error", "lower_is_better": True, "epochs": 4, "patience": 10, "batches_per_epoch": 4,
    "optimizer": {"name": "SGD", "args": {"lr": 0.2, "momentum": 0.9}, "clip": 1.0}, "seed": 3, "device": "cpu",
    "schedule": {"name": "cosine"},
}  # fmt: skip


def network_of(draws, *layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), *layers, nn.Tanh(), nn.Linear(8, 1))


def result_of(epochs, *modules):
    return {"epochs": epochs, "weights": [module.state_dict() for module in modules]}


def ranked(share):
    """A network without batch normalization; its loss ranks groups of four by a sorter that is fine-tuned."""
    draws = torch.Generator().manual_seed(0)
    inputs, target = torch.randn(64, 5, generator=draws), torch.randn(64, generator=draws)
    network, sorter = network_of(draws), build("sorters", "lstm", {"hidden": 4}, seed=0, length=4)
    criterion = Criterion({"name": "spearman", "args": {}}, sorter=sorter, fine_tune={"name": "SGD", "args": {"lr": 1}})

    def loss(network, rows):
        scores = network[2](network[:2](inputs[rows])).squeeze(1)  # as a head is called, past the network's own forward
        return criterion(grouped(scores, 4), grouped(target[rows], 4), epoch=1)

    epochs = list(fit(
        network, loss=loss, validate=lambda network: {"error": (network(inputs)[:, 0] - target).abs().mean().item()},
        batches=lambda generator: random_batches(64, 16, generator, multiple_of=4, share=share),
        state=criterion.state, **OPTIONS,
    ))  # fmt: skip
    return result_of(epochs, network, sorter)


class Interrupted(Exception):
    pass


def normalized(share, checkpoint=None, until=None):
    """A network with batch normalization and dropout, of which an average is kept; interrupted in one batch."""
    draws = torch.Generator().manual_seed(0)
    inputs, outputs = torch.randn(66, 5, generator=draws), torch.randn(66, 1, generator=draws)
    network, seen = network_of(draws, nn.BatchNorm1d(8), nn.Dropout(0.3)), []

    def loss(network, rows):
        seen.append(rows)
        if len(seen) == until:
            raise Interrupted
        return (network(inputs[rows]) - outputs[rows]).square().mean()

    epochs = []
    try:
        for epoch in fit(
            network, loss=loss, validate=lambda network: {"error": (network(inputs) - outputs).square().mean().item()},
            batches=lambda generator: random_batches(66, 16, generator, share=share),
            average=0.5, checkpoint=checkpoint, **OPTIONS,
        ):  # fmt: skip
            epochs.append(epoch)
    except Interrupted:
        pass
    return result_of(epochs, network) | {"batches": len(seen)}


def train_all(folder):
    """What each process does; all batches are seen by both, so both are interrupted in the same."""
    here = compute(device="auto", precision="no")
    share = (here.process_index, here.num_processes)
    results = {"ranked": ranked(share), "whole": normalized(share)}
    results["interrupted"] = normalized(share, folder / "checkpoint", until=11)
    results["resumed"] = normalized(share, folder / "checkpoint")
    results["again"] = normalized(share, folder / "checkpoint")
    torch.save(results | {"threads": torch.get_num_threads()}, folder / f"{here.process_index}.pt")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two processes found."""
    folder = tmp_path_factory.mktemp("together")
    train_together(train_all, folder, processes=2, device="cpu", threads=3)
    return [torch.load(folder / f"{process}.pt", weights_only=False) for process in (0, 1)]


def largest_difference(one, other):
    return max(
        (value.double() - other["weights"][number][key].double()).abs().max().item()
        for number, state in enumerate(one["weights"])
        for key, value in state.items()
    )


def test_two_processes_end_where_one_does(both):
    alone = ranked((0, 1))
    for found in both:
        assert largest_difference(found["ranked"], alone) < 1e-6
        for epoch, expected in zip(found["ranked"]["epochs"], alone["epochs"], strict=True):
            assert epoch.loss == pytest.approx(expected.loss, abs=1e-6)
            assert epoch.validation == pytest.approx(expected.validation, abs=1e-6)
        assert found["threads"] == 1


def test_processes_that_saw_other_rows_end_alike_and_resume_with_the_same_bits(both):
    first, second = both
    for kind in ("ranked", "whole", "resumed", "again"):
        assert first[kind]["epochs"] == second[kind]["epochs"]
        assert len(first[kind]["epochs"]) == 4
        assert largest_difference(first[kind], second[kind]) == 0
    for found in both:
        assert len(found["interrupted"]["epochs"]) == 1
        # Four batches an epoch, and once more for the statistics of the averaged weights.
        assert [found[kind]["batches"] for kind in ("whole", "interrupted", "resumed", "again")] == [32, 11, 24, 0]
        for kind in ("resumed", "again"):
            assert found[kind]["epochs"] == found["whole"]["epochs"]
            assert largest_difference(found[kind], found["whole"]) == 0


def test_shares_make_the_batches_of_one_process():
    whole = list(random_batches(50, 12, torch.Generator().manual_seed(1), multiple_of=2))
    draws = [torch.Generator().manual_seed(1) for _ in range(3)]
    shares = [list(random_batches(50, 12, each, multiple_of=2, share=(k, 3))) for k, each in enumerate(draws)]
    for batch, *parts in zip(whole, *shares, strict=False):
        assert torch.cat(parts).equal(batch)
        assert {len(part) for part in parts} == {4}
    assert [len(share) for share in shares] == [4, 4, 4]  # the last two rows are one group, which does not divide
    assert len({torch.rand(1, generator=each).item() for each in draws}) == 3
    with pytest.raises(ValueError, match="batches of 4 rows in groups of 4 cannot be shared by 2 processes"):
        next(random_batches(50, 4, torch.Generator(), multiple_of=4, share=(0, 2)))


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    for device in ("auto", "cuda"):
        with pytest.raises(ValueError, match="train_processes is 3, but torch finds 2 GPUs: expected at most one"):
            train_together(train_all, None, processes=3, device=device, threads=1)


class BrokenRow(Exception):
    """Comes back from no pickle: that calls it with what Exception was given."""

    def __init__(self, file, row):
        super().__init__(f"{file}: row {row} is broken")


@pytest.mark.parametrize("kind", [BrokenRow, lambda file, row: ValueError(f"{file}: row {row} is broken")])
def test_an_error_reaches_the_other_process_with_its_text_and_its_traceback(kind):
    try:
        raise kind("train.parquet", 3)
    except Exception as error:
        found = pickle.loads(_pickled(error, 1))
    said = "\n".join([str(found), *found.__notes__] if hasattr(found, "__notes__") else [str(found)])
    assert "train.parquet: row 3 is broken" in str(found)
    assert "In process 1:" in said
    assert 'raise kind("train.parquet", 3)' in said


STAGE = """
import os, signal, sys, time
from pathlib import Path
import torch
from accelerate import PartialState
from pipelines.stages.runner import run
from pipelines.ops.launch import train_together

def work(what):
    process = PartialState().process_index
    Path(f"process-{process}").write_text(str(os.getpid()))
    if process == 1:
        while not Path("process-0").exists():
            time.sleep(0.01)
        if what == "error":
            raise FloatingPointError("the loss became nan")
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    torch.distributed.barrier()

def main(params, what):
    train_together(work, what, processes=2, device="cpu", threads=2)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
    run(main)
"""


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("error", "stage@error: the loss became nan\n"),
        ("killed", "stage@killed: process 1 of 2 was killed by SIGKILL (for memory?): `dvc repro` goes on from"),
        ("interrupt", "stage@interrupt: interrupted; `dvc repro` goes on from the last whole epoch\n"),
        ("orphan", ""),
    ],
)
def test_all_processes_end_and_one_line_says_why(tmp_path, what, said):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "stage.py").write_text(STAGE)
    stage = subprocess.Popen(
        [sys.executable, "stage.py", what], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
    )  # fmt: skip
    files = [tmp_path / f"process-{process}" for process in (0, 1)]
    deadline = time.monotonic() + 120
    while not all(file.exists() and file.read_text() for file in files) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes = [int(file.read_text()) for file in files]
    if what == "interrupt":
        os.killpg(stage.pid, signal.SIGINT)  # as a terminal does
    elif what == "orphan":
        stage.kill()
    _, errors = stage.communicate(timeout=60)
    assert stage.returncode != 0
    assert errors.startswith(said)
    assert errors.count("\n") == bool(said), errors
    deadline = time.monotonic() + 10
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, processes))

"""What takes minutes: stages killed at random moments, a disk that is full, two clones compared."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

# The first test waits for two whole pipelines; beside other work each takes its time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LONGER = (("    scorer:\n      batch_size: 64\n      shift: 4", "    scorer:\n      batch_size: 8\n      shift: 4"),)


def longer(project) -> None:
    """Trainings that take long enough to be killed in the middle."""
    for old, new in LONGER:
        project.replace("params.yaml", old, new)
    text = project.read("params.yaml")
    (project.folder / "params.yaml").write_text(text.replace("epochs: 2", "epochs: 12"))


@pytest.fixture(scope="module")
def undisturbed(new_project):
    project = new_project("undisturbed")
    longer(project)
    project.run("dvc repro")
    return project


def children_of(folder: Path) -> list[int]:
    """Stage processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pipelines.stages" in (process / "cmdline").read_bytes() and (process / "cwd").resolve() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_two_clones_give_the_same_lock(undisturbed, new_project):
    other = new_project("other")
    longer(other)
    other.run("dvc repro")
    assert other.read("dvc.lock") == undisturbed.read("dvc.lock")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("victim", ["dvc", "stage", "interrupt"])
def test_killed_at_random_moments_it_ends_with_the_same_lock(undisturbed, new_project, victim, seed):
    moments = random.Random(f"{victim}{seed}")
    project = new_project(f"{victim}{seed}")
    longer(project)
    for _ in range(4):
        process = subprocess.Popen(
            ["dvc", "repro"], cwd=project.folder, env=project.environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            process.wait(moments.uniform(4, 30))
        except subprocess.TimeoutExpired:
            if victim == "dvc":
                process.kill()
            elif victim == "interrupt":
                os.killpg(process.pid, signal.SIGINT)
            else:
                for child in children_of(project.folder):
                    os.kill(child, signal.SIGKILL)
            process.wait(60)
            deadline = time.monotonic() + 10
            while children_of(project.folder) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert not children_of(project.folder), "a stage outlived dvc"
    # As `make repro` does: an interrupt may hit dvc itself while it writes its list of running stages.
    project.run("rankops mend && dvc repro")
    assert project.read("dvc.lock") == undisturbed.read("dvc.lock")
    assert not [path for path in project.folder.rglob("*.partial-*") if ".dvc" not in path.parts]
    assert not list((project.folder / ".checkpoints").rglob("epoch-*"))


def working_in(folder: Path) -> list[int]:
    """All processes that work in a folder; those that a stage starts do not have its name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder and (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_training_in_two_processes_is_killed_and_ends_with_the_same_lock(new_project):
    project, target = new_project("two_processes"), "train@label_ranking-rlsep"
    longer(project)
    project.replace("params.yaml", "train_processes: 1", "train_processes: 2")
    project.run(f"dvc repro {target}")
    expected = project.read("dvc.lock")
    assert "train_processes: 2" in expected

    def kept() -> set[Path]:
        return set(project.folder.glob(".checkpoints/train/*/*/scorer/epoch-*[0-9]"))

    for victim in ("dvc", "stage", "worker", "interrupt"):
        before = kept()
        process = subprocess.Popen(
            ["dvc", "repro", "--force", "--single-item", target], cwd=project.folder, env=project.environment,
            start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while kept() <= before and time.monotonic() < deadline:
            time.sleep(0.02)
        stages = children_of(project.folder)
        if victim == "dvc":
            process.kill()
        elif victim == "interrupt":
            os.killpg(process.pid, signal.SIGINT)
        elif victim == "stage":
            for stage in stages:
                os.kill(stage, signal.SIGKILL)
        else:
            os.kill(max(set(working_in(project.folder)) - set(stages)), signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        assert process.returncode != 0
        assert ("of 2 was killed by SIGKILL" in said) == (victim == "worker")
        deadline = time.monotonic() + 10
        while working_in(project.folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not working_in(project.folder), "a process outlived dvc"
    project.run(f"rankops mend && dvc repro --force --single-item {target}")
    assert project.read("dvc.lock") == expected
    assert not list(project.folder.glob("models/**/*.partial-*"))
    assert not list(project.folder.glob(".checkpoints/**/epoch-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize(
    ("stage", "folder"),
    [("digits", "data"), ("train label_ranking-rlsep", ".checkpoints"), ("train label_ranking-rlsep", "models")],
)
def test_a_full_disk_is_told_and_leaves_nothing_half_written(new_project, stage, folder):
    project = new_project("full")
    if stage != "digits":
        project.run("dvc repro validate@ranked_mnist")
    project.run(f"mkdir -p {folder} && mount -t tmpfs -o size=60k tmpfs {folder}")
    try:
        said = project.run(f"PYTHONPATH=src python -m pipelines.stages.{stage}", fails=True)
        assert f"{stage.replace(' ', '@')}: no space left on the disk" in said
        assert "Traceback" not in said
        assert not [path for path in (project.folder / folder).rglob("*") if path.is_file()]
    finally:
        project.run(f"umount {folder}")
    target = stage.replace(" ", "@")
    assert f"Running stage '{target}'" in project.run(f"dvc repro {target}")


def test_experiments_at_a_tiny_scale(undisturbed):
    """Every stage over a few runs of each task, the report and the papers' figures, kept results; then nothing."""
    undisturbed.run("rankops scale tiny --in experiments")
    path = undisturbed.folder / "experiments/params.yaml"
    values = YAML(typ="safe").load(path)
    chosen = {
        *values["label_ranking_figures"]["runs"],
        "label_ranking-rlsep-averaged_views",
        "label_ranking-rlsep-fresh_scenes",
    }
    for task in ("memorability", "multilabel", "retrieval"):
        chosen |= {values["comparisons"][task]["baseline"], values["comparisons"][task]["runs"][-1]}
    values["runs"] = {name: run | {"grid": {}} for name, run in values["runs"].items() if name in chosen}
    values["comparisons"] = {
        name: block | {"runs": [run for run in block["runs"] if run in chosen]}
        for name, block in values["comparisons"].items()
        if block["baseline"] in chosen and chosen & set(block["runs"])
    }
    values["sorters"] = {name: values["sorters"][name] for name in ("lstm", "cnn", "cnn-2_layers", "handcrafted")}
    path.write_text(json.dumps(values))
    undisturbed.run("git add --all && git commit --quiet --message experiments")
    assert "Running stage" in undisturbed.run("cd experiments && dvc repro")
    assert "label_ranking-rlsep-fresh_scenes" in undisturbed.read("experiments/reports/index.html")
    assert len(list((undisturbed.folder / "experiments/reports/paper_figures").glob("*.png"))) == 6
    assert "Running stage" not in undisturbed.run("cd experiments && dvc repro")
    assert "up to date" in undisturbed.run("dvc status")
    undisturbed.run("python -m tools.keep tiny --in experiments")
    assert {path.stem for path in (undisturbed.folder / "results/tiny").glob("*.json")} == chosen

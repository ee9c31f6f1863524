"""From nothing to a promoted model by the schedule alone, with the real servers, and with every part of it killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from ruamel.yaml import YAML

from pipelines.model_server import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

VICTIMS = ("training", "dvc", "flow", "worker", "prefect", "mlflow")
PATTERNS = {
    "training": b"pipelines.stages.train", "dvc": b"dvc\0--wait-for-lock", "flow": b"prefect.engine",
    "worker": b"prefect\0worker",
}  # fmt: skip


class Site:
    """A tiny project with its own servers and a worker; the schedule is every other minute."""

    def __init__(self, project):
        self.project = project
        project.replace("params.yaml", "threads: 2", "threads: 1")
        project.run("git add --all && git commit --quiet --message tiny")
        self.ports = {"prefect": free_port(), "mlflow": free_port()}
        self.addresses = {name: f"http://127.0.0.1:{port}" for name, port in self.ports.items()}
        self.environment = project.environment | {
            "PREFECT_API_URL": f"{self.addresses['prefect']}/api",
            "MLFLOW_TRACKING_URI": self.addresses["mlflow"],
            "PREFECT_HOME": str(project.folder / ".servers/prefect"),
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "RANKOPS_POOL": "cpu",
            "RANKOPS_NIGHTLY": "*/2 * * * *",
            "PYTHONPATH": f"{project.folder}:{project.folder}/src",
        }
        self.serve()
        project.run("rankops deploy", **self.environment)
        self.work()

    def serve(self) -> None:
        ports = " ".join(f"--{name}-port {port}" for name, port in self.ports.items())
        self.project.run(f"rankops servers start {ports}", **self.environment)

    def work(self) -> None:
        self.worker = subprocess.Popen(
            [str(Path(sys.executable).parent / "prefect"), "worker", "start", "--pool", "cpu", "--type", "process"],
            cwd=self.project.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    def process_of(self, victim: str) -> int | None:
        if victim in self.ports:
            return json.loads(self.project.read(f".servers/{victim}.json"))["process"]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (
                    PATTERNS[victim] in (process / "cmdline").read_bytes()
                    and (process / "cwd").resolve().is_relative_to(self.project.folder)
                ):  # fmt: skip
                    return int(process.name)
            except OSError:
                continue
        return None

    def runs(self) -> list[dict]:
        """Of the flow `retrain`, those that are not waiting for their time."""
        answer = httpx.post(
            f"{self.addresses['prefect']}/api/flow_runs/filter", timeout=60,
            json={"sort": "EXPECTED_START_TIME_DESC", "limit": 200, "flows": {"name": {"any_": ["retrain"]}}},
        )  # fmt: skip
        return [run for run in answer.raise_for_status().json() if run["state_type"] != "SCHEDULED"]

    def wait_for(self, what, patience: float) -> object:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                if found := what():
                    return found
            except httpx.HTTPError:
                pass
            time.sleep(2)
        raise AssertionError(f"waited in vain: {[(run['name'], run['state_name']) for run in self.runs()]}")

    def completed(self) -> dict | None:
        return next((run for run in self.runs() if run["state_type"] == "COMPLETED"), None)

    def stop(self) -> None:
        self.worker.terminate()
        self.worker.wait(60)
        ports = " ".join(f"--{name}-port {port}" for name, port in self.ports.items())
        self.project.run(f"rankops servers stop {ports}", **self.environment)


@pytest.fixture
def site(new_project, request):
    made = Site(new_project(f"site-{request.node.name}"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def plain(new_project):
    """What a plain `dvc repro` of the same params makes."""
    project = new_project("plain")
    project.replace("params.yaml", "threads: 2", "threads: 1")
    project.replace("params.yaml", "snapshot: 1", "snapshot: 2")
    project.run("dvc repro")
    return project


def check_outcome(site: Site, plain) -> None:
    """The right lock on a branch of its own, everything published once, one champion, nothing left over."""
    (branch, *more) = site.project.run("git for-each-ref --format='%(refname:short)' refs/heads/retrain/").split()
    assert not more
    # As data: without a lock to begin with, the order of its entries is that in which DVC came to them.
    texts = site.project.run(f"git show {branch}:dvc.lock"), plain.read("dvc.lock")
    locks = [YAML(typ="safe").load(text) for text in texts]
    assert locks[0] == locks[1]
    assert site.project.run("git status --porcelain") == ""
    assert not (site.project.folder / ".retrain/worktree").exists()
    mlflow = site.addresses["mlflow"]

    def asked(path: str, **body) -> dict:
        return httpx.post(f"{mlflow}/api/2.0/mlflow/{path}", json=body, timeout=60).raise_for_status().json()

    experiments = [one["experiment_id"] for one in asked("experiments/search", max_results=100)["experiments"]]
    runs = asked("runs/search", experiment_ids=experiments, max_results=1000)["runs"]
    finished = [run["info"]["run_name"] for run in runs if run["info"]["status"] == "FINISHED"]
    assert len(finished) == len(set(finished)) == 11
    assert not [run["info"]["run_name"] for run in runs if run["info"]["status"] == "RUNNING"]
    models = httpx.get(f"{mlflow}/api/2.0/mlflow/registered-models/search", timeout=60).json()["registered_models"]
    assert len(models) == 6
    for model in models:
        assert sum(alias["alias"] == "champion" for alias in model["aliases"]) == 1
    for run in site.runs():
        assert run["state_type"] in ("COMPLETED", "CRASHED", "FAILED", "CANCELLED"), run["state_name"]


def test_the_schedule_alone_retrains_publishes_and_gates(site, plain):
    run = site.wait_for(site.completed, patience=1800)
    assert run["auto_scheduled"]
    assert run["parameters"]["reason"] == "new data"
    check_outcome(site, plain)


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_five_times_at_random_moments_the_next_runs_end_well(site, plain, victim):
    moments = random.Random(victim)
    for _ in range(5):
        time.sleep(moments.uniform(5, 40))
        process = site.process_of(victim)
        if process is None:  # nothing of that kind runs now
            continue
        os.kill(process, signal.SIGKILL)
        if victim == "worker":
            site.worker.wait(10)
            site.work()
        if victim in site.ports:
            time.sleep(moments.uniform(0, 20))
            site.serve()
    site.wait_for(site.completed, patience=2700)
    site.wait_for(lambda: all(run["state_type"] != "RUNNING" for run in site.runs()), patience=300)
    check_outcome(site, plain)

"""From nothing to a promoted model by the schedule alone, with the real servers of `make up`, each part of it killed.

RANKGRAD_KILLS says how often each part is killed (2).
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from ruamel.yaml import YAML

from pipelines.config import load
from pipelines.tracking.gate import models_of

from conftest import free_port, listening, processes_in, shorten, wait_for  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

VICTIMS = {
    "training": "pipelines.stages\0train", "dvc": "dvc\0--wait-for-lock", "flow": "prefect.engine",
    "worker": "prefect\0worker", "prefect": "prefect\0server\0start", "mlflow": "mlflow\0server",
}  # fmt: skip
PARTS = ("worker", "prefect", "mlflow")  # of the Procfile: the end of one ends all


class Site:
    """A tiny project with its own servers and a worker, which retrains every other minute."""

    def __init__(self, project, webhook: str, alerts: list):
        shorten(project.folder / "params.yaml")
        project.run("git add --all && git commit --quiet --message site")
        self.alerts = alerts  # what the webhook has heard
        self.project, self.params = project, load(project.folder / "params.yaml")
        ports = {"prefect": free_port(), "mlflow": free_port()}
        self.prefect, self.mlflow = (f"http://127.0.0.1:{port}" for port in ports.values())
        settings = [f"{name.upper()}_PORT={port}" for name, port in ports.items()]
        # Of the tests' own environment, which is not made anew.
        self.make = ["make", "-o", ".venv/.installed", f"BIN={Path(sys.executable).parent}", *settings]
        self.up()
        project.run(f"{' '.join(self.make)} deploy NIGHTLY='*/2 * * * *'", RANKGRAD_ALERTS_URL=webhook)

    def up(self) -> None:
        (self.project.folder / ".servers").mkdir(exist_ok=True)
        log = (self.project.folder / ".servers/log").open("a")
        self.servers = subprocess.Popen(
            [*self.make, "up"], cwd=self.project.folder, env=self.project.environment, stdout=log, stderr=log
        )
        for address in (f"{self.prefect}/api/health", f"{self.mlflow}/health"):
            self.wait_for(lambda address=address: httpx.get(address, timeout=5).is_success, patience=300)

    def ask(self, path: str, **body) -> dict | list:
        """Return what Prefect or MLflow answers."""
        server = f"{self.mlflow}/api/2.0" if path.startswith("mlflow/") else f"{self.prefect}/api"
        return httpx.post(f"{server}/{path}", json=body, timeout=60).raise_for_status().json()

    def registered(self, path: str, **chosen: str) -> dict:
        """Return what MLflow's registry answers."""
        answer = httpx.get(f"{self.mlflow}/api/2.0/mlflow/{path}", params=chosen, timeout=60)
        return answer.raise_for_status().json()

    def runs(self) -> list[dict]:
        """Return the runs of the flow `retrain` that are not waiting for their time."""
        chosen = {"sort": "EXPECTED_START_TIME_DESC", "limit": 200, "flows": {"name": {"any_": ["retrain"]}}}
        return [run for run in self.ask("flow_runs/filter", **chosen) if run["state_type"] != "SCHEDULED"]

    def completed(self, since: str = "") -> dict | None:
        """Return the newest completed run, if it began after a moment."""
        done = [run for run in self.runs() if run["state_type"] == "COMPLETED" and run["start_time"] > since]
        return done[0] if done else None

    def pause(self, paused: bool = True) -> None:
        """Have no new runs, and wait for those under way; or have new ones again."""
        for deployment in self.ask("deployments/filter"):
            patch = partial(httpx.patch, f"{self.prefect}/api/deployments/{deployment['id']}", json={"paused": paused})
            self.wait_for(lambda patch=patch: patch(timeout=60).raise_for_status(), patience=60)  # a busy server: 503
        ended = ("COMPLETED", "CRASHED", "FAILED", "CANCELLED")
        if paused:
            self.wait_for(lambda: all(run["state_type"] in ended for run in self.runs()), patience=1200)

    def champions(self, name: str) -> list[str]:
        aliases = self.registered("registered-models/get", name=name)["registered_model"]["aliases"]
        return [alias["version"] for alias in aliases if alias["alias"] == "champion"]

    def process_of(self, victim: str) -> int | None:
        for process in processes_in(self.project.folder):
            with suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_text()
                # Not the shells around it.
                if VICTIMS[victim] in command and not command.startswith(("/bin/sh", "/bin/bash")):
                    return process
        return None

    def wait_for(self, what, patience: float, every: float = 2.0):
        """Return what a function returns once that is true and the servers answer."""

        def answered():
            with suppress(httpx.HTTPError):
                return what()

        return wait_for(answered, patience, every=every)


@pytest.fixture(scope="module")
def site(new_project, tmp_path_factory):
    project = new_project("site")
    project.environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # what tools leave there is not the project's
    with listening(lambda _: (200, None)) as (address, heard):
        made = Site(project, address, heard)
        yield made
    made.servers.send_signal(signal.SIGTERM)
    made.servers.wait(60)


def keys_of(tags: list[dict[str, str]]) -> list[str]:
    return [tag["value"] for tag in tags if tag["key"] == "ranking.key"]


def check_outcome(site: Site, new_project) -> None:
    """The right lock on the newest branch, everything published once, one champion a model, nothing left over."""
    project = site.project
    branches = project.run("git for-each-ref --format='%(refname:short)' refs/heads/retrain/").split()
    text = {branch: project.run(f"git show {branch}:params.yaml") for branch in branches}
    snapshots = {branch: YAML(typ="safe").load(params)["data"]["snapshot"] for branch, params in text.items()}
    newest = max(branches, key=snapshots.__getitem__)
    assert sorted(snapshots.values()) == list(range(2, 2 + len(branches)))
    plain = new_project(f"plain{snapshots[newest]}")  # what `dvc repro` of the same params makes, all trained anew
    (plain.folder / "params.yaml").write_text(text[newest])
    # A new lock would have its entries in the order in which DVC came to them.
    expected = project.run(f"git show {newest}:dvc.lock")
    (plain.folder / "dvc.lock").write_text(expected)
    plain.run("dvc repro --force")
    assert plain.read("dvc.lock") == expected
    assert project.run("git status --porcelain") == ""
    assert project.run("git rev-parse --abbrev-ref HEAD").strip() == "main"
    assert not (project.folder / ".retrain/checkout").exists()
    assert not [name for name in ("training", "dvc", "flow") if site.process_of(name)]

    known_experiments = site.ask("mlflow/experiments/search", max_results=100)["experiments"]
    experiments = [entry["experiment_id"] for entry in known_experiments]
    runs = site.ask("mlflow/runs/search", experiment_ids=experiments, max_results=5000)["runs"]
    assert not [run["info"]["run_name"] for run in runs if run["info"]["status"] == "RUNNING"]
    models = [name for name in models_of(site.params) if name != "sorter-laplace"]  # which has no weights to register
    assert all(len(site.champions(name)) == 1 for name in models)
    keys = set()
    for name in models:
        versions = site.registered("model-versions/search", filter=f"name='{name}'", max_results="200")
        keys |= {key for version in versions["model_versions"] for key in keys_of(version["tags"])}
    finished = [run["data"]["tags"] for run in runs if run["info"]["status"] == "FINISHED"]
    published = [key for tags in finished for key in keys_of(tags) if key in keys]
    assert sorted(published) == sorted(keys)  # each once
    assert not [limit for limit in site.ask("v2/concurrency_limits/filter") if limit["active_slots"]]
    assert {"results", "gate", "stages"} <= {entry["key"] for entry in site.ask("artifacts/latest/filter")}


def test_the_schedule_alone_retrains_publishes_and_gates(site, new_project):
    run = site.wait_for(site.completed, patience=1800)
    assert run["auto_scheduled"]
    assert run["parameters"]["reason"] == "new data"
    site.pause()
    check_outcome(site, new_project)
    # What was published through the server is there without it.
    without = {"MLFLOW_TRACKING_URI": f"sqlite:///{site.project.folder}/mlflow.db", "PYTHONPATH": "src"}
    code = 'from rankgrad.sorters import load_sorter; print(load_sorter("models:/sorter-comparator@champion"))'
    assert "Comparator" in site.project.run(f"python -c '{code}'", **without)


def test_a_run_that_fails_is_told_to_the_webhook(site):
    command = """prefect deployment run retrain/retrain --param only='["nonsense"]'"""
    site.project.run(command, PREFECT_API_URL=f"{site.prefect}/api")

    def told() -> int:
        return sum("nonsense" in message["text"] for _, _, message in site.alerts)

    site.wait_for(told, patience=300)
    time.sleep(5)
    assert told() == 1


def test_each_part_is_killed_and_the_next_scheduled_run_completes(site, new_project):
    other = "1" if site.champions("score_ranking-clips") != ["1"] else "2"
    moved = {"name": "score_ranking-clips", "alias": "champion", "version": other}
    site.ask("mlflow/registered-models/alias", **moved)  # as a person does on MLflow's pages
    site.pause(False)
    draws = random.Random(0)
    order = list(VICTIMS) * int(os.environ.get("RANKGRAD_KILLS", "2"))
    draws.shuffle(order)
    for victim in order:
        short = victim in ("training", "dvc")  # they are over within seconds
        killed = False
        while not killed:
            site.wait_for(partial(site.process_of, victim), patience=900, every=0.1 if short else 2.0)
            time.sleep(draws.uniform(0, 0.5 if short else 20))
            with suppress(ProcessLookupError):
                if process := site.process_of(victim):
                    os.kill(process, signal.SIGKILL)
                    killed = True
        if victim in PARTS:
            site.servers.wait(60)  # all end with it
            time.sleep(draws.uniform(0, 10))
            site.up()
    last = datetime.now(UTC).isoformat()
    site.wait_for(lambda: site.completed(since=last), patience=2700)
    site.pause()
    check_outcome(site, new_project)
    assert site.champions("score_ranking-clips") == [other]  # what a person chose is never replaced silently


def test_one_model_is_retrained_with_another_value_and_a_wrong_one_is_refused_before_anything_runs(site):
    def branches() -> list[str]:
        return site.project.run("git for-each-ref --format='%(refname)' refs/heads/retrain/").split()

    def retrain(change: str, **options) -> str:
        chosen = f"""--param only='["memorability-mse"]' --param set='["runs.memorability-mse.{change}"]'"""
        command = f"prefect deployment run retrain/retrain --watch --param advance=false {chosen}"
        return site.project.run(command, PREFECT_API_URL=f"{site.prefect}/api", **options)

    before = branches()
    assert "nonsense" in retrain("loss.args.nonsense=1", fails=True)
    assert branches() == before
    retrain("seeds=[2, 3]")  # the run that it is compared with has seed 2 too
    (newest,) = {*branches()} - {*before}
    params = YAML(typ="safe").load(site.project.run(f"git show {newest}:params.yaml"))
    assert params["runs"]["memorability-mse"]["seeds"] == [2, 3]

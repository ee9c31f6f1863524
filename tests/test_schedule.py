"""From nothing to a promoted model by the schedule alone, with the real servers of `make up`, each part of it killed.

RANKOPS_KILLS says how often each part is killed (2).
"""

import os
import random
import shutil
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
from playwright.sync_api import sync_playwright
from ruamel.yaml import YAML

from pipelines.config import load
from pipelines.tracking.gate import known

from conftest import free_port, processes_in, shorten  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

VICTIMS = {
    "training": "pipelines.stages\0train", "dvc": "dvc\0--wait-for-lock", "flow": "prefect.engine",
    "worker": "prefect\0worker", "prefect": "prefect\0server\0start", "mlflow": "mlflow\0server",
}  # fmt: skip
PARTS = ("worker", "prefect", "mlflow")  # of the Procfile: the end of one ends all


class Site:
    """A tiny project with its own servers and a worker, which retrains every other minute."""

    set_by_hand: str | None = None  # the version that a person made champion

    def __init__(self, project):
        shorten(project)
        project.replace("prefect.yaml", "30 * * * *", "30 4 1 1 *")  # the nightly schedule is the only one
        project.run("git add --all && git commit --quiet --message site")
        self.project, self.params = project, load(project.folder / "params.yaml")
        ports = {"prefect": free_port(), "mlflow": free_port()}
        self.prefect, self.mlflow = (f"http://127.0.0.1:{port}" for port in ports.values())
        settings = [f"{name.upper()}_PORT={port}" for name, port in ports.items()]
        # Of the tests' own environment, which is not made anew.
        self.make = ["make", "-o", ".venv/.installed", f"BIN={Path(sys.executable).parent}", *settings]
        self.up()
        project.run(f"{' '.join(self.make)} deploy NIGHTLY='*/2 * * * *'")

    def up(self) -> None:
        (self.project.folder / ".servers").mkdir(exist_ok=True)
        log = (self.project.folder / ".servers/log").open("a")
        self.servers = subprocess.Popen(
            [*self.make, "up"], cwd=self.project.folder, env=self.project.environment, stdout=log, stderr=log
        )
        for address in (f"{self.prefect}/api/health", f"{self.mlflow}/health"):
            self.wait_for(lambda address=address: httpx.get(address, timeout=5).is_success, patience=300)

    def down(self) -> None:
        self.servers.send_signal(signal.SIGTERM)
        self.servers.wait(60)

    def process_of(self, victim: str) -> int | None:
        for process in processes_in(self.project.folder):
            with suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_text()
                # Not the shells around it.
                if VICTIMS[victim] in command and not command.startswith(("/bin/sh", "/bin/bash")):
                    return process
        return None

    def runs(self) -> list[dict]:
        """Return the runs of the flow `retrain` that are not waiting for their time."""
        chosen = {"sort": "EXPECTED_START_TIME_DESC", "limit": 200, "flows": {"name": {"any_": ["retrain"]}}}
        answer = httpx.post(f"{self.prefect}/api/flow_runs/filter", timeout=60, json=chosen)
        return [run for run in answer.raise_for_status().json() if run["state_type"] != "SCHEDULED"]

    def wait_for(self, what, patience: float, every: float = 2.0) -> object:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if result := what():
                    return result
            time.sleep(every)
        raise AssertionError(f"waited in vain: {[(run['name'], run['state_name']) for run in self.runs()]}")

    def completed(self, since: str = "") -> dict | None:
        """Return the newest completed run, if it began after a moment."""
        done = [run for run in self.runs() if run["state_type"] == "COMPLETED" and run["start_time"] > since]
        return done[0] if done else None

    def pause(self, paused: bool = True) -> None:
        """Have no new runs, and wait for those under way; or have new ones again."""
        deployments = f"{self.prefect}/api/deployments"
        for one in httpx.post(f"{deployments}/filter", json={}, timeout=60).raise_for_status().json():
            httpx.patch(f"{deployments}/{one['id']}", json={"paused": paused}, timeout=60).raise_for_status()
        ended = ("COMPLETED", "CRASHED", "FAILED", "CANCELLED")
        if paused:
            self.wait_for(lambda: all(run["state_type"] in ended for run in self.runs()), patience=1200)

    def ask(self, path: str, **body) -> dict:
        """Return what MLflow answers."""
        return httpx.post(f"{self.mlflow}/api/2.0/mlflow/{path}", json=body, timeout=60).raise_for_status().json()

    def champions(self, name: str) -> list[str]:
        """Return the versions of a model that are called champion."""
        answer = httpx.get(f"{self.mlflow}/api/2.0/mlflow/registered-models/get", params={"name": name}, timeout=60)
        aliases = answer.raise_for_status().json()["registered_model"]["aliases"]
        return [alias["version"] for alias in aliases if alias["alias"] == "champion"]


@pytest.fixture(scope="module")
def site(new_project, tmp_path_factory):
    project = new_project("site")
    project.environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # what tools leave there is not the project's
    made = Site(project)
    yield made
    made.down()


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

    experiments = [one["experiment_id"] for one in site.ask("experiments/search", max_results=100)["experiments"]]
    runs = site.ask("runs/search", experiment_ids=experiments, max_results=5000)["runs"]
    assert not [run["info"]["run_name"] for run in runs if run["info"]["status"] == "RUNNING"]
    models = [name for name in known(site.params) if name != "sorter-laplace"]  # which has no weights to register
    assert all(len(site.champions(name)) == 1 for name in models)
    keys = set()
    for name in models:
        chosen = {"filter": f"name='{name}'", "max_results": "200"}
        answer = httpx.get(f"{site.mlflow}/api/2.0/mlflow/model-versions/search", params=chosen, timeout=60)
        for version in answer.raise_for_status().json()["model_versions"]:
            keys |= {tag["value"] for tag in version["tags"] if tag["key"] == "rankops.key"}
    published = [
        tag["value"]
        for run in runs
        for tag in run["data"]["tags"]
        if tag["key"] == "rankops.key" and tag["value"] in keys and run["info"]["status"] == "FINISHED"
    ]
    assert sorted(published) == sorted(keys)  # each once
    limits = httpx.post(f"{site.prefect}/api/v2/concurrency_limits/filter", json={}, timeout=60).json()
    assert not [limit for limit in limits if limit["active_slots"]]


def test_the_schedule_alone_retrains_publishes_and_gates(site, new_project):
    run = site.wait_for(site.completed, patience=1800)
    assert run["auto_scheduled"]
    assert run["parameters"]["reason"] == "new data"
    site.pause()
    check_outcome(site, new_project)
    # What was published through the server is there without it.
    without = {"MLFLOW_TRACKING_URI": f"sqlite:///{site.project.folder}/mlflow.db", "PYTHONPATH": "src"}
    code = 'from rankops.sorters import load_sorter; print(load_sorter("models:/sorter-comparator@champion"))'
    assert "Comparator" in site.project.run(f"python -c '{code}'", **without)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def page(tmp_path):
    """A page of a real browser, which reaches nothing but this machine."""
    if CHROMIUM is None:
        pytest.skip("no chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 1400, "height": 900})
        opened.set_default_timeout(90_000)
        opened.route("**/*", lambda route: route.continue_() if "127.0.0.1" in route.request.url else route.abort())
        yield opened
        browser.close()


def keep(page, name: str, tmp_path: Path) -> None:
    """Take a picture of the page, into the folder that RANKOPS_SCREENSHOTS names, for the docs."""
    if (close := page.locator("[data-component-id='mlflow.assistant.chat_panel.close']")).count():
        close.click()
    page.wait_for_timeout(2000)
    page.screenshot(path=Path(os.environ.get("RANKOPS_SCREENSHOTS", tmp_path)) / f"{name}.png")


def test_two_runs_are_compared_in_mlflow(site, page, tmp_path):
    experiments = site.ask("experiments/search", max_results=100)["experiments"]
    (number,) = (one["experiment_id"] for one in experiments if one["name"] == "memorability")
    page.goto(f"{site.mlflow}/#/experiments/{number}/runs", wait_until="domcontentloaded")
    for _ in range(2):  # what is ticked has another label
        box = page.get_by_label("Press Space to toggle row selection (unchecked)").first
        box.wait_for()
        box.check(force=True)
        page.wait_for_timeout(500)
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Comparing 2 Runs").wait_for()
    page.get_by_text("spearman", exact=False).first.wait_for()
    keep(page, "mlflow-compare", tmp_path)


def test_a_person_moves_the_champion_in_mlflow(site, page, tmp_path):
    other = "1" if site.champions("memorability") != ["1"] else "2"
    page.goto(f"{site.mlflow}/#/models/memorability/versions/{other}", wait_until="domcontentloaded")
    page.locator("[data-component-id*=modelversionviewaliaseditor]").first.click()
    page.get_by_role("dialog").last.get_by_role("combobox").click()
    page.keyboard.type("champion")
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save aliases").click()
    page.get_by_role("dialog").last.wait_for(state="hidden")
    site.wait_for(lambda: site.champions("memorability") == [other], patience=30)
    site.set_by_hand = other
    keep(page, "mlflow-champion", tmp_path)


def test_the_runs_page_in_prefect_shows_results_and_the_gates_decision(site, page, tmp_path):
    page.goto(f"{site.prefect}/runs/flow-run/{site.completed()['id']}", wait_until="domcontentloaded")
    page.get_by_text("Artifacts", exact=True).last.click()
    for text in ("Results of all runs", "What the gate decided", "label_ranking-rlsep"):
        page.get_by_text(text, exact=False).first.wait_for()
    keep(page, "prefect-run", tmp_path)


def test_a_missing_pool_and_an_unknown_parameter_change_nothing(site):
    def deployments() -> list:
        answer = httpx.post(f"{site.prefect}/api/deployments/filter", json={}, timeout=60).raise_for_status().json()
        return sorted((one["name"], one["work_pool_name"], str(one["parameters"])) for one in answer)

    before, runs = deployments(), len(site.runs())
    assert "nowhere" in site.project.run(f"{' '.join(site.make)} deploy POOL=nowhere", fails=True)
    command = "prefect deployment run retrain/retrain --param nonsense=1"
    assert "nonsense" in site.project.run(command, fails=True, PREFECT_API_URL=f"{site.prefect}/api")
    assert (deployments(), len(site.runs())) == (before, runs)


def test_each_part_is_killed_and_the_next_scheduled_run_completes(site, new_project):
    site.pause(False)
    draws = random.Random(0)
    order = list(VICTIMS) * int(os.environ.get("RANKOPS_KILLS", "2"))
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
    # What a person chose is never replaced silently.
    if site.set_by_hand:
        assert site.champions("memorability") == [site.set_by_hand]

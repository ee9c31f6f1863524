"""From nothing to a promoted model by the schedule alone, with the real servers, and with every part of it killed."""

import json
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

from pipelines.config.schema import load

from conftest import ROOT, free_port  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

PARAMS = load(ROOT / "params.yaml")
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
        project.replace("prefect.yaml", "30 * * * *", "30 4 1 1 *")  # the other schedule, which would come in between
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
            "RANKOPS_PROJECT": str(project.folder),  # the worker's; deploying leaves it alone
            "PYTHONPATH": f"{project.folder}:{project.folder}/src",
        }
        self.serve()
        project.run("rankops deploy", **self.environment)
        self.work()

    set_by_hand: str | None = None  # the version that a person made champion

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

    def wait_for(self, what, patience: float, every: float = 2.0) -> object:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                if found := what():
                    return found
            except httpx.HTTPError:
                pass
            time.sleep(every)
        raise AssertionError(f"waited in vain: {[(run['name'], run['state_name']) for run in self.runs()]}")

    def completed(self, since: str = "") -> dict | None:
        """The newest run that has come to a good end, if it began after a moment."""
        return next(
            (run for run in self.runs() if run["state_type"] == "COMPLETED" and run["start_time"] > since), None
        )

    def _set_paused(self, paused: bool) -> None:
        deployments = f"{self.addresses['prefect']}/api/deployments"
        for one in httpx.post(f"{deployments}/filter", json={}, timeout=60).raise_for_status().json():
            httpx.patch(f"{deployments}/{one['id']}", json={"paused": paused}, timeout=60).raise_for_status()

    def pause(self) -> None:
        """No new runs; waits for those that are under way."""
        self._set_paused(True)
        ended = ("COMPLETED", "CRASHED", "FAILED", "CANCELLED")
        self.wait_for(lambda: all(run["state_type"] in ended for run in self.runs()), patience=1200)

    def resume(self) -> None:
        self._set_paused(False)

    def asked(self, path: str, **body) -> dict:
        """What MLflow answers."""
        address = f"{self.addresses['mlflow']}/api/2.0/mlflow/{path}"
        return httpx.post(address, json=body, timeout=60).raise_for_status().json()

    def champions(self, name: str) -> list[str]:
        """The versions of a model that are called champion."""
        address = f"{self.addresses['mlflow']}/api/2.0/mlflow/registered-models/get"
        found = httpx.get(address, params={"name": name}, timeout=60).raise_for_status().json()["registered_model"]
        return [alias["version"] for alias in found["aliases"] if alias["alias"] == "champion"]

    def stop(self) -> None:
        self.worker.terminate()
        try:
            self.worker.wait(30)
        except subprocess.TimeoutExpired:
            self.worker.kill()
            self.worker.wait(10)
        ports = " ".join(f"--{name}-port {port}" for name, port in self.ports.items())
        self.project.run(f"rankops servers stop {ports}", **self.environment)


@pytest.fixture(scope="module")
def site(new_project, tmp_path_factory):
    project = new_project("site")
    project.environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # what tools leave there is not the project's
    made = Site(project)
    yield made
    made.stop()


def check_outcome(site: Site, new_project) -> None:
    """The right lock on the newest branch, everything published once, one champion a model, nothing left over."""
    branches = site.project.run("git for-each-ref --format='%(refname:short)' refs/heads/retrain/").split()
    snapshots = {
        branch: YAML(typ="safe").load(site.project.run(f"git show {branch}:params.yaml"))["data"]["snapshot"]
        for branch in branches
    }
    newest = max(branches, key=snapshots.get)
    assert sorted(snapshots.values()) == list(range(2, 2 + len(branches)))
    plain = new_project(f"plain{snapshots[newest]}")  # what `dvc repro` of the same params makes
    plain.replace("params.yaml", "threads: 2", "threads: 1")
    plain.replace("params.yaml", "snapshot: 1", f"snapshot: {snapshots[newest]}")
    # Without a lock to begin with, the order of its entries is that in which DVC came to them: it keeps those of this
    # one, of which nothing is there, so that all is trained.
    wanted = site.project.run(f"git show {newest}:dvc.lock")
    (plain.folder / "dvc.lock").write_text(wanted)
    output = plain.run("dvc repro")
    trained = sum(output.count(f"Running stage '{stage}") for stage in ("train", "pretrain"))
    assert trained == len(PARAMS.all_runs) + len(PARAMS.sorters)
    assert plain.read("dvc.lock") == wanted
    assert site.project.run("git status --porcelain") == ""
    assert site.project.run("git rev-parse --abbrev-ref HEAD").strip() == "main"
    assert not (site.project.folder / ".retrain/worktree").exists()
    assert not [name for name in ("training", "dvc", "flow") if site.process_of(name)]

    experiments = [one["experiment_id"] for one in site.asked("experiments/search", max_results=100)["experiments"]]
    runs = site.asked("runs/search", experiment_ids=experiments, max_results=5000)["runs"]
    assert not [run["info"]["run_name"] for run in runs if run["info"]["status"] == "RUNNING"]
    keys = [tag["value"] for run in runs for tag in run["data"]["tags"]
            if tag["key"] == "rankops.key" and run["info"]["status"] == "FINISHED"]  # fmt: skip
    assert len(keys) == len(set(keys))
    # Sorters are trained once; the runs of tasks anew for each snapshot.
    assert len(keys) == len(PARAMS.sorters) + len(PARAMS.all_runs) * len(branches)
    models = httpx.get(f"{site.addresses['mlflow']}/api/2.0/mlflow/registered-models/search", timeout=60).json()
    assert len(models["registered_models"]) == len(PARAMS.sorters) + len({run.task for run in PARAMS.all_runs.values()})
    for model in models["registered_models"]:
        assert sum(alias["alias"] == "champion" for alias in model["aliases"]) == 1
    limits = httpx.post(f"{site.addresses['prefect']}/api/v2/concurrency_limits/filter", json={}, timeout=60).json()
    assert not [limit for limit in limits if limit["active_slots"]]


def test_the_schedule_alone_retrains_publishes_and_gates(site, new_project):
    run = site.wait_for(site.completed, patience=1800)
    assert run["auto_scheduled"]
    assert run["parameters"]["reason"] == "new data"
    site.pause()
    check_outcome(site, new_project)


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


def kept(page, name: str, tmp_path: Path) -> None:
    """A picture of the page; in the folder that RANKOPS_SCREENSHOTS names, for the README."""
    page.screenshot(path=Path(os.environ.get("RANKOPS_SCREENSHOTS", tmp_path)) / f"{name}.png")


def without_assistant(page) -> None:
    close = page.locator("[data-component-id='mlflow.assistant.chat_panel.close']")
    if close.count():
        close.click()


def test_two_runs_are_compared_in_mlflow(site, page, tmp_path):
    (experiment,) = (
        one["experiment_id"]
        for one in site.asked("experiments/search", max_results=100)["experiments"]
        if one["name"] == "label_ranking"
    )
    page.goto(f"{site.addresses['mlflow']}/#/experiments/{experiment}/runs", wait_until="domcontentloaded")
    for _ in range(2):  # what is ticked has another label
        box = page.get_by_label("Press Space to toggle row selection (unchecked)").first
        box.wait_for()
        box.check(force=True)
        page.wait_for_timeout(500)
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Comparing 2 Runs").wait_for()
    page.get_by_text("ranked.accuracy", exact=False).first.wait_for()
    without_assistant(page)
    page.wait_for_timeout(2000)
    kept(page, "mlflow-compare", tmp_path)
    assert page.get_by_text("label_ranking-", exact=False).count() >= 2


def test_a_person_moves_the_champion_in_mlflow(site, page, tmp_path):
    other = "1" if site.champions("label_ranking") != ["1"] else "2"
    page.goto(f"{site.addresses['mlflow']}/#/models/label_ranking/versions/{other}", wait_until="domcontentloaded")
    page.locator("[data-component-id*=modelversionviewaliaseditor]").first.click()
    page.get_by_role("dialog").last.get_by_role("combobox").click()
    page.keyboard.type("champion")
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save aliases").click()
    page.get_by_role("dialog").last.wait_for(state="hidden")

    site.wait_for(lambda: site.champions("label_ranking") == [other], patience=30)
    site.set_by_hand = other
    without_assistant(page)
    kept(page, "mlflow-champion", tmp_path)


def test_the_runs_page_in_prefect_shows_figures_examples_and_the_gates_decision(site, page, tmp_path):
    run = site.completed()
    page.goto(f"{site.addresses['prefect']}/runs/flow-run/{run['id']}", wait_until="domcontentloaded")
    page.get_by_text("Artifacts", exact=True).last.click()
    for text in ("Figures of all runs", "What the gate decided"):
        page.get_by_text(text, exact=False).first.wait_for()
    page.wait_for_timeout(3000)
    kept(page, "prefect-run", tmp_path)
    assert page.get_by_text("label_ranking-rlsep", exact=False).count() >= 1


def test_a_missing_pool_and_an_unknown_parameter_are_refused_and_change_nothing(site):
    def deployments() -> list[dict]:
        address = f"{site.addresses['prefect']}/api/deployments/filter"
        found = httpx.post(address, json={}, timeout=60).raise_for_status().json()
        return sorted(({key: one[key] for key in ("name", "work_pool_name", "parameters")} for one in found),
                      key=lambda one: one["name"])  # fmt: skip

    before, runs = deployments(), len(site.runs())
    said = site.project.run("rankops deploy", fails=True, **site.environment | {"RANKOPS_POOL": "nowhere"})
    assert "nowhere" in said
    assert "Traceback" not in said
    command = "prefect deployment run retrain/retrain --param nonsense=1"
    assert "nonsense" in site.project.run(command, fails=True, **site.environment)
    assert (deployments(), len(site.runs())) == (before, runs)


def test_each_part_killed_five_times_the_next_scheduled_run_ends_well(site, new_project):
    site.resume()
    draws = random.Random(0)
    order = list(VICTIMS) * 5
    draws.shuffle(order)
    for victim in order:
        killed = False
        while not killed:
            # Trainings of the tiny scale are over within seconds: their moment is the one at which they are seen.
            short = victim in ("training", "dvc")
            site.wait_for(partial(site.process_of, victim), patience=900, every=0.1 if short else 2.0)
            time.sleep(draws.uniform(0, 0.5 if short else 20))
            with suppress(ProcessLookupError):  # it came to its own end
                if process := site.process_of(victim):
                    os.kill(process, signal.SIGKILL)
                    killed = True
        if victim == "worker":
            site.worker.wait(10)
            time.sleep(draws.uniform(0, 10))
            site.work()
        if victim in site.ports:
            time.sleep(draws.uniform(0, 10))
            site.serve()
    last = datetime.now(UTC).isoformat()
    site.wait_for(lambda: site.completed(since=last), patience=2700)
    site.pause()
    check_outcome(site, new_project)
    # What a person chose is never overwritten silently, and the gate said so.
    if site.set_by_hand:
        assert site.champions("label_ranking") == [site.set_by_hand]

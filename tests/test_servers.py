"""Servers that cannot be started, and a Prefect server that cannot be brought to what prefect.yaml says."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from types import SimpleNamespace
from uuid import UUID, uuid4

import mlflow
import pandas as pd
import pytest
import torch
from pipelines.flows.deploy import _environment, _trigger, deploy
from pipelines.ops.servers import Server, _members, answering, servers, start, start_all, stop
from prefect.server.events.schemas.automations import EventTrigger
from prefect.server.events.schemas.events import ReceivedEvent
from prefect.utilities.templating import apply_values
from ruamel.yaml import YAML

from pipelines.flows.promote import judge
from pipelines.ops.messages import in_a_line
from pipelines.serving import server
from pipelines.serving.server import free_port
from pipelines.tracking.publish import (
    CredentialsRefused,
    Finished,
    Version,
    publish,
    sorter_signature,
    store,
    weights_of,
)
from rankops.io.checkpoints import build, save_model
from rankops.sorters import load_sorter

from conftest import ROOT  # isort: skip


class Another(BaseHTTPRequestHandler):
    """Healthy, and of a version that never was."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'"0.0.1"')

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def port_of_another() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Another) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def of(name: str, port: int) -> Server:
    return next(server for server in servers(prefect_port=port, mlflow_port=port) if server.name == name)


@pytest.mark.parametrize("name", ["prefect", "mlflow"])
def test_a_port_in_use_is_told_and_nothing_is_written(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never answers
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port}, for {name}, is in use .*{name.upper()}_PORT="):
            start(of(name, port))
    assert not list(Path().rglob("*.json"))


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\n\r\n\xff"])
def test_a_port_of_what_is_no_such_server_is_told(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)

    class Speaks(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(said)

    with ThreadingTCPServer(("127.0.0.1", 0), Speaks) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        port = other.server_address[1]
        with pytest.raises(ValueError, match=f"port {port}, for mlflow, is in use by something else"):
            start(of("mlflow", port))
        assert server._answers(f"http://127.0.0.1:{port}") == said.startswith(b"HTTP")
        other.shutdown()


LEADER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""


def test_workers_that_outlived_a_killed_server_make_way_for_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = replace(of("mlflow", free_port()), command=[sys.executable, "-c", LEADER])
    # As MLflow's do, its worker answers without it.
    monkeypatch.setattr("pipelines.ops.servers.answering", lambda server: bool(_members(server)))
    start(server)
    first = json.loads(server.record.read_text())["process"]
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    start(server)
    second = json.loads(server.record.read_text())["process"]
    assert second != first
    assert Path(f"/proc/{second}").exists()
    assert gone(first)  # its worker too
    stop(server)
    os.waitpid(second, 0)
    assert gone(second)


def gone(group: int) -> bool:
    """Whether no process of a group runs; one that ended may wait for the system's first process to ask for it."""
    deadline = time.monotonic() + 2  # one that ends just now is not a zombie yet
    while time.monotonic() < deadline:
        states = set()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
                states |= {state} if int(its_group) == group else set()
        if states <= {"Z", "X"}:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("name", ["prefect", "mlflow"])
def test_a_server_of_another_version_is_refused(port_of_another, name):
    with pytest.raises(ValueError, match=rf"{name} server at .* is version 0.0.1, but .* is installed here"):
        answering(of(name, port_of_another))


def test_a_server_that_runs_on_another_port_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipelines.ops.servers.answering", lambda server: bool(_members(server)))
    first = replace(of("mlflow", free_port()), command=[sys.executable, "-c", "import time; time.sleep(600)"])
    start(first)
    try:
        with pytest.raises(ValueError, match=f"mlflow runs already, on port {first.port}: use that, MLFLOW_PORT="):
            start(of("mlflow", free_port()))
    finally:
        stop(first)
        os.waitpid(-1, 0)


def test_what_was_published_through_the_server_is_there_without_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = of("mlflow", free_port())
    start(server)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    save_model(tmp_path / "made", build("sorters", "handcrafted", {"steepness": 7.0}, seed=0))
    version = Version(
        "sorter-x", ROOT / "pipelines/serving/sorter.py", tmp_path / "made", sorter_signature(4), ["mlflow"]
    )
    history = pd.DataFrame({"epoch": [1], "figure": [0.5]})
    try:
        (tmp_path / "src").symlink_to(ROOT / "src")
        with store() as client:
            publish(client, [Finished("one", "new", "key", {}, {"figure": 0.5}, {}, history, {}, version)])
    finally:
        stop(server)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    folder = weights_of("models:/sorter-x@champion", tmp_path / "copy")
    assert load_sorter(folder).steepness == 7.0
    mlflow.set_tracking_uri(None)


class WebPage(Another):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<!doctype html><html>0.0.1</html>")


class Locked(Another):
    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("health") else 401)
        self.end_headers()

    do_POST = do_GET


@pytest.mark.parametrize(
    ("kind", "said"), [(WebPage, "is in use by something else"), (Locked, "is no prefect server, or asks for cred")]
)
def test_what_is_no_server_of_ours_is_told(kind, said):
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ValueError, match=said):
            answering(of("prefect", server.server_address[1]))
        server.shutdown()


def test_a_store_that_refuses_the_credentials_is_not_asked_again(tmp_path, monkeypatch):
    params = SimpleNamespace(compute=SimpleNamespace(threads=torch.get_num_threads()))
    before = mlflow.get_tracking_uri()
    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://u:secret@127.0.0.1:{server.server_address[1]}")
        with pytest.raises(CredentialsRefused, match="refuses the credentials.*MLFLOW_TRACKING_PASSWORD") as caught:
            judge.fn(params, tmp_path, ["label_ranking"])
        server.shutdown()
    mlflow.set_tracking_uri(before)
    assert "secret" not in str(caught.value)


class ThisVersion(Another):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f'"{version("mlflow")}"'.encode())


def test_another_projects_server_is_not_taken_for_this_ones_and_what_was_begun_is_stopped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = replace(of("prefect", free_port()), command=[sys.executable, "-c", LEADER])
    with ThreadingHTTPServer(("127.0.0.1", 0), ThisVersion) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        second = of("mlflow", foreign.server_address[1])
        monkeypatch.setattr(
            "pipelines.ops.servers.answering",
            lambda server: bool(_members(first)) if server is first else answering(server),
        )
        said = start_all([first, second])
        assert "prefect is up" in next(said)
        process = json.loads(first.record.read_text())["process"]
        with pytest.raises(ValueError, match="not started from here answers at .* MLFLOW_PORT=.* MLFLOW_TRACKING_URI"):
            next(said)
        foreign.shutdown()
    os.waitpid(process, 0)
    assert gone(process)


def test_without_a_prefect_server_deploying_says_what_to_start(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with pytest.raises(ConnectionError, match="PREFECT_API_URL is not set: `make deploy` sets it"):
        deploy()


def test_only_runs_of_our_deployments_are_called_crashed_without_heartbeats():
    def heartbeat(deployment: UUID | None) -> ReceivedEvent:
        related = [{"prefect.resource.id": f"prefect.flow.{uuid4()}", "prefect.resource.role": "flow"}]
        if deployment:
            of = {"prefect.resource.id": f"prefect.deployment.{deployment}", "prefect.resource.role": "deployment"}
            related.append(of)
        return ReceivedEvent(
            occurred="2026-11-23T03:00:00Z", event="prefect.flow-run.heartbeat", related=related, id=uuid4(),
            resource={"prefect.resource.id": f"prefect.flow-run.{uuid4()}"},
        )  # fmt: skip

    ours = [uuid4(), uuid4()]
    trigger = EventTrigger.model_validate(_trigger(ours).model_dump())
    assert [trigger.covers(heartbeat(one)) for one in (*ours, uuid4(), None)] == [True, True, False, False]


def test_each_worker_says_where_its_checkout_is_and_the_nightly_time_has_a_default(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKOPS_PROJECT", "/of/who/deploys")
    monkeypatch.delenv("RANKOPS_NIGHTLY", raising=False)
    made_with = _environment()
    assert made_with["RANKOPS_NIGHTLY"] == "0 3 * * *"
    declared = YAML(typ="safe").load(ROOT / "prefect.yaml")["pull"]
    monkeypatch.setattr(os, "environ", made_with)
    stored = apply_values(declared, {}, remove_notset=False)  # as `prefect deploy` does
    monkeypatch.setattr(os, "environ", {"RANKOPS_PROJECT": str(tmp_path)})
    (step,) = apply_values(stored, {})  # and as a worker
    assert list(step.values()) == [{"directory": str(tmp_path)}]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionError("http://user:secret@host:1 refused, sqlite:///runs.db\nand more"),
         "http://host:1 refused, sqlite:///runs.db"),
        (ConnectionError("postgresql://mlflow:Zx/9+@se@db/runs or http://u:p@host"), "postgresql://db/runs or http://host"),
        (RuntimeError("\n  no memory\n"), "no memory"),
        (MemoryError(), "MemoryError"),
    ],
)  # fmt: skip
def test_an_error_is_told_in_a_line_without_credentials(error, said):
    assert in_a_line(error) == said

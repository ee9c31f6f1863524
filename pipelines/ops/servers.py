"""The two servers of one machine, Prefect's and MLflow's: started in the background, checked, and stopped together."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path

import psutil

from rankops.io.atomic import replaced_file

__all__ = ["Server", "answering", "servers", "start", "start_all", "stop"]

FOLDER = Path(".servers")
MARK = "RANKOPS_SERVER"  # in the environment of a server and of all that it starts: by which they are known
CLIENTS = {"prefect": "PREFECT_API_URL", "mlflow": "MLFLOW_TRACKING_URI"}  # how they are told of a server
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Two processes instead of ten, and a fifth of the memory: nothing here uses its jobs.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


@dataclass(frozen=True)
class Server:
    """One of them.

    Attributes:
        name: `prefect` or `mlflow`.
        port: on 127.0.0.1.
        command: that starts it.
        health: path of its health check.
        versioned: path that gives its version.
        environment: variables of its own.
    """

    name: str
    port: int
    command: list[str]
    health: str
    versioned: str
    environment: dict[str, str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def record(self) -> Path:
        """Where it says which process it is."""
        return FOLDER / f"{self.name}.json"


def servers(*, prefect_port: int, mlflow_port: int) -> list[Server]:
    """Both, with their data in this project."""
    python = Path(sys.executable).parent
    home = (FOLDER / "prefect").resolve()
    store = os.environ.get("MLFLOW_BACKEND_STORE_URI", f"sqlite:///{Path('mlflow.db').resolve()}")
    return [
        Server(
            "prefect", prefect_port,
            [str(python / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(prefect_port)],
            "/api/health", "/api/admin/version",
            {
                "PREFECT_HOME": str(home),
                "PREFECT_API_DATABASE_CONNECTION_URL": os.environ.get(
                    "PREFECT_API_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{home}/prefect.db"
                ),
                "PREFECT_UI_API_URL": f"http://127.0.0.1:{prefect_port}/api",
            },
        ),
        Server(
            "mlflow", mlflow_port,
            [str(python / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(mlflow_port),
             "--backend-store-uri", store, "--workers", "2",
             # Clients see this folder too. Through the server alone, what it holds could not be had without it.
             "--default-artifact-root", Path("mlruns").resolve().as_uri(),
             "--artifacts-destination", str(Path("mlruns").resolve())],
            "/health", "/version", {},
        ),
    ]  # fmt: skip


def _got(address: str, path: str) -> str | None:
    """What a server says, or None where none answers."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=5) as answer:
            return answer.read().decode().strip().strip('"')
    except (OSError, HTTPException, UnicodeDecodeError):  # something else listens there
        return None


def answering(server: Server) -> bool:
    """Whether it is up; a server of another version than the one installed here is refused.

    Raises:
        ValueError: it is of another version, or does not say of which.
    """
    if _got(server.address, server.health) is None:
        return False
    found, here = _got(server.address, server.versioned), version(server.name)
    if found is None:
        raise ValueError(
            f"what answers at {server.address} does not say at {server.versioned} of which version it is: it is no "
            f"{server.name} server, or asks for credentials, and then it cannot be started from here"
        )
    if not re.match(r"\d+\.\d+\S*$", found):
        raise ValueError(_in_use(server))
    if found != here:
        raise ValueError(
            f"{server.name} server at {server.address} is version {found}, but {here} is installed here: install the "
            "same (requirements.lock), or stop it"
        )
    return True


def _in_use(server: Server) -> str:
    return (
        f"port {server.port}, for {server.name}, is in use by something else: stop that, or choose another with "
        f"{server.name.upper()}_PORT=..."
    )


def _elsewhere(server: Server) -> int | None:
    """The port on which `start` made it, if that is another one."""
    with suppress(FileNotFoundError, ValueError, KeyError):
        port = json.loads(server.record.read_text())["port"]
        return port if port != server.port else None
    return None


def _leader(server: Server) -> int | None:
    """The process that `start` made, whether or not it still runs; the others are of its group."""
    try:
        return json.loads(server.record.read_text())["process"]
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _members(server: Server) -> list[int]:
    """Processes that `start` made and that still run: also those that outlived the one that was started."""
    group = _leader(server)
    if group is None:
        return []
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it ended in the meantime, or is somebody else's
            alive = os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(MARK) == server.name:
                found.append(process.pid)
    return found


def _leaderless(server: Server) -> bool:
    """Whether its workers outlived it, as they do if it is killed: they answer, and nobody would start them anew."""
    members = _members(server)
    return bool(members) and _leader(server) not in members


def start(server: Server, *, patience: float = 180.0) -> str:
    """Starts a server unless it is up, and waits until it answers; returns what to tell.

    Raises:
        ValueError: its port is taken, by another server of the kind too; it ended, or it did not answer in time, and
            then the message names its log.
    """
    if _leaderless(server):
        stop(server)
    if _members(server) and (port := _elsewhere(server)) is not None:
        raise ValueError(
            f"{server.name} runs already, on port {port}: use that, {server.name.upper()}_PORT={port}, or stop it by "
            "`make stop`"
        )
    if answering(server):
        if not _members(server):
            raise ValueError(
                f"a {server.name} server that was not started from here answers at {server.address}, with data of its "
                f"own: choose another port with {server.name.upper()}_PORT=..., stop it where it was started, or "
                f"start none and use it on purpose, by {CLIENTS[server.name]}"
            )
        return f"{server.name} is up at {server.address}"
    if not _members(server):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", server.port))
            except OSError as error:
                raise ValueError(_in_use(server)) from error
        FOLDER.mkdir(exist_ok=True)
        with (FOLDER / f"{server.name}.log").open("ab") as log:
            process = subprocess.Popen(
                server.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **QUIET, **server.environment, MARK: server.name},
            ).pid  # fmt: skip
        with replaced_file(server.record) as partial:
            partial.write_text(json.dumps({"process": process, "port": server.port}) + "\n")
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if answering(server):
            return f"{server.name} is up at {server.address}"
        if not _members(server):
            break
        time.sleep(0.3)
    raise ValueError(f"{server.name} did not come up at {server.address}: look into {FOLDER / server.name}.log")


def start_all(known: list[Server]) -> Iterator[str]:
    """Starts one after another and yields what to tell; if one does not come up, those begun here are stopped again.

    Raises:
        ValueError: see `start`.
    """
    begun = []
    try:
        for server in known:
            begun += [] if _members(server) else [server]
            yield start(server)
    except ValueError:
        for server in begun:
            stop(server)
        raise


def stop(server: Server) -> str:
    """Stops what `start` started, with its children; returns what to tell."""
    members = _members(server)
    if not members:
        server.record.unlink(missing_ok=True)
        return f"{server.name} was not running"
    group = _leader(server)
    for number, patience in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        deadline = time.monotonic() + patience
        while _members(server) and time.monotonic() < deadline:
            time.sleep(0.1)
    server.record.unlink(missing_ok=True)
    return f"{server.name} is stopped"

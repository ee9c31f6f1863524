"""`mlflow models serve` on this machine alone: what it is started with, what is looked at before, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from pipelines.ops.programs import search_path
from pipelines.tracking.publish import DEFAULT_STORE, weights_of

__all__ = ["HOST", "check", "command", "environment", "free_port", "running"]

HOST = "127.0.0.1"


def check(model: str, *, port: int) -> None:
    """Looks for what MLflow's server would only tell in a traceback.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.publish.weights_of`; the port cannot be had.
    """
    if not model.startswith("models:/"):
        raise ValueError(f"{model}: MLflow serves what is registered; expected such as models:/label_ranking@champion")
    with tempfile.TemporaryDirectory() as scratch:
        weights_of(model, Path(scratch))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: one that has ended is no bar
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"port {port} of {HOST}: {error.strerror}; name another") from error


def command(model: str, *, port: int) -> list[str]:
    """The server's words for `exec`; it runs in this environment and makes none."""
    server = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    return [*server, "--model-uri", model, "--host", HOST, "--port", str(port)]


def environment() -> dict[str, str]:
    """This process's variables: with the store, without pickled models and without telemetry."""
    return os.environ | {
        "MLFLOW_TRACKING_URI": os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE,
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "PATH": search_path(),  # it looks for uvicorn there
    }


def free_port() -> int:
    """A port of this machine that nothing listens to."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def running(model: str, *, port: int, patience: float = 300) -> Iterator[str]:
    """The address of a server that answers; it has ended, its workers too, when the block ends.

    Args:
        model: a registered version, or a folder that MLflow wrote.
        port: see `free_port`.
        patience: seconds that it may take to start.

    Raises:
        ValueError: it ended, or did not answer in time; the message has its last words.
    """
    address = f"http://{HOST}:{port}"
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(
            command(model, port=port), env=environment(), stdout=said, stderr=said, start_new_session=True
        )
        try:
            deadline = time.monotonic() + patience
            while not _answers(address):
                if server.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise ValueError(f"{address}: no server of {model}; it said: {said.read()[-2000:]}")
                time.sleep(0.2)
            yield address
        finally:
            _end(server)


def _answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/ping", timeout=5) as answer:
            return answer.status == 200
    except (OSError, HTTPException):
        return False


def _end(server: subprocess.Popen) -> None:
    """Ends MLflow and the server that it started: asked first, and killed where that does not help."""
    for asked in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, asked)
            for _ in range(100):
                server.poll()
                os.killpg(server.pid, 0)  # as long as one of them is there
                time.sleep(0.1)
        except ProcessLookupError:
            break
    server.wait()

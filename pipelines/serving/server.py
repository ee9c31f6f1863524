"""`mlflow models serve`, on this machine alone."""

import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from pipelines.tracking.registry import weights_of
from pipelines.tracking.store import DEFAULT_STORE

__all__ = ["HOST", "serve"]

HOST = "127.0.0.1"


def serve(model: str, *, port: int) -> NoReturn:
    """Replace this process by MLflow's server of a registered version, in this environment.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`; the port is taken.
    """
    if not model.startswith("models:/"):
        raise ValueError(f"{model}: MLflow serves what is registered; expected such as models:/label_ranking@champion")
    with TemporaryDirectory() as scratch:
        weights_of(model, Path(scratch))  # MLflow would answer with a traceback, as to a port that is taken
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"port {port} of {HOST}: {error.strerror}; name another") from error
    os.environ |= {
        "MLFLOW_TRACKING_URI": os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE,
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        # MLflow looks for uvicorn there.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local", "--model-uri", model]
    os.execv(command[0], [*command, "--host", HOST, "--port", str(port)])

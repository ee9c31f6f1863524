"""MLflow's server of a model, on this machine alone, with limits."""

import asyncio
import json
import re
import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import uvicorn  # comes with MLflow
from fastapi import FastAPI, Request, Response
from mlflow.pyfunc import scoring_server

from pipelines.serving.ranker import is_registered
from pipelines.tracking.publish import SERVED_BY, signature_of
from pipelines.tracking.registry import weights_of
from rankops.io.checkpoints import load_model
from rankops.lookup import did_you_mean

__all__ = ["BODY", "HOST", "app_of", "serve"]

HOST = "127.0.0.1"
BODY = 2**25  # bytes of a request
FORMS = ("dataframe_records", "dataframe_split", "inputs", "instances")  # MLflow's


def serve(model: str, *, port: int) -> None:
    """Serve the weights of a registered version until Ctrl-C, by the code of this checkout.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`; the port is taken.
    """
    if not is_registered(model):
        raise ValueError(f"{model}: MLflow serves what is registered; expected such as models:/label_ranking@champion")
    with TemporaryDirectory() as scratch:
        app = app_of(weights_of(model, Path(scratch)))
    with socket.socket() as probe:  # uvicorn would say so in its log alone
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"port {port} of {HOST}: {error.strerror}; name another") from error
    uvicorn.run(app, host=HOST, port=port)


def app_of(weights: Path) -> FastAPI:
    """Return MLflow's server of a model's weights. Nothing but them is taken from where they come from.

    A version in the registry has code too, which whoever may write versions has written: it is not run.
    """
    recipe = load_model(weights).recipe  # what is wrong with them is told here
    if recipe["folder"] == "models" and "task" not in recipe:
        raise ValueError(f"{weights}: model.json names no task, whose requests could be answered")
    with TemporaryDirectory() as scratch:
        mlflow.pyfunc.save_model(
            scratch, python_model=str(SERVED_BY), artifacts={"weights": str(weights)}, signature=signature_of(weights),
            pip_requirements=["mlflow"],
        )  # fmt: skip
        model = mlflow.pyfunc.load_model(scratch)
    app, schema = scoring_server.init(model), model.metadata.get_input_schema()
    columns = schema.input_names() if schema.has_input_names() else None

    @app.middleware("http")
    async def check(request: Request, call_next: Any) -> Response:
        if request.method == "POST":
            kind, length = (request.headers.get(name, "") for name in ("content-type", "content-length"))
            if kind.partition(";")[0].strip().lower() != "application/json":
                # Some hundred bytes of Parquet would unpack to gigabytes.
                return _refusal(415, f"Content-Type is {kind!r}, expected application/json")
            if not re.fullmatch(r"\d{1,9}", length, re.ASCII) or int(length) > BODY:
                return _refusal(413, f"Content-Length is {length[:20]!r}, expected at most {BODY}")
            try:
                await asyncio.to_thread(check_body, await request.body(), columns)
            except (ValueError, RecursionError) as error:
                return _refusal(400, str(error))
        return await call_next(request)

    return app


def _refusal(status: int, message: str) -> Response:
    body = json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": message})  # as MLflow's are
    return Response(body, status, media_type="application/json")


def check_body(body: bytes, columns: list[str] | None) -> None:
    """Check the form of a request: MLflow leaves out what it does not know, and makes a table of all keys of all rows.

    Args:
        body: JSON.
        columns: that the model knows; None for a sorter.

    Raises:
        ValueError: see the messages.
        RecursionError: too many brackets.
    """
    asked = json.loads(body)
    if not isinstance(asked, dict) or len(asked) != 1 or not set(asked) <= set(FORMS):
        found = ", ".join(map(repr, list(asked)[:5])) if isinstance(asked, dict) else type(asked).__name__
        raise ValueError(f"found {found or 'nothing'}; expected a JSON object with one of {', '.join(FORMS)} alone")
    [(form, given)] = asked.items()
    if columns is None:
        if not isinstance(given, list):
            raise ValueError(f'{form}: expected scores, as in {{"inputs": [[0.1, 0.7, 0.3]]}}')
        return
    if form == "dataframe_split":
        names = given.get("columns") if isinstance(given, dict) else None
        if not isinstance(names, list) or len(set(map(str, names))) < len(names):
            raise ValueError(f'{form}: expected {{"columns": [...], "data": [[...], ...]}}, each column once')
        rows = [dict.fromkeys(map(str, names))]
    else:
        rows = given if isinstance(given, list) else [given]  # of `inputs` one, with a list of each column
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(
                f"{form}: row {number} is of {type(row).__name__}, expected an object with {', '.join(columns)}"
            )
        for name in row:
            if name not in columns:
                raise ValueError(
                    f"{form}: row {number}: unknown column {name!r}; the model takes {', '.join(columns)}"
                    f"{did_you_mean(name, columns)}"
                )
        if row.keys() != rows[0].keys():
            raise ValueError(
                f"{form}: row {number} has {', '.join(row) or 'nothing'}, row 0 {', '.join(rows[0]) or 'nothing'}: "
                "expected the same columns in each row of a request"
            )

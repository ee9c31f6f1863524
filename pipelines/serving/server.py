"""MLflow's server of a model, on this machine alone, with the limits of `pipelines.serving.served_model`."""

import asyncio
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import pandas as pd
import uvicorn  # comes with MLflow
from fastapi import FastAPI, Request, Response
from mlflow.entities.model_registry import ModelVersion
from mlflow.models import ModelSignature
from mlflow.pyfunc import scoring_server
from starlette.requests import ClientDisconnect

from pipelines.ops.messages import first_line
from pipelines.serving.named_model import is_registered
from pipelines.serving.request_log import RequestLog, row_of
from pipelines.serving.served_model import BODY
from pipelines.tracking.registry import version_of, weights_of
from pipelines.tracking.signature import taken
from pipelines.tracking.upload import SERVED_BY
from rankops import lookup
from rankops.io.checkpoints import load_model
from rankops.lookup import did_you_mean

__all__ = ["HOST", "Served", "app_of", "serve"]

HOST = "127.0.0.1"
FORMS = ("dataframe_records", "dataframe_split", "inputs", "instances")  # MLflow's


class Served:
    """The ASGI app of whichever version an address names now: one with an alias follows it, without a restart.

    A new version answers as soon as it is loaded; requests that came before are answered by the one before. One that
    cannot be loaded, and a registry that does not answer, change nothing and are reported.

    Args:
        model: registered, such as `models:/label_ranking-photos@champion`.
        requests: what keeps a sample of the requests; None to keep none.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`.
    """

    def __init__(self, model: str, requests: RequestLog | None = None) -> None:
        self._model, self._requests = model, requests
        self._app, self.version = self._loaded(version_of(model))

    def _loaded(self, version: ModelVersion) -> tuple[FastAPI, str]:
        name = f"{version.name}/{version.version}"
        with TemporaryDirectory() as scratch:
            weights = weights_of(f"models:/{name}", Path(scratch))
            return app_of(weights, version=name, requests=self._requests), name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def look(self) -> None:
        """Take the version that the address names now."""
        try:
            now = version_of(self._model)
            if f"{now.name}/{now.version}" != self.version:
                self._app, self.version = self._loaded(now)
                logging.getLogger("uvicorn.error").info("serving %s now", self.version)
        except (ValueError, OSError) as error:
            logging.getLogger("uvicorn.error").warning("still serving %s: %s", self.version, first_line(error))

    def follow(self, ended: threading.Event, *, every: float = 30.0) -> None:
        """Look every so many seconds until `ended` is set."""
        while not ended.wait(every):
            self.look()


def serve(model: str, *, port: int, log_to: Path | None = None) -> None:
    """Serve the weights of a registered version until Ctrl-C, by the code of this checkout.

    Args:
        model: the address of a version, see `Served`.
        port: of this machine.
        log_to: a folder for a sample of the requests, see `pipelines.serving.request_log`; None to keep none.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`; the port is taken.
        OSError: `log_to` cannot be made.
    """
    if not is_registered(model):
        raise ValueError(f"{model}: MLflow serves what is registered; expected such as models:/<name>@champion")
    served, ended = Served(model, None if log_to is None else RequestLog(log_to)), threading.Event()
    with socket.socket() as probe:  # uvicorn would say so in its log alone
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"port {port} of {HOST}: {error.strerror}; name another") from error
    if "@" in model:
        threading.Thread(target=served.follow, args=(ended,), daemon=True).start()
    try:
        uvicorn.run(served, host=HOST, port=port)
    finally:
        ended.set()


class _Kept:
    """A loaded model as MLflow's server takes it, whose requests are kept."""

    def __init__(self, model: Any, requests: RequestLog, columns: dict[str, str], recipe: dict[str, Any], version: str):
        self.metadata, self._model, self._keep = model.metadata, model, partial(requests.keep, version=version)
        self._row = partial(row_of, columns=columns, recipe=recipe)

    def predict(self, data: Any, params: Any = None) -> Any:
        answers = self._model.predict(data, params=params)
        asked = [self._row(row) for row in pd.DataFrame(data).to_dict("records")]
        pairs = [(row, answer) for row, answer in zip(asked, answers.to_dict("records"), strict=True) if row]
        self._keep([row for row, _ in pairs], [answer for _, answer in pairs])
        return answers


def app_of(weights: Path, *, version: str = "", requests: RequestLog | None = None) -> FastAPI:
    """Return MLflow's server of a model's weights. Nothing but them is taken from where they come from.

    A version in the registry has code too, which whoever may write versions has written: it is not run.

    Args:
        weights: folder of a model.
        version: such as `label_ranking-photos/3`, which each answer has in its header `X-Model-Version`.
        requests: what keeps a sample of the requests; None to keep none.

    Raises:
        ValueError: there are no whole weights, or no task could answer requests to them.
    """
    recipe = load_model(weights).recipe  # what is wrong with them is told here
    if recipe["folder"] == "models" and "task" not in recipe:
        raise ValueError(f"{weights}: model.json names no task, whose requests could be answered")
    with TemporaryDirectory() as scratch:
        mlflow.pyfunc.save_model(
            scratch, python_model=str(SERVED_BY), artifacts={"weights": str(weights)},
            signature=ModelSignature(inputs=taken(recipe)), pip_requirements=["mlflow"],
        )  # fmt: skip
        model: Any = mlflow.pyfunc.load_model(scratch)
    columns = None if recipe["folder"] == "sorters" else lookup.find("tasks", recipe["task"])().columns(recipe)
    if requests is not None:
        if columns is None:
            raise ValueError(f"{version}: a sorter, whose scores nothing monitors: leave out --log-to")
        model = _Kept(model, requests, columns, recipe, version)
    app = scoring_server.init(model)  # ty: ignore[invalid-argument-type]

    @app.middleware("http")
    async def check(request: Request, call_next: Any) -> Response:
        response = await _refused(request, columns) or await call_next(request)
        response.headers["X-Model-Version"] = version
        return response

    return app


async def _refused(request: Request, columns: dict[str, str] | None) -> Response | None:
    """Return the answer to a request that is not worth reading further; None to the others."""
    if request.method != "POST":
        return None
    kind, length = (request.headers.get(name, "") for name in ("content-type", "content-length"))
    if kind.partition(";")[0].strip().lower() != "application/json":
        # Some hundred bytes of Parquet would unpack to gigabytes.
        return _refusal(415, f"Content-Type is {kind!r}, expected application/json")
    # Beside an encoding the length says nothing: chunks may come without end.
    length = length if "transfer-encoding" not in request.headers else ""
    if not re.fullmatch(r"\d{1,9}", length, re.ASCII) or int(length) > BODY:
        return _refusal(413, f"Content-Length is {length[:20]!r}, expected at most {BODY}")
    try:
        await asyncio.to_thread(check_body, await request.body(), columns)
    except ClientDisconnect:
        return _refusal(400, "the connection ended within the body")
    except (ValueError, RecursionError) as error:
        return _refusal(400, str(error))
    return None


def _refusal(status: int, message: str) -> Response:
    body = json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": message})  # as MLflow's are
    return Response(body, status, media_type="application/json")


def check_body(body: bytes, columns: dict[str, str] | None) -> None:
    """Check the form of a request: MLflow leaves out what it does not know, and makes a table of all keys of all rows.

    Args:
        body: JSON.
        columns: see `rankops.tasks.Task.columns`; None for a sorter.

    Raises:
        ValueError: see the messages.
        RecursionError: too many brackets.
    """
    asked = json.loads(body, object_pairs_hook=_each_key_once)
    if not isinstance(asked, dict) or len(asked) != 1 or not set(asked) <= set(FORMS):
        found = ", ".join(map(repr, list(asked)[:5])) if isinstance(asked, dict) else type(asked).__name__
        raise ValueError(f"found {found or 'nothing'}; expected a JSON object with one of {', '.join(FORMS)} alone")
    [(form, given)] = asked.items()
    if columns is None:
        if not isinstance(given, list):
            raise ValueError(f'{form}: expected scores, as in {{"inputs": [[0.1, 0.7, 0.3]]}}')
        for number, row in enumerate(given, 1):
            _check_numbers([*row.values()] if isinstance(row, dict) else row, f"{form}: row {number}")
        return
    first: Any = None
    for number, row in enumerate(_rows(form, given), 1):
        place, first = f"{form}: row {number}", row if number == 1 else first
        _check_names(row, first, columns, place)
        for name, cell in row.items():
            _check_cell(cell, columns[name], f"{place}: {name}")


def _rows(form: str, given: Any) -> Iterator[Any]:
    """Yield the rows of a table, whatever its form, as objects."""
    if form == "dataframe_split":
        names = given.get("columns") if isinstance(given, dict) else None
        if not isinstance(names, list) or len(set(map(str, names))) < len(names):
            raise ValueError(f'{form}: expected {{"columns": [...], "data": [[...], ...]}}, each column once')
        for number, row in enumerate(_list(given.get("data"), f"{form}: data"), 1):
            if len(_list(row, f"{form}: row {number}")) != len(names):
                raise ValueError(f"{form}: row {number} has {len(row)} cells, expected {len(names)}, one a column")
            yield dict(zip(map(str, names), row, strict=True))
    elif isinstance(given, dict):
        columns = {name: _list(cells, f"{form}: {name}") for name, cells in given.items()}
        if len(counts := {len(cells) for cells in columns.values()}) > 1:
            raise ValueError(
                f"{form}: columns of {' and '.join(map(str, sorted(counts)))} cells, expected as many in each"
            )
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))
    else:
        yield from given if isinstance(given, list) else [given]


def _check_names(row: Any, first: Any, columns: dict[str, str], place: str) -> None:
    if not isinstance(row, dict):
        raise ValueError(f"{place} is of {type(row).__name__}, expected an object with {', '.join(columns)}")
    if unknown := [name for name in row if name not in columns]:
        raise ValueError(
            f"{place}: unknown column {unknown[0]!r}; the model takes {', '.join(columns)}"
            f"{did_you_mean(unknown[0], columns)}"
        )
    if row.keys() != first.keys():
        raise ValueError(
            f"{place} has {', '.join(row) or 'nothing'}, row 1 {', '.join(first) or 'nothing'}: expected the same "
            "columns in each row of a request"
        )


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key twice in an object with {', '.join(map(repr, [*found][:5]))}; expected each once")
    return found


def _check_cell(cell: Any, kind: str, place: str) -> None:
    if cell is None and kind.endswith("?") and kind != "id?":  # beside others, pandas would make a NaN of no id
        return
    match kind.removesuffix("?"):
        case "images" | "vectors" | "texts" as several:
            for number, one in enumerate(_list(cell, place)):
                _check_cell(one, several.removesuffix("s"), f"{place} {number}")
        case "vector" if isinstance(cell, dict):
            for name, value in cell.items():
                if isinstance(value, list | dict):
                    raise ValueError(f"{place}.{name} is {_named(value)}, expected a number or a name")
        case "vector":
            _check_numbers(cell, place)
        case "id":
            if not isinstance(cell, str | int) or isinstance(cell, bool):
                raise ValueError(f"{place} is {_named(cell)}, expected text or a whole number")
        case text if not isinstance(cell, str):
            expected = "text" if text == "text" else "an image in base64"
            raise ValueError(f"{place} is {_named(cell)}, expected {expected}")


def _check_numbers(values: Any, place: str) -> None:
    """Raise where a number is written as text or a truth value, of which NumPy would make one."""
    for value in _list(values, place):
        if type(value) not in (int, float):
            raise ValueError(f"{place} has {_named(value)}, expected numbers")


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{place} is {_named(value)}, expected a list")
    return value


def _named(value: Any) -> str:
    """Return what a value is in JSON."""
    names = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")

"""MLflow's server of a model, on this machine alone, with the limits of `pipelines.serving.served_model`."""

import asyncio
import base64
import json
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
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
from rankgrad import lookup
from rankgrad.io.checkpoints import load_model
from rankgrad.io.pictures import bytes_in
from rankgrad.lookup import did_you_mean, listed
from rankgrad.plain_text import check_name, parsed_json

__all__ = ["HOST", "Served", "app_of", "serve"]

HOST = "127.0.0.1"
FORMS = ("dataframe_records", "dataframe_split", "inputs", "instances")  # MLflow's
# What MLflow puts before a reason: the request's own data, and its types.
BEFORE_A_REASON = re.compile(
    r"\AFailed to predict data '.*?'\. \nError: |Failed to enforce schema of data '.*?' with schema '.*?'\. Error: ",
    re.DOTALL,
)
CHARSETS = ("", "utf-8", "utf8", "us-ascii")


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
        response = await _refused(request, columns) or await _in_short(await call_next(request))
        response.headers["X-Model-Version"] = version
        return response

    return app


async def _refused(request: Request, columns: dict[str, str] | None) -> Response | None:
    """Return the answer to a request that is not worth reading further; None to the others, which are then plain."""
    if request.method != "POST":
        return None
    headers = ("content-type", "content-encoding", "transfer-encoding", "content-length")
    kind, encoding, transfer, length = (request.headers.get(name, "").strip().lower() for name in headers)
    media, _, parameters = kind.partition(";")
    charset = re.search(r"\bcharset\s*=\s*\"?([^\s;\"]*)", parameters)
    if media.strip() != "application/json" or (charset and charset[1] not in CHARSETS):
        # Some hundred bytes of Parquet would unpack to gigabytes.
        return _refusal(415, f"Content-Type is {kind[:100]!r}, expected application/json, in UTF-8")
    if encoding not in ("", "identity"):  # so would some of these
        return _refusal(415, f"Content-Encoding is {encoding[:100]!r}, expected none: send the JSON as it is")
    if transfer:  # chunks may come without end
        return _refusal(411, f"Transfer-Encoding is {transfer[:100]!r}, expected a Content-Length in its place")
    if not re.fullmatch(r"\d+", length, re.ASCII):
        return _refusal(411, f"Content-Length is {length[:20]!r}, expected the body's number of bytes")
    if len(length) > 9 or int(length) > BODY:
        return _refusal(413, f"Content-Length is {length[:20]}, expected at most {BODY}: send several requests")
    try:
        request._body = await asyncio.to_thread(checked_body, await request.body(), columns)  # MLflow reads this
    except ClientDisconnect:
        return _refusal(400, "the connection ended within the body")
    except RecursionError:
        return _refusal(400, "too many brackets within brackets, expected rows of cells")
    except ValueError as error:
        return _refusal(400, str(error))
    others = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    request.scope["headers"] = [*others, (b"content-type", b"application/json")]
    return None


async def _in_short(response: Any) -> Response:
    """Return MLflow's answer; of one to a bad request the reason alone, as MLflow repeats the whole request before it.

    What nobody expected has a traceback, which is for the log.
    """
    if response.status_code != 400:
        return response
    body = b"".join([part async for part in response.body_iterator])
    told = json.loads(body)
    if traceback := told.get("stack_trace"):
        logging.getLogger("uvicorn.error").error("%s", traceback)
    return _refusal(400, BEFORE_A_REASON.sub("", told["message"]))


def _refusal(status: int, message: str) -> Response:
    body = json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": message})  # as MLflow's are
    return Response(body, status, media_type="application/json")


def checked_body(body: bytes, columns: dict[str, str] | None) -> bytes:
    """Return a request in one form, of which all is as expected: what was checked, MLflow gets, and nothing else.

    It would leave out what it does not know, make a table of all keys of all rows, and decode pictures in some forms.

    Args:
        body: JSON.
        columns: see `rankgrad.tasks.Task.columns`; None for a sorter.

    Raises:
        ValueError: see the messages.
        RecursionError: too many brackets.
    """
    try:
        asked = parsed_json(body.decode("utf-8-sig"), object_pairs_hook=_each_key_once)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} of the body is no UTF-8, expected JSON in it") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or len(asked) != 1 or not set(asked) <= set(FORMS):
        found = listed(map(repr, asked)) if isinstance(asked, dict) else _named(asked)
        raise ValueError(f"found {found or 'nothing'}; expected a JSON object with one of {', '.join(FORMS)} alone")
    [(form, given)] = asked.items()
    if columns is None:
        if not isinstance(given, list):
            raise ValueError(f'{form}: expected scores, as in {{"inputs": [[0.1, 0.7, 0.3]]}}')
        for number, row in enumerate(given, 1):
            _check_numbers([*row.values()] if isinstance(row, dict) else row, f"{form}: row {number}")
        return json.dumps(asked).encode()
    first: Any = None
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(_rows(form, given), 1):
        place, first = f"{form}: row {number}", row if number == 1 else first
        _check_names(row, first, columns, place)
        rows.append({name: _checked_cell(cell, columns[name], f"{place}: {name}") for name, cell in row.items()})
    if not rows:
        raise ValueError(f"{form}: no rows, expected at least one")
    _leave_out_null_pictures(form, rows, columns)
    return json.dumps({"dataframe_records": rows}).encode()


def _leave_out_null_pictures(form: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> None:
    """Leave out columns of pictures that all rows have null: MLflow can decode none."""
    for name in [name for name in rows[0] if columns[name].startswith("image")]:
        null = [number for number, row in enumerate(rows, 1) if row[name] is None]
        if null and len(null) < len(rows):
            raise ValueError(
                f"{form}: row {null[0]}: {name} is null, but others have one: send rows with and without it in "
                "requests of their own"
            )
        for row in rows if null else ():
            del row[name]


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
            f"{place}: unknown column {unknown[0]!r:.80}; the model takes {', '.join(columns)}"
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
        raise ValueError(f"a key twice in an object with {listed(map(repr, found))}; expected each once")
    return found


def _checked_cell(cell: Any, kind: str, place: str) -> Any:
    """Return a cell that is of its kind; a picture in the form of base64 that MLflow takes."""
    if cell is None and kind.endswith("?") and kind != "id?":  # beside others, pandas would make a NaN of no id
        return None
    match kind.removesuffix("?"):
        case "images" | "vectors" | "texts" as several:
            one = several.removesuffix("s")
            return [_checked_cell(item, one, f"{place} {number}") for number, item in enumerate(_list(cell, place))]
        case "vector" if isinstance(cell, dict):
            for name, value in cell.items():
                if isinstance(value, list | dict):
                    raise ValueError(f"{place}.{name:.80} is {_named(value)}, expected a number or a name")
                _check_range(value, f"{place}.{name:.80}")
        case "vector":
            _check_numbers(cell, place)
        case "id":
            if not isinstance(cell, str | int) or isinstance(cell, bool):
                raise ValueError(f"{place} is {_named(cell)}, expected text or a whole number")
            _in_place(place, check_name, str(cell))
        case text if not isinstance(cell, str):
            expected = "text" if text == "text" else "an image in base64"
            raise ValueError(f"{place} is {_named(cell)}, expected {expected}")
        case "image":
            return base64.b64encode(_in_place(place, bytes_in, cell)).decode()
    return cell


def _in_place(place: str, check: Callable[[str], Any], text: str) -> Any:
    try:
        return check(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _check_numbers(values: Any, place: str) -> None:
    """Raise where a number is written as text or a truth value, of which NumPy would make one."""
    for value in _list(values, place):
        if type(value) not in (int, float):
            raise ValueError(f"{place} has {_named(value)}, expected numbers")
        _check_range(value, place)


def _check_range(value: Any, place: str) -> None:
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{place} has a number of {len(str(abs(value)))} digits, which is not finite in float32")


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{place} is {_named(value)}, expected a list")
    return value


def _named(value: Any) -> str:
    """Return what a value is in JSON."""
    names = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")

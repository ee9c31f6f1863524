"""Serve a model with the protocol of MLflow's server and the limits of `served_model`.

Requests from other machines need a token.
"""

import asyncio
import json
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn  # comes with MLflow
from mlflow.entities.model_registry import ModelVersion
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.ops.messages import first_line
from pipelines.serving.counters import CONTENT_TYPE_LATEST, Counters
from pipelines.serving.named_model import at_version, model_folder
from pipelines.serving.request_log import RequestLog, input_compared, row_of
from pipelines.serving.served_model import BODY, Model
from rankgrad import lookup
from rankgrad.cli.answers import FOUND, Gallery
from rankgrad.datasets.tables.rows import OWN, Roles
from rankgrad.datasets.tables.unlike_training import Unlike, UnlikeTraining
from rankgrad.inputs import as_list, in_json, type_of
from rankgrad.lookup import listed
from rankgrad.plain_text import parsed_json

__all__ = ["HOST", "TOKEN", "Served", "app_of", "serve"]

HOST = "127.0.0.1"
TOKEN = "RANKGRAD_TOKEN"  # the environment variable with the secret that requests must send
FORMS = ("dataframe_records", "dataframe_split", "inputs", "instances")  # MLflow's request formats
EVERY = 30.0  # seconds between looks for a new version
MOST_FOUND = 2**16  # most ids in the answer to a request
CHARSETS = ("", "utf-8", "utf8", "us-ascii")


class Served:
    """The ASGI app of the version that an address currently names; it follows an alias without a restart.

    A new version, or changed rows to search, are used as soon as they are loaded; earlier requests are still answered
    by the old version. If loading fails or the registry does not respond, nothing changes, and the error is logged.

    Args:
        model: a registered model, such as `models:/label_ranking-photos@champion`; or a run's folder, such as
            models/runs/photos-mse, before anything is published.
        requests: keeps a sample of the requests; None to keep none.
        among, searched: the rows that a retrieval model searches, and the roles of their columns, see
            `rankgrad.cli.answers.Gallery`; None to return embeddings.
        token: see `app_of`.

    Raises:
        FileNotFoundError, ValueError: there is no such version, see `pipelines.tracking.registry.weights_of`.
    """

    def __init__(
        self,
        model: str,
        requests: RequestLog | None = None,
        among: Path | None = None,
        token: str = "",
        *,
        searched: Roles = OWN,
    ) -> None:
        self._model, self._requests, self._token = model, requests, token
        self._among, self._roles, self._counters = among, searched, Counters()
        self._load(*at_version(model))

    def _load(self, address: str, version: ModelVersion | None) -> None:
        """Load a version, or the run's folder if it is None, and the rows to search."""
        searched = _state_of(self._among)
        with model_folder(address) as folder:
            if version is None:
                name, run = f"{Path(address).name}/unpublished", folder.name
            else:
                name, run = f"{version.name}/{version.version}", version.tags.get("run", "")
            self._app = app_of(
                folder, version=name, run=run, requests=self._requests, among=self._among, searched=self._roles,
                token=self._token, counters=self._counters,
            )  # fmt: skip
        self._address, self._version, self._searched = address, version, searched

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def look(self) -> None:
        """Load the version that the alias names and the rows to search, if either has changed."""
        address, version = self._address, self._version
        try:
            if "@" in self._model:
                address, version = at_version(self._model)
            if address != self._address or _state_of(self._among) != self._searched:
                self._load(address, version)
                logging.getLogger("uvicorn.error").info("now serving %s", address)
        except (ValueError, OSError) as error:
            logging.getLogger("uvicorn.error").warning("still serving %s: %s", self._address, first_line(error))

    def follow(self, ended: threading.Event) -> None:
        """Call `look` every `EVERY` seconds until `ended` is set, and close the request files of past days."""
        while not ended.wait(EVERY):
            self.look()
            if self._requests is not None:
                self._requests.close_days()


def _state_of(source: Path | None) -> list[tuple[str, int, int]]:
    """Return path, time, and size of a file, or of each file in a folder, to detect changes."""
    if source is None:
        return []
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    stats = {str(path): path.stat() for path in files}
    return [(path, stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()]


def serve(
    model: str,
    *,
    port: int,
    host: str = HOST,
    log_to: Path | None = None,
    among: Path | None = None,
    searched: Roles = OWN,
) -> None:
    """Serve the weights of a registered version with this checkout's code, until Ctrl-C.

    Args:
        model: the address of a version, see `Served`.
        port: the port to listen on.
        host: the address to listen on; if other machines can reach it, the environment variable `TOKEN` must be set.
        log_to: a folder for a sample of the requests, see `pipelines.serving.request_log`; None to keep none.
        among, searched: see `Served`.

    Raises:
        FileNotFoundError, ValueError: there is no such version, see `pipelines.tracking.registry.weights_of`; the port
            is taken; or there is no token.
        OSError: `log_to` cannot be created.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token and not _is_loopback(host):
        raise ValueError(
            f"other machines can reach {host}, but {TOKEN} is not set: set it to a secret that requests must send as "
            "`Authorization: Bearer SECRET`, or remove --host"
        )
    requests = None if log_to is None else RequestLog(log_to)
    served, ended = Served(model, requests, among, token, searched=searched), threading.Event()
    try:  # uvicorn would only log it
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(
            f"port {port} of {host}: {error.strerror}; use another one, such as --port {port + 1}"
        ) from error
    threading.Thread(target=served.follow, args=(ended,), daemon=True).start()
    try:
        with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
            uvicorn.Server(uvicorn.Config(served)).run(sockets=[listening])
    finally:
        ended.set()


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> [_is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def app_of(
    weights: Path,
    *,
    version: str = "",
    run: str = "",
    requests: RequestLog | None = None,
    among: Path | None = None,
    searched: Roles = OWN,
    token: str = "",
    counters: Counters | None = None,
) -> Starlette:
    """Return a server for a model's weights. It loads only weights, never code.

    A version in the registry also contains code, but anyone who may write versions could have written it.

    Args:
        weights: the folder of a model.
        version: the version, such as `label_ranking-photos/3`, for the response header `X-Model-Version`.
        run: the name of the run that made it.
        requests: keeps a sample of the requests; None to keep none.
        among, searched: the rows that a retrieval model searches, and the roles of their columns; an answer then has
            the best-matching rows instead of an embedding, ten or the request's `k`.
        token: requests without it get 401, except health checks; empty to answer all requests.
        counters: counts the requests; None to create new counters.

    Raises:
        ValueError: the weights are incomplete, or a sorter's requests should be kept.
    """
    model, headers = Model(), {"X-Model-Version": version}
    model.load(weights)
    if requests is not None and model.task is None:
        raise ValueError(f"{version} is a sorter, which cannot be monitored: remove --log-to")
    gallery = None if among is None else Gallery(weights, among, searched)
    if requests is not None and model.recipe["task"] == "retrieval":
        kept = input_compared(model.recipe)
        logging.getLogger(__name__).warning("only requests with %s are kept, which `monitor` compares", kept)
    name, _, number = version.rpartition("/")
    about, counted = {"model": name, "version": number, "run": run}, counters or Counters()
    counted.serving(about)
    unlike_training = None if model.task is None else UnlikeTraining(weights, model.recipe)

    def answers_to(body: bytes) -> tuple[Response, int]:
        try:
            rows, answers = _rows_and_answers(body, model, gallery)
        except RecursionError:
            return _refusal(400, "brackets are nested too deep, expected rows of cells"), 0
        except ValueError as error:
            return _refusal(400, str(error)), 0
        if requests is not None:
            _keep(requests, rows, answers, model.recipe, version)
        warnings = [] if unlike_training is None else _warnings(rows, model.recipe, unlike_training)
        return JSONResponse({"predictions": answers} | ({"warnings": warnings} if warnings else {})), len(answers)

    async def invocations(request: Request) -> Response:
        response, rows = _refused(request), 0
        if response is None:
            try:
                response, rows = await asyncio.to_thread(answers_to, await request.body())
            except ClientDisconnect:
                response = _refusal(400, "the connection ended before the end of the body")
        response.headers.update(headers)
        request.state.rows = rows
        return response

    async def counted_invocations(request: Request) -> Response:
        began, status = time.perf_counter(), 500  # the status if the handler raises
        try:
            response = await _with_token(invocations, token)(request)
            status = response.status_code
            return response
        finally:
            counted.answered(status, getattr(request.state, "rows", 0), time.perf_counter() - began)

    async def ping(request: Request) -> Response:
        return Response(headers=headers)

    async def version_now(request: Request) -> Response:
        return JSONResponse(about, headers=headers)

    async def metrics(request: Request) -> Response:
        return Response(counted.written(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[
        Route("/invocations", counted_invocations, methods=["POST"]),
        Route("/version", _with_token(version_now, token)), Route("/metrics", _with_token(metrics, token)),
        Route("/ping", ping), Route("/health", ping),
    ])  # fmt: skip


def _rows_and_answers(body: bytes, model: Model, gallery: Gallery | None) -> tuple[list[Any], list[Any]]:
    """Return the checked rows of a request and their answers; in a search, with the rows found.

    Raises:
        ValueError: the request or a row is invalid.
        RecursionError: brackets are nested too deep.
    """
    sent, k = request_in(body)
    if k is not None and gallery is None:
        raise ValueError("k is only for a server that searches rows: leave it out, or serve with --among")
    rows, count = model.checked(sent), FOUND if k is None else k
    if gallery is None:
        return rows, model.answered(rows)
    _check_ids(len(rows), count, gallery)
    return rows, [_with_found(answer, gallery, count) for answer in model.answered(rows)]


def _keep(requests: RequestLog, rows: list[Any], answers: list[Any], recipe: Mapping[str, Any], version: str) -> None:
    """Keep a sample of the rows that `monitor` can compare, with their answers."""
    name = input_compared(recipe)
    kept = [number for number, row in enumerate(rows) if name in row]
    requests.keep([row_of(rows[number], recipe) for number in kept], [answers[number] for number in kept], version)


def _with_token(endpoint: Callable[[Request], Awaitable[Response]], token: str) -> Any:
    """Return an endpoint that answers only requests with the token; an empty token allows all requests."""

    async def checked(request: Request) -> Response:
        authorization = request.headers.get("authorization", "").encode("latin-1")
        if not secrets.compare_digest(authorization, f"Bearer {token}".encode()):
            refusal = _refusal(401, "expected the header `Authorization: Bearer SECRET`")
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        return await endpoint(request)

    return checked if token else endpoint


def _check_ids(rows: int, count: int, gallery: Gallery) -> None:
    """Raise ValueError if a request asks for too many ids."""
    if rows * min(count, len(gallery.ids)) > MOST_FOUND:
        raise ValueError(f"{rows} rows with k {count}, expected at most {MOST_FOUND} ids: send several requests")


def _with_found(answer: dict[str, Any], gallery: Gallery, count: int) -> dict[str, Any]:
    """Return an answer with its embedding replaced by the rows found."""
    rest = {name: value for name, value in answer.items() if name != "embedding"}
    return rest | {"found": [] if answer["embedding"] is None else gallery.best(answer["embedding"], count)}


def _refused(request: Request) -> Response | None:
    """Return the refusal of a request whose headers are invalid, before reading the body; None if they are valid."""
    headers = ("content-type", "content-encoding", "transfer-encoding", "content-length")
    kind, encoding, transfer, length = (request.headers.get(name, "").strip().lower() for name in headers)
    media, _, parameters = kind.partition(";")
    charset = re.search(r"\bcharset\s*=\s*\"?([^\s;\"]*)", parameters)
    if media.strip() != "application/json" or (charset and charset[1] not in CHARSETS):
        return _refusal(415, f"Content-Type is {kind[:100]!r}, expected application/json, in UTF-8")
    if encoding not in ("", "identity"):  # a few hundred bytes could unpack to gigabytes
        return _refusal(415, f"Content-Encoding is {encoding[:100]!r}, expected none: send uncompressed JSON")
    if transfer:  # chunks may never end
        return _refusal(411, f"Transfer-Encoding is {transfer[:100]!r}, expected a Content-Length instead")
    if not re.fullmatch(r"\d+", length, re.ASCII):
        return _refusal(411, f"Content-Length is {length[:20]!r}, expected the number of bytes in the body")
    if len(length) > 9 or int(length) > BODY:
        return _refusal(413, f"Content-Length is {length[:20]}, expected at most {BODY}: send several requests")
    return None


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error_code": "INVALID_PARAMETER_VALUE", "message": message}, status)  # as MLflow does


def _warnings(rows: list[Any], recipe: Mapping[str, Any], unlike_training: UnlikeTraining) -> list[str]:
    """Return the warnings on the inputs of checked rows, each once, and a line for each column unlike training."""
    about, lists = recipe["input"], lookup.find("tasks", recipe["task"]).reads.lists
    input_type, warnings = type_of(about), dict[str, None]()
    for number, row in enumerate(rows, 1):
        if input_type.name in row:  # a row may have only a caption
            for cell in row[input_type.name] if lists else [row[input_type.name]]:
                warnings |= {f"row {number}: {warning}": None for warning in input_type.warnings(cell, about)}
    unlike = Unlike()
    unlike_training.add(unlike, rows, [f"row {number}" for number in range(1, 1 + len(rows))])
    return [*warnings, *unlike.lines]


def request_in(body: bytes) -> tuple[list[Any], int | None]:
    """Return the rows of a request in any of MLflow's formats, and how many ids it asks for, or None.

    Raises:
        ValueError: the body is invalid; see the messages.
        RecursionError: brackets are nested too deep.
    """
    try:
        request = parsed_json(body.decode("utf-8-sig"), object_pairs_hook=_each_key_once)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} of the body is not UTF-8, expected JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    k = request.pop("k", None) if isinstance(request, dict) else None
    if k is not None and (type(k) is not int or k < 1):
        raise ValueError(f"k is {k!r:.60}, expected how many ids to find: a whole number from 1 on")
    if not isinstance(request, dict) or len(request) != 1 or not set(request) <= set(FORMS):
        keys = listed(map(repr, request)) if isinstance(request, dict) else in_json(request)
        raise ValueError(f"found {keys or 'nothing'}; expected a JSON object with exactly one of {', '.join(FORMS)}")
    [(form, table)] = request.items()
    return [*_rows(form, table)], k


def _rows(form: str, table: Any) -> Iterator[Any]:
    """Yield the rows of a table in any format, as objects or as lists of scores."""
    if form == "dataframe_split":
        names = table.get("columns") if isinstance(table, dict) else None
        if not isinstance(names, list) or len(set(map(str, names))) < len(names):
            raise ValueError(f'{form}: expected {{"columns": [...], "data": [[...], ...]}}, each column once')
        for number, row in enumerate(as_list(table.get("data"), f"{form}: data"), 1):
            if len(as_list(row, f"{form}: row {number}")) != len(names):
                raise ValueError(f"{form}: row {number} has {len(row)} cells, expected {len(names)}, one per column")
            yield dict(zip(map(str, names), row, strict=True))
    elif isinstance(table, dict):
        columns = {name: as_list(cells, f"{form}: {name}") for name, cells in table.items()}
        if len(counts := {len(cells) for cells in columns.values()}) > 1:
            raise ValueError(
                f"{form}: columns of {' and '.join(map(str, sorted(counts)))} cells, expected the same number in each"
            )
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))
    else:
        yield from as_list(table, form)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"a key occurs twice in an object with {listed(map(repr, values))}; expected each once")
    return values

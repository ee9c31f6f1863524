"""A server of a model, only for this machine, with the protocol of MLflow's, and the limits of `served_model`."""

import asyncio
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn  # comes with MLflow
from mlflow.entities.model_registry import ModelVersion
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.ops.messages import first_line
from pipelines.serving.named_model import is_registered
from pipelines.serving.request_log import RequestLog, row_of
from pipelines.serving.served_model import BODY, Model
from pipelines.tracking.registry import version_of, weights_of
from rankgrad.cli.answers import Gallery
from rankgrad.inputs import as_list, in_json
from rankgrad.lookup import listed
from rankgrad.plain_text import parsed_json

__all__ = ["HOST", "Served", "app_of", "serve"]

HOST = "127.0.0.1"
FORMS = ("dataframe_records", "dataframe_split", "inputs", "instances")  # MLflow's
CHARSETS = ("", "utf-8", "utf8", "us-ascii")


class Served:
    """The ASGI app of whichever version an address names now: one with an alias follows it, without a restart.

    A new version answers as soon as it is loaded; requests that came before are answered by the one before. One that
    cannot be loaded, and a registry that does not answer, change nothing and are reported.

    Args:
        model: registered, such as `models:/label_ranking-photos@champion`.
        requests: what keeps a sample of the requests; None to keep none.
        among: what a model of retrieval searches, see `rankgrad.cli.answers.Gallery`; None to answer embeddings.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`.
    """

    def __init__(self, model: str, requests: RequestLog | None = None, among: Path | None = None) -> None:
        self._model, self._requests, self._among = model, requests, among
        self._app, self.version = self._loaded(version_of(model))

    def _loaded(self, version: ModelVersion) -> tuple[Starlette, str]:
        name = f"{version.name}/{version.version}"
        with TemporaryDirectory() as scratch:
            weights = weights_of(f"models:/{name}", Path(scratch))
            return app_of(weights, version=name, requests=self._requests, among=self._among), name

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


def serve(model: str, *, port: int, log_to: Path | None = None, among: Path | None = None) -> None:
    """Serve the weights of a registered version until Ctrl-C, by the code of this checkout.

    Args:
        model: the address of a version, see `Served`.
        port: of this machine.
        log_to: a folder for a sample of the requests, see `pipelines.serving.request_log`; None to keep none.
        among: see `Served`.

    Raises:
        FileNotFoundError, ValueError: no such version, see `pipelines.tracking.registry.weights_of`; the port is taken.
        OSError: `log_to` cannot be made.
    """
    if not is_registered(model):
        raise ValueError(f"{model}: MLflow serves what is registered; expected such as models:/<name>@champion")
    requests = None if log_to is None else RequestLog(log_to)
    served, ended = Served(model, requests, among), threading.Event()
    with socket.socket() as probe:  # uvicorn would only log it
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


def app_of(
    weights: Path, *, version: str = "", requests: RequestLog | None = None, among: Path | None = None
) -> Starlette:
    """Return a server of a model's weights. Nothing but them is taken from where they come from.

    A version in the registry has code too, which whoever may write versions has written: it is not run.

    Args:
        weights: folder of a model.
        version: such as `label_ranking-photos/3`, which each answer has in its header `X-Model-Version`.
        requests: what keeps a sample of the requests; None to keep none.
        among: what a model of retrieval searches, once for all requests: an answer has the ten rows that fit best in
            place of an embedding.

    Raises:
        ValueError: there are no whole weights, or no task could answer requests to them.
    """
    model, headers = Model(), {"X-Model-Version": version}
    model.load(weights)
    if requests is not None and model.task is None:
        raise ValueError(f"{version}: a sorter, whose scores nothing monitors: leave out --log-to")
    gallery = None if among is None else Gallery(weights, among)
    input_name = model.recipe.get("input", {}).get("kind")

    def answers_to(body: bytes) -> Response:
        try:
            rows = model.checked(rows_in(body))
            answers = model.answered(rows)
        except RecursionError:
            return _refusal(400, "too many brackets within brackets, expected rows of cells")
        except ValueError as error:
            return _refusal(400, str(error))
        if requests is not None:
            # A caption by which pictures were looked up has no input, and is not compared.
            kept = [number for number, row in enumerate(rows) if input_name in row]
            written = [row_of(rows[number], model.recipe) for number in kept]
            requests.keep(written, [answers[number] for number in kept], version)
        if gallery is not None:
            answers = [_with_found(answer, gallery) for answer in answers]
        return JSONResponse({"predictions": answers})

    async def invocations(request: Request) -> Response:
        response = _refused(request)
        if response is None:
            try:
                response = await asyncio.to_thread(answers_to, await request.body())
            except ClientDisconnect:
                response = _refusal(400, "the connection ended within the body")
        response.headers.update(headers)
        return response

    async def ping(request: Request) -> Response:
        return Response(headers=headers)

    return Starlette(routes=[
        Route("/invocations", invocations, methods=["POST"]), Route("/ping", ping), Route("/health", ping),
    ])  # fmt: skip


def _with_found(answer: dict[str, Any], gallery: Gallery) -> dict[str, Any]:
    """Return an answer with what is found in place of its embedding."""
    rest = {name: value for name, value in answer.items() if name != "embedding"}
    return rest | {"found": gallery.best(answer["embedding"])}


def _refused(request: Request) -> Response | None:
    """Return the answer to a request whose body is not worth reading; None to the others."""
    headers = ("content-type", "content-encoding", "transfer-encoding", "content-length")
    kind, encoding, transfer, length = (request.headers.get(name, "").strip().lower() for name in headers)
    media, _, parameters = kind.partition(";")
    charset = re.search(r"\bcharset\s*=\s*\"?([^\s;\"]*)", parameters)
    if media.strip() != "application/json" or (charset and charset[1] not in CHARSETS):
        return _refusal(415, f"Content-Type is {kind[:100]!r}, expected application/json, in UTF-8")
    if encoding not in ("", "identity"):  # some hundred bytes would unpack to gigabytes
        return _refusal(415, f"Content-Encoding is {encoding[:100]!r}, expected none: send the JSON as it is")
    if transfer:  # chunks may come without end
        return _refusal(411, f"Transfer-Encoding is {transfer[:100]!r}, expected a Content-Length in its place")
    if not re.fullmatch(r"\d+", length, re.ASCII):
        return _refusal(411, f"Content-Length is {length[:20]!r}, expected the body's number of bytes")
    if len(length) > 9 or int(length) > BODY:
        return _refusal(413, f"Content-Length is {length[:20]}, expected at most {BODY}: send several requests")
    return None


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error_code": "INVALID_PARAMETER_VALUE", "message": message}, status)  # as MLflow's are


def rows_in(body: bytes) -> list[Any]:
    """Return the rows of a request in any of MLflow's forms.

    Raises:
        ValueError: see the messages.
        RecursionError: too many brackets.
    """
    try:
        request = parsed_json(body.decode("utf-8-sig"), object_pairs_hook=_each_key_once)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} of the body is no UTF-8, expected JSON in it") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict) or len(request) != 1 or not set(request) <= set(FORMS):
        keys = listed(map(repr, request)) if isinstance(request, dict) else in_json(request)
        raise ValueError(f"found {keys or 'nothing'}; expected a JSON object with one of {', '.join(FORMS)} alone")
    [(form, table)] = request.items()
    return [*_rows(form, table)]


def _rows(form: str, table: Any) -> Iterator[Any]:
    """Yield the rows of a table, whatever its form, as objects, or as lists of scores."""
    if form == "dataframe_split":
        names = table.get("columns") if isinstance(table, dict) else None
        if not isinstance(names, list) or len(set(map(str, names))) < len(names):
            raise ValueError(f'{form}: expected {{"columns": [...], "data": [[...], ...]}}, each column once')
        for number, row in enumerate(as_list(table.get("data"), f"{form}: data"), 1):
            if len(as_list(row, f"{form}: row {number}")) != len(names):
                raise ValueError(f"{form}: row {number} has {len(row)} cells, expected {len(names)}, one a column")
            yield dict(zip(map(str, names), row, strict=True))
    elif isinstance(table, dict):
        columns = {name: as_list(cells, f"{form}: {name}") for name, cells in table.items()}
        if len(counts := {len(cells) for cells in columns.values()}) > 1:
            raise ValueError(
                f"{form}: columns of {' and '.join(map(str, sorted(counts)))} cells, expected as many in each"
            )
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))
    else:
        yield from as_list(table, form)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"a key twice in an object with {listed(map(repr, values))}; expected each once")
    return values

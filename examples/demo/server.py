"""Serve the page on this machine only; draw scenes and score them. It needs torch and safetensors."""

import base64
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from rankgrad.cli.predict import SHIPPED, image_of_ranker
from rankgrad.datasets.scenes.drawing import draw
from rankgrad.io.checkpoints import load_model
from rankgrad.io.recipes import recipe_of
from rankgrad.ranks import dense_ranks

from .glyphs import pen_digits

__all__ = ["HOST", "PORT", "answer", "load_rankers", "serve", "server"]

HOST, PORT = "127.0.0.1", 5002
PAGE = Path(__file__).with_name("page.html")
LABELS = 10
LARGEST = 10_000  # bytes of a request
LEAST = 0.05  # of the scene's side; of a smaller digit hardly a pixel is drawn
HEADERS = {
    "Cache-Control": "no-store",
    # The browser itself refuses requests to elsewhere.
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'",
}

RUNS = Path("models/runs")
QUICKSTART = Path("reports/quickstart")  # not below models: stages depend on all of it
# Rankers that differ only in their loss, by the names on the page: from `make repro`, and from `make quickstart`.
TOGETHER = (
    {
        "RLSEP": RUNS / "label_ranking-rlsep",
        "Regression": RUNS / "label_ranking-mse",
        "Cross-entropy": RUNS / "label_ranking-multilabel_cross_entropy",
    },
    {"RLSEP": QUICKSTART / "rlsep", "Cross-entropy": QUICKSTART / "multilabel_cross_entropy"},
)


def trained_together() -> dict[str, Path]:
    """Return the first rankers of `TOGETHER` whose folders exist, or else the ranker that ships."""
    for rankers in TOGETHER:
        if all(folder.is_dir() for folder in rankers.values()):
            return rankers
    return {"RLSEP": SHIPPED}


def load_rankers(folders: Sequence[Path] = ()) -> dict[str, Any]:
    """Load label rankers by name.

    Args:
        folders: by default, the first of `TOGETHER` that is here, or else the ranker that ships.

    Raises:
        FileNotFoundError, ValueError: no model, or one of other images or labels.
    """
    named = {str(folder): folder for folder in folders} or trained_together()
    for folder in named.values():
        try:
            image, labels = image_of_ranker(folder), recipe_of(folder)["args"].get("outputs")
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error}; without a folder the ranker that ships is shown") from error
        if (image["colors"], image["width"], labels) != (1, image["height"], LABELS):
            raise ValueError(f"{folder}: ranks {labels} labels in {image}; expected ten in gray squares, as digits are")
    return {name: load_model(folder) for name, folder in named.items()}


def _boxes_of(scene: Any) -> dict[int, list[float]]:
    """Return size, top and left of each label, in shares of the scene's side.

    Raises:
        ValueError: they are not such; the message says what is expected.
    """
    rows = scene.get("digits") if isinstance(scene, dict) else None
    if not isinstance(rows, list):
        raise ValueError('expected {"digits": [{"label": 3, "size": 0.3, "top": 0.1, "left": 0.2}, ...]}')
    boxes: dict[int, list[float]] = {}
    for row in rows:
        try:
            label, *box = (row[key] for key in ("label", "size", "top", "left"))
            if not {*map(type, box)} <= {int, float}:
                raise TypeError("a number is missing")
            size, top, left = map(float, box)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{row}: expected numbers label, size, top and left") from error
        if type(label) is not int or not 0 <= label < LABELS or label in boxes:
            raise ValueError(f"label {label}: expected each of 0 to 9 at most once")
        if not (LEAST <= size <= 1 and all(0 <= edge <= 1 + 1e-6 - size for edge in (top, left))):  # so NaN fails
            raise ValueError(
                f"label {label}: size {size:g}, top {top:g}, left {left:g}: expected a box inside the scene, which is "
                f"0 to 1 both ways, of size {LEAST} at least"
            )
        boxes[label] = [size, top, left]
    return boxes


@torch.inference_mode()
def answer(scene: Any, rankers: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a scene and score it.

    Args:
        scene: `digits`, a list of `label`, `size`, `top` and `left`, the last three in shares of the scene's side.
        rankers: by name.

    Returns:
        `side` and `pixels` (base64, row by row) of the picture that the first ranker sees, the true `label_ranks`
        (0 = absent, larger = bigger), and for each ranker its `name`, the ten `scores`, and `order`: the labels that it
        finds, the most important first.

    Raises:
        ValueError: not such a scene.
    """
    boxes, glyphs = _boxes_of(scene), pen_digits()[None]
    shares = torch.zeros(LABELS, 3)
    for label, box in boxes.items():
        shares[label] = torch.tensor(box)

    @cache
    def picture(side: int) -> torch.Tensor:
        size, top, left = (shares.T * side).unsqueeze(1)
        return draw(glyphs, size, top, left, canvas=side)

    models, sides = [], [ranker.recipe["input"]["width"] for ranker in rankers.values()]
    for (name, ranker), side in zip(rankers.items(), sides, strict=True):
        scores, thresholds = (values[0].tolist() for values in ranker(picture(side)[:, None]))
        selected = [label for label in range(LABELS) if scores[label] > thresholds[label]]
        models.append({"name": name, "scores": scores, "order": sorted(selected, key=lambda label: -scores[label])})
    return {
        "side": sides[0],
        "pixels": base64.b64encode(picture(sides[0]).numpy().tobytes()).decode(),
        "label_ranks": dense_ranks(shares[None, :, 0])[0].tolist(),
        "models": models,
    }


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # the default of 5 resets connections of a lively page

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that leaves, or falls silent, is no error.
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def server(rankers: Mapping[str, Any], port: int) -> ThreadingHTTPServer:
    """Return a listening server for this machine only; port 0 takes a free port.

    Raises:
        ValueError: the port is taken, or may not be.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds that a client may be silent

        def parse_request(self) -> bool:
            if not super().parse_request():
                return False
            # A page from elsewhere, whose name was made to lead here, asks by that name.
            host = self.headers.get("Host", HOST)
            if host.partition(":")[0] not in (HOST, "localhost"):
                self.refuse(403, f"Host is {host!r}, expected {HOST}")
                return False
            return True

        def do_GET(self) -> None:
            if self.path == "/":
                self.reply(200, "text/html", PAGE.read_bytes())
            else:
                self.refuse(404, f"{self.path}: not here; the page is /")

        def do_POST(self) -> None:
            if self.path != "/scene":
                return self.refuse(404, f"{self.path}: not here; scenes go to /scene")
            length = self.headers.get("Content-Length", "")
            if not re.fullmatch("[0-9]{1,9}", length) or int(length) > LARGEST:
                return self.refuse(400, f"Content-Length is {length[:20]!r}, expected at most {LARGEST}")
            try:
                result = answer(json.loads(self.rfile.read(int(length))), rankers)
            except (ValueError, RecursionError) as error:  # JSON's and decoding's own are ValueErrors too
                return self.refuse(400, str(error))
            self.reply(200, "application/json", json.dumps(result).encode())

        def refuse(self, status: int, message: str) -> None:
            self.reply(status, "application/json", json.dumps({"error": message}).encode())

        def reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            for name, value in {
                **HEADERS,
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    try:
        return _Server((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise ValueError(f"port {port} of {HOST}: {error}; name another by --port") from error


def serve(folders: Sequence[Path] = (), *, port: int = PORT) -> None:
    """Serve the page until Ctrl-C.

    Args:
        folders: of label rankers, see `load_rankers`.
        port: of 127.0.0.1.

    Raises:
        FileNotFoundError, ValueError: see `load_rankers` and `server`.
    """
    with server(load_rankers(folders), port) as listening:
        print(f"http://{HOST}:{listening.server_port} - open it in a browser; Ctrl-C ends it", flush=True)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            print()

"""Milliseconds of a served label ranker, asked by one client and by a hundred at once; an image a request."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import torch

from benchmarks.results import write
from pipelines.config import load
from pipelines.tracking.upload import Run, Version, publish
from rankops.datasets.files.splits import Split
from rankops.inputs.image import of_tensor
from rankops.io.checkpoints import save_model
from rankops.io.parquet import encode_images
from rankops.tasks.label_ranking import LabelRanking

CLIENTS, ROUNDS, WARMING = 100, 10, 20
RUN, PORT = "label_ranking-rlsep", 5099
SERVE = f"from pipelines.serving.server import serve; serve('models:/label_ranking@champion', port={PORT})"


@contextmanager
def served() -> Iterator[str]:
    """The address of a server of a version with random weights, of the network of params.yaml."""
    params = load()
    some = Split(of_tensor(torch.zeros(1, 32, 32, dtype=torch.uint8)), torch.zeros(1, 10, dtype=torch.int64))
    network = LabelRanking(params.training_of(RUN)).build(params.runs[RUN].model.model_dump(), some, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        save_model(Path(folder) / "weights", network)
        version = Version("label_ranking", Path(folder) / "weights")
        publish([Run("random", "label_ranking", "random", version=version)])
        server = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        address = f"http://127.0.0.1:{PORT}"
        try:
            while server.poll() is None:
                try:
                    urlopen(f"{address}/ping", timeout=5).close()
                    break
                except URLError:
                    time.sleep(0.2)
            yield address
        finally:
            server.terminate()
            server.wait()


def requests(count: int, *, canvas: int) -> list[bytes]:
    """Bodies of requests, each with an image of its own."""
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (count, canvas, canvas), dtype=np.uint8)
    encoded = encode_images(images, threads=1).field("bytes").to_pylist()
    return [json.dumps({"dataframe_records": [{"image": base64.b64encode(one).decode()}]}).encode() for one in encoded]


def milliseconds(address: str, body: bytes) -> float:
    """Of one request, from the connection to the last byte of the answer.

    Raises:
        HTTPError: the server refuses it.
    """
    request = Request(f"{address}/invocations", body, {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urlopen(request, timeout=60) as answer:
        predictions = json.load(answer)["predictions"]
    taken = 1000 * (time.perf_counter() - start)
    assert len(predictions[0]["scores"]) == 10
    return taken


def measured(address: str, bodies: list[bytes], *, clients: int, rounds: int) -> dict[str, float]:
    """The times of `clients` threads that ask together, again and again."""
    together = Barrier(clients)

    def ask(body: bytes) -> float:
        together.wait()
        return milliseconds(address, body)

    times, seconds = [], 0.0
    with ThreadPoolExecutor(clients) as pool:
        for start in range(0, clients * rounds, clients):
            begun = time.perf_counter()
            times += pool.map(ask, [bodies[(start + one) % len(bodies)] for one in range(clients)])
            seconds += time.perf_counter() - begun
    return {
        "requests": len(times),
        "p50 ms": float(np.percentile(times, 50)),
        "p95 ms": float(np.percentile(times, 95)),
        "slowest ms": max(times),
        "requests/s": len(times) / seconds,
    }


def main() -> None:
    torch.set_num_threads(load().compute.threads)
    bodies = requests(CLIENTS, canvas=load().datasets[load().runs[RUN].dataset].canvas)
    with served() as address:
        for body in bodies[:WARMING]:
            milliseconds(address, body)
        figures = {
            f"{clients} at once": measured(address, bodies, clients=clients, rounds=rounds)
            for clients, rounds in ((1, CLIENTS), (CLIENTS, ROUNDS))
        }
    write("serving", figures)


if __name__ == "__main__":
    main()

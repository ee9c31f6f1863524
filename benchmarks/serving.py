"""Milliseconds of a served label ranker, asked by one client and by a hundred at once; an image a request."""

import base64
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import torch

from benchmarks.results import write
from pipelines.config.schema import load
from pipelines.serving import server
from pipelines.tracking import publish
from rankops.io.checkpoints import build
from rankops.io.parquet import encode_images
from rankops.tasks.label_ranking import LabelRanker, save

CLIENTS, ROUNDS, WARMING = 100, 10, 20
SERVING = Path(publish.__file__).parents[1] / "serving"


@contextmanager
def registered() -> Iterator[str]:
    """The address of a version with random weights, of the network of params.yaml, in a store of its own."""
    run, training = load().runs["label_ranking-rlsep"], load().training.label_ranking
    scorer = build("models", run.model.name, run.model.args, seed=0, outputs=10, colors=1)
    options = {"hidden": training.model_dump()["thresholds"]["hidden"]}
    thresholds = build("models", "threshold_network", options, seed=0, features=scorer.embedding_size, outputs=10)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        save(Path(folder) / "run", LabelRanker(scorer.eval(), thresholds.eval()))
        version = publish.Version(
            model="label_ranking",
            script=SERVING / "label_ranking.py",
            weights=Path(folder) / "run",
            signature=publish.task_signature("label_ranking"),
            requirements=publish.requirements("mlflow"),
        )
        finished = publish.Finished(
            name="random", experiment="label_ranking", key="random", params={}, metrics={}, tags={},
            history=pd.DataFrame({"epoch": [1]}), files={}, version=version,
        )  # fmt: skip
        with publish.store() as client:
            client.create_experiment("label_ranking", artifact_location=f"{folder}/artifacts")
            publish.publish(client, [finished])
        yield "models:/label_ranking@champion"


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
    bodies = requests(CLIENTS, canvas=load().ranked_mnist.canvas)
    with registered() as model, server.running(model, port=server.free_port()) as address:
        for body in bodies[:WARMING]:
            milliseconds(address, body)
        figures = {
            f"{clients} at once": measured(address, bodies, clients=clients, rounds=rounds)
            for clients, rounds in ((1, CLIENTS), (CLIENTS, ROUNDS))
        }
    write("serving", figures)


if __name__ == "__main__":
    main()

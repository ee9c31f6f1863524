"""What consumers get: images that are read with care, models by address or folder, and MLflow's server."""

import base64
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import requests as http
import torch
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from PIL import Image
from prefect.logging import disable_run_logger
from starlette.testclient import TestClient

from pipelines.config import load
from pipelines.flows.monitor import newest
from pipelines.flows.predict import predict
from pipelines.serving import named_model, request_log, server
from pipelines.serving.named_model import model_folder, the_model
from pipelines.serving.request_log import RequestLog
from pipelines.serving.served_model import BODY, Model
from pipelines.tracking.upload import Run, Version, publish
from rankgrad import lookup
from rankgrad.datasets.tables.rows import Roles, read
from rankgrad.inputs.image import Image as Photo
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.tasks.label_ranking import LabelRanking

from conftest import ROOT, encoded, free_port, small_ranker, store_in, wait_for  # isort: skip
from rows import SIDE, SORTERS, by_name, cells, of_json  # isort: skip
from rows import folder_of as folder_of_pair  # isort: skip

WORDS = "a large three"
TYPES = {"score_ranking": "frames", "query_ranking": "features"}  # of tasks in this file; the others take images


def folder_of(name: str) -> Path:
    return folder_of_pair(name if name in SORTERS else f"{name} of {TYPES.get(name, 'image')}")


def network_of(task: str) -> torch.nn.Module:
    return load_model(folder_of(task)).eval()


def noise(generator: torch.Generator, *size: int) -> Image.Image:
    """Height, width, and 3 for a colored one."""
    return Image.fromarray(torch.randint(0, 256, size, generator=generator, dtype=torch.uint8).numpy())


def test_a_busy_port_of_mlflows_server_is_refused_with_what_to_type(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # no store is made
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["tracking", str(port)])
        with pytest.raises(SystemExit, match=f"port {port}.*make ui PORT="):
            runpy.run_module("pipelines.tracking", run_name="__main__")


class TestImagesOfARequest:
    def test_are_the_same_in_any_writing_of_base64(self, generator):
        good = encoded(noise(generator, 17, 19)) + b"\0"  # of a length that base64 pads
        plain = base64.b64encode(good).decode()
        assert set("+/=") <= set(plain)
        for form in (
            good, plain.encode(), plain.rstrip("="), base64.urlsafe_b64encode(good).decode(),
            "\n".join(plain[:76]) + plain[76:], f"data:image/png;base64,{plain}",
        ):  # fmt: skip
            assert Photo.checked(form, "row 1: image") == good


@cache
def served(task: str) -> TestClient:
    """The server in this process, of the task of a request."""
    return TestClient(server.app_of(folder_of(task)), raise_server_exceptions=False)


GOOD = encoded(Image.new("L", (SIDE, SIDE)))
REFUSED = [
    ("multilabel", [{"image": GOOD}, {"image": encoded(Image.new("1", (9000, 9000)))}], "row 2"),
    ("score_ranking", [{"frames": [GOOD, b"GIF89a"]}], r"row 1, frame 1: unusable image"),
    ("retrieval", [{"image": GOOD, "caption": WORDS}], "row 1: expected either image or caption"),
    ("label_ranking", [{"image": "data:image/png,%89PNG"}], "row 1: image: .*data URI without base64"),
    ("query_ranking", [{"features": [[10**400, 1, 0, 1]]}], "row 1: features 0 .*401 digits"),
    ("label_ranking", [{"image": "ffd8ffe0"}], "row 1: image: .*hexadecimal"),
    ("label_ranking", [{"image": GOOD, "id": "i" * 2000}], "row 1: id: .*2,000 characters"),
    # Not the row of the turn in which it is answered.
    ("label_ranking", [{"image": GOOD}] * 40 + [{"image": b"GIF89a"}], "row 41: unusable image"),
    ("label_ranking", [{"image": b""}] * 1025, "1025 rows, expected 1 to 1024"),
    ("score_ranking", [{"frames": [b""] * 70_000}], "17920000 pixels"),
    ("handcrafted", {"inputs": [[0.5] * 4097]}, "16785409 pairs of scores"),
    ("handcrafted", {"inputs": [[0.5, 1.0], [1e39, 1.0]]}, "row 2: .*not finite"),
    # What NumPy would make a number of.
    ("handcrafted", {"inputs": [[0.5, 1.0], ["1", "2"]]}, "row 2 has text"),
    ("query_ranking", [{"features": [[0.1, 0.2, 0.3]]}], "row 1: 3 features, expected 5"),
    ("query_ranking", [{"features": [{"price": 1, "brand": "red", "age": 2, "prize": 3}]}], "row 1: .*'prize'"),
    ("label_ranking", [{"image": GOOD}, {"image": None}], "row 2: no image"),
    ("retrieval", [{"caption": WORDS, "captoin": WORDS}], "'captoin'.*did you mean caption"),
    ("retrieval", {"dataframe_split": {"columns": ["caption"] * 2, "data": [[WORDS] * 2]}}, "each column once"),
    ("retrieval", {"dataframe_records": [{"caption": WORDS}], "params": {"top": 3}}, "'params'"),
]


@pytest.mark.filterwarnings("ignore:.*input example was not provided")
class TestServed:
    @pytest.mark.parametrize(("task", "body", "message"), REFUSED)
    def test_what_cannot_be_answered_is_a_400_that_names_its_row(self, task, body, message):
        if isinstance(body, list):
            body = {"dataframe_records": of_json(body)}
        answer = served(task).post("/invocations", json=body)
        assert answer.status_code == 400
        assert re.search(message, answer.json()["message"]), answer.text
        assert "Traceback" not in answer.text

    def test_what_is_no_json_or_large_is_refused_before_it_is_unpacked(self):
        kind, twice = "application/json", b'{"inputs": {"image": []}, "inputs": {"image": []}}'
        for status, body, headers in (
            (415, b"{}", {"Content-Type": ""}),
            (415, b"{}", {"Content-Type": f"{kind}; charset=utf-16"}),
            (415, b"\x1f\x8b", {"Content-Type": kind, "Content-Encoding": "gzip"}),
            (413, bytes(BODY + 1), {"Content-Type": kind}),
            (411, iter([b"{}"]), {"Content-Type": kind}),  # of unknown length
            (411, b"{}", {"Content-Type": kind, "Content-Length": "2", "Transfer-Encoding": "chunked"}),
            (400, b"[" * 100_000, {"Content-Type": f"{kind}; charset=utf-8"}),
            (400, twice, {"Content-Type": kind}),
            (400, twice, {"Content-Type": "APPLICATION/JSON; Charset=UTF-8"}),
        ):
            answer = served("label_ranking").post("/invocations", content=body, headers=headers)
            assert (answer.status_code, "Traceback" in answer.text) == (status, False)

    def test_a_token_is_asked_for_but_for_health_and_the_counters_and_the_version_are_the_models(self):
        app = server.app_of(folder_of("label_ranking"), version="shop/3", run="mine", token="s3cret")
        client, body = TestClient(app), {"dataframe_records": [{"image": of_json(GOOD)}] * 2}
        for path in ("/health", "/ping"):
            assert client.get(path).status_code == 200
        for authorization in ("", "Bearer s3cre", "Bearer s3cr\xe9t", "s3cret"):
            headers = {"Authorization": authorization.encode("latin-1")}
            for path in ("/version", "/metrics"):
                assert client.get(path, headers=headers).status_code == 401
            assert client.post("/invocations", json=body, headers=headers).status_code == 401
        headers = {"Authorization": "Bearer s3cret"}
        assert client.post("/invocations", json=body, headers=headers).status_code == 200
        assert client.post("/invocations", json={}, headers=headers).status_code == 400
        assert client.get("/version", headers=headers).json() == {"model": "shop", "version": "3", "run": "mine"}
        lines = client.get("/metrics", headers=headers).text.splitlines()
        for line in (
            'rankgrad_serving{model="shop",run="mine",version="3"} 1.0', 'rankgrad_requests_total{status="401"} 4.0',
            "rankgrad_rows_total 2.0", "rankgrad_request_seconds_count 6.0",
        ):  # fmt: skip
            assert line in lines

    def test_an_answer_that_is_no_number_is_a_400(self, tmp_path):
        network = network_of("multilabel")
        torch.nn.init.constant_(next(iter(network.parameters())), torch.inf)
        save_model(tmp_path, network)
        body = {"dataframe_records": [{"image": of_json(GOOD)}]}
        answer = TestClient(server.app_of(tmp_path)).post("/invocations", json=body)
        assert (answer.status_code, "not finite" in answer.json()["message"]) == (400, True)

    def test_a_small_request_waits_for_a_turn_of_a_large_one_and_not_for_its_end(self, tmp_path):
        save_model(tmp_path, network_of("multilabel"))
        model, answered, waiting = Model(), [], []
        model.load_context(SimpleNamespace(artifacts={"weights": tmp_path}))

        def respond(network, rows, *, first):
            answered.append(len(rows))
            if not waiting:
                waiting.append(pool.submit(model.predict, None, pd.DataFrame({"image": [b""]})))
                wait_for(lambda: model.turns._work_queue.qsize())
            return [{"score": 1.0}] * len(rows)

        model.task.answered = respond
        with ThreadPoolExecutor(1) as pool:
            assert len(model.predict(None, pd.DataFrame({"image": [b""] * 65}))) == 65
        assert len(waiting[0].result()) == 1
        assert answered == [32, 1, 32, 1]


@pytest.fixture(scope="module")
def run(tmp_path_factory, _empty_store) -> Path:
    """The folder of a run with two seeds, the second of which is the best; beside it a store with a version of each."""
    folder = tmp_path_factory.mktemp("published") / "run"
    save_model(folder / "seed1", small_ranker())
    save_model(folder / "seed2", network_of("label_ranking"))
    (folder / "run.json").write_text('{"best": 2}')
    with store_in(folder.parent, _empty_store):
        for seed in ("seed1", "seed2"):
            publish([Run(seed, "tests", seed, version=Version("label_ranking-shop", folder / seed))])
        Path("mlflow.db").rename("template.db")  # so that copies of it may name the files here
    return folder


@pytest.fixture
def published(tmp_path, run):
    """The present folder has a copy of that store; its client."""
    with store_in(tmp_path, run.parent / "template.db") as client:
        yield client


class TestModelFolder:
    def test_takes_a_run_or_a_version(self, published, run, tmp_path, monkeypatch):
        expected = network_of("label_ranking").state_dict()
        # As what comes over a network: copied, into a temporary folder where none is named.
        monkeypatch.setattr(LocalArtifactRepository, "download_artifacts", ArtifactRepository.download_artifacts)
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        for model in (run, "models:/label_ranking-shop@challenger"):
            with model_folder(str(model)) as folder:
                state = load_model(folder).state_dict()
            assert all(state[name].equal(weights) for name, weights in expected.items())
        assert list((tmp_path / "temporary").iterdir()) == []

    def test_the_model_of_a_command_is_the_only_one_of_the_params(self, monkeypatch):
        params = load(ROOT / "params.yaml")
        runs = {name: run for name, run in params.runs.items() if run.task == "multilabel"}
        monkeypatch.setattr(named_model, "load", lambda: params.model_copy(update={"runs": runs}))
        assert the_model(None, "") == "models:/multilabel-long_tailed_mnist@champion"


class TestBatch:
    def test_the_newest_file_is_answered_whole_or_not_at_all_once_by_each_version(self, published, generator):
        options = {"folder": "incoming", "model": "models:/label_ranking-shop@champion", "out": "answers"}
        with disable_run_logger():
            assert "no folder" in predict.fn(**options).message
            Path("incoming/2026-11-21").mkdir(parents=True)
            for number in range(3):
                noise(generator, SIDE, SIDE).save(f"incoming/2026-11-21/{number}.png")
            Path("incoming/2026-11-21/3.png").write_bytes(b"GIF89a")
            with pytest.raises(ValueError, match="3.png"):
                predict.fn(**options)
            assert not list(Path("answers").glob("*"))
            assert "3 of 4 rows" in predict.fn(**options, skip_broken=True).message
            assert "already answered" in predict.fn(**options, skip_broken=True).message
            folder = Path("answers/2026-11-21")
            record = json.loads((folder / "made_by.json").read_text())
            expected = {"model": "models:/label_ranking-shop/1", "run": "seed1", "rows": 4, "broken": 1}
            assert record.items() >= expected.items()
            assert len(pd.read_parquet(folder / "answers.parquet")) == 4
            published.set_registered_model_alias("label_ranking-shop", "champion", "2")
            Path("incoming/2026-11-21/3.png").unlink()
            assert "3 of 3 rows" in predict.fn(**options).message
            with pytest.raises(ValueError, match=r"incoming/2026-11-21: .*another `out`"):
                predict.fn(**options | {"out": "incoming"})
            assert len(list(Path("incoming/2026-11-21").glob("*.png"))) == 3
        again = json.loads((folder / "made_by.json").read_text())
        assert (again["model"], again["sha256"] == record["sha256"]) == ("models:/label_ranking-shop/2", False)


class TestRequests:
    """What is kept of requests is what `rankgrad monitor` reads."""

    @pytest.mark.parametrize("task", ["score_ranking", "query_ranking"])
    def test_rows_are_kept_with_answer_and_version_as_a_table_that_can_be_answered(self, task, tmp_path):
        network, day = network_of(task), [datetime(2026, 11, 26, tzinfo=UTC)]
        kept = RequestLog(tmp_path / "in", now=lambda: day[0])
        client = TestClient(server.app_of(folder_of(task), version="shop/3", requests=kept))
        kind, draws = TYPES[task], np.random.default_rng(1)
        [cell] = cells(task, kind, 1, draws)
        row = {kind: by_name(cell, draws) if task == "query_ranking" else of_json(cell), "id": "mine"}
        answers = []
        for _ in range(2):
            answer = client.post("/invocations", json={"dataframe_records": [row]})
            assert (answer.status_code, answer.headers["X-Model-Version"]) == (200, "shop/3"), answer.text
            answers += answer.json()["predictions"]
            day[0] += timedelta(days=1)
        file = newest(tmp_path / "in")  # the second day has not ended
        assert file.name == "2026-11-26-requests.jsonl"
        kept.close_days()  # it has, by the clock
        assert newest(tmp_path / "in").name == "2026-11-27-requests.jsonl"
        (line,) = map(json.loads, file.read_text().splitlines())
        assert (line["version"], line["asked"]) == ("shop/3", "2026-11-26T00:00:00+00:00")
        assert line["answer"] == answers[0]
        [asked] = [item.asked() for item in read([file], network.recipe)]
        (again,) = lookup.find("tasks", task)().respond(network, [asked])
        assert again == {name: pytest.approx(value) for name, value in answers[0].items() if name in again}

    def test_of_a_search_in_texts_queries_are_kept_with_what_was_found_and_passages_are_not(self, tmp_path):
        folder = folder_of_pair("retrieval of text")
        pd.DataFrame({"text": ["a hat", "red shoes"], "id": ["h", "s"]}).to_csv(tmp_path / "shop.csv", index=False)
        kept = RequestLog(tmp_path / "in")
        client = TestClient(server.app_of(folder, requests=kept, among=tmp_path / "shop.csv"))
        rows = [{"caption": "a large two"}, {"text": "a hat"}]
        answers = []
        for row in rows:
            answer = client.post("/invocations", json={"dataframe_records": [row]})
            assert answer.status_code == 200, answer.text
            answers += answer.json()["predictions"]
        [file] = (tmp_path / "in").glob("*.jsonl")
        [line] = map(json.loads, file.read_text().splitlines())
        assert (line["caption"], line["answer"]) == (rows[0]["caption"], answers[0])
        assert {found["found"] for found in line["answer"]["found"]} == {"h", "s"}
        recipe = load_model(folder).recipe
        [asked] = [item.asked() for item in read([file], recipe, Roles(captions=True))]
        assert asked == rows[0]

    def test_of_any_number_of_rows_a_bounded_random_sample_is_kept_also_after_a_restart(self, tmp_path, monkeypatch):
        monkeypatch.setattr(request_log, "ROWS", 100)
        for start in range(0, 3000, 1500):
            kept = RequestLog(tmp_path, seed=start)
            for first in range(start, start + 1500, 50):
                kept.keep([{"id": number} for number in range(first, first + 50)], [{"score": 0.5}] * 50, "shop/1")
            with kept._file.open("a") as file:
                file.write('{"id": 7\n{"id": 7')  # as a full disk and a killed process leave them
        lines = kept._file.read_text().splitlines()[:-2]
        ids = [json.loads(line)["id"] for line in lines]
        assert 100 <= len(ids) <= 200
        assert 1100 < np.mean(ids) < 1900  # neither the first nor the last


class TestServe:
    def test_an_alias_is_followed_without_a_restart(self, published):
        served = server.Served("models:/label_ranking-shop@champion")
        client = TestClient(served)
        assert client.get("/ping").headers["X-Model-Version"] == "label_ranking-shop/1"
        published.set_registered_model_alias("label_ranking-shop", "champion", "2")
        served.look()
        assert client.get("/ping").headers["X-Model-Version"] == "label_ranking-shop/2"
        published.delete_registered_model_alias("label_ranking-shop", "champion")
        served.look()
        assert client.get("/ping").headers["X-Model-Version"] == "label_ranking-shop/2"

    def test_a_run_is_served_before_anything_is_published(self, run):
        client = TestClient(server.Served(str(run / "seed1")))
        assert client.get("/version").json() == {"model": "seed1", "version": "unpublished", "run": "seed1"}

    def test_asked_by_many_at_once_it_answers_each_as_one_alone(self, published, run, generator, monkeypatch):
        for code in run.parent.joinpath("mlruns").rglob("served_model.py"):
            code.write_text("raise SystemExit('the code of a version was run')")
        port = free_port()
        address = "models:/label_ranking-shop@challenger"
        command = f"from pipelines.serving.server import serve; serve({address!r}, port={port})"
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        process = subprocess.Popen([sys.executable, "-c", command], start_new_session=True, env=environment)
        address = f"http://{server.HOST}:{port}"

        def ask(image: bytes) -> list[float]:
            body = {"dataframe_records": [{"image": base64.b64encode(image).decode()}]}
            return http.post(f"{address}/invocations", json=body, timeout=60).json()["predictions"][0]["scores"]

        def is_up() -> bool:
            with suppress(OSError):
                return http.get(f"{address}/ping", timeout=5).ok
            return process.poll() is not None

        try:
            wait_for(is_up, patience=120)
            images = [encoded(noise(generator, 16, 16)) for _ in range(12)]
            with ThreadPoolExecutor(12) as pool:
                together = list(pool.map(ask, images))
            expected = LabelRanking().respond(network_of("label_ranking"), [{"image": picture} for picture in images])
            for scores, answer in zip(together, expected, strict=True):
                assert scores == pytest.approx(answer["scores"], abs=1e-5)
            with pytest.raises(ValueError, match=f"port {port} of 127.0.0.1"):
                server.serve("models:/label_ranking-shop@champion", port=port)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)

    def test_what_cannot_be_served_is_told_before_anything_starts(self, store, monkeypatch):
        monkeypatch.delenv(server.TOKEN, raising=False)
        with pytest.raises(ValueError, match=server.TOKEN):
            server.serve("models/x", port=free_port(), host="0.0.0.0")
        for model, message in (("models:/label_ranking@nobody", "no registered model"), ("models/x", "registered")):
            with pytest.raises((ValueError, FileNotFoundError), match=message):
                server.serve(model, port=free_port())

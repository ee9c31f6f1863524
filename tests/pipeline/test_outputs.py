"""What people's values become in files, terminals, spreadsheets and addresses: theirs again, and nothing else."""

import csv
import datetime
import decimal
import io
import json
import math
import os
import re
import runpy
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings

from pipelines.monitoring.shadow import Agreement, Shadow
from pipelines.tracking.card import card
from rankgrad.cli import predict
from rankgrad.cli.answers import write
from rankgrad.cli.predict import lines_of, run
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.rows import read as read_rows
from rankgrad.feature_names import numbers_of
from rankgrad.io.checkpoints import save_model

from conftest import ROOT, encoded, listening, small_network, small_ranker  # isort: skip

IDS = {  # two of each type, and the first as JSON has it
    "timestamp": ([datetime.datetime(2026, 11, 30, 12), datetime.datetime(2026, 12, 1)], "2026-11-30 12:00:00"),
    "decimal": ([decimal.Decimal("7.00"), decimal.Decimal("8.50")], "7.00"),
    "bytes": ([b"ab", b"\xff\x00"], "ab"),
    "nan": ([0.5, math.nan], 0.5),
    "large": ([123456789.0, 123456790.0], 123456789.0),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_type_come_back_in_every_format(tmp_path, capsys, kind):
    (ids, expected), model, rows = IDS[kind], tmp_path / "model", tmp_path / "rows.parquet"
    save_model(model, small_network("score_ranking", "features"))
    pq.write_table(pa.table({"id": ids, "features": [[0.5, 0.5]] * 2}), rows)
    run(model, [rows], as_json=True)
    printed = [json.loads(line, parse_constant=pytest.fail)["id"] for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == expected != printed[1]
    of_csv, of_json, of_parquet = files = [tmp_path / f"out.{suffix}" for suffix in ("csv", "jsonl", "parquet")]
    for out in files:
        run(model, [rows], out=out)
    assert [json.loads(line)["id"] for line in of_json.read_text().splitlines()] == printed
    as_text = [str(own).removesuffix(".0") for own in printed]
    assert [row["id"] for row in csv.DictReader(of_csv.open())] == as_text
    if kind != "nan":
        assert pq.read_table(of_parquet)["id"].to_pylist() == (printed if kind == "bytes" else ids)


@pytest.mark.parametrize("ids", [[None, "a"], [uuid.UUID(int=1), 7], [2**70, 1]])
def test_ids_of_several_kinds_are_text_in_parquet(tmp_path, ids):
    write(tmp_path / "o.parquet", [[{"id": own, "score": 0.5} for own in ids]])
    found = pq.read_table(tmp_path / "o.parquet")["id"].to_pylist()
    assert found == [None if own is None else str(own) for own in ids]


@pytest.mark.parametrize("late", ["x", 2**63, True])
def test_ids_whose_kind_changes_late_are_refused_by_name_and_no_file_is_left(tmp_path, late):
    answers = [[{"id": number, "score": 0.5}] for number in range(8192)]
    with pytest.raises(ValueError, match="column id has int64.*write .jsonl"):
        write(tmp_path / "o.parquet", [*answers, [{"id": late, "score": 0.5}]])
    assert not list(tmp_path.iterdir())


CATEGORIES = {
    "bytes": (pa.binary(), [b"ab", "\u00e9".encode(), None]),
    "numbers packed in bytes": (pa.binary(), [number.to_bytes(4, "little") for number in (9, 10, 32)]),
    "UUIDs": (pa.uuid(), [uuid.UUID(int=number).bytes for number in range(3)]),
    "nanoseconds of a zone": (pa.timestamp("ns", "UTC"), [1, None, 2]),
    "durations": (pa.duration("s"), [1, -86_400, 10**6]),
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_a_category_of_any_type_is_the_same_in_training_and_prediction(tmp_path, kind):
    arrow, cells = CATEGORIES[kind]
    storage = pa.array(cells * 20, pa.binary(16) if kind == "UUIDs" else arrow)
    column = pa.ExtensionArray.from_storage(arrow, storage) if kind == "UUIDs" else storage
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"c": column, "x": range(60), "y": range(60)}), file)
    table = Table(file=file.name, features=["x"], categories="c", target="y")
    source = table.opened(tmp_path, Reading())
    names = source.fitted["features"]
    assert len(names) == 1 + sum(cell is not None for cell in cells)
    recipe = {"task": "score_ranking", "input": {"kind": "features", "count": len(names), "names": names}}
    asked = [numbers_of(row.asked()["features"], names) for row in read_rows([file], recipe)]
    stored = next(source.rows("train"))
    for name, features in zip(stored["name"].to_pylist(), stored["features"].to_pylist(), strict=True):
        assert features == asked[int(name) - 1]


def test_nan_is_no_label(tmp_path):
    pq.write_table(pa.table({"x": range(60), "c": [[1.0], [float("nan")]] * 30}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"row 2: c has nan, expected names of labels"):
        Table(file="a.parquet", features=["x"], labels="c").check_head(tmp_path)


FORMULAS = ["=cmd|'/C calc'!A0", "@SUM(1)", "-2+3", " =1", "\r=1"]
HARMLESS = ["+4,5", "-1.5e-3", "a=b", "-", "'=1"]


def test_a_spreadsheet_runs_no_id_and_other_formats_have_it_as_it_is(tmp_path, caplog):
    ids = FORMULAS + HARMLESS
    for file in ("o.csv", "o.jsonl"):
        write(tmp_path / file, [[{"id": text, "labels": [text], "score": -0.5} for text in ids]])
    rows = [*csv.DictReader((tmp_path / "o.csv").open(newline=""))]
    assert [row["id"] for row in rows] == [*(f"'{text}" for text in FORMULAS), *HARMLESS]
    assert all(row["labels"] == row["id"] and row["score"] == "-0.5" for row in rows)
    assert f"{2 * len(FORMULAS)} cells" in caplog.text
    assert [json.loads(line)["id"] for line in (tmp_path / "o.jsonl").read_text().splitlines()] == ids


def test_a_terminal_gets_no_control_characters():
    answer = {"id": "a\x1b]0;owned\x07\u202e", "labels": ["cat\x1b[2J", "né 👩‍🔬"], "label_ranks": [1, 2]}
    refused = {"id": "b", "error": "bad\x9b1m"}
    text = "\n".join(lines_of(answer | {"scores": [1.0, 2]}) + lines_of(refused))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "né 👩‍🔬" in text


def test_file_names_that_are_no_utf_8_are_answered_everywhere(tmp_path, monkeypatch):
    """Also by a terminal that has no letters but ASCII's."""
    monkeypatch.chdir(tmp_path)
    save_model("model", small_ranker())
    Path("in").mkdir()
    for name in (b"in/caf\xe9.png", "in/é😀.png".encode()):
        Path(os.fsdecode(name)).write_bytes(encoded(Image.new("L", (8, 8))))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    for form in ([], ["-o", "o.csv"], ["-o", "o.parquet"], ["--json"]):
        sys.stdout.seek(0)
        sys.stdout.truncate()
        with pytest.raises(SystemExit) as ended:
            predict.main(["model", "in", *form])
        assert not ended.value.code
    sys.stdout.seek(0)
    printed = [json.loads(line)["id"] for line in sys.stdout.read().splitlines()]
    assert printed == ["in/caf\\udce9.png", "in/é😀.png"]
    assert pq.read_table("o.parquet")["id"].to_pylist() == printed
    assert [row["id"] for row in csv.DictReader(Path("o.csv").read_text(encoding="utf-8").splitlines())] == printed


# The splits of folds are one file.
FOLDS = {"folds": "3 folds over rows; ...", "input.data/shop/train.parquet": "a1", "input.data/shop/val.parquet": "a1"}


def test_a_card_has_folds_and_each_file_once_and_markup_in_names_is_text(tmp_path):
    ranker = small_ranker()
    ranker.recipe |= {"classes": ["![p](http://evil.example/p.png)", "<img src=x>", "a|b\n# h"]}
    save_model(tmp_path / "ranker", ranker)
    text = card("label_ranking-shop", tmp_path / "ranker", params={"x": "![q](http://evil.example)"},
                metrics=[], tags={"git_commit": "unknown", **FOLDS})  # fmt: skip
    assert not re.search(r"(?<!\\)!\[|(?<!\\)<img|^# h|\n# h", text)
    assert "over 3 folds over rows" in text
    assert "| data/shop/train.parquet, data/shop/val.parquet | a1 |" in text


CREDENTIALS = {
    "MLFLOW_TRACKING_USERNAME": "a", "MLFLOW_TRACKING_PASSWORD": "b", "MLFLOW_NEW_PASSWORD": "c",
    "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "x",
}  # fmt: skip


def prepared(monkeypatch, *words: str, **settings: str) -> str:
    """Return the message with which deploy/prepare.py ends."""
    for name, value in {**CREDENTIALS, **settings}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["prepare.py", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "deploy/prepare.py"), run_name="__main__")
    return str(ended.value.code)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("user worker", {"MLFLOW_TRACKING_URI": "boss:s3cret@127.0.0.1:9"}),
        ("user worker", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_TRACKING_PASSWORD": "п-s3cret"}),
        ("buckets x", {"AWS_ENDPOINT_URL_S3": "boss:s3cret@127.0.0.1:9"}),
    ],
)
def test_no_exit_of_deployment_tells_a_password(words, settings, monkeypatch):
    ended = prepared(monkeypatch, *words.split(), **settings)
    assert ("127.0.0.1:9" in ended, "s3cret" in ended) == (True, False)


def test_a_login_page_of_a_proxy_is_no_user(monkeypatch):
    """A POST that follows a redirect becomes a GET, which the page answers well."""

    def answer(asked) -> tuple[int, object]:
        if asked.command == "GET":
            return 200, {"page": "please log in"}
        asked.send_response_only(302)
        asked.send_header("Location", "/login")
        asked.end_headers()
        return 302, {}

    with listening(answer) as (address, heard):
        message = prepared(monkeypatch, "user", "worker", MLFLOW_TRACKING_URI=address)
        assert ("user worker" in message, "302" in message) == (True, True)
    assert len(heard) == 1


def test_alerts_are_made_on_the_server_that_is_named_and_on_no_other(monkeypatch):
    """Without an address Prefect starts a server, which ends with the process."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert "PREFECT_API_URL" in prepared(monkeypatch, "alerts", RANKGRAD_ALERTS_URL="http://127.0.0.1:9/x")


def test_a_worker_is_asked_for_by_name_if_workers_poll_several_pools(monkeypatch):
    pools = [WorkPool(name=name, type="process", status="READY", default_queue_id=uuid.uuid4()) for name in ("a", "b")]
    dumped = [pool.model_dump(mode="json") for pool in pools]
    with listening(lambda asked: (200, dumped) if "work_pools" in asked.path else (404, {})) as (address, _):
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        with temporary_settings({PREFECT_API_URL: f"{address}/api"}):
            ended = prepared(monkeypatch, "pool", RANKGRAD_PORTS="PREFECT_PORT=7")
    assert "make deploy POOL=a PREFECT_PORT=7" in ended


def test_a_class_of_a_challenger_changes_no_terminal():
    told = Shadow("a", [Agreement("score \x1b]0;owned\x07\ncat", 0.0, 1.0, None, 0.0)]).verdict
    assert told.isprintable()
    assert "cat" in told

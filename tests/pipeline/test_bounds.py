"""Whatever strangers send is bounded in size and in work: twice the input takes about twice the time.

Each door is given two sizes of each kind of input that grows. Work that is quadratic takes four times as long.
"""

import json
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from contracts.test_models import FILES
from starlette.testclient import TestClient

from pipelines.cli.guess import guess
from pipelines.serving.server import app_of
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.datasets.tables.rows import read
from rankgrad.io.recipes import recipe_of
from rankgrad.models.network import made
from rankgrad.plain_text import NAME, plain_name, plain_text
from rankgrad.vocabulary import Vocabulary

from rows import folder_of  # isort: skip


MOST = 3.0  # times as long, of twice the input
NOTHING = 0.005  # seconds, of which no ratio says anything
ACUTE, CEDILLA = "\u0301", "\u0327"
EMOJI, HALF = "\U0001f600", "\ud83d"


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times as long twice the input takes, of this process's own time; `work` prepares what is timed."""
    ratio = MOST
    for _ in range(4):  # what else a machine does may only make it seem longer
        times = []
        for length in (size, 2 * size):
            ready = work(length)
            start = time.process_time()
            ready()
            times.append(time.process_time() - start)
        ratio = min(ratio, times[1] / max(times[0], NOTHING))
        if ratio < MOST:
            break
    return ratio


def marks(count: int) -> str:
    return "a" + (count // 2) * ACUTE + (count // 2) * CEDILLA


TEXTS = {
    "marks": marks,
    "marks in threes": lambda count: (count // 4) * ("b" + 3 * ACUTE),
    "a word": lambda count: "word" * (count // 4),
    "words": lambda count: "a red dress " * (count // 12),
}


class TestText:
    @pytest.mark.parametrize("backbone", ["words", "sru", "transformer"])
    def test_is_tokenized_in_work_that_grows_with_its_length(self, backbone):
        if backbone == "transformer":
            pytest.importorskip("transformers")
            component = {"name": backbone, "args": {}, "files": FILES}
        else:
            component = {"name": backbone, "args": {}}
        network = made("models.backbones", component, words=Vocabulary.of(["a red dress"]).words)
        for kind in TEXTS:
            assert growth(lambda size, kind=kind: lambda: network.tokenize([TEXTS[kind](size)]), 20_000) < MOST, kind

    def test_is_cut_where_no_language_goes_and_nowhere_else(self):
        assert plain_text("a" + 500 * CEDILLA) == "a" + 30 * CEDILLA
        for text in ("e" + ACUTE, "a" + 30 * CEDILLA, 99 * EMOJI, 99 * ("e" + ACUTE), "\u0e17\u0e35\u0e48 " * 40):
            assert plain_text(text) == unicodedata.normalize("NFC", text.strip())
        for text in TEXTS.values():
            assert plain_text(plain_text(text(200))) == plain_text(text(200))
        assert plain_name(f"Anna\u00a0 {HALF}Lee\n") == "Anna \ufffdLee"
        with pytest.raises(ValueError, match="2,000 characters"):
            plain_name("a" * 2 * NAME)


@pytest.fixture(scope="module")
def served():
    """Servers of networks of text and of features with names."""
    servers = {}
    for kind in ("text", "features"):
        servers[kind] = TestClient(app_of(folder_of(f"score_ranking of {kind}")), raise_server_exceptions=False)
    return servers


def cells(brand: str) -> dict:
    return {"price": 1, "age": 2, "brand": brand}


# Of each: which server, an input of a size, and how large. All but the texts are refused.
REQUESTS = {
    "marks in a text": ("text", marks, 9000),
    "marks in a category": ("features", lambda size: cells(marks(size)), 300_000),
    "many keys": ("features", lambda size: {f"k{k}": k for k in range(size)}, 5000),
    "long digits": ("features", lambda size: [10**400] * (size // 400), 200_000),
    "brackets": ("features", lambda size: json.loads("[" * size + "]" * size), 300),
}


@pytest.mark.filterwarnings("ignore:.*input example was not provided")
class TestRequests:
    @pytest.mark.parametrize("kind", REQUESTS)
    def test_take_time_that_grows_with_their_length(self, served, kind):
        server, cell, size = REQUESTS[kind]

        def post(size: int) -> Callable[[], object]:
            content = json.dumps({"dataframe_records": [{server: cell(size)}]})
            headers = {"Content-Type": "application/json"}
            return lambda: served[server].post("/invocations", content=content, headers=headers)

        assert post(size)().status_code in (200, 400)
        assert growth(post, size) < MOST

    def test_count_names_and_all_features_that_a_network_reads(self, served):
        for brand, said in (("b" * 2**24, "in all rows"), ("b" * 2 * NAME, "row 1: brand"), (" red\u00a0", "score")):
            answer = served["features"].post("/invocations", json={"inputs": [{"features": cells(brand)}]})
            assert said in answer.text[:1000]


ROWS = 30


# Tables, by their suffixes, of a size.
TABLES = {
    "marks.csv": (lambda size: "price,brand\n" + "\n".join(f"{n},{marks(size)}" for n in range(ROWS)), 20_000),
    "headers.csv": (lambda size: ",".join(f"{k:x}text" for k in range(size)), 3000),
    "long digits.jsonl": (lambda size: "\n".join(['{"price": ' + "9" * size + "}"] * ROWS), 20_000),
    "indices.svm": (lambda size: "\n".join(f"{n % 3} qid:{n // 5} {size}:1" for n in range(ROWS)), 1000),
}  # fmt: skip


def predicted(path: Path) -> None:
    for asked in read([path], recipe_of(folder_of("score_ranking of text"))):
        asked.asked()


class TestTables:
    @pytest.mark.parametrize("kind", TABLES)
    @pytest.mark.parametrize("door", [guess, predicted])
    def test_are_read_in_work_that_grows_with_their_size(self, tmp_path, door, kind):
        table, size = TABLES[kind]

        def work(size: int) -> Callable[[], object]:
            path = tmp_path / f"{size} {kind}"
            path.write_text(table(size))

            def run() -> None:
                with suppress(ValueError):  # of what is too long, or nothing to learn from
                    door(path)

            return run

        assert growth(work, size) < MOST

    def test_too_many_columns_and_an_index_that_asks_for_gigabytes_are_told(self, tmp_path):
        (tmp_path / "wide.csv").write_text(",".join(f"c{k}" for k in range(2**16 + 1)))
        with pytest.raises(ValueError, match=r"wide\.csv: 65,537 columns"):
            guess(tmp_path / "wide.csv")
        file = tmp_path / "a.svm"
        for index in (2_000_000_000, 99_999_999_999):
            file.write_text(f"1 qid:1 1:0.5\n0 qid:1 {index}:1\n")
            with pytest.raises(ValueError, match=r"a\.svm: row 2 .*has"):
                guess(file)
        many = [f"1 qid:{n // 2} 1:{n}\n" for n in range(2000)]
        file.write_text("".join([*many, "1 qid:1001 1000000:1\n"]))
        with pytest.raises(ValueError, match=r"a\.svm: row 2001 .*has the index 1000000"):
            read_sheet([file], lambda names: names, kind=None, encoding="utf-8", head=None)

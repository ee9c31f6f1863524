"""Whatever strangers send is bounded in size and in work: twice the input takes about twice the time.

Each door is given two sizes of each kind of input that grows. Work that is quadratic takes four times as long.
"""

import json
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress

import pytest
from contracts.test_models import FILES
from starlette.testclient import TestClient

from pipelines.cli.guess import guess
from pipelines.serving.server import app_of
from rankgrad.datasets.tables.files import read_sheet
from rankgrad.datasets.tables.rows import read
from rankgrad.io.checkpoints import build, save_model
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


def refused(ready: Callable[[], object]) -> Callable[[], object]:
    """The work up to the refusal: what is too large is refused, and that must be quick as well."""

    def run() -> None:
        with pytest.raises(ValueError, match="."):
            ready()

    return run


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


BRANDS = ["km", *(f"brand={one}" for one in ("bmw", "vw"))]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Servers of networks of text, of features with names, and a sorter."""
    network = build(
        "models", "network", {"backbone": {"name": "perceptron", "args": {}}, "head": {"name": "linear", "args": {}}},
        seed=3, outputs=1, features=3,
    )  # fmt: skip
    network.recipe |= {"task": "score_ranking", "input": {"kind": "features", "count": 3, "names": BRANDS}}
    folder = tmp_path_factory.mktemp("features")
    save_model(folder, network)
    folders = {"text": folder_of("score_ranking of text"), "features": folder, "scores": folder_of("handcrafted")}
    return {name: TestClient(app_of(folder), raise_server_exceptions=False) for name, folder in folders.items()}


def row(**cells: object) -> dict:
    return {"dataframe_records": [cells]}


# Of each: which server, a request of a size, and how large. All but the texts are refused.
REQUESTS = {
    "marks in a text": ("text", lambda size: row(text=marks(size)), 9000),
    "marks in a category": ("features", lambda size: row(features={"km": 1, "brand": marks(size)}), 300_000),
    "many keys": ("features", lambda size: row(features={f"k{k}": k for k in range(size)}), 5000),
    "long digits": ("features", lambda size: row(features=[10**400] * (size // 400)), 200_000),
    "brackets": ("features", lambda size: row(features=json.loads("[" * size + "]" * size)), 300),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*input example was not provided")
class TestRequests:
    @pytest.mark.parametrize("kind", REQUESTS)
    def test_take_time_that_grows_with_their_length(self, served, kind):
        server, request, size = REQUESTS[kind]

        def post(size: int) -> Callable[[], object]:
            content, headers = json.dumps(request(size)), {"Content-Type": "application/json"}
            return lambda: served[server].post("/invocations", content=content, headers=headers)

        assert post(size)().status_code in (200, 400)
        assert growth(post, size) < MOST

    def test_count_names_and_all_features_that_a_network_reads(self, served):
        answer = served["features"].post("/invocations", json=row(features={"km": 1, "brand": "b" * 2**24}))
        assert (answer.status_code, len(answer.text) < 1000) == (400, True)
        answer = served["features"].post("/invocations", json=row(features={"km": 1, "brand": "b" * 2 * NAME}))
        assert "row 1: brand" in answer.json()["message"]
        answer = served["features"].post("/invocations", json=row(features={"km": 1, "brand": " vw\u00a0"}))
        assert answer.status_code == 200


ROWS = 30


def csv_of(names: list[str], cells: Callable[[int], list[str]]) -> str:
    return "\n".join([",".join(names), *(",".join(cells(number)) for number in range(ROWS))])


# Tables, by their suffixes, of a size.
TABLES = {
    "marks.csv": (lambda size: csv_of(["price", "brand"], lambda n: [str(n), marks(size)]), 20_000),
    "long digits.jsonl": (lambda size: "\n".join(['{"price": ' + "9" * size + "}"] * ROWS), 20_000),
    "indices.svm": (lambda size: "\n".join(f"{n % 3} qid:{n // 5} {size}:1" for n in range(ROWS)), 1000),
}  # fmt: skip


class TestTables:
    @pytest.mark.parametrize("kind", TABLES)
    @pytest.mark.parametrize("door", ["init", "predict"])
    def test_are_read_in_work_that_grows_with_their_size(self, tmp_path, door, kind):
        table, size = TABLES[kind]
        recipe = recipe_of(folder_of("score_ranking of text"))

        def work(size: int) -> Callable[[], object]:
            path = tmp_path / f"{size} {kind}"
            path.write_text(table(size))

            def run() -> None:
                with suppress(ValueError):  # of what is too long, or nothing to learn from
                    if door == "init":
                        guess(path)
                    else:
                        [row_.asked() for row_ in read([path], recipe)]

            return run

        assert growth(work, size) < MOST

    def test_headers_are_not_compared_by_pairs(self, tmp_path):
        recipe = recipe_of(folder_of("score_ranking of text"))

        def work(size: int) -> Callable[[], object]:
            path = tmp_path / f"{size}.csv"
            path.write_text(",".join(f"{k:x}text" for k in range(size)))
            return refused(lambda: list(read([path], recipe)))

        assert growth(work, 3000) < MOST
        (tmp_path / "wide.csv").write_text(",".join(f"c{k}" for k in range(2**16 + 1)))
        with pytest.raises(ValueError, match=r"wide\.csv: 65,537 columns"):
            guess(tmp_path / "wide.csv")

    def test_an_index_that_asks_for_gigabytes_is_told_with_its_row(self, tmp_path):
        file = tmp_path / "a.svm"
        for contents in ("1 qid:1 1:0.5\n0 qid:1 2000000000:1\n", "1 qid:1 1:0.5\n0 qid:1 99999999999:1\n"):
            file.write_text(contents)
            with pytest.raises(ValueError, match=r"a\.svm: row 2 .*has"):
                guess(file)
        many = [f"1 qid:{n // 2} 1:{n}\n" for n in range(2000)]
        file.write_text("".join([*many, "1 qid:1001 1000000:1\n"]))
        with pytest.raises(ValueError, match=r"a\.svm: row 2001 .*has the index 1000000"):
            read_sheet([file], lambda names: names, kind=None, encoding="utf-8", head=None)

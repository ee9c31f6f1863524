"""`rankgrad predict`: answers to rows of people's own files, by models of every kind of input."""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from rankgrad import lookup
from rankgrad.cli import answers as answering
from rankgrad.cli.answers import answers, write
from rankgrad.cli.predict import main, run
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.tables.rows import Roles, read
from rankgrad.inputs import Inputs
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.io.parquet import IMAGE
from rankgrad.plain_text import PAIR
from rankgrad.tasks.query_ranking import QueryRanking

from conftest import encoded, small_network  # isort: skip


def trained(task: str, kind: str, **about) -> Path:
    """Write a model, as a run does; it may know the columns of its training's table."""
    network = small_network(task, kind)
    network.recipe["input"] |= about
    save_model("model", network)
    return Path("model")


def told(*words: object, capsys) -> list[str]:
    """Run the command and return the lines that it prints."""
    with pytest.raises(SystemExit, match="^0$"):
        main([str(word) for word in words])
    return capsys.readouterr().out.splitlines()


def refused(*words: object, match: str) -> None:
    """Run the command, which ends with a message."""
    with pytest.raises(SystemExit, match=match):
        main([str(word) for word in words])


def answered(*words: object, capsys) -> list[dict]:
    return [json.loads(line) for line in told(*words, "--json", capsys=capsys)]


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos(workspace) -> list[Path]:
    """Three photos of any size and format, and a table of them in a person's own columns."""
    Path("photos/more").mkdir(parents=True)
    files = [Path("photos/a.png"), Path("photos/more/b.jpg"), Path("photos/c.webp")]
    for number, file in enumerate(files):
        Image.effect_noise((40 + 9 * number, 30), 90).convert("RGB").save(file)
    lines = ["sku;file;tags", "x-1;photos/a.png;dress|hat", "x-2;photos/more/b.jpg;hat", "x-3;photos/c.webp;shoe"]
    Path("photos.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    return files


def test_pictures_folders_and_tables_get_the_same_answers_by_name(photos, capsys):
    model = trained("label_ranking", "image")
    alone = answered(model, *photos, capsys=capsys)
    assert [answer["id"] for answer in alone] == [str(path) for path in photos]
    network, task = load_model(model), lookup.find("tasks", "label_ranking")()
    (expected,) = task.respond(network, [{"image": photos[1].read_bytes()}])
    assert (alone[1]["labels"], alone[1]["label_ranks"]) == (expected["labels"], expected["label_ranks"])
    folder = answered(model, "photos", capsys=capsys)
    assert sorted(folder, key=str) == sorted(alone, key=str)
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        told(model, "photos.csv", "--input", "file", "--id", "sku", "-o", f"out.{suffix}", capsys=capsys)
    table = pq.read_table("out.parquet").to_pylist()
    assert [row["sku"] for row in table] == ["x-1", "x-2", "x-3"]
    assert [row["labels"] for row in table] == [answer["labels"] for answer in alone]
    assert [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()] == table
    by_class = pd.read_csv("out.csv")
    for name in ("scores", "label_ranks"):
        columns = by_class[[f"{name}.{label}" for label in network.recipe["classes"]]].to_numpy()
        np.testing.assert_allclose(columns, [row[name] for row in table], rtol=1e-6)


def test_a_picture_is_drawn_beside_its_labels_and_nothing_that_is_read_is_replaced(photos, capsys):
    model = trained("label_ranking", "image")
    assert told(model, photos[0], "-o", "drawn.jpg", capsys=capsys)[-1] == "wrote drawn.jpg"
    with Image.open("drawn.jpg") as drawn:
        assert (drawn.format, drawn.size) == ("JPEG", (700, 340))
    told(model, photos[0], photos[2], "-o", "drawn", capsys=capsys)
    assert {path.name for path in Path("drawn").iterdir()} == {"a.png", "c.png"}
    for words, message in (
        ([photos[0], "-o", "photos"], "would replace"),
        ([photos[0], "-o", "x.json"], "x.json: expected a table"),
        (["photos.csv", "--input", "file", "-o", "photos.csv"], "is the input"),
        (["photos.csv", "--input", "file", "-o", "drawn"], "single image files"),
    ):
        refused(model, *words, match=message)


class TestBroken:
    @pytest.fixture
    def table(self, photos) -> Path:
        lines = Path("photos.csv").read_text(encoding="utf-8-sig").splitlines()
        Path("photos/c.webp").write_bytes(b"RIFF")
        Path("photos.csv").write_text("\n".join([*lines, "x-4;photos/none.png;hat", "x-5;photos/a.png;hat"]))
        return Path("photos.csv")

    def test_rows_are_named_with_file_row_and_reason(self, table):
        model = trained("label_ranking", "image")
        Path("out.csv").write_text("old")
        message = r"photos\.csv: row 3: unusable image.*--skip-broken"
        refused(model, table, "--input", "file", "-o", "out.csv", match=message)
        assert Path("out.csv").read_text() == "old"

    def test_rows_are_skipped_where_that_is_asked_for(self, table, monkeypatch, capsys):
        model, roles = trained("label_ranking", "image"), Roles(["file"], "sku")
        monkeypatch.setattr(answering, "WRITTEN", 2)
        for out in ("out.parquet", "out.csv"):
            assert run(model, [table], out=Path(out), roles=roles, skip_broken=True) == 3
            assert "no answer for 2 rows: x-3, x-4" in capsys.readouterr().err
        rows = pq.read_table("out.parquet").to_pylist()
        assert [row["error"] is None for row in rows] == [True, True, False, False, True]
        assert "no such file" in rows[3]["error"]
        assert rows[2]["scores"] is None
        assert rows[0]["scores"] == rows[4]["scores"]


@pytest.mark.parametrize(
    ("file", "contents", "message"),
    [
        ("rows.csv", "age,prize\n1,2\n", "no column 'price', a feature of the model; .*did you mean prize"),
        ("rows.csv", "age,price\n1,2\n1,cheap\n", "row 2: price is 'cheap', expected a number"),
        ("rows.parquet", "PAR1", "not a complete Parquet file"),
        ("rows.png", "", "the model takes features; expected a table"),
        ("rows.csv", None, "rows.csv: no such file"),
    ],
)
def test_what_cannot_be_read_is_named(workspace, file, contents, message):
    model = trained("score_ranking", "features")
    if contents is not None:
        Path(file).write_text(contents)
    refused(model, file, match=f"(?s){message}")


def test_documents_of_a_query_are_a_list_in_a_row_or_rows_of_their_own(workspace, capsys, caplog, monkeypatch):
    model = trained("query_ranking", "features")
    documents = [[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]]
    pq.write_table(pa.table({"id": ["p", "q"], "features": [documents[:2], documents[2:]]}), "lists.parquet")
    Path("rows.csv").write_text("qid,doc,age,price\n7,a,1,2\n7.0,b,0.5,-1\nq,c,3,0.25\n")
    Path("rows.txt").write_text("0 qid:1 1:1 2:2\n1 qid:1 1:0.5 2:-1\n0 qid:2 1:3 2:0.25\n")
    first, second = answered(model, "lists.parquet", capsys=capsys)
    assert (first["id"], second["id"]) == ("p", "q")
    for words, ids in ((["rows.csv", "--query", "qid", "--id", "doc"], ["a", "b", "c"]), (["rows.txt"], [1, 2, 3])):
        rows = answered(model, *words, capsys=capsys)
        assert [row["id"] for row in rows] == ids
        assert [row["score"] for row in rows] == pytest.approx([*first["scores"], *second["scores"]])
        assert [row["place"] for row in sorted(rows[:2], key=lambda row: -row["score"])] == [1, 2]
    lines = Path("rows.txt").read_text().splitlines()
    for last, ids in (("#docid = c inc = 1", ["a", "b", "c"]), ("# c", [1, 2, 3])):
        comments = ("#docid = a", "# docid=b", last)
        Path("rows.txt").write_text("\n".join(map(" ".join, zip(lines, comments, strict=True))))
        caplog.clear()
        assert [row["id"] for row in answered(model, "rows.txt", capsys=capsys)] == ids
        assert ("row 3: no #docid" in caplog.text) == (ids == [1, 2, 3])
    rows = pd.DataFrame(documents, columns=["age", "price"]).assign(qid=["p", "p", "q"], doc=["a", "b", "c"])
    rows.iloc[[1, 2, 0]].to_csv("rows.csv", index=False)
    rows = answered(model, "rows.csv", "--query", "qid", "--id", "doc", capsys=capsys)
    scores = {row["id"]: row["score"] for row in rows}
    assert [scores[name] for name in "abc"] == pytest.approx([*first["scores"], *second["scores"]])
    monkeypatch.setattr("rankgrad.datasets.tables.rows.SORTED", 0)
    Path("rows.csv").write_text("qid,age,price\np,1,2\nq,0.5,-1\np,3,0.25\n")
    Path("rows.txt").write_text("0 qid:1 1:1 2:2\n1 qid:2 1:0.5 2:-1\n0 qid:1 1:3 2:0.25\n")
    Path("bad.csv").write_text("qid,age,price\nq,0.5,-1\np,1,2\np,3,cheap\n")
    for words, message in (
        (["rows.csv", "--query", "qid"], "row 3: .*qid p are not together"),
        (["rows.txt"], "row 3: .*qid 1 are not together.*`sort -s -k 2,2 rows.txt"),
        (["bad.csv", "--query", "qid"], "qid p: row 3: price is 'cheap'"),
        (["rows.csv"], "--query COLUMN"),
    ):
        refused(model, *words, match=message)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_ids_and_the_group_come_back_under_their_own_names(workspace, capsys, suffix):
    model = trained("score_ranking", "features", id="key", group="lab")
    rows = pd.DataFrame({"key": ["a", "b", "c"], "age": [1, 3, 2], "price": [2, 4, 1], "lab": ["x", None, "y"]})
    rows.to_csv("rows.csv", index=False)
    readers = {"csv": pd.read_csv, "jsonl": partial(pd.read_json, lines=True), "parquet": pd.read_parquet}
    for id_column, columns in (("lab", ["id", "lab", "score"]), ("key", ["key", "lab", "score"])):
        told(model, "rows.csv", "--id", id_column, "-o", f"out.{suffix}", capsys=capsys)
        answers = readers[suffix](f"out.{suffix}")
        assert [*answers] == columns
    assert answers["key"].tolist() == ["a", "b", "c"]
    assert answers["lab"].fillna("").tolist() == ["x", "", "y"]


@pytest.mark.parametrize(
    ("file", "contents"),
    [
        ("a.csv", "age,price\n1,2\n,\n3,4\n , \n"),
        ("c.jsonl", '{"age": 1, "price": 2}\n{}\n{"age": 3, "price": 4}\n{"age": null, "price": ""}\n'),
        ("d.parquet", {"age": [1, None, 3, None], "price": ["2", "", "4", None]}),
    ],
)
def test_blank_rows_are_left_out_and_others_keep_their_numbers(workspace, capsys, caplog, file, contents):
    model = trained("score_ranking", "features")
    if isinstance(contents, dict):
        pd.DataFrame(contents).to_parquet(file)
    else:
        Path(file).write_text(contents)
    assert [answer["id"] for answer in answered(model, file, capsys=capsys)] == [1, 3]
    assert [record.getMessage() for record in caplog.records] == [f"{file}: 2 blank rows left out"]


def test_cells_of_numbers_in_csv_have_no_mark_of_text(workspace):
    rows = [{"id": "=1+1", "scores": [-0.5, -1.25], "labels": ["-a|b"]}]
    write(Path("out.csv"), iter([rows]))
    (row,) = csv.DictReader(Path("out.csv").read_text().splitlines())
    assert row == {"id": "'=1+1", "scores": "-0.5|-1.25", "labels": "'-a|b"}


def test_index_k_of_svmlight_is_place_k_for_a_model_that_learned_from_it(workspace):
    Path("rows.txt").write_text("0 qid:1 1:7\n1 qid:1 1:8\n")
    for lowest, expected in (({"lowest": 0}, [0.0, 7.0, 0.0]), ({}, [7.0, 0.0, 0.0])):
        recipe = {"task": "query_ranking", "input": {"kind": "features", "count": 3, **lowest}}
        (query,) = read([Path("rows.txt")], recipe)
        assert query.asked()["features"][0] == expected
    Path("from_zero.txt").write_text("0 qid:1 1:7\n1 qid:1 0:5 1:8\n")
    with pytest.raises(ValueError, match=r"row 2: .*index 0"):
        [*read([Path("from_zero.txt")], recipe)]


def test_memory_does_not_grow_with_the_file(workspace, monkeypatch):
    model = trained("label_ranking", "image")
    few = [encoded(Image.effect_noise((64, 64), 99)) for _ in range(16)]
    count = 1000  # of 12 kilobytes each, in one row group
    form = pa.array([{"bytes": few[row % 16] + bytes(8000), "path": None} for row in range(count)], IMAGE)
    pq.write_table(
        pa.table({"image": form}), "in.parquet", use_dictionary=False, compression="none", write_batch_size=64
    )
    del form
    bytes_held, before = [], pa.total_allocated_bytes()

    def watched():
        for piece in answers(model, [Path("in.parquet")]):
            bytes_held.append(pa.total_allocated_bytes())
            yield piece

    assert write(Path("out.parquet"), watched()) == (count, [])
    assert Path("in.parquet").stat().st_size > 11 * 2**20
    assert max(bytes_held) - before < 6 * 2**20
    assert np.isfinite(pq.read_table("out.parquet")["scores"].to_pylist()).all()


@pytest.mark.parametrize("query", [None, [1]])
def test_what_names_no_query_is_told_with_its_row(workspace, query, capsys):
    model = trained("query_ranking", "features")
    rows = [{"age": 1, "price": 2, "q": name} for name in ("a", "a", query, query)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    refused(model, "rows.jsonl", "--query", "q", match=r"rows\.jsonl: row 3: q is .*, expected the name of a query")
    assert run(model, [Path("rows.jsonl")], out=Path("out.jsonl"), roles=Roles(query="q"), skip_broken=True) == 3
    lines = [*map(json.loads, Path("out.jsonl").read_text().splitlines())]
    assert ["expected the name of a query" in (line.get("error") or "") for line in lines] == [0, 0, 1, 1]


def test_a_file_is_read_by_the_format_and_the_columns_that_the_model_learned_from(workspace, capsys):
    about = {"format": "csv", "encoding": "cp1252", "decimal": ",", "id": "größe"}
    model = trained("score_ranking", "features", **about)
    Path("rows.data").write_text("größe;age;price\nä;1,5;2\n", encoding="cp1252")
    assert [answer["id"] for answer in answered(model, "rows.data", capsys=capsys)] == ["ä"]
    Path("rows.csv").write_text("größe;age;price\nö;1,5;2\n", encoding="utf-16")
    refused(model, "rows.csv", match="--encoding utf-16")
    assert [row["id"] for row in answered(model, "rows.csv", "--encoding", "utf-16", capsys=capsys)] == ["ö"]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory) -> Path:
    """A model that was fitted to the passages of three questions."""
    texts = [f"{query}{PAIR}{passage}" for query in ("pay a bill", "a late parcel", "print") for passage in PASSAGES]
    about = {"kind": "text_pair", "columns": ["query", "passage"], "query": "query", "id": "docid"}
    split = Split(Inputs(about, texts), torch.eye(3).flatten(), torch.full((3,), 3))
    model = {"name": "identity", "args": {}, "backbone": {"name": "word_pair_ridge", "args": {}}}
    folder = tmp_path_factory.mktemp("reranker")
    save_model(folder, QueryRanking().build(model, split, seed=0))
    return folder


PASSAGES = ["pay an invoice", "the parcel is late", "print a photo"]


def test_documents_in_lists_get_the_scores_of_rows_of_their_own(workspace, capsys, reranker):
    table = pd.DataFrame({"query": "a bill", "passage": PASSAGES, "docid": [*"abc"]})
    table.iloc[[2, 0, 1]].to_csv("rows.csv", index=False)
    score_of = {row["id"]: row["score"] for row in answered(reranker, "rows.csv", capsys=capsys)}
    listed = {"query": "a bill", "passage": PASSAGES, "docid": [*"abc"]}
    Path("lists.jsonl").write_text(json.dumps(listed))
    pd.DataFrame([listed | {name: json.dumps(listed[name]) for name in ("passage", "docid")}]).to_csv("lists.csv")
    for file in ("lists.jsonl", "lists.csv"):
        rows = answered(reranker, file, capsys=capsys)
        assert {row["id"]: row["score"] for row in rows} == pytest.approx(score_of)
    for of_query, ids in (({"docid": "q7"}, ["q7"] * 3), ({}, [1, 2, 3]), ({"docid": ["a", None, 7]}, ["a", 2, 7])):
        Path("lists.jsonl").write_text(json.dumps({"query": "a bill", "passage": PASSAGES} | of_query))
        rows = answered(reranker, "lists.jsonl", capsys=capsys)
        assert [row["id"] for row in rows] == ids
        assert [row["score"] for row in rows] == pytest.approx([score_of[name] for name in "abc"])
    table["passage"] = ['["pay", an invoice]', "[print]", '["print"']  # texts that only look like lists
    table.to_csv("rows.csv", index=False)
    assert len(answered(reranker, "rows.csv", capsys=capsys)) == 3


@pytest.mark.parametrize(
    ("file", "contents", "message"),
    [
        ("a.csv", "query,passage\nbill,\"['pay', 'print']\"\n", "row 1: passage is .*expected .*a list as JSON"),
        ("a.csv", 'query,passage\nbill,"[""pay""]"\nprint,pay\n', "row 2: passage is 'pay', expected a list as JSON"),
        (
            "a.jsonl",
            '{"query": "a", "passage": ["pay"]}\n{"query": "A", "passage": ["in"]}\n',
            "row 2: .*in row 1",
        ),
        ("a.jsonl", '{"query": "a", "passage": []}\n', "query a: .*is empty, expected at least one document"),
    ],
)
def test_lists_of_documents_that_cannot_be_read_are_named(workspace, reranker, file, contents, message):
    Path(file).write_text(contents)
    refused(reranker, file, match=message)


def test_a_list_without_documents_is_skipped_by_name_and_answers_of_a_row_keep_its_id(workspace, reranker, capsys):
    lists = [{"query": "a bill", "passage": PASSAGES}, {"query": "a parcel", "passage": []}]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, lists)))
    assert run(reranker, [Path("rows.jsonl")], out=Path("out.csv"), skip_broken=True) == 3
    assert "no answer for 1 rows" in capsys.readouterr().err
    about = {"kind": "text_pair", "columns": ["prompt", "chosen"], "rejected": "rejected", "id": "pair"}
    split = Split(Inputs(about, [f"pay{PAIR}a bill", f"pay{PAIR}print"]), torch.tensor([1.0, 0.0]), torch.tensor([2]))
    model = {"name": "identity", "args": {}, "backbone": {"name": "word_pair_ridge", "args": {"answers": True}}}
    save_model(Path("preferences"), QueryRanking().build(model, split, seed=0))
    answers = [
        {"pair": "x", "prompt": "pay", "chosen": ["print", "a bill"]},
        {"pair": "y", "prompt": "pay", "chosen": []},
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, answers)))
    assert run(Path("preferences"), [Path("rows.jsonl")], out=Path("out.csv"), skip_broken=True) == 3
    rows = pd.read_csv("out.csv")
    assert rows["pair"].tolist() == ["x", "x", "y"]
    assert rows["answer"].tolist()[:2] == [1, 2]
    assert rows["place"].tolist()[:2] == [2, 1]
    assert rows["error"].isna().tolist() == [True, True, False]


def test_unknown_words_match_if_they_are_equal(workspace, capsys, reranker):
    rows = [{"query": query, "passage": passage} for query, passage in (("zeppelin", "a zeppelin"), ("???", "!!!"))]
    rows += [{"query": row["query"], "passage": "a dirigible"} for row in rows]
    pd.DataFrame(rows).to_csv("rows.csv", index=False)
    equal, other_mark, without, without_mark = (row["score"] for row in answered(reranker, "rows.csv", capsys=capsys))
    assert equal != pytest.approx(without)
    assert other_mark == pytest.approx(without_mark, abs=1e-6)

"""Data that come in over time, in folders named for their day, and data that are cut into folds."""

import json
import logging
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.config import check_shapes
from pipelines.config.rules import check_values
from pipelines.stages import data

from conftest import params_of, refusal  # isort: skip

RAW = Path("data/raw/shop")
ARGS = {
    "file": "rows.csv",
    "features": "x",
    "target": "y",
    "id": "name",
    "group": "group",
    "split": "split",
    "gate_share": 0,
}
DAYS = ("first", "2026-10-01", "2026-11-01")
ROWS = [*enumerate(["train"] * 4 + ["val", "val", "test", "test"])]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def settings(*, snapshot: int = 1, number: int | None = None, **args):
    block = {"name": "table", "raw": str(RAW), "args": ARGS | args, "folds": number, "seed": 1}
    return check_shapes(params_of({"datasets": {"shop": block}, "data": {"snapshot": snapshot}}))


def made(**options):
    """Make the dataset, and return the params that it is of."""
    values = settings(**options)
    data.main(values, "shop")
    return values


def stored(column: str, split: str = "train") -> list:
    """Return a column of the dataset."""
    return pq.read_table(f"data/shop/{split}.parquet")[column].to_pylist()


def write(day: str, *lines: str) -> None:
    """Write the table of a delivery, the names of its columns first."""
    (RAW / day).mkdir(parents=True, exist_ok=True)
    (RAW / day / "rows.csv").write_text("\n".join(lines) + "\n")


def delivery(day: str, splits: list[str]) -> None:
    rows = [f"{day}-{row},{day}-{row // 2},{split},{row},{row % 5},{2 * row}" for row, split in enumerate(splits)]
    write(day, "name,group,split,x,y,clicks", *rows)


@pytest.fixture
def deliveries():
    """The first delivery, and two more of other rows."""
    delivery("first", ["train"] * 6 + ["val", "val", "test", "test"])
    for day in DAYS[1:]:
        delivery(day, ["train"] * 3)


def test_later_ones_add_training_rows_up_to_the_snapshot(deliveries, caplog):
    caplog.set_level(logging.INFO)
    names, held_out = [], set()
    for snapshot in (1, 2, 4):  # the fourth has not come in yet
        made(snapshot=snapshot, train_target="clicks")
        names.append(stored("name"))
        assert stored("id") == [*range(len(names[-1]))]
        assert stored("target") == [2 * int(name.rpartition("-")[2]) for name in names[-1]]
        held_out.add((Path("data/shop/val.parquet").read_bytes(), Path("data/shop/test.parquet").read_bytes()))
    assert len(names[-1]) == 12
    assert names == [names[-1][:count] for count in (6, 9, 12)]
    assert len(held_out) == 1
    manifest = json.loads(Path("data/shop/manifest.json").read_text())
    assert (manifest["deliveries"], manifest["rows"]["train"]) == ([*DAYS], 12)
    assert f"{RAW}/{DAYS[2]}: 3 more training rows, from a later delivery: 12 in all" in caplog.messages
    assert refusal(settings(snapshot=3), "shop") is None


@pytest.mark.parametrize("dated", [False, True])
def test_a_category_s_name_that_only_a_later_one_has_is_a_feature_from_then_on(dated):
    first = ["brand,split,x,y,day", *(f"{'ab'[row % 2]},{split},{row},{row},2026-09-01" for row, split in ROWS)]
    later = ["c,train,1,2,2026-10-01", "a,train,2,1,2026-10-01"]
    roles = {"categories": ["brand"], "id": None, "group": None}
    if dated:
        write("first", *first, *later)
        roles["date"] = {"column": "day", "first": "2026-09-30", "every": "month"}
    else:
        write("first", *first)
        write("2026-10-01", first[0], *later)
    names = ["x", "brand=a", "brand=b", "brand=c"]
    for snapshot in (1, 2):
        made(snapshot=snapshot, **roles)
        assert json.loads(pq.read_schema("data/shop/val.parquet").metadata[b"features"]) == names[: 2 + snapshot]
    assert stored("features")[-2:] == [[1, 0, 0, 1], [2, 1, 0, 0]]


def test_a_wrong_one_is_named_and_what_was_there_stays(deliveries):
    made()
    before = Path("data/shop/train.parquet").read_bytes()
    delivery("2026-10-01", ["train"] * 3)
    rows = RAW / "2026-10-01" / "rows.csv"
    rows.write_text(rows.read_text() + "first-8,new,train,1,1,1\n")
    for old, new, message in (
        ("2026-10-01", "2026-10-01", "2026-10-01.*row 4: name first-8 is also in .*, among rows for test"),
        ("2026-10-01", "2026-13-01", "2026-13-01: month"),
        ("2026-13-01", "more", "unexpected more;"),
        ("first", "2026-09-01", f"mv {RAW}/2026-09-01 {RAW}/first"),
    ):
        (RAW / old).rename(RAW / new)
        with pytest.raises(ValueError, match=message):
            made(snapshot=2)
    with pytest.raises(ValueError, match=message):
        check_values(settings().model_dump())
    assert Path("data/shop/train.parquet").read_bytes() == before


@pytest.fixture
def folded():
    delivery("", ["train", "val", "test"] * 10)
    return made(number=3, split=None)


def test_a_group_is_in_one_fold_and_the_gate_in_none(folded):
    every, gate = (pq.read_table(f"data/shop/{split}.parquet") for split in ("train", "gate"))
    assert all(pq.read_table(f"data/shop/{split}.parquet").equals(every) for split in ("val", "test"))
    assert len(every) + len(gate) == 30
    folds_of_groups = every.to_pandas().groupby("group")["fold"]
    assert folds_of_groups.nunique().max() == 1
    assert set(folds_of_groups.first()) == {1, 2, 3}
    assert not folds_of_groups.groups.keys() & {*gate["group"].to_pylist()}
    assert refusal(folded, "shop") is None
    sizes = np.bincount(every["fold"].to_numpy())[1:]
    page = Path("reports/data/shop.html").read_text()
    described = f"3 folds over groups (group); a test fold has {min(sizes)} to {max(sizes)} of {len(every)} rows"
    assert f"{described}; {len(gate)} other rows are the gate" in page
    assert not re.search(r"\d train|\d val|\d test", page)


def test_equal_inputs_of_rows_without_a_name_are_in_one_fold():
    write("", "x,y", *(f"{row % 15},{row}" for row in range(60)))
    made(number=3, split=None, id=None, group=None)
    rows = pq.read_table("data/shop/train.parquet").to_pandas()
    assert rows.groupby(rows["features"].map(tuple))["fold"].nunique().max() == 1
    assert rows["fold"].nunique() == 3


def test_more_folds_than_groups_are_refused(folded):
    with pytest.raises(ValueError, match="40 folds of .* rows: fold .* fewer folds"):
        made(number=40, split=None)


def test_columns_of_a_later_one_are_matched_by_name():
    rows = [f"{row},{10 * row},{row % 2},{row % 3 % 2},{1 - row % 2},0,{split}" for row, split in ROWS]
    write("first", "x_a,x_b,tag_a,tag_b,skip_b,skip_a,split", *rows)
    names, later = "tag_b,x_b,tag_a,x_a,skip_a,skip_b,split", "0,90,1,9,1,0,train"
    write("2026-10-01", names, later)
    args = {"features": "x_*", "labels": "tag_*", "ignore": "skip_*", "target": None, "id": None, "group": None}
    made(snapshot=2, **args)
    row = pq.read_table("data/shop/train.parquet").to_pylist()[-1]
    assert (row["features"], row["labels"], row["difficult"]) == ([9, 90], [1, 0], [True, False])
    for lines, message in (
        ([names.replace("x_a", "x_c"), later], "no column 'x_a', which the first"),
        ([f"{names},tag_c", f"{later},1"], "column 'tag_c' of labels, but not the first"),
    ):
        write("2026-10-01", *lines)
        for check in (data.main, lambda values, _: check_values(values.model_dump())):
            with pytest.raises(ValueError, match=f"2026-10-01/rows.csv: .*{message}"):
                check(settings(snapshot=2, **args | {"ignore": None}), "shop")


def test_features_of_a_later_one_keep_their_order_and_new_ones_are_not_learned(caplog):
    write("first", "x_a,x_b,y,split", *(f"{row},{10 * row},{row},{split}" for row, split in ROWS))
    write("2026-10-01", "x_c,x_b,split,y,x_a", "5,90,train,3,9")
    made(snapshot=2, features="x_*", id=None, group=None, missing="impute")
    assert stored("features")[-1][:2] == [9, 90]
    assert "x_c: not in the first delivery" in caplog.text


@pytest.mark.parametrize("dated", [False, True])
def test_the_hash_of_splits_puts_later_rows_into_the_gate_as_if_they_had_come_with_the_first(dated):
    header = "name,group,x,y,day"
    first = [f"{row},g{row % 150},{row},{row},2026-09-01" for row in range(300)]
    later = [f"{row},g{row % 199},{row},{row},2026-10-01" for row in range(300, 600)]
    roles = {"split": {"hash_of": "group", "gate": 0.2}} | (
        {"date": {"column": "day", "first": "2026-09-30", "every": "month"}} if dated else {}
    )
    write("first", header, *first)
    made(**roles)
    before = {split: [stored("name", split), stored("group", split)] for split in ("train", "val", "test", "gate")}
    if dated:
        write("first", header, *first, *later)
    else:
        write("2026-10-01", header, *later)
    values = made(snapshot=2, **roles)
    for split in ("val", "test"):
        assert [stored("name", split), stored("group", split)] == before[split]
    assert stored("name", "gate")[: len(before["gate"][0])] == before["gate"][0]
    assert {*stored("group")}.isdisjoint(stored("group", "gate"))
    assert refusal(values, "shop") is None
    extended, left_out = (
        stored("name", "gate"),
        {*map(str, range(600))}.difference(*(stored("name", split) for split in before)),
    )
    assert {f"g{int(name) % 199}" for name in left_out} <= {*before["val"][1], *before["test"][1]}
    write("first", header, *first, *later)
    if not dated:
        (RAW / "2026-10-01/rows.csv").unlink()
        (RAW / "2026-10-01").rmdir()
    made(**roles | {"date": None})
    assert sorted(stored("name", "gate")) == sorted(extended)


def test_rows_of_a_later_one_that_repeat_held_out_rows_without_an_id_are_left_out(caplog):
    first = ["x,y,split", *(f"{row},{row},{split}" for row, split in ROWS)]
    write("first", *first)
    write("2026-10-01", *first, "9,9,train")  # it has all rows, old and new
    made(snapshot=2, id=None, group=None)
    assert stored("features") == [[x] for x in (0, 1, 2, 3, 0, 1, 2, 3, 9)]  # inputs of training may repeat
    assert stored("features", "test") == [[6], [7]]
    assert "4 of 9 rows of later deliveries" in caplog.text


def test_with_folds_a_later_one_has_no_group_of_the_gate(folded):
    header, *rows = (RAW / "rows.csv").read_text().splitlines()
    (RAW / "rows.csv").unlink()
    write("first", header, *rows)
    write("2026-10-01", header, f"new,{stored('group', 'gate')[0]},train,1,1,1")
    made(number=3, split=None, snapshot=2)
    assert "new" not in stored("name")


def test_rows_of_held_out_groups_are_left_out_of_a_later_one_counted_and_not_called_suspicious(caplog):
    write("first", "name,group,split,x,y", *(f"{row},g{row // 2},{split},{row},{row}" for row, split in ROWS))
    xs = (0, 1, 2, 1e9, 4)
    later = [f"later-{row},g{row},train,{x},{row}" for row, x in enumerate(xs)]  # g2 is in val, g3 in test
    write("2026-10-01", "name,group,split,x,y", *later)
    values = made(snapshot=2)
    assert stored("name") == ["0", "1", "2", "3", "later-0", "later-1", "later-4"]
    assert "2 of 5 rows of later deliveries belong to held-out groups" in caplog.text
    assert "outliers" not in caplog.text
    assert refusal(values, "shop") is None
    assert "2 rows that are held out, or whose group is" in Path("reports/data/shop.html").read_text()


QUERIES = {"group": "query", "relevance": "grade", "target": None, "id": None}


def test_queries_that_return_stay_in_their_fold():
    lines = ["query,x,grade", *(f"q{row // 2},{row},{row % 2}" for row in range(60))]
    for day in DAYS[:2]:
        write(day, *lines)
    made(number=3, snapshot=2, split=None, **QUERIES)
    rows = pq.read_table("data/shop/train.parquet").to_pandas()
    query = rows["name"].str.removeprefix("2026-10-01/")
    assert len(query) == 2 * query.nunique()
    assert rows.groupby(query)["fold"].nunique().max() == 1


def test_passages_of_held_out_queries_are_left_out_of_a_later_one(caplog):
    write("first", "passage,query,split", *(f"text {row} of first,which {row},{split}" for row, split in ROWS))
    write("2026-10-01", "passage,query,split", *(f"another text {row},Which {row},train" for row in range(6)))
    made(snapshot=2, features=None, target=None, id=None, group=None, text="passage", captions="query")
    assert stored("captions") == [[f"which {row}"] for row in range(4)] + [[f"Which {row}"] for row in range(4)]
    assert "2 of 6 rows of later deliveries" in caplog.text


def test_queries_that_return_in_a_later_one_are_further_training_lists():
    rows = [f"q{row // 2},{row},{row % 2},{split}" for row, split in ROWS]
    write("first", "query,x,grade,split", *rows)
    later = ["q0,8,0,train", "q0,9,1,train", "q3,8,1,train", "q3,9,0,train"]
    write("2026-10-01", "query,x,grade,split", *later)
    values = made(snapshot=2, **QUERIES)
    assert stored("name") == ["q0", "q1", "2026-10-01/q0"]
    assert refusal(values, "shop") is None


def test_a_query_that_returns_is_judged_once_and_a_new_one_extends_the_gate():
    lines = [f"q{row // 2},{row},{row % 2}" for row in range(240)]
    options = QUERIES | {"split": {"hash_of": "query", "gate": 0.3}}
    write("first", "query,x,grade", *lines[:120])
    made(**options)
    before = stored("name", "gate")
    for day in DAYS[1:]:
        write(day, "query,x,grade", *lines)  # all queries, old and new
    values = made(snapshot=3, **options)
    names = [name.rpartition("/")[2] for name in stored("name", "gate")]
    assert names[: len(before)] == before
    assert len(names) == len({*names}) > len(before)
    assert {*names}.isdisjoint(name.rpartition("/")[2] for name in stored("name"))
    assert refusal(values, "shop") is None


def test_new_queries_for_known_passages_extend_the_gate_of_a_search():
    rows = [f"text {row},what is {row}" for row in range(120)]
    options = {"features": None, "target": None, "id": None, "group": None, "text": "passage", "captions": "query"}
    options["split"] = {"gate": 0.3}
    write("first", "passage,query", *rows)
    write("2026-10-01", "passage,query", *(f"text {row},explain {row}" for row in range(120)))
    made(**options)
    before = stored("captions", "gate")
    made(snapshot=2, **options)
    after = [query for queries in stored("captions", "gate") for query in queries]
    assert len(after) == len({*after}) == 2 * len(before)


def test_an_outlier_among_the_targets_of_a_later_one_is_reported(deliveries, caplog):
    made(snapshot=2)
    assert "outliers" not in caplog.text
    rows = (RAW / DAYS[1] / "rows.csv").read_text().replace(",2,4\n", ",99999999,4\n")
    (RAW / DAYS[1] / "rows.csv").write_text(rows)
    made(snapshot=2)
    assert "outliers: y" in caplog.text

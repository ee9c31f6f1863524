"""Data that come in over time, in folders named for their day, and data that are cut into folds."""

import json
import logging
import re
from itertools import pairwise
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
SIX = [*enumerate(["train"] * 4 + ["val", "val", "test", "test"])]


def settings(*, snapshot: int = 1, number: int | None = None, **args):
    block = {"name": "table", "raw": str(RAW), "args": ARGS | args, "folds": number, "seed": 1}
    return check_shapes(params_of({"datasets": {"shop": block}, "data": {"snapshot": snapshot}}))


def delivery(day: str, splits: list[str], *, group: str = "") -> None:
    folder = RAW / day
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for row, split in enumerate(splits):
        lines.append(f"{day}-{row},{group or f'{day}-{row // 2}'},{split},{row},{row % 5},{2 * row}")
    (folder / "rows.csv").write_text("\n".join(["name,group,split,x,y,clicks", *lines]) + "\n")


@pytest.fixture
def deliveries(tmp_path, monkeypatch):
    """The first delivery, and two more of other rows."""
    monkeypatch.chdir(tmp_path)
    delivery("first", ["train"] * 6 + ["val", "val", "test", "test"])
    for day in DAYS[1:]:
        delivery(day, ["train"] * 3)


def test_later_ones_add_training_rows_up_to_the_snapshot(deliveries, caplog):
    caplog.set_level(logging.INFO)
    names, held_out = [], set()
    for snapshot in (1, 2, 4):  # the fourth has not come in yet
        data.main(settings(snapshot=snapshot, train_target="clicks"), "shop")
        train = pq.read_table("data/shop/train.parquet")
        assert train["id"].to_pylist() == list(range(len(train)))
        assert train["target"].to_pylist() == [2 * int(name.rpartition("-")[2]) for name in train["name"].to_pylist()]
        names.append(train["name"].to_pylist())
        held_out.add((Path("data/shop/val.parquet").read_bytes(), Path("data/shop/test.parquet").read_bytes()))
    assert [len(names_of_snapshot) for names_of_snapshot in names] == [6, 9, 12]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(names))
    assert len(held_out) == 1
    manifest = json.loads(Path("data/shop/manifest.json").read_text())
    assert (manifest["deliveries"], manifest["rows"]["train"]) == ([*DAYS], 12)
    assert f"{RAW}/{DAYS[2]}: 3 more training rows, from a later delivery: 12 in all" in caplog.messages
    assert refusal(settings(snapshot=3), "shop") is None


@pytest.mark.parametrize("dated", [False, True])
def test_a_category_s_name_that_only_a_later_one_has_is_a_feature_from_then_on(tmp_path, monkeypatch, dated):
    monkeypatch.chdir(tmp_path)
    first = ["brand,split,x,y,day", *(f"{'ab'[row % 2]},{split},{row},{row},2026-09-01" for row, split in SIX)]
    later = ["c,train,1,2,2026-10-01", "a,train,2,1,2026-10-01"]
    files = {"first": first + later} if dated else {"first": first, "2026-10-01": [first[0], *later]}
    for day, lines in files.items():
        (RAW / day).mkdir(parents=True)
        (RAW / day / "rows.csv").write_text("\n".join(lines) + "\n")
    roles = {"file": "rows.csv", "features": ["x"], "categories": ["brand"], "id": None, "group": None}
    roles |= {"date": {"column": "day", "first": "2026-09-30", "every": "month"}} if dated else {}
    for snapshot, names in ((1, ["x", "brand=a", "brand=b"]), (2, ["x", "brand=a", "brand=b", "brand=c"])):
        data.main(settings(snapshot=snapshot, **roles), "shop")
        assert json.loads(pq.read_schema("data/shop/val.parquet").metadata[b"features"]) == names
    assert pq.read_table("data/shop/train.parquet")["features"].to_pylist()[-2:] == [[1, 0, 0, 1], [2, 1, 0, 0]]


def test_a_wrong_one_is_named_and_what_was_there_stays(deliveries):
    data.main(settings(), "shop")
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
            data.main(settings(snapshot=2), "shop")
    with pytest.raises(ValueError, match=message):
        check_values(settings().model_dump())
    assert Path("data/shop/train.parquet").read_bytes() == before


@pytest.fixture
def folded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    delivery("", ["train", "val", "test"] * 10)
    values = settings(number=3, split=None)
    data.main(values, "shop")
    return values


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


def test_equal_inputs_of_rows_without_a_name_are_in_one_fold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{row % 15},{row}" for row in range(60)]
    RAW.mkdir(parents=True)
    (RAW / "rows.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    data.main(settings(number=3, split=None, id=None, group=None), "shop")
    rows = pq.read_table("data/shop/train.parquet").to_pandas()
    assert rows.groupby(rows["features"].map(tuple))["fold"].nunique().max() == 1
    assert rows["fold"].nunique() == 3


def test_more_folds_than_groups_are_refused(folded):
    with pytest.raises(ValueError, match="40 folds of .* rows: fold .* fewer folds"):
        data.main(settings(number=40, split=None), "shop")


def written(*files: tuple[str, str]) -> None:
    for day, text in files:
        (RAW / day).mkdir(parents=True, exist_ok=True)
        (RAW / day / "rows.csv").write_text(text)


def test_columns_of_a_later_one_are_matched_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{row},{10 * row},{row % 2},{row % 3 % 2},{1 - row % 2},0,{split}" for row, split in SIX]
    first = "\n".join(["x_a,x_b,tag_a,tag_b,skip_b,skip_a,split", *lines])
    later = "tag_b,x_b,tag_a,x_a,skip_a,skip_b,split\n0,90,1,9,1,0,train\n"
    written(("first", first), ("2026-10-01", later))
    args = {"features": "x_*", "labels": "tag_*", "ignore": "skip_*", "target": None, "id": None, "group": None}
    data.main(settings(snapshot=2, **args), "shop")
    row = pq.read_table("data/shop/train.parquet").to_pylist()[-1]
    assert (row["features"], row["labels"], row["difficult"]) == ([9, 90], [1, 0], [True, False])
    with_another_tag = later.replace("split\n", "split,tag_c\n").replace("train", "train,1")
    for text, message in (
        (later.replace("x_a", "x_c"), "no column 'x_a', which the first"),
        (with_another_tag, "column 'tag_c' of labels, but not the first"),
    ):
        written(("2026-10-01", text))
        for check in (data.main, lambda values, _: check_values(values.model_dump())):
            with pytest.raises(ValueError, match=f"2026-10-01/rows.csv: .*{message}"):
                check(settings(snapshot=2, **args | {"ignore": None}), "shop")


@pytest.mark.parametrize("missing", ["refuse", "impute"])
def test_features_of_a_later_one_keep_their_order_and_new_ones_are_not_learned(tmp_path, monkeypatch, caplog, missing):
    monkeypatch.chdir(tmp_path)
    lines = [f"{row},{10 * row},{row},{split}" for row, split in SIX]
    first, later = ["x_a,x_b,y,split", *lines], "x_c,x_b,split,y,x_a\n5,90,train,3,9\n"
    written(("first", "\n".join(first)), ("2026-10-01", later))
    data.main(settings(snapshot=2, features="x_*", id=None, group=None, missing=missing), "shop")
    assert pq.read_table("data/shop/train.parquet")["features"].to_pylist()[-1][:2] == [9, 90]
    assert "x_c: not in the first delivery" in caplog.text


def test_rows_of_a_later_one_that_repeat_held_out_rows_without_an_id_are_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    first = "\n".join(["x,y,split", *(f"{row},{row},{split}" for row, split in SIX)]) + "\n"
    written(("first", first), ("2026-10-01", first + "9,9,train\n"))  # it has all rows, old and new
    data.main(settings(snapshot=2, id=None, group=None), "shop")
    rows = {split: pq.read_table(f"data/shop/{split}.parquet")["features"].to_pylist() for split in ("train", "test")}
    assert not {*map(tuple, rows["train"])} & {*map(tuple, rows["test"])}
    assert rows["train"].count([9]) == 1
    assert rows["train"].count([0]) == 2  # inputs of training may repeat
    assert "4 of 9 rows of later deliveries" in caplog.text


def test_with_folds_a_later_one_has_no_group_of_the_gate(folded):
    gate = pq.read_table("data/shop/gate.parquet")["group"].to_pylist()
    text = (RAW / "rows.csv").read_text()
    (RAW / "rows.csv").unlink()
    written(("first", text), ("2026-10-01", f"name,group,split,x,y,clicks\nnew,{gate[0]},train,1,1,1\n"))
    data.main(settings(number=3, split=None, snapshot=2), "shop")
    assert "new" not in pq.read_table("data/shop/train.parquet")["name"].to_pylist()


@pytest.mark.parametrize("dated", [False, True])
def test_rows_of_held_out_groups_are_left_out_of_a_later_one(tmp_path, monkeypatch, caplog, dated):
    monkeypatch.chdir(tmp_path)
    first = ["name,group,split,x,y,day", *(f"{row},g{row // 2},{split},{row},{row},2026-09-01" for row, split in SIX)]
    later = [f"later-{row},g{row},train,{row},{row},2026-10-01" for row in range(5)]  # g2 is in val, g3 in test
    files = {"first": first + later} if dated else {"first": first, "2026-10-01": [first[0], *later]}
    written(*((day, "\n".join(lines) + "\n") for day, lines in files.items()))
    roles = {"date": {"column": "day", "first": "2026-09-30", "every": "month"}} if dated else {}
    data.main(settings(snapshot=2, **roles), "shop")
    names = pq.read_table("data/shop/train.parquet")["name"].to_pylist()
    assert names == ["0", "1", "2", "3", "later-0", "later-1", "later-4"]
    assert "2 of 5 rows of later deliveries belong to groups" in caplog.text


def test_queries_that_return_stay_in_their_fold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["query,x,grade", *(f"q{row // 2},{row},{row % 2}" for row in range(60))]
    written(("first", "\n".join(lines) + "\n"), ("2026-10-01", "\n".join(lines) + "\n"))
    args = {"group": "query", "relevance": "grade", "target": None, "id": None, "split": None}
    data.main(settings(number=3, snapshot=2, **args), "shop")
    rows = pq.read_table("data/shop/train.parquet").to_pandas()
    query = rows["name"].str.removeprefix("2026-10-01/")
    assert len(query) == 2 * query.nunique()
    assert rows.groupby(query)["fold"].nunique().max() == 1


def test_passages_of_held_out_queries_are_left_out_of_a_later_one(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    first = ["passage,query,split", *(f"text {row} of first,which {row},{split}" for row, split in SIX)]
    later = [first[0], *(f"another text {row},Which {row},train" for row in range(6))]
    written(("first", "\n".join(first) + "\n"), ("2026-10-01", "\n".join(later) + "\n"))
    roles = dict.fromkeys(("features", "target", "id", "group")) | {"text": "passage", "captions": "query"}
    data.main(settings(snapshot=2, **roles), "shop")
    queries = pq.read_table("data/shop/train.parquet")["captions"].to_pylist()
    assert queries == [[f"which {row}"] for row in range(4)] + [[f"Which {row}"] for row in range(4)]
    assert "2 of 6 rows of later deliveries" in caplog.text


def test_queries_that_return_in_a_later_one_are_further_training_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {name: [f"{name},{row},{row % 2},{split}" for row in range(3)] for name, split in zip("abcd", (
        "train", "train", "val", "test"), strict=True)}  # fmt: skip
    header, later = "query,x,grade,split", ["a,7,0,train", "a,8,1,train", "d,7,1,train", "d,8,0,train"]
    written(
        ("first", "\n".join([header, *(line for lines in rows.values() for line in lines)]) + "\n"),
        ("2026-10-01", "\n".join([header, *later]) + "\n"),
    )
    args = {"group": "query", "relevance": "grade", "target": None, "id": None}
    values = settings(snapshot=2, **args)
    data.main(values, "shop")
    assert pq.read_table("data/shop/train.parquet")["name"].to_pylist() == ["a", "b", "2026-10-01/a"]
    assert refusal(values, "shop") is None


def test_later_rows_that_are_left_out_are_not_called_suspicious_and_are_counted_on_the_page(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    first = ["name,group,split,x,y", *(f"{row},g{row // 2},{split},{row},{row}" for row, split in SIX)]
    written(
        ("first", "\n".join(first) + "\n"), ("2026-10-01", f"{first[0]}\nlater,g3,train,1e9,1\nalso,g9,train,1,1\n")
    )
    values = settings(snapshot=2)
    data.main(values, "shop")
    assert "outliers" not in caplog.text
    assert refusal(values, "shop") is None
    assert "1 rows that the first one, or their group, holds out" in Path("reports/data/shop.html").read_text()


def test_an_outlier_among_the_targets_of_a_later_one_is_reported(deliveries, caplog):
    data.main(settings(snapshot=2), "shop")
    assert "outliers" not in caplog.text
    rows = (RAW / DAYS[1] / "rows.csv").read_text().replace(",2,4\n", ",99999999,4\n")
    (RAW / DAYS[1] / "rows.csv").write_text(rows)
    data.main(settings(snapshot=2), "shop")
    assert "outliers: y" in caplog.text

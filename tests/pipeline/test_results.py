"""The one table of numbers: every reader reads what is written, and what is damaged is refused."""

import contextlib
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as draw

from rankgrad.io import results
from rankgrad.io.results import Row
from studies import kept

HEADER = "run,seed,fold,split,metric,value,low,high"
MADE_BY = {"commit": "0123", "params": {}, "hashes": {}, "machine": {}}


def plain(rows: list[Row]) -> list[tuple]:
    """Rows that can be compared: NaN equals nothing."""
    return [tuple(map(str, row)) for row in rows]


@draw.composite
def drawn_rows(choose) -> list[Row]:
    names = draw.text(draw.characters(categories=["L", "N", "P", "S"]), min_size=1)
    numbers, integers = draw.floats(allow_infinity=False, allow_nan=False), draw.none() | draw.integers(0, 2**40)
    rows = []
    for run, metric, seed, fold in choose(draw.sets(draw.tuples(names, names, integers, integers), min_size=1)):
        low, high = choose(draw.tuples(numbers, numbers).map(sorted) | draw.just((math.nan, math.nan)))
        value, split = choose(numbers | draw.just(math.nan)), choose(draw.sampled_from(["test", ""]))
        rows.append(Row(run, metric, value, low, high, seed, fold, split))
    return rows


@given(drawn_rows())
def test_every_reader_reads_what_is_written_to_the_bit(tmp_path_factory, rows):
    with contextlib.chdir(tmp_path_factory.mktemp("rows")):
        results.write("a.csv", rows)
        table = results.read("a.csv")
        assert plain(table.rows) == plain(rows)
        for row in table.rows:
            if row.seed is None and row.fold is None:
                assert plain([table.row(row.run, row.metric)]) == plain([row])
        frame, defined = pd.read_csv("a.csv"), [row for row in rows if not math.isnan(row.value)]
        assert [*frame.columns] == HEADER.split(",")
        assert frame["value"].notna().sum() == len(defined)
        if defined:
            kept.write("mine", rows, MADE_BY)
            assert plain(kept.read("mine").rows) == plain(defined)


def test_a_table_of_before_there_were_splits_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = kept.write("old", [Row("a", "m", 0.5, 0.4, 0.6), Row("a", "validation", 0.3, seed=1)], MADE_BY)
    table, about = path / "results.csv", path / "made_by.json"
    before = kept._sum(table)
    table.write_text("run,seed,fold,metric,value,low,high\na,,,m,0.5,0.4,0.6\na,1,,validation,0.3,,\n")
    about.write_text(about.read_text().replace(before, kept._sum(table)))
    study = kept.read("old")
    assert [row.split for row in study.rows] == ["test", "val"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "columns"), (f"{HEADER}\n", "no rows"), (f"{HEADER}\na,,,test,m,inf,,\n", "line 2: value"),
        (f"{HEADER}\na,1.5,,test,m,1,,\n", "line 2: seed"), (f"{HEADER}\na,,,test,m,1,2,0\n", "line 2: .*low"),
        (f"{HEADER}\na,,,test,m,1,\n", "line 2: 7 cells"), (f"{HEADER}\na,,,test,,1,,\n", "metric is ''"),
        (f"{HEADER}\na,,,test,m,1,,\na,,,test,m,2,,\n", "line 3"), ("\udcff", "utf-8"),
    ],
)  # fmt: skip
def test_a_damaged_table_is_refused(tmp_path, text, named):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=f"(?s)a.csv.*{named}"):
        results.read(path)
    with pytest.raises(FileNotFoundError):
        results.read(tmp_path / "none.csv")


@pytest.mark.parametrize("rows", [[], [Row("a", "m", 1.0)] * 2, [Row("a", "m", math.inf)]])
def test_what_could_not_be_read_is_not_written(tmp_path, rows):
    with pytest.raises(ValueError, match=r"a\.csv"):
        results.write(tmp_path / "a.csv", rows)
    assert not (tmp_path / "a.csv").exists()

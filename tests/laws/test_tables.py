"""A table of one's own: each row becomes exactly what was drawn, in every format, and prediction reads the same."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from laws.changes import as_json, changed, damaged
from laws.law import law, refused_at
from laws.tables import NUMBERS, TRUTHS, Form, forms, read, rows_of, tables, write
from rankgrad import lookup
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import as_periods
from rankgrad.datasets.tables.files import Sheet
from rankgrad.datasets.tables.rows import Roles, asked
from rankgrad.datasets.tables.rows import read as rows_to_ask

SHARES = {"val": 0.2, "test": 0.2, "gate": 0.2}
FLAT = {"features": ["x"], "target": "y", "id": "who"}


def read_as(table: dict[str, list[Any]], form: Form, options: dict[str, Any], **how: Any) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        write(table, form, Path(folder))
        return read(options | form.options, Path(folder), **how)


def placed_by(*arguments: Any, **how: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the split and the row of each name; leave an example out whose splits are not all there."""
    try:
        splits = read_as(*arguments, **how)
    except ValueError as error:
        assume("none of its" not in str(error) and "two features" not in str(error))
        raise
    return {row["name"]: (split, row | {"id": 0}) for split, of_split in splits.items() for row in of_split.to_pylist()}


@pytest.mark.parametrize("truth", TRUTHS)
@law(8)
@given(data=st.data(), form=forms())
def test_each_row_of_every_format_becomes_what_was_drawn(truth, data, form):
    table = data.draw(tables(truths=[truth]))
    splits = read_as(table.columns, form, table.options)
    for split, rows in splits.items():
        assert rows_of(rows, table.options | form.options) == table.expected(split)


@law(24)
@given(table=tables(truths=["target"]), form=forms(), data=st.data())
def test_prediction_reads_a_row_as_training_stored_it(table, form, data):
    options = table.options | form.options
    kind = Table(**options).input
    with TemporaryDirectory() as folder:
        path = write(table.columns, form, Path(folder))
        if data.draw(st.booleans()):  # a suffix that tells nothing
            path = path.rename(path.with_suffix(".data"))
            options |= {"file": path.name, "format": form.suffix}
        splits = read(options, Path(folder))
        stored = {row["name"]: row[kind] for of_split in splits.values() for row in of_split.to_pylist()}
        pq.write_table(splits["train"], Path(folder) / "train.parquet")
        about = lookup.find("tasks", "score_ranking")().load(folder, "train", threads=1).inputs.about
        # As they are called, or as a person names them, in whichever order.
        roles = data.draw(st.sampled_from([Roles(), Roles(about["columns"][::-1])]))
        recipe = {"task": "score_ranking", "input": about}
        cells = [row.asked()[kind] for row in rows_to_ask([path], recipe, roles)]
        if form.suffix == "jsonl":  # a request with the same rows, with the target and other columns
            rows = [*map(json.loads, path.read_text(form.encoding).splitlines())]
            cells += [row[kind] for row in asked(rows, recipe, [kind, "id"])]
            with pytest.raises(ValueError, match="row 1: unknown column 'Target'"):
                [*asked([rows[0] | {"Target": 1}], recipe, [kind, "id"])]
    prepared = [lookup.find("inputs", kind).prepared([cell], about, where="")[0] for cell in cells]
    expected = [stored[name] for name in table.names] * (len(cells) // len(table.names))
    assert [cell_ if kind == "text" else cell_.tolist() for cell_ in prepared] == expected


SPELLINGS = [("7", "7.0", " 7"), ("true", "True"), ("2026-01-01", "2026-01-01 00:00:00"),
             ("Anna Lee", "Anna  Lee", "Anna\u00a0Lee", "Anna Lee\u200b"), ("caf\u00e9", "cafe\u0301")]  # fmt: skip


@law(10)
@given(
    group=st.sampled_from(SPELLINGS),
    order=st.permutations(range(40)),
    seed=st.integers(0, 9),
    suffix=st.sampled_from(["csv", "jsonl", "parquet"]),
    within=st.sampled_from(["shop", "x"]),
)
def test_a_group_of_several_spellings_is_one(group, order, seed, suffix, within):
    shops = [group[row % len(group)] if row < 20 else f"s{row // 2}" for row in order]
    table = {"shop": shops, "x": [*map(float, order)], "y": [*map(float, order)]}
    options = {"features": ["x"], "target": "y", "group": within, "split": {"hash_of": "shop"} | SHARES}
    by_name = placed_by(table, Form(suffix), options, seed=seed)
    homes = {(split, row["group"] if within == "shop" else "") for split, row in by_name.values() if row["target"] < 20}
    assert len(homes) == 1


@st.composite
def grouped(draw) -> dict[str, list[Any]]:
    """Rows of twenty shops, an input and a target each; the target is the number of the row."""
    x = draw(st.lists(NUMBERS, min_size=40, max_size=50, unique=True))
    rows = range(len(x))
    shops = draw(st.lists(st.integers(0, 19), min_size=len(x) - 20, max_size=len(x) - 20))
    return {"who": [f"n{row}" for row in rows], "shop": [f"s{shop}" for shop in [*range(20), *shops]],
            "x": x, "y": [*map(float, rows)]}  # fmt: skip


@law(15)
@given(
    table=grouped(),
    seed=st.integers(0, 9),
    order=st.permutations(range(50)),
    taken=st.integers(0, 5),
    suffix=st.sampled_from(["csv", "jsonl", "parquet"]),
    options=st.sampled_from([{"id": None, "split": None}, {"group": "shop"},
                             {"group": "shop", "id": None}, {"split": {"hash_of": "shop"} | SHARES}]),
)  # fmt: skip
def test_a_group_is_in_one_split_no_row_is_lost_and_none_that_is_taken_out_moves_another(
    table, seed, order, taken, suffix, options
):
    options = FLAT | {"split": {"hash_of": "shop"} | SHARES} | options
    count = len(table["who"])

    def rows(chosen: Sequence[int], form: Form) -> dict[float, tuple[str, dict[str, Any]]]:
        cells = {name: [column[row] for row in chosen] for name, column in table.items()}
        placed = placed_by(cells, form, options, seed=seed).values()
        assert len(placed) == len(chosen)
        return {row["target"]: (split, row | {"name": ""}) for split, row in placed}

    every = rows(range(count), Form("csv"))
    homes: dict[str, set[str]] = {}
    for shop, x, y in zip(table["shop"], table["x"], table["y"], strict=True):
        split, row = every[y]
        homes.setdefault(shop if options["split"] else x, set()).add(split)
        assert row["features"] == [x]
    assert all(len(splits) == 1 for splits in homes.values())
    fewer = rows([row for row in order if row < count][taken:], Form(suffix))
    assert fewer == {y: every[y] for y in fewer}


@law(8)
@given(table=grouped(), months=st.lists(st.integers(1, 4), min_size=50, max_size=50), snapshot=st.integers(1, 4))
def test_later_days_are_for_training_but_for_groups_that_are_held_out(table, months, snapshot):
    months = [1] * 30 + months[: len(table["who"]) - 30]
    table["clicks"] = [*map(float, range(100, 100 + len(months)))]
    table["day"] = [f"{1 + row % 28}.{month}.2026" for row, month in enumerate(months)]
    options = FLAT | {"group": "shop" if snapshot % 2 else "who", "split": {"hash_of": "shop"} | SHARES,
                      "train_target": "clicks",
                      "date": {"column": "day", "first": "2026-01-31", "every": "month", "order": "DMY"}}  # fmt: skip
    by_name = placed_by(table, Form("csv"), options, snapshot=snapshot, seed=9)  # which has shops in each split
    shops = dict(zip(table["who"], table["shop"], strict=True))
    homes = {shops[who]: split for who, (split, row) in by_name.items()}
    order = [1, *sorted({*months} - {1})]
    for who, shop, x, y, clicks, month in zip(
        *(table[name] for name in ("who", "shop", "x", "y", "clicks")), months, strict=True
    ):
        is_late = month > 1
        comes = order.index(month) < max(1, snapshot) and not (is_late and homes.get(shop, "train") != "train")
        assert (who in by_name) == comes
        if comes:
            split, row = by_name[who]
            assert split == ("train" if is_late else homes[shop])
            assert (row["features"], row["target"]) == ([x], clicks if split == "train" else y)


PERIODS: dict[str, Callable[[date], Any]] = {
    "day": lambda day: day, "week": lambda day: day.isocalendar()[:2], "month": lambda day: (day.year, day.month),
    "year": lambda day: day.year,
}  # fmt: skip


@law(20)
@given(
    days=st.lists(st.dates(date(1960, 1, 1), date(1980, 1, 1)) | st.just(date(3000, 1, 1)), min_size=1),
    every=st.sampled_from([*PERIODS]),
    writing=st.sampled_from(["%Y-%m-%d", "%Y%m%d", "%Y-%m-%dT23:59:59+00:00"]),
)
def test_each_period_with_a_day_after_the_first_is_a_delivery(days, every, writing):
    first, cells = days[0], pd.Series([day.strftime(writing) for day in days], name="day")
    sheet = Sheet(cells.to_frame(), [Path("a.csv")], np.zeros(len(days), int), np.arange(len(days)))
    later = sorted({PERIODS[every](day) for day in days if day > first})
    expected = [later.index(PERIODS[every](day)) + 1 if day > first else 0 for day in days]
    assert as_periods(sheet, cells, first.isoformat(), every, "YMD").tolist() == expected


FAULTS = {
    "y": ["cheap", "", "inf", "nan", "1;5", "1e39"], "counts": ["-1", "much", "", "inf"], "km": ["far", "", "inf"],
    "price": ["", "-inf", "1 5"], "grade": ["-1", "good", ""], "code": ["AC", "", "ACGT"], "part": ["held out", ""],
    "vector": ["1", "1 x", "1 2 3"], "day": ["2026-02-30", ""],
    "words": ["", "_"], "is_b": ["7", "-1", "0.5", "maybe", ""], "tags": ["cat|cat", "zebra"],
}  # fmt: skip


@pytest.mark.parametrize("truth", TRUTHS)
@law(6)
@given(form=forms(), data=st.data())
def test_a_fault_in_one_cell_is_refused_by_its_row(truth, form, data):
    table = data.draw(tables(truths=[truth]))
    assume(form.suffix != "parquet" and "missing" not in table.options)  # whose columns are of one type; nor filled
    needed = [name for name in FAULTS if name in table.columns and not (name == "y" and "clicks" in table.columns)]
    assume(needed)
    column = data.draw(st.sampled_from(needed))
    row = data.draw(st.integers(5, len(table.names) - 1))
    fault = data.draw(st.sampled_from(FAULTS[column]))
    assume(not (fault == "zebra" and table.splits[row] == "train" and "classes" not in table.options))
    if form.suffix == "jsonl":
        form.as_text = True
    cells = [*table.columns[column][:row], fault, *table.columns[column][row + 1 :]]
    with pytest.raises(ValueError, match=rf"t\.{form.suffix}: row {row + 1}\b"):
        read_as(table.columns | {column: cells}, form, table.options)


# What broke the reading of tables once.
HELD = (
    ("csv", b"words,y\na,1\n", {"text": "words", "target": "y", "split": {"hash_of": 7}}),
    ("jsonl", b'{"x": 1, "words": -1}\n', {"features": ["x"], "captions": "words"}),
)


@example(data=HELD[0])
@example(data=HELD[1])
@law(20)
@given(data=st.data())
def test_a_damaged_file_or_option_is_taken_or_refused_by_its_place(data):
    with TemporaryDirectory(prefix="raw-") as folder:
        if isinstance(data, tuple):
            suffix, contents, options = data
        else:
            table, form = data.draw(tables()), data.draw(forms())
            suffix, options = form.suffix, table.options | form.options
            path = write(table.columns, form, Path(folder))
            contents = path.read_bytes()
            if data.draw(st.booleans()):
                contents = data.draw(damaged(contents))
            else:
                options = data.draw(changed(options))
        (Path(folder) / f"t.{suffix}").write_bytes(contents)
        options = {"file": f"t.{suffix}"} | (options if isinstance(options, dict) else {})
        with refused_at("for Table"):
            TypeAdapter(Table).validate_json(as_json(options), strict=True)
            with refused_at(rf"{re.escape(folder)}|\bsplit|_share|hash_of|gate"):
                splits = read(options, Path(folder))
                for of_split in splits.values():
                    for column in {"target", "weight"} & {*of_split.column_names}:
                        assert np.isfinite(of_split[column].to_numpy()).all()

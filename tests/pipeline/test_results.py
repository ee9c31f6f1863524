"""The one table of numbers: what every writer writes is what every reader reads, and what is damaged is refused."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as draw

from pipelines.config.schema import Comparison, Resampling
from pipelines.stages.benchmark_sorters import measure
from pipelines.stages.compare import compared
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import Statistic, differences, evaluate
from rankgrad.io import results
from rankgrad.io.checkpoints import build
from rankgrad.io.results import Row, rows_of
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import generator
from studies import kept

HEADER = "run,seed,fold,split,metric,value,low,high"
MADE_BY = {"commit": "0123", "params": {}, "hashes": {}, "machine": {}}


def models(shift: float) -> dict[int, Statistic]:
    values = np.linspace(0, 1, 20) + shift
    undefined = np.full(20, np.nan)
    columns = np.stack([values, undefined])
    return {seed: Statistic(["hit", "a.b"], 20, lambda rows: columns[:, rows].mean(-1)) for seed in (1, 2)}


def sorters() -> list[Row]:
    vectors, kinds = score_vectors.draw(50, 8, generator(1))
    sorter = build("sorters", "laplace", {}, seed=0, length=8)
    return list(rows_of("laplace", measure(sorter, (vectors, exact_ranks(vectors), kinds), resamples=20)))


def comparison() -> list[Row]:
    question = Comparison(question="?", metric="hit", baseline="a", runs=["b"], rivals=["c"])
    return compared(question, {name: models(0.1) for name in "abc"}, Resampling(resamples=20))


WRITERS = {
    "evaluate": lambda: evaluate("mine", models(0), resamples=20, seed=0),
    "the gate": lambda: differences({"2": models(0.1)}, models(0), resamples=20, seed=0),
    "compare": comparison,
    "benchmark_sorters": sorters,
    "study": lambda: [Row("mine", "setting.lr", 0.1, fold=2, split=""), Row("mine", "rows", 3.0, seed=1, fold=0)],
}


def plain(rows: list[Row]) -> list[tuple]:
    """Rows that can be compared: NaN equals nothing."""
    return [tuple(map(str, row)) for row in rows]


@pytest.mark.parametrize("writer", WRITERS)
def test_every_reader_reads_what_every_writer_writes(writer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = WRITERS[writer]()
    results.write("table.csv", rows)
    assert (tmp_path / "table.csv").read_text().splitlines()[0] == HEADER
    assert plain(results.read("table.csv").rows) == plain(rows)
    assert pd.read_csv("table.csv")["value"].notna().sum() == sum(not math.isnan(row.value) for row in rows)
    kept.write("mine", rows, MADE_BY)
    study = kept.read("mine")
    assert plain(study.rows) == plain([row for row in rows if not math.isnan(row.value)])


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
def test_what_is_written_is_read_to_the_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    results.write(path, rows)
    table = results.read(path)
    assert plain(table.rows) == plain(rows)
    for row in table.rows:
        if row.seed is None and row.fold is None:
            assert plain([table.row(row.run, row.metric)]) == plain([row])


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

"""Great Expectations must name every fault that is planted, and nothing where there is none."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pipelines.config import schema
from pipelines.expectations import ExpectationsFailed, validate
from pipelines.stages.validate import SUITES
from rankops.datasets.scenes import digits, ranked_mnist
from rankops.datasets.vectors import score_vectors
from rankops.io.parquet import encode_images
from rankops.seeding import generator

ROWS = {"train": 120, "val": 60, "test": 60}
SCENES = ROWS | {"gate": 60}
PATHS = {"digits": "data/digits", "score_vectors": "data/score_vectors", "ranked_mnist": "data/ranked_mnist"}


@pytest.fixture(scope="module")
def params():
    values = schema.load().model_dump()
    values["score_vectors"] |= {"length": 8, "rows": ROWS}
    values["ranked_mnist"] |= {"rows": SCENES}
    return schema.check(values)


@pytest.fixture(scope="module")
def tables(params):
    """The three datasets, small and faultless: tables by dataset and split."""
    scene = params.ranked_mnist.model_dump(include={"canvas", "digits_per_image", "scale", "overlap"})
    made = {"digits": digits.tables("bundled", "", seed=1, threads=1), "score_vectors": {}, "ranked_mnist": {}}
    for split, rows in SCENES.items():
        draws = generator(1, "test", split)
        if split in ROWS:
            made["score_vectors"][split] = score_vectors.table(rows, 8, draws)
        table = made["digits"][digits.DIGITS_OF[split]]
        images = digits.decode_images(table["image"], path="digits", threads=1)
        numbers, labels = (torch.from_numpy(table[name].to_numpy().copy()) for name in ("glyph", "label"))
        glyphs = digits.Digits(numbers, torch.from_numpy(images), labels)
        made["ranked_mnist"][split] = pa.concat_tables(
            ranked_mnist.tables(glyphs, rows, threads=1, generator=draws, **scene)
        )
    return made


@pytest.fixture
def check(params, tables, tmp_path, monkeypatch):
    """Writes the datasets, one table of one replaced, and validates one: what is said against it, or None."""
    monkeypatch.chdir(tmp_path)

    def run(dataset, split="train", change=None):
        for name, splits in tables.items():
            (tmp_path / PATHS[name]).mkdir(parents=True, exist_ok=True)
            for part, table in splits.items():
                changed = change(table) if change and (name, part) == (dataset, split) else table
                pq.write_table(changed, tmp_path / PATHS[name] / f"{part}.parquet")
        rows = {part: len(table) for part, table in tables["digits"].items()}
        (tmp_path / "data/digits/manifest.json").write_text(json.dumps({"source": "bundled", "rows": rows}))
        try:
            validate(dataset, SUITES[dataset](params), report=tmp_path / "reports/validation" / dataset)
        except ExpectationsFailed as failed:
            return str(failed)
        return None

    return run


def with_cell(table, column, row, change):
    """The table with one cell changed."""
    values = table[column].to_pylist()
    values[row] = change(values[row])
    kind = table.schema.field(column).type
    return table.set_column(table.column_names.index(column), column, pa.array(values, kind))


def with_list_cell(table, column, row, pick, change):
    def changed(cell):
        at = pick(cell)
        return [change(value) if place == at else value for place, value in enumerate(cell)]

    return with_cell(table, column, row, changed)


def present(cell):
    return next(place for place, value in enumerate(cell) if value > 0)


@pytest.mark.parametrize("dataset", list(PATHS))
def test_faultless_data_pass_and_leave_a_page(check, dataset, tmp_path):
    assert check(dataset) is None
    page = (tmp_path / "reports/validation" / dataset / "index.html").read_text()
    assert "passed" in page
    assert "FAILED" not in page


def swapped_images(table):
    images = table["image"].to_pylist()
    images[4], images[9] = images[9], images[4]
    return table.set_column(1, "image", pa.array(images, table.schema.field("image").type))


def emptied_box(table):
    """Row 7's image without its first digit."""
    images = ranked_mnist.decode_images(table["image"], path="x", threads=1)
    place = present(table["size"][7].as_py())
    top, left, size = (int(table[name][7].as_py()[place]) for name in ("top", "left", "size"))
    images[7, top : top + size + 2, left : left + size + 2] = 0
    return table.set_column(1, "image", encode_images(images, threads=1))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (swapped_images, ["scenes: difference_from_recipe", "split train, id 4", "split train, id 9"]),
        (
            lambda table: with_list_cell(table, "label_ranks", 11, present, lambda rank: rank + 1),
            ["scenes: ranks_follow_sizes", "split train, id 11"],
        ),
        (emptied_box, ["digits: ink_in_box", "split train, id 7", "scenes: difference_from_recipe"]),
        (
            lambda table: with_list_cell(table, "size", 3, present, lambda size: 40.0),
            ["digits: size", "split train, id 3", "40.0"],
        ),
        (
            lambda table: with_list_cell(table, "left", 5, present, lambda left: 70.0),
            ["digits: inside_canvas", "split train, id 5"],
        ),
        (lambda table: table.slice(0, 119), ["scenes: rows: expect_table_row_count_to_equal", "300", "299"]),
        (lambda table: pa.concat_tables([table.slice(0, 119), table.slice(0, 1)]), ["scenes: split, id", "id 0"]),
    ],
    ids=["image swapped", "rank off by one", "empty box", "size", "outside", "row lost", "row twice"],
)
def test_a_fault_in_ranked_mnist_is_named(check, change, expected):
    said = check("ranked_mnist", change=change)
    assert said is not None
    for part in expected:
        assert part in said


def test_a_digit_of_another_split_is_named(check, tables):
    foreign = tables["digits"]["test"]
    row = 6
    cell = tables["ranked_mnist"]["train"]["label_ranks"][row].as_py()
    label = present(cell)
    glyph = foreign["glyph"][foreign["label"].to_pylist().index(label)].as_py()

    def leaked(table):
        return with_list_cell(table, "glyph", row, lambda _: label, lambda _: glyph)

    said = check("ranked_mnist", change=leaked)
    assert "digits: glyph_is_of_this_split" in said
    assert f"split train, id 6, label {label}: glyph_is_of_this_split = False" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: with_cell(table, "label", 3, lambda _: 12), ["digits.digits: label", "label = 12"]),
        (lambda table: with_cell(table, "image", 3, lambda _: table["image"][8].as_py()), ["digits: pixels", "2 rows"]),
    ],
    ids=["label", "same digit twice"],
)
def test_a_fault_in_digits_is_named(check, change, expected):
    said = check("digits", change=change)
    for part in expected:
        assert part in said


def test_a_digit_in_two_splits_is_named(check, tables):
    first = tables["digits"]["test"].slice(0, 1)
    said = check("digits", "train", lambda table: pa.concat_tables([first, table.slice(1)]))
    assert "digits: glyph" in said
    assert "split test" in said
    assert "split train" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda table: with_cell(table, "ranks", 2, lambda ranks: [ranks[0] + 1, *ranks[1:]]),
            ["vectors: largest_rank_error", "split train, id 2: largest_rank_error = 1.0"],
        ),
        (
            lambda table: with_cell(table, "scores", 2, lambda scores: [float("nan"), *scores[1:]]),
            ["vectors: finite", "split train, id 2: finite = False"],
        ),
        (lambda table: table.set_column(1, "kind", pa.array([1] * len(table))), ["vectors: kind", "kl_divergence"]),
    ],
    ids=["rank off by one", "NaN", "one kind only"],
)
def test_a_fault_in_score_vectors_is_named(check, change, expected):
    said = check("score_vectors", change=change)
    for part in expected:
        assert part in said


def test_a_rank_that_is_off_in_both_directions_would_be_seen():
    # The fault above must not be seen by chance: the facts themselves are right for right data and wrong for wrong.
    table = score_vectors.table(5, 4, generator(0, "test"))
    assert np.ptp(np.stack(table["ranks"].to_numpy()), axis=1).tolist() == [3.0] * 5


def test_digits_that_cover_each_other_are_too_many_or_leave_at_the_left_are_named(check, tables):
    table = tables["ranked_mnist"]["train"]
    counts = [sum(size > 0 for size in sizes) for sizes in table["size"].to_pylist()]
    many = counts.index(max(counts))
    covered, off = [row for row in range(2, 5) if row != many][:2]

    def over_the_first(cell):
        first, second, *_ = (place for place, value in enumerate(sizes) if value > 0)
        return [cell[first] if place == second else value for place, value in enumerate(cell)]

    sizes = table["size"][covered].as_py()
    faulty = table
    for column in ("top", "left"):
        faulty = with_cell(faulty, column, covered, over_the_first)
    faulty = with_list_cell(faulty, "left", off, lambda _: present(table["size"][off].as_py()), lambda _: -3.0)
    faulty = with_list_cell(faulty, "size", many, lambda cell: cell.index(0.0), lambda _: 9.0)
    said = check("ranked_mnist", change=lambda _: faulty)
    for part in (f"id {covered}: overlap = ", f"id {off}, label", "digits: inside_canvas", f"id {many}: digits = 7"):
        assert part in said


def test_pictures_of_another_side_than_the_params_say_are_named(check, tables, params):
    canvas = params.ranked_mnist.canvas
    images = np.zeros((len(tables["ranked_mnist"]["val"]), canvas + 8, canvas + 8), np.uint8)
    said = check("ranked_mnist", "val", lambda table: table.set_column(1, "image", encode_images(images, threads=1)))
    assert f"split val, id 0: side = {canvas + 8}" in said

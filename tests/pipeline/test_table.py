"""A table of one's own: formats, roles, splits, deliveries, what is refused and how, and what is validated."""

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from laws.tables import made as read
from PIL import Image

from pipelines.config import check_shapes
from pipelines.stages import data
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.deliveries import delivery_of
from rankgrad.datasets.tables.rows import read as rows_of
from rankgrad.io.pictures import as_jpeg, open_photo

from conftest import encoded, params_of, refusal, with_cell  # isort: skip

ROWS = 60
SEED = 2  # leaves no split of ten customers empty
NAMES = ["train", "val", "test", "gate"]


@cache
def photo(number: int) -> bytes:
    return encoded(Image.new("RGB", (40 + number, 40), (number * 4 % 256, 90, 200 - number)), "JPEG")


def lines(raw, name, *rows):
    (raw / name).write_text("\n".join(rows))


@pytest.fixture
def raw(tmp_path):
    """60 photos in photos.csv, with labels, a customer of two photos each, a weight, a price and a day."""
    rows = ["path,tags,customer,weight,price,day"]
    for number in range(ROWS):
        (tmp_path / f"p{number}.jpg").write_bytes(photo(number))
        tags = ["cat", "dog", "car"][: number % 3 + 1]
        day = f"2026-{9 + number // 20:02d}-10"
        rows.append(f"p{number}.jpg,{'|'.join(tags)},c{number // 2},{1 + number % 2},{number / 7},{day}")
    lines(tmp_path, "photos.csv", *rows)
    return tmp_path


SHARES = {"hash_of": "customer", "val": 0.2, "test": 0.2, "gate": 0.2}
DATED = {"date": {"column": "day", "first": "2026-09-30", "every": "month"}, "group": "customer", "split": SHARES}
PHOTOS = {"file": "photos.csv", "image": "path", "labels": "tags"}


class TestRoles:
    @pytest.mark.parametrize("pad", [False, True])
    def test_photos_with_ordered_labels_have_ranks_classes_groups_and_weights(self, raw, pad):
        options = PHOTOS | {"ordered": True, "group": "customer", "weight": "weight", "pad": pad}
        splits, fitted, _ = read(options, raw, size=16)
        assert sum(map(len, splits.values())) == ROWS
        train = splits["train"]
        assert json.loads(train.schema.metadata[b"classes"]) == fitted["classes"] == ["car", "cat", "dog"]
        assert json.loads(train.schema.metadata[b"input"]).get("pad", False) == pad  # so that answers do the same
        row = train.slice(train["name"].to_pylist().index("p2.jpg"), 1).to_pylist()[0]  # cat, dog, car
        assert (row["label_ranks"], row["group"], row["weight"]) == ([1, 3, 2], "c1", 1.0)
        assert row["image"]["bytes"] == as_jpeg(open_photo(photo(2), 16, pad=pad))
        assert "60: " in fitted["understood"]["rows"]
        assert "30 of customer, with 2 to 2 rows" in fitted["understood"]["groups"]

    def test_columns_for_slices_are_stored_may_be_empty_and_of_a_query_its_first_row_counts(self, raw):
        lines(
            raw,
            "judged.csv",
            "query,x,grade,judge,day",
            *(f"q{row // 2},{row},{row % 2},{['eva', '', 'max', 'eva'][row % 4]},{row % 3}" for row in range(80)),
        )
        options = {"file": "judged.csv", "features": "x", "relevance": "grade", "group": "query"}
        splits, _, _ = read(options | {"slices": ["judge", "day"]}, raw)
        rows = pd.concat([table.to_pandas() for table in splits.values()])
        number = rows["name"].str[1:].astype(int)
        assert rows["slice judge"].tolist() == ["max" if query % 2 else "eva" for query in number]
        assert rows["slice day"].tolist() == [str(2 * query % 3) for query in number]
        splits, _, _ = read(options | {"group": "x", "relevance": None, "target": "grade", "slices": ["judge"]}, raw)
        rows = pd.concat([table.to_pandas() for table in splits.values()])
        assert rows["slice judge"].isna().mean() == 0.25

    def test_pictures_that_parquet_stores_are_read_as_files_are(self, raw):
        frame = pd.read_csv(raw / "photos.csv")
        frame["picture"] = [(raw / path).read_bytes() for path in frame["path"]]
        frame.to_parquet(raw / "photos.parquet", row_group_size=7)
        options = {"image": "picture", "labels": "tags", "id": "path"}
        stored, _, _ = read(options | {"file": "photos.parquet"}, raw, size=16)
        files, _, _ = read(PHOTOS | {"id": "path"}, raw, size=16)
        for split in NAMES:
            of_parquet, of_files = (rows[split]["image"].to_pylist() for rows in (stored, files))
            assert [picture["bytes"] for picture in of_parquet] == [picture["bytes"] for picture in of_files]

    def test_queries_of_svmlight_in_files_of_their_own(self, tmp_path):
        for split, first, index in (("train", 0, 3), ("val", 40, 3), ("test", 60, 2)):
            rows = [f"{k % 3} qid:{first + k // 4} 1:{k / 10} {index}:{-k} # doc" for k in range(80)]
            lines(tmp_path, f"{split}.txt", "\ufeff# a comment", *rows)
        options = {
            "file": {split: f"{split}.txt" for split in ("train", "val", "test")},
            "features": "all", "relevance": "label", "group": "qid",
        }  # fmt: skip
        splits, fitted, _ = read(options, tmp_path)
        assert fitted["width"] == 3  # no index 0, which no row has
        row = splits["train"].to_pylist()[1]
        assert (row["name"], row["relevance"]) == ("1", [1, 2, 0, 1])
        assert row["features"][1] == pytest.approx([0.5, 0, -5])
        assert splits["test"].to_pylist()[1]["features"][1] == pytest.approx([0.5, -5, 0])
        assert [len(splits[split]) for split in ("train", "test")] == [20, 20]
        assert len(splits["val"]) + len(splits["gate"]) == 20  # the files have no gate

    def test_files_of_one_pattern_may_be_of_several_formats(self, tmp_path):
        frame = pd.DataFrame({"x": np.arange(60) / 7, "y": range(60)})
        for folder in "ab":
            (tmp_path / folder).mkdir()
            frame.to_csv(tmp_path / folder / "t.csv", index=False)
        frame.to_parquet(tmp_path / "b/t.parquet")
        (tmp_path / "a/.#t.csv").symlink_to("nowhere")  # the lock of an editor
        found, _, _ = read({"file": "*/*", "features": ["x"], "target": "y"}, tmp_path)
        assert sorted(pa.concat_tables(found.values())["target"].to_pylist()) == sorted([*range(60)] * 3)

    def test_captions_of_an_image_are_gathered_and_searched_in_the_gallery_that_a_column_names(self, raw):
        rows = ["image,caption,part", *[f"p{k}.jpg,a picture {k},part {k % 3}" for k in range(40)]]
        lines(raw, "captions.csv", *rows, "./p7.jpg,again 7,part 1", "p7.jpg,thrice 7,part 1")
        options = {"file": "captions.csv", "image": "image", "captions": "caption", "gallery": "part"}
        splits, _, _ = read(options, raw, size=16)
        assert json.loads(splits["train"].schema.metadata[b"input"])["caption"] == "caption"
        items = {row["name"]: row for row in pa.concat_tables(splits.values()).to_pylist()}
        galleries = {(int(name[1:-4]) % 3, row["gallery"]) for name, row in items.items()}
        assert len(galleries) == len({number for _, number in galleries}) == 3
        assert items["p7.jpg"]["captions"] == ["a picture 7", "again 7", "thrice 7"]

    def test_frames_and_pictures_of_queries(self, raw):
        rows = [f"p{k}.jpg;p{k + 1}.jpg,{k}" for k in range(0, 60, 2)]
        lines(raw, "clips.csv", "frames,score", *rows)
        options = {"file": "clips.csv", "frames": "frames", "target": "score", "frame_separator": ";"}
        splits, _, _ = read(options, raw, size=16)
        assert json.loads(splits["train"].schema.metadata[b"input"])["separator"] == ";"  # so that answers do the same
        row = splits["train"].to_pylist()[0]
        assert [frame["path"] for frame in row["frames"]] == rows[int(row["name"]) - 1].partition(",")[0].split(";")
        options = PHOTOS | {"labels": None, "relevance": "weight", "group": "customer"}
        splits, _, _ = read(options, raw, size=16)
        row = splits["train"].to_pylist()[0]
        assert (len(row["image"]), row["relevance"], row["name"][0]) == (2, [1, 2], "c")

    def test_rows_are_left_out_by_choice_and_counted(self, raw):
        frame = pd.read_csv(raw / "photos.csv")
        frame.loc[[3, 4], "price"] = None
        frame.to_csv(raw / "photos.csv", index=False)
        (raw / "p9.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
        options = {"file": "photos.csv", "image": "path", "target": "price"}
        splits, fitted, skipped = read(options | {"missing": "leave_out", "skip_broken": True}, raw, size=16)
        assert (fitted["left_out"], skipped) == (2, ["p9.jpg"])
        assert sum(map(len, splits.values())) == ROWS - 3

    def test_rows_of_weight_0_are_left_out_and_counted(self, tmp_path):
        frame = pd.DataFrame({"x": np.arange(60) / 7, "y": range(60), "w": [k % 3 / 2 for k in range(60)]})
        frame.to_csv(tmp_path / "t.csv", index=False)
        splits, fitted, _ = read({"file": "t.csv", "features": ["x"], "target": "y", "weight": "w"}, tmp_path)
        every = pa.concat_tables(splits.values())
        assert sorted(every["target"].to_pylist()) == [k for k in range(60) if k % 3]
        assert (min(every["weight"].to_pylist()), fitted["left_out"]) == (0.5, 0)
        frame.assign(q=np.arange(60) // 3).to_csv(tmp_path / "t.csv", index=False)
        queries = {"file": "t.csv", "features": ["x"], "relevance": "y", "group": "q", "weight": "w"}
        with pytest.raises(ValueError, match="w is '0.0', expected a number above 0"):  # a document would be lost
            read(queries, tmp_path)


def csv_with(changes):
    """Change cells (row from 1 on, column) of photos.csv."""

    def change(raw):
        frame = pd.read_csv(raw / "photos.csv", dtype=object)
        for (row, column), value in changes.items():
            frame.loc[row - 1, column] = value
        frame.to_csv(raw / "photos.csv", index=False)

    return change


def text_with(change):
    return lambda raw: (raw / "photos.csv").write_text(change((raw / "photos.csv").read_text()))


def bytes_with(change):
    return lambda raw: (raw / "photos.csv").write_bytes(change((raw / "photos.csv").read_bytes()))


SVM = {"file": "a.txt", "image": None, "features": "all", "labels": None, "relevance": "label", "group": "qid"}
FLAT = {"image": None, "features": ["weight"], "labels": None, "target": "price"}
WITHIN = FLAT | {"group": "customer", "within": True}
QUERY = {"image": None, "features": ["price"], "labels": None, "relevance": "weight", "group": "customer"}


def rows(*texts, to="photos.csv"):
    return lambda raw: lines(raw, to, *texts)


def svm(*texts):
    return rows(*texts, to="a.txt")


def by_turns(changes):
    """Let the rows be of the four splits in turn, and change cells."""
    return csv_with({(row, "split"): NAMES[(row - 1) % 4] for row in range(1, ROWS + 1)} | changes)


def cut(raw):
    (raw / "p3.jpg").write_bytes(photo(3)[:300])


BAD = {
    "labels as a list in text": (csv_with({(7, "tags"): "['cat', 'dog']"}), {}, ["row 7", "list written as text"]),
    "a word as qid": (svm("1 qid:q1 1:2"), SVM, ["a.txt", "row 1", "the qid 'q1'"]),
    "no such file": (lambda raw: None, {"file": "fotos.csv"}, ["fotos.csv", "photos.csv"]),
    "no such column": (lambda raw: None, {"labels": "tag"}, ["photos.csv", "'tag'", "did you mean tags"]),
    "no picture": (csv_with({(7, "path"): "gone.jpg"}), {}, ["row 7", "gone.jpg", "no such file"]),
    "broken picture": (cut, {}, ["row 4", "p3.jpg", "skip_broken"]),
    "parent": (csv_with({(2, "path"): "../p1.jpg"}), {}, ["row 2", "'../p1.jpg'", "without `..`"]),
    "two spellings": (by_turns({(60, "path"): "./p0.jpg"}), {"split": "split"}, ["row 60", "p0.jpg", "row 1"]),
    "label of two spellings": (by_turns({(57, "tags"): "Cat"}), {"split": "split"}, ["row 57", "'Cat'", "'cat'"]),
    "a misspelled label": (csv_with({(k, "tags"): "circle|cat" if k > 1 else "cirlce|cat" for k in range(1, 61)}), {},
                           ["'cirlce'", "'circle'", "classes"]),
    "labels of another separator": (by_turns({(57, "tags"): "dog,cat"}), {"split": "split"},
                                    ["row 57", "'dog,cat'", "label_separator: ','"]),
    "a point among decimal commas": (rows("x;price", "1;2", "1;1.30"), FLAT | {"features": ["x"], "decimal": ","},
                                     ["row 2", "'1.30'", "says `decimal: ','`"]),
    "an id that comes again": (lambda raw: None, FLAT | {"id": "customer"},
                               ["row 2", "c0", "row 1", "`group: customer`"]),
    "group in two splits": (by_turns({}), {"split": "split", "group": "customer"}, ["row 2", "c0", "val", "train"]),
    "one group": (csv_with({(row, "customer"): "c0" for row in range(1, ROWS + 1)}), WITHIN,
                  ["customer is 'c0' in all rows", "several groups"]),
    "groups of one": (lambda raw: None, WITHIN | {"group": "path"}, ["none of the 60 groups of path", "`within`"]),
    "query of one": (csv_with({(2, "customer"): "c9"}), QUERY, ["row 1", "c0", "one document", "drop"]),
    "no day": (csv_with({(5, "day"): "10.09.2026"}), {"date": DATED["date"]}, ["row 5", "'10.09.2026'", "2026-11-30"]),
    "column twice": (text_with(lambda text: text.replace("weight", "price", 1)), {}, ["'price' is there twice"]),
    "long cell": (csv_with({(5, "tags"): "x" * 10_000_000}), {}, ["row 5", "1,048,576"]),
    "Latin-1": (bytes_with(lambda text: text.replace(b"4.jpg,cat", b"4.jpg,\xe9")), {}, ["line 6", "0xe9", "encoding"]),
    "open quote": (text_with(lambda text: text.replace("cat", '"cat', 1)), {}, ["photos.csv", "quote"]),
    "long row": (text_with(lambda text: text.replace("p4.jpg,", "p4.jpg,more,")), {}, ["row 5", "line 6", "7 cells"]),
    "no rows": (text_with(lambda text: text.splitlines()[0]), {}, ["photos.csv", "no rows"]),
    "one class": (csv_with({(k, "tags"): "cat" for k in range(1, 61)}), {}, ["1 classes", "label_separator"]),
    "unsorted indices": (svm("1 qid:1 1:2 2:1", "0 qid:1 2:1 1:5"), SVM, ["a.txt", "row 2", "not sorted"]),
    "no qid": (svm("# made", "1 qid:1 1:2 2:1", "0 1:1 2:5"), SVM, ["a.txt", "row 2 (line 3)", "no qid"]),
    "NaN in SVMlight": (svm("1 qid:1 1:2 2:1", "0 qid:1 1:nan 2:1"), SVM, ["a.txt", "row 2", "feature 1 is nan"]),
    "no format": (rows("a", to="a.xlsx"), {"file": "a.xlsx"}, ["a.xlsx", ".csv", "format"]),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_bad_input_is_refused_by_its_place(raw, fault):
    change, options, expected_words = BAD[fault]
    change(raw)
    with pytest.raises((ValueError, FileNotFoundError)) as refused:
        read(PHOTOS | options, raw, size=16)
    assert not [text for text in expected_words if text not in str(refused.value)], refused.value
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"image": None}, "the input is none"),
        ({"text": "tags"}, "image and text"),
        ({"relevance": "price", "labels": None}, "group"),
        ({"target": "price", "labels": None, "within": True}, "within needs `group`"),
        ({"group": "customer", "within": True}, "within: expected with `target`, not with labels"),
        ({"ordered": True, "labels": ["a", "b"]}, "label_ranks"),
        ({"train_target": "price"}, "train_target: expected with `target`"),
        ({"file": "../photos.csv"}, "without `..`"),
        ({"file": {"train": "a.csv", "test": "b.csv"}}, "file.val: missing"),
        ({"split": {"hash_of": "customer", "vla": 0.1}}, "did you mean val"),
        ({"split": {"hash_of": "customer", "val": 0.5, "test": 0.5}}, "below 1"),
        ({"date": {"column": "day", "first": "01/11/2026", "every": "month"}}, "2026-10-31"),
        ({"date": {"column": "day", "first": "2026-10-31", "every": "moon"}}, "day, week, month or year"),
        ({"date": {"column": "day", "first": "2026-10-31", "every": "day", "order": "YDM"}}, "YMD, DMY, MDY"),
    ],
)
def test_options_that_do_not_agree_are_refused(options, expected_words):
    with pytest.raises(ValueError, match=expected_words):
        Table(**(PHOTOS | options))


def test_a_later_delivery_has_the_same_classes(raw, tmp_path_factory):
    table, mine = Table(**PHOTOS, group="customer"), tmp_path_factory.mktemp("mine")
    raw.rename(mine / "first")
    later = mine / "2026-11-30"
    later.mkdir()
    (later / "q.jpg").write_bytes(photo(77))
    lines(later, "photos.csv", "path,tags,customer", "q.jpg,bird,c1")
    with pytest.raises(ValueError, match="row 1: label 'bird'"):
        list(table.opened(mine, Reading(size=16, snapshot=2)).rows("train"))


def settings(options, *, snapshot=1, **block):
    block = {"name": "table", "raw": "data/raw/mine", "args": options, "seed": 1} | block
    return check_shapes(params_of({"data": {"snapshot": snapshot}}) | {"datasets": {"mine": block}})


@pytest.fixture
def project(raw, tmp_path_factory, monkeypatch):
    """A folder in which data/raw/mine has photos.csv."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "data/raw").mkdir(parents=True)
    raw.rename(folder / "data/raw/mine")
    monkeypatch.chdir(folder)
    return folder


def usual(**columns) -> pd.DataFrame:
    """Return rows of four splits in turn, with names, numbers and targets, and with these columns."""
    rows = range(ROWS)
    return pd.DataFrame({
        "no": [f"n{row}" for row in rows], "split": [NAMES[row % 4] for row in rows],
        "x": [row * 7 % 60 for row in rows], "y": [row % 9 for row in rows],
    } | columns)  # fmt: skip


OWN = {"file": "t.csv", "id": "no", "split": "split"}
NUMBERS = {"features": ["x"], "target": "y"}
QUERIES = {"features": ["x"], "relevance": "y", "group": "q", "id": None, "without_relevant": "drop"}
BY_SPLIT = [f"{row % 4} {row // 8}" for row in range(ROWS)]  # names of groups, each in one split
SUSPICIOUS = {  # columns, options, and what is reported
    "one number": ({"x": 1}, NUMBERS, "constant"),
    "a copy of the target": ({"x": [row % 9 * 3.5 for row in range(ROWS)]}, NUMBERS, "x (Spearman 1.000)"),
    "a slip among grades": ({"y": [90, *[row % 10 for row in range(1, ROWS)]]}, NUMBERS, "y is 90 (99.9 % of rows"),
    "a stand-in": ({"x": [-999 if row % 5 == 0 else row for row in range(ROWS)]}, NUMBERS, "x is -999 in"),
    "a misspelled class": (
        {"tags": ["dgo", *[["cat", "dog"][row // 4 % 2] for row in range(1, ROWS)]]},
        {"features": ["x"], "labels": "tags"}, "1 classes of at most 2 training rows: dgo (or dog?)",
    ),
    "a misspelled category": (
        {"c": ["Berlln" if row == 9 else ["Berlin", "Hamburg"][row // 4 % 2] for row in range(ROWS)]},
        NUMBERS | {"categories": "c"}, "'c=Berlln' beside 'c=Berlin'",
    ),
    "groups of two spellings": (
        {"q": ["Anna", "anna", *[f"q{row}" for row in range(2, ROWS)]]}, NUMBERS | {"group": "q", "split": None},
        "'Anna' beside 'anna'",
    ),
    "a query of two ids": (
        {"ask": [f"a lamp {row % 4 if row > 7 else ''} {row // 8}" for row in range(ROWS)],
         "t": [f"lamp {row}" for row in range(ROWS)], "q": BY_SPLIT},
        QUERIES | {"features": None, "text_pair": ["ask", "t"]}, "1 texts have several q",
    ),
    "preferences that repeat and contradict each other": (
        {"t": ["red", "red", "blue", *[f"lamp {row}" for row in range(3, ROWS)]],
         "u": ["blue", "blue", "red", *[f"hat {row}" for row in range(3, ROWS)]]},
        {"text": "t", "rejected": "u"}, "1 preferences are repeated; 1 pairs occur in both orders",
    ),
    "queries with nothing to order": (
        {"y": [0 if row < 16 else row // 4 % 3 for row in range(ROWS)],
         "q": [f"{row % 4} {row // 16}" for row in range(ROWS)]},
        QUERIES, "4 of 16 queries have nothing to order",
    ),
    "empty names": ({"c": ["vw", "bmw", ""] * (ROWS // 3)}, NUMBERS | {"categories": "c"}, "c in 20 rows"),
}  # fmt: skip


@pytest.mark.parametrize("fault", SUSPICIOUS)
def test_what_is_suspicious_is_counted(tmp_path, caplog, fault):
    columns, options, reported = SUSPICIOUS[fault]
    usual(**columns).to_csv(tmp_path / "t.csv", index=False)
    _, fitted, _ = read(OWN | options, tmp_path)
    assert reported in caplog.text + "; ".join(map(str, fitted["understood"].values())) + str([*fitted["understood"]])


REPEATED = {  # columns, options, what is reported, and what is refused
    "a text of two spellings in two splits": (
        {"t": ["a red lamp", "A  red Lamp", *[f"lamp {row}" for row in range(ROWS - 2)]]},
        {"text": "t", "target": "y"}, "same_input_as", None,
    ),
    "one text": ({"t": "lamp"}, {"text": "t", "target": "y"}, "different_inputs", "different_inputs"),
    "one document in each query": (
        {"x": [row // 8 for row in range(ROWS)], "q": BY_SPLIT}, QUERIES,
        "constant within each group", "queries_of_different_documents",
    ),
    "a caption of two pictures": (
        {"path": [f"p{row}.jpg" for row in range(ROWS)], "t": [f"lamp {row // 8}" for row in range(ROWS)]},
        {"image": "path", "captions": "t", "id": None}, "repeated_captions", None,
    ),
}  # fmt: skip


class TestStages:
    def test_what_does_not_hold_is_named_with_its_row(self, project):
        params = settings(PHOTOS | {"ordered": True, "group": "customer", "weight": "weight"}, size=16)
        data.main(params, "mine")
        assert refusal(params, "mine") is None
        page = (project / "reports/data/mine.html").read_text()
        assert "30 of customer" in page
        assert not re.findall(r"(?:src|href)=|https?://|@import|url\(", page)  # it asks nothing of a network
        planted = {
            "weight": (0.0, "weight"), "group": ("c", "same_group_as"), "name": ("p", "same_name_as"),
            "label_ranks": ([3, 0, 0], "ranks_are_1_upwards"), "image": ({"bytes": photo(1), "path": "p"}, "16 x 16"),
        }  # fmt: skip
        changes = [with_cell(column, 0, lambda _, value=value: value) for column, (value, _) in planted.items()]
        failed = refusal(params, "mine", val=changes, test=changes)
        assert not [expected_words for _, expected_words in planted.values() if expected_words not in failed], failed
        page = (project / "reports/data/mine.html").read_text()
        assert "FAILED" in page
        assert "split val, id 0" in failed
        assert "split val, id 0" in page

    @pytest.mark.parametrize("fault", REPEATED)
    def test_what_is_repeated_is_counted_and_what_teaches_nothing_is_refused(self, project, caplog, fault):
        columns, options, reported, refused = REPEATED[fault]
        usual(**columns).to_csv("data/raw/mine/t.csv", index=False)
        params = settings(OWN | options, size=16 if "image" in options else None)
        data.main(params, "mine")
        failed = refusal(params, "mine") or ""
        assert (refused in failed) if refused else not failed
        assert reported in caplog.text + (project / "reports/data/mine.html").read_text()

    def test_groups_without_an_order_are_counted_and_a_fold_of_none_but_these_is_refused(self, project):
        frame = pd.read_csv("data/raw/mine/photos.csv")
        frame["price"] = [*range(len(frame))]
        frame.to_csv("data/raw/mine/photos.csv", index=False)
        params = settings(PHOTOS | WITHIN, folds=3, seed=SEED)
        data.main(params, "mine")
        assert refusal(params, "mine") is None
        page = (project / "reports/data/mine.html").read_text()
        assert "judged_groups" in page
        folds = pq.read_table("data/mine/train.parquet")["fold"].to_pylist()
        equal = [with_cell("target", row, lambda _: 1.0) for row, fold in enumerate(folds) if fold == 2]
        assert "fold 2: judged_groups = 0" in refusal(params, "mine", train=equal)

    def test_a_class_that_training_has_not_seen_fails_and_a_drift_is_a_warning_alone(self, project, caplog):
        frame = pd.read_csv("data/raw/mine/photos.csv")
        frame.loc[20:, "tags"] = "cat"
        frame.to_csv("data/raw/mine/photos.csv", index=False)
        params = settings(PHOTOS | DATED | {"classes": ["car", "cat", "dog"]}, size=16, snapshot=3, seed=SEED)
        data.main(params, "mine")
        assert refusal(params, "mine") is None
        assert "drift" in caplog.text
        assert "warning" in (project / "reports/data/mine.html").read_text()
        params = settings(PHOTOS | {"classes": ["bird", "car", "cat", "dog"]}, size=16)
        data.main(params, "mine")
        assert "class bird" in (refusal(params, "mine") or "")


class TestRowsAndColumns:
    @pytest.mark.parametrize(
        ("options", "expected_words"),
        [
            ({"features": ["f", "y"], "target": "y"}, "'y' is the target too"),
            ({"features": ["f", "day"], "target": "y"}, "row 1: day is 2026-01-01"),
            ({"text": "several", "target": "y"}, "row 1: several is"),
            ({"image": "picture", "target": "y", "split": {"hash_of": "picture"}}, "picture holds pictures"),
            ({"features": ["f"], "categories": "f", "target": "y"}, "column 'f' is in features and in categories"),
            ({"features": "vectors", "categories": "f", "target": "y"}, "row 1: vectors is '[1. 2.]'"),
            ({"image": "picture", "categories": "f", "target": "y"}, "categories: expected with `features`"),
            ({"categories": "a=b", "target": "y"}, "categories: column 'a=b'"),
            ({"letters": "f", "target": "y"}, "row 11: f has 2 letters, expected 1 as in the first row"),
        ],
    )
    def test_columns_of_another_kind_are_refused(self, tmp_path, options, expected_words):
        columns = {
            "f": range(ROWS), "y": range(ROWS), "day": pd.date_range("2026-01-01", periods=ROWS),
            "several": [["a", "b"]] * ROWS, "picture": [photo(1)] * ROWS, "vectors": [[1.0, 2.0]] * ROWS, "a=b": "x",
        }  # fmt: skip
        pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=re.escape(expected_words)):
            Table(file="a.parquet", **options).check_head(tmp_path)


def test_an_empty_file_of_a_split_is_refused_before_anything_is_trained(tmp_path):
    for split, count in (("train", 9), ("val", 0), ("test", 3)):
        usual()[:count].to_parquet(tmp_path / f"{split}.parquet")
    table = Table(file={split: f"{split}.parquet" for split in ("train", "val", "test")}, **NUMBERS)
    with pytest.raises(ValueError, match=r"val\.parquet: 0 rows"):
        table.check_head(tmp_path)


def test_a_query_is_not_judged_by_the_documents_in_the_head_of_a_file(tmp_path, caplog):
    rows = {"x": range(4), "query": [*"aabb"], "grade": [0, 1, 0, 2]}
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    table = Table(file="a.csv", features=["x"], relevance="grade", group="query", without_relevant="drop")
    assert [*delivery_of(table, tmp_path, seed=0, head=3).examples.frame["name"]] == ["a", "b"]
    assert not caplog.text


def test_counts_of_the_head_of_a_file_say_so_once(tmp_path, caplog):
    pd.DataFrame({"t": ["red", "red", "blue"], "u": ["blue", "blue", "hat"]}).to_csv(tmp_path / "a.csv", index=False)
    table = Table(file="a.csv", text="t", rejected="u")
    for _ in range(2):
        delivery_of(table, tmp_path, seed=0, head=2)
    assert caplog.messages == [f"{tmp_path / 'a.csv'}, first 2 rows: 1 preferences are repeated"]


def test_a_row_of_totals_which_has_no_input_is_left_out(tmp_path, caplog):
    rows = [f"a{number},{number},{number % 3}" for number in range(120)]
    lines(tmp_path, "a.csv", "id,size,price", *rows, "sum,,999999")
    options = {"file": "a.csv", "features": "size", "target": "price", "id": "id", "missing": "impute"}
    splits, _, _ = read(options, tmp_path)
    assert sum(map(len, splits.values())) == 120
    assert "row 121 has no input" in caplog.text
    about = {"kind": "features", "count": 2, "names": ["size[empty=59.5]", "size[empty]"], "id": "id"}
    predicted = rows_of([tmp_path / "a.csv"], {"task": "score_ranking", "input": about})
    assert [row.id for row in predicted] == [f"a{number}" for number in range(120)]
    assert "1 of 121 rows without input" in caplog.text

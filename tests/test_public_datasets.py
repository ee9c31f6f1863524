"""Adapters of public datasets, each on a small made-up copy of its layout with its oddities and faults."""

import json
import logging
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from ruamel.yaml import YAML

from pipelines.config import check_shapes, rules
from pipelines.stages import data
from rankgrad import lookup
from rankgrad.datasets import voc2007
from rankgrad.datasets.files import folds
from rankgrad.datasets.public import reading
from rankgrad.io.images import squared

from conftest import ROOT, encoded, params_of, refusal, smooth, with_cell  # isort: skip

SIZE = 32
SEED = 3  # leaves no split of the few files empty
MAIN, PHOTOS = "VOCdevkit/VOC2007/ImageSets/Main", "VOCdevkit/VOC2007/JPEGImages"
SCORES = "ground-truth/ground-truth_dev-set.csv"


def save(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(smooth(number), "JPEG"))


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def stored(photo) -> np.ndarray:
    image = Image.open(BytesIO(photo["bytes"]))
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (SIZE, SIZE))
    return np.asarray(image).astype(int)


def make_voc2007(raw):
    """Two, one and one images; 000017 has a difficult dog."""
    lists = {"train": ["000012", "000017"], "val": ["000020"], "test": ["000030"]}
    present = {("000012", "car"): 1, ("000017", "person"): 1, ("000017", "dog"): 0, ("000020", "cow"): 1}
    present |= {("000030", "person"): 1}
    (raw / MAIN).mkdir(parents=True)
    for split, names in lists.items():
        for label in voc2007.CLASSES:
            lines = [f"{name} {present.get((name, label), -1):2d}\n" for name in names]
            (raw / MAIN / f"{label}_{split}.txt").write_text("".join(lines))
        for name in names:
            save(raw / PHOTOS / f"{name}.jpg", int(name))


def make_coco_captions(raw):
    images = []
    for number, split in enumerate(["train", "restval", "val", "test", "train"]):
        folder = "train2014" if split == "train" else "val2014"
        name = f"COCO_{folder}_{number:012d}.jpg"
        save(raw / folder / name, number)
        raws = [f" Picture {number}\n seen {k} times. " for k in range(6 if number == 0 else 5)]
        sentences = [{"raw": text, "tokens": text.split(), "sentid": 1} for text in raws]
        images.append({"filepath": folder, "filename": name, "split": split, "sentences": sentences, "cocoid": number})
    (raw / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))


def make_lamem(raw):
    """With both separators and Windows' line ends, and a second fold."""
    lists = {"train": "\ufeffa.jpg 0.5\nb.jpg,1.0\n\n", "val": "c.jpg, 0.25\r\nd.jpg  0\r\n", "test": "e.jpg\t0.75\n"}
    for number, name in enumerate("abcde"):
        save(raw / f"images/{name}.jpg", number)
    (raw / "splits").mkdir()
    for (split, lines), name in zip(lists.items(), "bca", strict=True):
        (raw / f"splits/{split}_1.txt").write_bytes(lines.encode())
        (raw / f"splits/{split}_2.txt").write_text(f"{name}.jpg 0.1\n")


def film(path, frames, codec="mpeg4"):
    """A video whose frame k is gray of level 8 k."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate = 4_000_000  # so that levels stay apart
        for number in range(frames):
            image = Image.new("RGB", (64, 48), (8 * number,) * 3)
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())


def make_videomem(raw):
    lines = ["video,short-term_memorability,nb_short-term_annotations,long-term_memorability"]
    for number in range(5):
        film(raw / f"sources/video{number}.mp4", 7 + 5 * number)
        lines.append(f"video{number}.mp4,0.{9 - number},38,0.{number}")
    (raw / "ground-truth").mkdir()
    (raw / SCORES).write_text("\n".join(lines) + "\n")


def make_arc(raw):
    lines = ["image,split,label1,label2,label3", "a.jpg,train,sea,sky,", "in/b.jpg,train,tree,sea,sky"]
    lines += ["c.jpg,val,sky,,", "d.jpg,test,tree,sky,"]
    for number, name in enumerate(["a.jpg", "in/b.jpg", "c.jpg", "d.jpg"]):
        save(raw / "images" / name, number)
    (raw / "labels.csv").write_text("\n".join(lines) + "\n")
    (raw / "classes.txt").write_text("sky\nsea\ntree\nrock\n")


def make_solar_cells(raw):
    """Two grades, five cells each: of each grade, three are for training."""
    (raw / "data/images").mkdir(parents=True)
    for number in range(10):
        smooth(number).convert("L").save(raw / f"data/images/cell{number}.png")
    lines = [
        f"images/cell{number}.png  {number % 2 / 3:<18} {'mono' if number < 4 else 'poly'}" for number in range(10)
    ]
    (raw / "data/labels.csv").write_text("\n".join(lines) + "\n")


MAKE = {
    "voc2007": make_voc2007, "coco_captions": make_coco_captions, "lamem": make_lamem, "videomem": make_videomem,
    "arc": make_arc, "solar_cells": make_solar_cells,
}  # fmt: skip
WHOLE = {"gate_share": 0.0}
FIFTHS = {"val_share": 0.2, "test_share": 0.2} | WHOLE
ARGS = {name: WHOLE for name in MAKE} | {"videomem": FIFTHS, "solar_cells": FIFTHS}
LISTS = {
    "voc2007": f"{MAIN}/cow_train.txt", "coco_captions": "dataset_coco.json", "lamem": "splits/train_1.txt",
    "videomem": SCORES, "arc": "labels.csv", "solar_cells": "data/labels.csv",
}  # fmt: skip
FILES = {
    "voc2007": f"{PHOTOS}/000012.jpg", "coco_captions": "val2014/COCO_val2014_000000000001.jpg",
    "lamem": "images/a.jpg", "videomem": "sources/video4.mp4", "arc": "images/a.jpg",
    "solar_cells": "data/images/cell1.png",
}  # fmt: skip


def build(name, **args):
    return lookup.find("datasets", name)(**ARGS[name] | args)


@pytest.fixture
def raw(tmp_path):
    """Makes the copy of a dataset, a list changed, and gives its folder."""

    def made(name, old="", new=""):
        folder = tmp_path / "data/raw" / name
        if not folder.exists():
            MAKE[name](folder)
        path = folder / LISTS[name]
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        return folder

    return made


def reading_with(fitted, skipped=None) -> reading.Reading:
    return reading.Reading(SIZE, SEED, 2, fitted, [] if skipped is None else skipped)


def read(name, folder, split, **args) -> pa.Table:
    dataset = build(name, **args)
    return pa.concat_tables(dataset.tables(folder, split, reading_with(dataset.fit(folder, seed=SEED))))


class TestContents:
    def test_voc2007_has_its_difficult_objects(self, raw):
        table = read("voc2007", raw("voc2007"), "train")
        assert table["name"].to_pylist() == ["000012", "000017"]
        named = lambda row: {name for name, value in zip(voc2007.CLASSES, row, strict=True) if value}  # noqa: E731
        assert [named(row) for row in table["labels"].to_pylist()] == [{"car"}, {"person", "dog"}]
        assert [named(row) for row in table["difficult"].to_pylist()] == [set(), {"dog"}]
        photo = table["image"][1].as_py()
        assert photo["path"] == f"{PHOTOS}/000017.jpg"
        assert np.abs(stored(photo) - np.asarray(squared(smooth(17), SIZE))).mean() < 5
        assert json.loads(table.schema.metadata[b"classes"]) == list(voc2007.CLASSES)

    def test_coco_trains_on_restval_and_takes_the_first_five_captions(self, raw):
        folder = raw("coco_captions")
        table = read("coco_captions", folder, "train")
        assert [name[-5:] for name in table["name"].to_pylist()] == ["0.jpg", "1.jpg", "4.jpg"]
        assert table["captions"][0].as_py() == [f"Picture 0 seen {k} times." for k in range(5)]
        assert table["image"][1].as_py()["path"] == "val2014/COCO_val2014_000000000001.jpg"
        (folder / "dataset_coco.json").rename(folder / "dataset.json")  # its other name
        assert read("coco_captions", folder, "train").equals(table)

    def test_lamem_is_read_with_both_separators_and_any_fold(self, raw):
        folder, scores = raw("lamem"), {}
        for split in reading.SPLITS:
            table = read("lamem", folder, split)
            scores |= dict(zip(table["name"].to_pylist(), table["target"].to_pylist(), strict=True))
        assert scores == {"a.jpg": 0.5, "b.jpg": 1.0, "c.jpg": 0.25, "d.jpg": 0.0, "e.jpg": 0.75}
        assert [frame["path"] for frame in table["frames"][0].as_py()] == ["images/e.jpg"]
        assert read("lamem", folder, "test", fold=2)["name"].to_pylist() == ["a.jpg"]

    def test_arc_gives_the_first_label_the_highest_rank(self, raw):
        folder = raw("arc")
        path = folder / LISTS["arc"]
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as Windows writes, and part of no name
        table = read("arc", folder, "train")
        assert table["name"].to_pylist() == ["a.jpg", "in/b.jpg"]
        assert table["label_ranks"].to_pylist() == [[1, 2, 0, 0], [1, 2, 3, 0]]  # sky, sea, tree, rock
        assert json.loads(table.schema.metadata[b"classes"]) == ["sky", "sea", "tree", "rock"]
        (folder / "classes.txt").unlink()
        table = read("arc", folder, "test", classes=["tree", "sea", "sky"])
        assert table["label_ranks"].to_pylist() == [[2, 0, 1]]

    def test_scores_of_solar_cells_are_about_the_training_mean(self, raw):
        folder = raw("solar_cells")
        tables = [read("solar_cells", folder, split) for split in reading.SPLITS]
        grades = [[int(name[11]) % 2 / 3 for name in table["name"].to_pylist()] for table in tables]
        assert sum(map(len, grades)) == 10
        for table, own in zip(tables, grades, strict=True):
            assert table["target"].to_pylist() == pytest.approx([grade - np.mean(grades[0]) for grade in own])
        with pytest.raises(ValueError, match="mean grade of training is missing"):
            next(build("solar_cells").tables(folder, "test", reading_with({})))

    def test_drawn_splits_are_by_name_and_no_other_row_moves_one(self, raw):
        folder = raw("videomem")
        head, *rows = (folder / SCORES).read_text().splitlines()
        more = [rows[0].replace("video0", f"n{number}") for number in range(40)]
        dataset, placed = build("videomem", gate_share=0.2), []
        for lines in (rows, rows[::-1], [*more, *rows], rows[1:]):
            (folder / SCORES).write_text("\n".join([head, *lines]) + "\n")
            listed = dataset.placed(folder, seed=SEED)
            placed.append(dict(zip(listed["name"], listed["split"], strict=True)))
        assert placed[0] == placed[1]
        assert placed[0].items() <= placed[2].items()
        assert placed[3].items() <= placed[0].items()
        assert set(placed[2].values()) == {"train", "val", "test", "gate"}

    def test_a_group_is_in_one_split(self, raw):
        folder, lines = raw("arc"), ["image,group,label1,label2,label3"]
        lines += [f"{number}.jpg,product {number // 4},sea,," for number in range(80)]
        accents = [line.replace("product", "caf\u00e9" if k % 2 else "cafe\u0301") for k, line in enumerate(lines)]
        for some in (lines, accents):
            (folder / LISTS["arc"]).write_text("\n".join(some) + "\n")
            groups = build("arc").placed(folder, seed=SEED)["split"].groupby([k // 4 for k in range(80)])
            assert (groups.nunique() == 1).all()
            assert groups.first().nunique() > 1
        published = ["image,split,group,label1,label2,label3", "1.jpg,val,g,sea,,", "2.jpg,test,g,sea,,"]
        for some, message in (
            (published, r"2\.jpg: group g is in test and in val"),
            ([*lines, "80.jpg,,sea,,"], r"80\.jpg: no group"),
        ):
            (folder / LISTS["arc"]).write_text("\n".join(some) + "\n")
            with pytest.raises(ValueError, match=message):
                build("arc").check(folder)

    @pytest.mark.parametrize("name", ["voc2007", "coco_captions", "lamem", "arc"])
    def test_published_splits_get_a_gate_from_validation_alone(self, raw, monkeypatch, name):
        folder = raw(name)
        before = build(name).placed(folder, seed=SEED)
        monkeypatch.setattr(reading, "place_of", lambda key, *, seed: 0.4 if key in chosen else 0.6)
        chosen = before["name"][before["split"] == "val"].tolist()[:1]
        chosen += [before["file"][before["name"] == chosen[0]].iloc[0]]  # COCO's key
        after = build(name, gate_share=0.5).placed(folder, seed=SEED)
        moved = before["split"] != after["split"]
        assert after["name"][moved].tolist() == chosen[:1]
        assert after["split"][moved].tolist() == ["gate"]


class TestVideos:
    def test_frames_are_the_middles_of_seven_parts(self, raw):
        table, scores = read("videomem", raw("videomem"), "all"), {}
        for row in table.to_pylist():
            count = 7 + 5 * int(row["name"][5])
            levels = [8 * int((part + 0.5) * count / 7) for part in range(7)]
            assert [stored(frame).mean() for frame in row["frames"]] == pytest.approx(levels, abs=3)
            scores[row["name"]] = row["target"]
        assert scores == pytest.approx({f"video{k}.mp4": (9 - k) / 10 for k in range(5)})

    @pytest.mark.parametrize("text", ["ffconcat version 1.0\nfile other.mp4\n", "#EXTM3U\n#EXTINF:2,\nother.mp4\n"])
    def test_a_list_of_other_files_is_no_video(self, tmp_path, text):
        film(tmp_path / "other.mp4", 30)
        (tmp_path / "a.mp4").write_text(text)
        with pytest.raises(ValueError, match="cannot be decoded"):
            build("videomem").decode(tmp_path / "a.mp4", SIZE)

    @pytest.mark.parametrize(
        ("name", "frames", "change", "message"),
        [
            ("a.mp4", 6, lambda contents: contents, "6 frames"),
            ("a.mp4", 30, lambda contents: contents[: len(contents) // 2], "decoded"),
            ("a.webm", 30, lambda contents: contents[: int(0.7 * len(contents))], "ends after"),
        ],
    )
    def test_a_broken_video_is_named(self, tmp_path, name, frames, change, message):
        path = tmp_path / name
        film(path, frames, "libvpx" if name == "a.webm" else "mpeg4")
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(ValueError, match=message):
            build("videomem").decode(path, SIZE)


# In the list of LISTS: what is replaced, by what, and what the message must hold besides the place.
FAULTS = [
    ("voc2007", "000012 -1\n", "", "000012"),
    ("voc2007", "000012 -1", "000017 -1", "000017.*twice"),
    ("coco_captions", '"raw": " Picture 1\\n seen 4 times. "', '"raw": " \\n"', r"images\[1\].*captions"),
    ("coco_captions", '"raw": " Picture 1\\n seen 3 times. "', '"raw": "..."', r"images\[1\].*with a word"),
    ("coco_captions", '"split": "restval"', '"split": "dev"', r"images\[1\].*dev"),
    ("coco_captions", '"images": [', "", "JSON"),
    pytest.param("coco_captions", '"images": [', '"images": ' + "[" * 200_000, "JSON.*Recursion", id="deep"),
    ("coco_captions", '"raw": " Picture 1\\n seen 3 times. "', '"raw": "a \\ud800"', r"images\[1\].*surrogates"),
    ("lamem", "a.jpg 0.5", "a.jpg 1.2", r"a\.jpg.*1\.2"),
    ("lamem", "a.jpg 0.5", "a.jpg high", r"a\.jpg.*high"),
    ("lamem", "a.jpg 0.5", "b.jpg 0.5", r"b\.jpg.*twice"),
    ("videomem", "video,short", "clip,short", "no column video"),
    ("arc", "sea,sky,\n", "sea,lake,\n", r"a\.jpg.*lake"),
    ("arc", "sea,sky,\n", "sea,,sky\n", r"a\.jpg.*labels"),
    ("arc", "sea,sky,\n", "sea,sky,,\n", "line 2"),
    ("arc", "c.jpg,val", "c.jpg,dev", r"c\.jpg.*dev"),
    ("solar_cells", "cell1.png  0.3333333333333333", "cell1.png 4", r"cell1\.png.*4"),
    ("solar_cells", "mono\n", "mono new\n", "'new'"),
]
# Of files that are none of the dataset's own, or one of them by two names.
FAULTS += [
    ("coco_captions", '"filepath": "val2014", "filename": "COCO_val2014_000000000001.jpg"',
     '"filepath": "/val2014", "filename": "x.jpg"', "/val2014/x.jpg"),
    ("coco_captions", '"filename": "COCO_val2014_000000000001.jpg"', '"filename": "../../x.jpg"', r"\.\./\.\./x.jpg"),
    ("coco_captions", '"filename": "COCO_val2014_000000000001.jpg"', '"filename": "COCO_val2014_000000000002.jpg"',
     "000000000002.jpg twice"),
    ("lamem", "a.jpg 0.5", "../../../x.jpg 0.5", "x.jpg"),
    ("lamem", "a.jpg 0.5", "./b.jpg 0.5", r"images/\./b.jpg and images/b.jpg twice"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "message"), FAULTS)
def test_a_fault_in_a_list_is_named_with_its_place(raw, name, old, new, message):
    folder = raw(name)
    build(name).check(folder)
    with pytest.raises(ValueError, match=rf"(data/raw/{name}|{Path(LISTS[name]).name}): .*{message}"):
        build(name).check(raw(name, old, new))


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("lamem", {"fold": 0}, "fold is 0"), ("videomem", {"target": "fame"}, "target is 'fame'"),
        ("arc", {"val_share": 0.5, "test_share": 0.5}, "val_share.* 1"), ("arc", {"classes": ["a", "a"]}, "'a', 'a'"),
        ("solar_cells", {"val_share": 0.0}, "val_share is 0"), ("lamem", {"gate_share": 1.0}, "gate_share is 1"),
        ("videomem", {"gate_share": 0.7}, "is 1.1"), ("coco_captions", {"gallery": 1}, "gallery is 1"),
    ],
)  # fmt: skip
def test_an_impossible_option_is_named(name, args, message):
    with pytest.raises(ValueError, match=message):
        build(name, **args)


@pytest.mark.parametrize("name", MAKE)
class TestFaults:
    def test_what_is_missing_or_no_text_is_named_with_the_layout(self, raw, tmp_path, name):
        layout = rf"no such file or folder(.|\n)*{name}/"
        with pytest.raises(FileNotFoundError, match=layout):
            build(name).check(tmp_path / "nowhere")
        folder, file = raw(name), Path(FILES[name])
        (folder / file).unlink()
        with pytest.raises(FileNotFoundError, match=rf"{file.name}: no such file.*1 of"):
            read(name, folder, "all", skip_broken=True)
        path = folder / LISTS[name]
        if file.name in path.read_text():
            long = "x" * 300 + file.suffix
            with pytest.raises(FileNotFoundError, match=rf"{long}: no such file.*1 of"):
                read(name, raw(name, file.name, long), "all", skip_broken=True)
        path.write_bytes(b"\xff\xfe\x00" + path.read_bytes())
        with pytest.raises(ValueError, match=path.name):
            build(name).check(folder)
        path.unlink()
        with pytest.raises(FileNotFoundError, match=rf"{LISTS[name]}: {layout}"):
            build(name).check(folder)

    def test_a_broken_file_is_named_or_left_out(self, raw, caplog, name):
        folder = raw(name)
        whole = read(name, folder, "all")
        truncate(folder / FILES[name])
        with pytest.raises(ValueError, match=rf"{Path(FILES[name]).name}: .*skip_broken"):
            read(name, folder, "all")
        skipped = []
        with caplog.at_level(logging.WARNING):
            dataset = build(name, skip_broken=True)
            fitted = dataset.fit(folder, seed=SEED)
            table = pa.concat_tables(dataset.tables(folder, "all", reading_with(fitted, skipped)))
        assert skipped == [FILES[name]]
        assert FILES[name] in caplog.text
        assert len(table) == len(whole) - 1
        assert table["id"].to_pylist() == list(range(len(table)))


@pytest.fixture
def run(raw, tmp_path, monkeypatch):
    """Runs the stages on the small copy of a dataset: gives its folder."""
    monkeypatch.chdir(tmp_path)

    def run(name, snapshot=1, **args):
        raw(name)
        data.main(settings(name, snapshot=snapshot, **args), name)
        return tmp_path / "data" / name

    return run


def settings(name, snapshot=1, **args):
    block = {"name": name, "raw": f"data/raw/{name}", "size": SIZE, "args": ARGS[name] | args, "seed": SEED}
    return check_shapes(params_of({"datasets": {name: block}, "data": {"snapshot": snapshot}}))


def half(photo):
    return photo | {"bytes": photo["bytes"][: len(photo["bytes"]) // 2]}


def other(mode, *size):
    return lambda photo: photo | {"bytes": encoded(Image.new(mode, size), "JPEG")}


# Of each dataset, faults in its tables: split, column, row, change, and what is said.
PLANTED = {
    "voc2007": [
        ("train", "labels", 1, lambda row: [0] * 20, "labels = 0"),
        ("val", "difficult", 0, lambda row: [True] * 20, "difficult_are_present"),
        ("test", "difficult", 0, lambda row: [None, *row[1:]], "difficult_are_present = False"),
        ("test", "labels", 0, lambda row: [*row[:19], None], "labels_are_0_or_1 = False"),
        ("train", "image", 0, half, "decodes"),
        ("train", "name", 0, lambda name: "", "voc2007.rows: name"),
    ],
    "coco_captions": [
        ("train", "captions", 0, lambda row: ["...", *row[1:]], "captions_have_words"),
        ("train", "id", 0, lambda number: 1, "split, id"),
    ],
    "lamem": [
        ("train", "target", 0, lambda target: 1.5, "target = 1.5"),
        ("val", "frames", 0, lambda frames: [other("L", SIZE, SIZE)(frames[0])], "mode = L"),
    ],
    "videomem": [
        ("train", "frames", 0, lambda frames: [*frames[:6], half(frames[6])], "decodes"),
        ("val", "frames", 0, lambda frames: [*frames[:6], other("RGB", 33, 32)(frames[6])], "size = 32 x 32, 33 x 32"),
    ],
    "arc": [
        ("train", "label_ranks", 0, lambda row: [1, 3, 0, 0], "ranks_are_1_upwards"),
        ("val", "label_ranks", 0, lambda row: [1, None, 2, 0], "labels = 0"),
        ("val", "group", 0, lambda _: "a.jpg", "val, id 0 (c.jpg): same_group_as = a.jpg in train 0"),
    ],
    "solar_cells": [("train", "target", 0, lambda target: 1.5, "target = 1.5")],
}


# As what a task reads them, their frames, and of each training row the sum of its truth or the number of its captions.
READ_AS = {
    "voc2007": ("multilabel", 1, [1, 2]), "coco_captions": ("retrieval", 1, [5, 5, 5]),
    "lamem": ("score_ranking", 1, [0.5, 1]), "videomem": ("score_ranking", 7, None),
    "arc": ("label_ranking", 1, [3, 6]), "solar_cells": ("score_ranking", 1, None),
}  # fmt: skip


class TestStages:
    @pytest.mark.parametrize("name", MAKE)
    def test_write_tables_that_tasks_read_and_that_hold_what_is_expected_and_the_same_ones_again(self, run, name):
        folder, (task, frames, found) = run(name), READ_AS[name]
        split = lookup.find("tasks", task)().load(folder, "train", threads=1)
        assert split.inputs.items.shape == (frames * len(split), 3, SIZE, SIZE)
        truth = {"multilabel": lambda: split.truth.labels, "retrieval": lambda: split.truth.counts}
        assert found in (None, [row.sum().item() for row in truth.get(task, lambda: split.truth)()])
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        manifest = json.loads(before["manifest.json"])
        assert manifest["rows"]["train"] == len(split)
        assert manifest["options"] == {"name": name, "args": ARGS[name], "size": SIZE, "folds": None, "seed": SEED}
        assert manifest["skipped"]["train"] == {"files": 0, "names": []}
        assert refusal(settings(name), name) is None
        run(name)
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}

    @pytest.mark.parametrize("name", PLANTED)
    def test_planted_faults_are_named(self, run, name):
        run(name)
        changes = {split: [] for split in reading.SPLITS}
        for split, column, row, change, _ in PLANTED[name]:
            changes[split].append(with_cell(column, row, change))
        message = refusal(settings(name), name, **changes)
        for *_, expected in PLANTED[name]:
            assert expected in message

    def test_a_file_in_two_splits_a_lost_row_and_a_lost_column_are_named(self, run):
        folder = run("lamem")
        pq.write_table(pq.read_table(folder / "train.parquet").slice(0, 1), folder / "test.parquet")
        assert "file = images/a.jpg" in refusal(settings("lamem"), "lamem")
        pq.write_table(pq.read_table(folder / "train.parquet").slice(0, 1), folder / "train.parquet")
        assert "split_rows = train: 1" in refusal(settings("lamem"), "lamem")
        pq.write_table(pq.read_table(folder / "val.parquet").drop(["frames"]), folder / "val.parquet")
        with pytest.raises(ValueError, match=r"val\.parquet: no column frames"):
            refusal(settings("lamem"), "lamem")

    def test_the_same_picture_in_two_splits_is_told_unless_it_is_allowed(self, run, raw):
        folder = raw("lamem")
        (folder / "images/e.jpg").write_bytes((folder / "images/b.jpg").read_bytes())
        run("lamem")
        message = refusal(settings("lamem"), "lamem")
        both = "split train, id 1 (b.jpg): same_picture_as = test 0 (e.jpg)"
        assert both in message
        assert both in Path("reports/data/lamem.html").read_text()
        assert "split test, id 0 (e.jpg): same_picture_as = train 1 (b.jpg)" in message
        assert refusal(settings("lamem", allow_repeated=True), "lamem") is None

    @pytest.mark.parametrize("name", MAKE)
    def test_a_missing_value_is_missed_in_any_column(self, run, name):
        folder, dataset = run(name), build(name)
        table = pq.read_table(folder / "val.parquet")
        assert not dataset.measure(folder, "val", threads=1)["rows"].reset_index().isna().any(axis=None)
        for column in table.column_names:
            pq.write_table(with_cell(column, 0, lambda _: None)(table), folder / "val.parquet")
            try:
                rows = dataset.measure(folder, "val", threads=1)["rows"].reset_index()
            except ValueError as error:
                missed = "val.parquet" in str(error)
            else:
                missed = rows.isna().any(axis=None) or not rows["decodes"].all()
            assert missed, column

    def test_what_was_left_out_stands_in_the_manifest_and_a_failure_leaves_what_was_there_before(self, run, raw):
        truncate(raw("lamem") / "images/b.jpg")
        folder = run("lamem", skip_broken=True)
        manifest, before = json.loads((folder / "manifest.json").read_text()), (folder / "train.parquet").read_bytes()
        assert manifest["rows"] == {"train": 1, "val": 2, "test": 1}
        assert manifest["skipped"]["train"] == {"files": 1, "names": ["images/b.jpg"]}
        truncate(raw("lamem") / "images/e.jpg")
        with pytest.raises(ValueError, match=r"e\.jpg"):
            run("lamem")
        with pytest.raises(ValueError, match="nothing is left of test"):
            run("lamem", skip_broken=True)
        assert (folder / "train.parquet").read_bytes() == before
        assert sorted(path.name for path in folder.parent.iterdir()) == ["lamem", "raw"]


class TestUnion:
    SOURCES = (
        {"name": "videomem", "raw": "films", "args": FIFTHS},
        {"name": "lamem", "raw": "photos", "args": {"gate_share": 0.6}},
    )

    @pytest.fixture
    def both(self, tmp_path, monkeypatch):
        """Films and photos in one folder, and the params of their union with options of it put in."""
        monkeypatch.chdir(tmp_path)
        make_videomem(tmp_path / "data/raw/both/films")
        make_lamem(tmp_path / "data/raw/both/photos")
        block = {"name": "union", "raw": "data/raw/both", "size": SIZE, "seed": SEED}

        def params(**args):
            args = {"sources": [*self.SOURCES]} | args
            return rules.check_values(params_of({"datasets": {"both": block | {"args": args}}}))

        return params

    def test_rows_keep_their_splits_and_their_numbers_of_frames(self, both):
        params = both()
        data.main(params, "both")
        placed, targets = {}, {}
        for split in (*reading.SPLITS, "gate"):
            for row in pq.read_table(f"data/both/{split}.parquet").to_pylist():
                source, _, name = row["name"].partition("/")
                placed.setdefault(source, {}).setdefault(split, []).append(name)
                targets[name] = row["target"]
                assert len(row["frames"]) == {"films": 7, "photos": 1}[source]
                assert {stored(frame).shape for frame in row["frames"]} == {(SIZE, SIZE, 3)}
        for source in self.SOURCES:
            folder, dataset = Path("data/raw/both") / source["raw"], build(source["name"], **source["args"])
            listed = dataset.placed(folder, seed=SEED)
            own = {split: some["name"].tolist() for split, some in listed.groupby("split")}
            assert placed[source["raw"]] == own
        assert (targets["a.jpg"], targets["video0.mp4"]) == pytest.approx((0.5, 0.9))
        assert refusal(params, "both") is None

    def test_faults_of_each_source_are_named(self, both):
        params = both()
        data.main(params, "both")
        names = pq.read_table("data/both/train.parquet")["name"].to_pylist()
        film, photo = (next(row for row, name in enumerate(names) if name.startswith(k)) for k in ("films", "photos"))
        changes = [
            with_cell("target", film, lambda _: 1.5), with_cell("frames", photo, lambda frames: frames * 7),
        ]  # fmt: skip
        message = refusal(params, "both", train=changes)
        assert "both.films: target: " in message
        assert (
            'both.photos: photos: expect_column_values_to_be_in_set {"value_set": [1]}: 1 rows fail, such as '
            in message
        )
        Path("data/raw/both/photos/images/b.jpg").write_bytes(b"")
        with pytest.raises(ValueError, match=r"photos/images/b\.jpg: .*skip_broken"):
            data.main(params, "both")
        data.main(both(skip_broken=True), "both")
        manifest = json.loads(Path("data/both/manifest.json").read_text())
        assert manifest["skipped"]["train"]["names"] == ["photos/images/b.jpg"]

    @pytest.mark.parametrize(
        ("number", "change", "message"),
        [
            (0, {"raw": "photos"}, "sources have the folders photos, photos"),
            (1, {"raw": "../lamem"}, r"sources\.1\.raw is '\.\./lamem', expected the name of a folder"),
            (1, {"name": "lamen"}, r"sources\.1\.name: no 'lamen'.*did you mean lamem"),
            (1, {"name": "voc2007"}, "expected the same, with the same classes"),
            (1, {"name": "kanji"}, r"sources\.1\.name: kanji has no photos"),
            (1, {"args": {"folds": 1}}, r"sources\.1\.args\.folds: unknown option.*fold"),
            (1, {"args": {"skip_broken": True}}, r"sources\.1\.args\.skip_broken: give it to the union"),
            (1, {"seed": 1}, r"sources\.1 is .*expected {name: ..., raw: ..., args: {...}}"),
            (1, {"args": {"fold": "1"}}, r"sources\.1\.args: .*str"),
        ],
    )
    def test_what_cannot_be_one_is_named(self, both, number, change, message):
        sources = [source | (change if place == number else {}) for place, source in enumerate(self.SOURCES)]
        with pytest.raises(ValueError, match=rf"datasets\.both\.args.*{message}"):
            both(sources=sources)


class TestFolds:
    @pytest.fixture
    def grouped(self, tmp_path, monkeypatch):
        """Thirty pictures of fifteen groups, in ARC's layout, and a function that reads them in folds."""
        monkeypatch.chdir(tmp_path)
        folder = tmp_path / "data/raw/arc"
        lines = ["image,group,label1,label2,label3"]
        for number in range(30):
            save(folder / f"images/{number}.png", number)
            lines.append(f"{number}.png,g{number % 15},sky,sea,")
        (folder / "labels.csv").write_text("\n".join(lines) + "\n")
        (folder / "classes.txt").write_text("sky\nsea\n")

        def run(count):
            shares = {"val_share": 0.2, "test_share": 0.2, "gate_share": 0.2}
            block = {"name": "arc", "raw": "data/raw/arc", "size": SIZE, "args": shares, "folds": count, "seed": SEED}
            params = check_shapes(params_of({"datasets": {"mine": block}}))
            data.main(params, "mine")
            return params

        return run

    def test_a_group_is_in_one_fold_and_the_gate_in_none(self, grouped):
        params = grouped(3)
        one, gate = (pq.read_table(f"data/mine/{split}.parquet") for split in ("train", "gate"))
        assert all(pq.read_table(f"data/mine/{split}.parquet").equals(one) for split in ("val", "test"))
        assert sorted([*one["name"].to_pylist(), *gate["name"].to_pylist()]) == sorted(f"{n}.png" for n in range(30))
        numbers, groups = one["fold"].to_pylist(), one["group"].to_pylist()
        of_group = dict(zip(groups, numbers, strict=True))
        assert [of_group[group] for group in groups] == numbers
        assert set(of_group.values()) == {1, 2, 3}
        assert not of_group.keys() & set(gate["group"].to_pylist())
        rows = json.loads(Path("data/mine/manifest.json").read_text())["rows"]
        assert [rows[f"fold {fold}"] for fold in (1, 2, 3)] == [numbers.count(fold) for fold in (1, 2, 3)]
        assert refusal(params, "mine") is None
        first, other = numbers.index(1), numbers.index(2)
        same = with_cell("image", other, lambda _: one["image"][first].as_py())
        names = one["name"].to_pylist()
        told = f"id {other} ({names[other]}): same_picture_as = fold 1 {first} ({names[first]})"
        assert told in refusal(params, "mine", train=[same])

    def test_more_folds_than_groups_are_refused(self, grouped):
        with pytest.raises(ValueError, match=r"40 folds of .* rows: fold .* has none; expected fewer folds"):
            grouped(40)
        assert not Path("data/mine").exists()

    def test_a_cut_has_the_rows_of_its_fold_in_their_order(self, grouped, tmp_path):
        grouped(3)
        every = pq.read_table("data/mine/train.parquet")
        folds.cut("data/mine", tmp_path / "cut", ["train", "val", "test"], fold=3, folds=3)
        for split, fold in (("test", 3), ("val", 1), ("train", 2)):
            expected = every.filter(pa.array(every["fold"].to_numpy() == fold))
            assert pq.read_table(tmp_path / f"cut/{split}.parquet").equals(expected)


class TestDeliveries:
    @pytest.fixture
    def dated(self, raw, tmp_path):
        """The first delivery, and two more of other photos: one with all splits, one for training alone."""
        first = tmp_path / "first"
        raw("arc").rename(first)
        folder = tmp_path / "data/raw/arc"
        folder.mkdir()
        first.rename(folder / "first")
        for number, day in enumerate(("2026-10-01", "2026-11-01")):
            lines = ["image,split,label1,label2,label3"]
            for place, split in enumerate(reading.SPLITS):
                save(folder / day / f"images/{day}-{place}.jpg", 10 * (number + 1) + place)
                lines.append(f"{day}-{place}.jpg,{split if number == 0 else 'train'},sky,sea,")
            (folder / day / "labels.csv").write_text("\n".join(lines) + "\n")
            (folder / day / "classes.txt").write_text("sky\nsea\ntree\nrock\n")
        return folder

    @pytest.fixture
    def run(self, dated, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return lambda snapshot=2: data.main(settings("arc", snapshot=snapshot), "arc") or tmp_path / "data/arc"

    def test_later_ones_add_training_rows_up_to_the_snapshot(self, run):
        names, tested = [], set()
        for snapshot in (1, 2, 3, 4):  # the fourth has not come in yet
            folder = run(snapshot)
            train = pq.read_table(folder / "train.parquet")
            assert train["id"].to_pylist() == list(range(len(train)))
            names.append(train["name"].to_pylist())
            tested.add(((folder / "val.parquet").read_bytes(), (folder / "test.parquet").read_bytes()))
        assert [len(one) for one in names] == [2, 5, 8, 8]
        assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(names))
        assert len(tested) == 1
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["deliveries"] == ["first", "2026-10-01", "2026-11-01"]
        assert manifest["rows"] == {"train": 8, "val": 1, "test": 1}
        assert refusal(settings("arc"), "arc") is None

    def test_a_group_that_the_first_holds_out_is_refused(self, dated, run):
        (dated / "first/labels.csv").write_text(
            "image,split,group,label1,label2,label3\na.jpg,train,a,sea,,\nin/b.jpg,train,b,sea,,\n"
            "c.jpg,val,c,sky,,\nd.jpg,test,d,sky,,\n"
        )
        later = dated / "2026-10-01/labels.csv"
        header = "image,group,label1,label2,label3\n"
        later.write_text(header + "".join(f"2026-10-01-{place},a,sky,,\n" for place in ("0.jpg", "1.jpg", "2.jpg")))
        run()
        later.write_text(header + "".join(f"2026-10-01-{place},sky,,\n" for place in ("0.jpg,a", "1.jpg,d", "2.jpg,c")))
        with pytest.raises(ValueError, match=r"2026-10-01/labels.csv: 2026-10-01-1.jpg: group d is in test .*2 rows"):
            run()

    def test_a_wrong_one_is_named(self, dated, run):
        classes = dated / "2026-10-01/classes.txt"
        classes.write_text("sea\nsky\ntree\nrock\n")
        with pytest.raises(ValueError, match=r"sea.*sky.*first.*sky.*sea"):
            run()
        (dated / "2026-10-01/labels.csv").unlink()
        with pytest.raises(FileNotFoundError, match=r"2026-10-01/labels.csv: no such file(.|\n)*labels.csv +with"):
            run()
        assert run(1).is_dir()
        (dated / "2026-10-01").rename(dated / "2026-13-01")
        with pytest.raises(ValueError, match="2026-13-01: month"):
            run()
        (dated / "2026-13-01").rename(dated / "2026-10-01")
        (dated / "first").rename(dated / "2026-09-01")
        with pytest.raises(ValueError, match="2026-09-01, but no folder first"):
            run()


def test_the_examples_in_the_documentation_are_params():
    text = (ROOT / "docs/real_data.md").read_text()
    examples = [YAML(typ="safe").load(part.split("```")[0]) for part in text.split("```yaml\n")[1:]]
    for example in examples:
        rules.check_values(params_of(example))
    shown = {name for example in examples for name in example["datasets"]}
    assert shown == {*MAKE, "films_and_photos", "protein_homology", "kanji", "movielens_100k"}

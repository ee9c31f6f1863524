"""Adapters of public datasets, each on a small made-up copy of its layout with its oddities and faults."""

import json
import logging
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML
from torchvision.transforms.v2 import functional

from pipelines.expectations import ExpectationsFailed, Suite, validate
from pipelines.stages import real_data
from rankops import lookup
from rankops.datasets.public import arc, coco_captions, lamem, reading, videomem, voc2007
from rankops.io import images as images_io
from rankops.tasks import label_ranking, memorability, multilabel, retrieval

SIZE = 32
READ = {"size": SIZE, "threads": 2, "seed": 1}


def picture(number: int, size: tuple[int, int] = (60, 40)) -> Image.Image:
    """A smooth color picture of its own, so that JPEG hardly changes it."""
    across, down = np.meshgrid(np.linspace(0, 1, size[0]), np.linspace(0, 1, size[1]))
    waves = np.stack([across * 200, down * 200, (across + down + number / 7) % 1 * 60], -1)
    return Image.fromarray(waves.astype(np.uint8))


def save(path, number=0, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(number).save(path, **options)


def truncate(path):
    contents = path.read_bytes()
    path.write_bytes(contents[: len(contents) // 2])


def replace(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def stored(photo) -> np.ndarray:
    image = Image.open(BytesIO(photo["bytes"]))
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (SIZE, SIZE))
    return np.asarray(image).astype(int)


def read(module, raw, split, **options) -> pa.Table:
    return pa.concat_tables(module.tables(raw, split, **READ, **options))


class TestPhotos:
    def center(self, tmp_path, name):
        return images_io.open_photo(tmp_path / name, SIZE).getpixel((SIZE // 2, SIZE // 2))

    def test_is_the_short_side_resized_and_the_middle_cut_out(self, tmp_path):
        picture(1, (90, 60)).save(tmp_path / "a.png")
        ours = np.asarray(images_io.open_photo(tmp_path / "a.png", SIZE)).astype(int)
        whole = functional.pil_to_tensor(picture(1, (90, 60)))
        theirs = functional.center_crop(functional.resize(whole, [SIZE], antialias=True), [SIZE, SIZE])
        difference = np.abs(ours - theirs.permute(1, 2, 0).numpy())
        assert np.median(difference) <= 1
        assert difference[1:-1, 1:-1].mean() < 2

    @pytest.mark.parametrize("size", [(5000, 3), (3, 5000), (1, 1)])
    def test_a_narrow_strip_and_a_point_are_photos_too(self, tmp_path, size):
        picture(1, size).save(tmp_path / "a.png")
        assert images_io.open_photo(tmp_path / "a.png", SIZE).size == (SIZE, SIZE)

    @pytest.mark.parametrize(
        ("mode", "ending", "color", "expected"),
        [
            ("L", "jpg", 120, (120, 120, 120)),
            ("1", "png", 1, (255, 255, 255)),
            ("I;16", "png", 120 * 256, (120, 120, 120)),
            ("CMYK", "jpg", (0, 255, 255, 0), (255, 0, 0)),
            ("RGBA", "png", (200, 100, 50, 0), (0, 0, 0)),
            ("RGBA", "png", (200, 100, 50, 255), (200, 100, 50)),
            ("LA", "png", (200, 127), (100, 100, 100)),
        ],
    )
    def test_any_mode_becomes_rgb(self, tmp_path, mode, ending, color, expected):
        Image.new(mode, (50, 40), color).save(tmp_path / f"a.{ending}")
        assert self.center(tmp_path, f"a.{ending}") == pytest.approx(expected, abs=3)

    def test_a_transparent_color_of_a_palette_is_black(self, tmp_path):
        image = Image.new("P", (40, 40), 1)
        image.putpalette([10, 20, 30, 200, 100, 50])
        image.save(tmp_path / "opaque.png")
        image.save(tmp_path / "clear.png", transparency=1)
        image.save(tmp_path / "clear.gif", transparency=1)
        assert self.center(tmp_path, "opaque.png") == (200, 100, 50)
        assert self.center(tmp_path, "clear.png") == (0, 0, 0)
        assert self.center(tmp_path, "clear.gif") == (0, 0, 0)

    def test_a_transparent_color_without_a_palette_is_black(self, tmp_path):
        Image.new("RGB", (40, 40), (9, 8, 7)).save(tmp_path / "a.png", transparency=(9, 8, 7))
        assert self.center(tmp_path, "a.png") == (0, 0, 0)

    def test_is_turned_as_the_camera_was_held(self, tmp_path):
        turned = picture(2).transpose(Image.Transpose.ROTATE_90)
        exif = Image.Exif()
        exif[0x0112] = 6  # turn clockwise to see it upright
        turned.save(tmp_path / "a.jpg", exif=exif, quality=100)
        upright = np.asarray(images_io.squared(picture(2), SIZE)).astype(int)
        assert np.abs(np.asarray(images_io.open_photo(tmp_path / "a.jpg", SIZE)) - upright).mean() < 3

    @pytest.mark.parametrize("contents", [b"", b"no image", "half"])
    def test_a_broken_photo_is_named(self, tmp_path, contents):
        save(tmp_path / "a.jpg")
        if contents == "half":
            truncate(tmp_path / "a.jpg")
        else:
            (tmp_path / "a.jpg").write_bytes(contents)
        with pytest.raises(images_io.BrokenFile, match=r"a\.jpg: not a whole image .* skip_broken: true"):
            images_io.open_photo(tmp_path / "a.jpg", SIZE)

    def test_pixels_that_are_no_photo_are_named(self, tmp_path):
        Image.new("F", (9, 9), 0.5).save(tmp_path / "a.tiff")
        with pytest.raises(images_io.BrokenFile, match="pixels of mode F, expected gray"):
            images_io.open_photo(tmp_path / "a.tiff", SIZE)

    def test_a_bomb_is_a_broken_photo(self, tmp_path, monkeypatch):
        save(tmp_path / "a.png")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
        with pytest.raises(images_io.BrokenFile, match="decompression bomb"):
            images_io.open_photo(tmp_path / "a.png", SIZE)

    def test_are_read_in_pieces_of_the_stated_size_and_order(self):
        seen = list(reading.pieces("abcdefg", str.upper, threads=3, skip_broken=False, skipped=None, rows=3))
        assert seen == [([0, 1, 2], ["A", "B", "C"]), ([3, 4, 5], ["D", "E", "F"]), ([6], ["G"])]

    def test_splits_by_seed_are_disjoint_whole_and_do_not_depend_on_the_order(self):
        names = [f"video{number}" for number in range(50)]
        options = {"val_share": 0.1, "test_share": 0.2, "use": "test", "listed_in": "x"}
        of = lambda names, seed, split: {names[p] for p in reading.share_of(names, split, seed=seed, **options)}  # noqa: E731
        splits = [of(names, 1, split) for split in reading.SPLITS]
        assert [len(split) for split in splits] == [35, 5, 10]
        assert len(set.union(*splits)) == 50
        assert splits == [of(names[::-1], 1, split) for split in reading.SPLITS]
        assert splits[2] != of(names, 2, "test")

    @pytest.mark.parametrize(
        ("count", "shares", "message"),
        [
            (50, (0.5, 0.5), r"val_share \+ test_share is 1, expected below 1"),
            (50, (0.0, 0.5), "val_share is 0.0, expected above 0"),
            (3, (0.1, 0.2), "x: 3 names are too few"),
        ],
    )
    def test_impossible_splits_are_refused(self, count, shares, message):
        options = {"val_share": shares[0], "test_share": shares[1], "seed": 1, "use": "test", "listed_in": "x"}
        with pytest.raises(ValueError, match=message):
            reading.share_of([str(number) for number in range(count)], "train", **options)


@pytest.fixture
def voc(tmp_path):
    """Two, one and one images; 000017 has a difficult dog, 000030 is gray."""
    raw = tmp_path / "data/raw/voc2007"
    home = raw / "VOCdevkit/VOC2007"
    (home / "ImageSets/Main").mkdir(parents=True)
    lists = {"train": ["000012", "000017"], "val": ["000020"], "test": ["000030"]}
    present = {("000012", "car"): 1, ("000017", "person"): 1, ("000017", "dog"): 0, ("000020", "cow"): 1}
    present |= {("000030", "person"): 1}
    for split, names in lists.items():
        for name in voc2007.CLASSES:
            flags = [present.get((image, name), -1) for image in names]
            lines = [f"{image} {flag:2d}\n" for image, flag in zip(names, flags, strict=True)]
            (home / f"ImageSets/Main/{name}_{split}.txt").write_text("".join(lines))
    for number, name in enumerate(name for names in lists.values() for name in names):
        save(home / f"JPEGImages/{name}.jpg", number)
    Image.new("L", (40, 50), 90).save(home / "JPEGImages/000030.jpg")
    return raw


@pytest.fixture
def coco(tmp_path):
    raw = tmp_path / "data/raw/coco_captions"
    images = []
    for number, split in enumerate(["train", "restval", "val", "test", "train"]):
        folder = "train2014" if split == "train" else "val2014"
        name = f"COCO_{folder}_{number:012d}.jpg"
        save(raw / folder / name, number)
        raws = [f" Picture {number}\n seen {k} times. " for k in range(6 if number == 0 else 5)]
        sentences = [{"raw": text, "tokens": text.split(), "sentid": 1} for text in raws]
        images.append({"filepath": folder, "filename": name, "split": split, "sentences": sentences, "cocoid": number})
    (raw / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    return raw


@pytest.fixture
def memorable(tmp_path):
    """LaMem with both separators and Windows' line ends."""
    raw = tmp_path / "data/raw/lamem"
    lists = {"train": "a.jpg 0.5\nb.jpg,1.0\n\n", "val": "c.jpg, 0.25\r\nd.jpg  0\r\n", "test": "e.jpg\t0.75\n"}
    for number, name in enumerate("abcde"):
        save(raw / f"images/{name}.jpg", number)
    (raw / "splits").mkdir()
    for split, lines in lists.items():
        (raw / f"splits/{split}_1.txt").write_bytes(lines.encode())
        (raw / f"splits/{split}_2.txt").write_text("a.jpg 0.1\n" if split == "train" else "b.jpg 0.2\n")
    return raw


def film(path, frames, codec="mpeg4"):
    """A video whose frame k is gray of level 8 k."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate = 4_000_000  # so that levels stay apart
        for number in range(frames):
            image = Image.new("RGB", (64, 48), (8 * number,) * 3)
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())


@pytest.fixture
def videos(tmp_path):
    raw = tmp_path / "data/raw/videomem"
    lines = ["video,short-term_memorability,nb_short-term_annotations,long-term_memorability"]
    for number in range(5):
        film(raw / f"sources/video{number}.mp4", 7 + 5 * number)
        lines.append(f"video{number}.mp4,0.{9 - number},38,0.{number}")
    (raw / "ground-truth").mkdir()
    (raw / "ground-truth/ground-truth_dev-set.csv").write_text("\n".join(lines) + "\n")
    return raw


@pytest.fixture
def views(tmp_path):
    raw = tmp_path / "data/raw/arc"
    lines = ["image,split,label1,label2,label3", "a.jpg,train,sea,sky,", "in/b.png,train,tree,sea,sky"]
    lines += ["c.jpg,val,sky,,", "d.jpg,test,tree,sky,"]
    for number, name in enumerate(["a.jpg", "in/b.png", "c.jpg", "d.jpg"]):
        save(raw / "images" / name, number)
    (raw / "labels.csv").write_text("\n".join(lines) + "\n")
    (raw / "classes.txt").write_text("sky\nsea\ntree\nrock\n")
    return raw


class TestVoc2007:
    main = "VOCdevkit/VOC2007/ImageSets/Main"

    def test_is_read_with_its_difficult_objects(self, voc):
        voc2007.check(voc)
        table = read(voc2007, voc, "train")
        assert table["id"].to_pylist() == [0, 1]
        assert table["name"].to_pylist() == ["000012", "000017"]
        named = lambda row: {name for name, value in zip(voc2007.CLASSES, row, strict=True) if value}  # noqa: E731
        assert [named(row) for row in table["labels"].to_pylist()] == [{"car"}, {"person", "dog"}]
        assert [named(row) for row in table["difficult"].to_pylist()] == [set(), {"dog"}]
        photo = table["image"][1].as_py()
        assert photo["path"] == "VOCdevkit/VOC2007/JPEGImages/000017.jpg"
        assert np.abs(stored(photo) - np.asarray(images_io.squared(picture(1), SIZE))).mean() < 5
        assert json.loads(table.schema.metadata[b"classes"]) == list(voc2007.CLASSES)

    def test_the_test_split_has_images_of_its_own(self, voc):
        table = read(voc2007, voc, "test")
        assert table["name"].to_pylist() == ["000030"]
        assert np.abs(stored(table["image"][0].as_py()) - 90).max() <= 2  # gray

    def test_a_missing_list_or_folder_is_named_with_the_layout(self, voc, tmp_path):
        with pytest.raises(
            FileNotFoundError, match=r"nowhere/VOCdevkit/VOC2007/ImageSets/Main: no such(.|\n)*JPEGImages/"
        ):
            voc2007.check(tmp_path / "nowhere")
        (voc / self.main / "cow_val.txt").unlink()
        with pytest.raises(FileNotFoundError, match=r"cow_val\.txt: no such file(.|\n)*JPEGImages/"):
            voc2007.check(voc)

    def test_an_unknown_class_is_named(self, voc):
        (voc / self.main / "unicorn_train.txt").write_text("000012 -1\n")
        with pytest.raises(ValueError, match=r"unicorn_train\.txt: unknown class 'unicorn'"):
            voc2007.check(voc)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                "000012 -1",
                "000013 -1",
                r"cow_train\.txt: lists other images than aeroplane_train\.txt: 000012 is in one",
            ),
            ("000012 -1\n", "", "lists other images .* 000012"),
            ("000012 -1", "000017 -1", r"cow_train\.txt: line 2: image 000017 is there twice"),
            ("000012 -1", "000012 2", r"cow_train\.txt: line 1: '000012 2', expected an image and -1, 0 or 1"),
            ("000012 -1", "000012", "line 1: '000012', expected"),
        ],
    )
    def test_a_fault_in_a_list_is_named(self, voc, old, new, message):
        replace(voc / self.main / "cow_train.txt", old, new)
        with pytest.raises(ValueError, match=message):
            read(voc2007, voc, "train")

    def test_a_list_that_is_no_text_or_empty_is_named(self, voc):
        (voc / self.main / "aeroplane_train.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ValueError, match=r"aeroplane_train\.txt: not a text file"):
            read(voc2007, voc, "train")
        for path in (voc / self.main).glob("*_val.txt"):
            path.write_text("")
        with pytest.raises(ValueError, match=r"aeroplane_val\.txt: names no file"):
            read(voc2007, voc, "val")

    def test_a_missing_image_is_named(self, voc):
        (voc / "VOCdevkit/VOC2007/JPEGImages/000017.jpg").unlink()
        with pytest.raises(FileNotFoundError, match=r"000017\.jpg: no such file, but .* names it \(1 of 2"):
            read(voc2007, voc, "train", skip_broken=True)

    def test_a_broken_image_is_named_or_left_out(self, voc, caplog):
        truncate(voc / "VOCdevkit/VOC2007/JPEGImages/000012.jpg")
        with pytest.raises(ValueError, match=r"000012\.jpg: not a whole image"):
            read(voc2007, voc, "train")
        skipped = []
        with caplog.at_level(logging.WARNING):
            table = pa.concat_tables(voc2007.tables(voc, "train", skipped, skip_broken=True, **READ))
        assert table["name"].to_pylist() == ["000017"]
        assert table["id"].to_pylist() == [0]
        assert skipped == ["VOCdevkit/VOC2007/JPEGImages/000012.jpg"]
        assert "1 of 2 files left out, broken: VOCdevkit/VOC2007/JPEGImages/000012.jpg" in caplog.text

    def test_an_unknown_split_is_refused(self, voc):
        with pytest.raises(ValueError, match="split is 'trainval', expected one of train, val, test"):
            read(voc2007, voc, "trainval")


class TestCocoCaptions:
    def test_restval_is_for_training_and_captions_are_the_first_five(self, coco):
        coco_captions.check(coco)
        table = read(coco_captions, coco, "train")
        assert [name[-5:] for name in table["name"].to_pylist()] == ["0.jpg", "1.jpg", "4.jpg"]
        assert table["captions"][0].as_py() == [f"Picture 0 seen {k} times." for k in range(5)]
        assert table["image"][1].as_py()["path"] == "val2014/COCO_val2014_000000000001.jpg"
        stored(table["image"][1].as_py())
        assert [len(read(coco_captions, coco, split)) for split in ("val", "test")] == [1, 1]

    def test_the_list_may_have_its_other_name_but_not_both(self, coco):
        path = coco / "dataset_coco.json"
        (coco / "dataset.json").write_text(path.read_text())
        with pytest.raises(ValueError, match=r"both dataset_coco\.json and dataset\.json"):
            coco_captions.check(coco)
        path.unlink()
        assert len(read(coco_captions, coco, "train")) == 3
        (coco / "dataset.json").unlink()
        with pytest.raises(FileNotFoundError, match=r"dataset_coco\.json: no such file(.|\n)*Karpathy"):
            coco_captions.check(coco)

    def test_a_missing_folder_or_image_is_named(self, coco):
        (coco / "val2014/COCO_val2014_000000000001.jpg").unlink()
        with pytest.raises(FileNotFoundError, match=r"val2014_000000000001\.jpg: no such file, but .*split train"):
            read(coco_captions, coco, "train")
        (coco / "val2014").rename(coco / "val")
        with pytest.raises(FileNotFoundError, match=r"val2014: no such file or folder(.|\n)*train2014/"):
            coco_captions.check(coco)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda images: images[1]["sentences"].pop(),
                r"images\[1\] \(val2014.*1\.jpg\): 4 captions, expected at least",
            ),
            (lambda images: images[4]["sentences"][2].update(raw=" \n"), r"images\[4\] .*caption 2 is empty"),
            (
                lambda images: images[0].update(split="dev"),
                r"images\[0\]: split is 'dev', expected one of train, restval",
            ),
            (lambda images: images[0].pop("filepath"), r"images\[0\]: no filepath"),
            (lambda images: images.append(images[0]), r"images\[5\]: train2014/.*0\.jpg is there twice"),
            (lambda images: images.insert(0, "x"), r"images\[0\]: no filepath"),
            (lambda images: images[1].update(sentences=["a cat"]), r"images\[1\] .*sentences are no list of objects"),
            (lambda images: images[1].update(sentences=None), r"images\[1\] .*sentences are no list of objects"),
            (lambda images: images[0].update(split=["train"]), r"images\[0\]: split is \['train'\], expected one"),
        ],
    )
    def test_a_fault_in_the_list_is_named(self, coco, change, message):
        whole = json.loads((coco / "dataset_coco.json").read_text())
        change(whole["images"])
        (coco / "dataset_coco.json").write_text(json.dumps(whole))
        with pytest.raises(ValueError, match=message):
            read(coco_captions, coco, "train")

    @pytest.mark.parametrize(
        ("text", "message"), [('{"images": [', "not a whole JSON"), ("[]", "no list `images`"), ("{}", "no list")]
    )
    def test_another_file_is_named(self, coco, text, message):
        (coco / "dataset_coco.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            read(coco_captions, coco, "train")


class TestLamem:
    def test_both_separators_are_understood(self, memorable):
        lamem.check(memorable)
        scores = {}
        for split in reading.SPLITS:
            table = read(lamem, memorable, split)
            scores |= dict(zip(table["name"].to_pylist(), table["score"].to_pylist(), strict=True))
        assert scores == {"a.jpg": 0.5, "b.jpg": 1.0, "c.jpg": 0.25, "d.jpg": 0.0, "e.jpg": 0.75}
        frames = table["frames"][0].as_py()
        assert [frame["path"] for frame in frames] == ["images/e.jpg"]
        stored(frames[0])
        assert table.schema.field("score").type == pa.float32()

    def test_another_fold_has_other_images(self, memorable):
        assert read(lamem, memorable, "test", fold=2)["name"].to_pylist() == ["b.jpg"]
        with pytest.raises(FileNotFoundError, match=r"train_3\.txt: no such file(.|\n)*five folds"):
            lamem.check(memorable, fold=3)
        with pytest.raises(ValueError, match="fold is 0, expected a number from 1"):
            lamem.check(memorable, fold=0)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("a.jpg 1.2", r"train_1\.txt: line 1: score is '1\.2', expected a number in \[0, 1\]"),
            ("a.jpg -0.1", "line 1: score is '-0.1'"),
            ("a.jpg nan", "line 1: score is 'nan'"),
            ("a.jpg high", "line 1: score is 'high'"),
            ("a.jpg", "line 1: 'a.jpg', expected an image and its score"),
            ("b.jpg 0.5", r"line 2: image b\.jpg is there twice"),
        ],
    )
    def test_a_fault_in_a_line_is_named(self, memorable, line, message):
        replace(memorable / "splits/train_1.txt", "a.jpg 0.5", line)
        with pytest.raises(ValueError, match=message):
            read(lamem, memorable, "train")

    def test_an_unknown_file_is_named(self, memorable):
        replace(memorable / "splits/train_1.txt", "a.jpg", "z.jpg")
        with pytest.raises(FileNotFoundError, match=r"images/z\.jpg: no such file, but .*train_1\.txt names it"):
            read(lamem, memorable, "train")


class TestVideomem:
    list_ = "ground-truth/ground-truth_dev-set.csv"
    shares = {"val_share": 0.2, "test_share": 0.2}  # noqa: RUF012

    def test_frames_are_the_middles_of_seven_parts(self, videos):
        videomem.check(videos, **self.shares)
        tables = {split: read(videomem, videos, split, **self.shares) for split in reading.SPLITS}
        assert {split: len(table) for split, table in tables.items()} == {"train": 3, "val": 1, "test": 1}
        scores = {}
        for table in tables.values():
            scores |= dict(zip(table["name"].to_pylist(), table["score"].to_pylist(), strict=True))
            for name, frames in zip(table["name"].to_pylist(), table["frames"].to_pylist(), strict=True):
                count = 7 + 5 * int(name[5])
                expected = [8 * int((part + 0.5) * count / 7) for part in range(7)]
                assert [stored(frame).mean() for frame in frames] == pytest.approx(expected, abs=3)
                assert {frame["path"] for frame in frames} == {f"sources/{name}"}
        assert scores == pytest.approx({f"video{k}.mp4": (9 - k) / 10 for k in range(5)})

    @pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9"])
    def test_webm_is_read(self, tmp_path, codec):
        film(tmp_path / "a.webm", 30, codec)
        frames = videomem._frames(tmp_path / "a.webm", SIZE)
        levels = [stored({"bytes": frame}).mean() for frame in frames]
        assert levels == pytest.approx([8 * k for k in (2, 6, 10, 15, 19, 23, 27)], abs=4)

    def test_a_wrong_number_of_packets_does_no_harm(self, videos, monkeypatch):
        expected = videomem._frames(videos / "sources/video3.mp4", SIZE)
        monkeypatch.setattr(videomem, "_packets", lambda path: 60)
        assert videomem._frames(videos / "sources/video3.mp4", SIZE) == expected

    def test_the_other_score_and_another_folder(self, videos):
        (videos / "sources").rename(videos / "Videos")
        options = {"target": "long-term_memorability", "videos": "Videos", **self.shares}
        videomem.check(videos, **options)
        table = read(videomem, videos, "val", **options)
        assert table["score"].to_pylist() == pytest.approx([int(table["name"][0].as_py()[5]) / 10])
        with pytest.raises(ValueError, match="target is 'fame', expected short-term_memorability or long-term"):
            videomem.check(videos, target="fame")

    def broken(self, videos, name):
        with pytest.raises(images_io.BrokenFile) as error:
            videomem._frames(videos / "sources" / name, SIZE)
        return str(error.value)

    def test_a_short_video_is_named_or_left_out(self, videos):
        film(videos / "sources/video1.mp4", 6)
        assert "video1.mp4: 6 frames, expected at least 7" in self.broken(videos, "video1.mp4")
        names, skipped = [], []
        for split in reading.SPLITS:
            for table in videomem.tables(videos, split, skipped, skip_broken=True, **READ, **self.shares):
                names += table["name"].to_pylist()
        assert sorted(names) == [f"video{k}.mp4" for k in (0, 2, 3, 4)]
        assert skipped == ["sources/video1.mp4"]

    def test_a_broken_video_is_named(self, videos):
        path = videos / "sources/video4.mp4"
        truncate(path)
        assert "video4.mp4: cannot be decoded" in self.broken(videos, "video4.mp4")
        path.write_bytes(b"no video")
        assert "video4.mp4: cannot be decoded" in self.broken(videos, "video4.mp4")
        path.write_bytes(b"")
        assert "video4.mp4: cannot be decoded" in self.broken(videos, "video4.mp4")

    def test_a_video_that_was_cut_off_is_named(self, videos):
        film(videos / "sources/a.webm", 30, "libvpx")
        path = videos / "sources/a.webm"
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.7)])
        assert "a.webm: cut off, it ends after" in self.broken(videos, "a.webm")

    def test_a_sound_alone_is_no_video(self, videos):
        import av

        with av.open(str(videos / "sources/a.wav"), "w") as container:
            stream = container.add_stream("pcm_s16le", rate=8000)
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
            frame.sample_rate = 8000
            container.mux(stream.encode(frame))
            container.mux(stream.encode())
        assert "a.wav: cannot be decoded (it has no pictures)" in self.broken(videos, "a.wav")

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("video1.mp4,0.8", "video1.mp4,1.8", r"dev-set\.csv: line 3: score is '1\.8'"),
            ("video1.mp4,0.8", "video1.mp4,", "line 3: score is ''"),
            ("video1.mp4,0.8", "video0.mp4,0.8", r"line 3: video video0\.mp4 is there twice"),
            ("video1.mp4,0.8", ",0.8", "line 3: no video is named"),
            ("video1.mp4,0.8", "video1.mp4", "line 3: 3 cells, expected 4"),
            ("video,short", "clip,short", r"no column video; it has clip, short-term"),
        ],
    )
    def test_a_fault_in_the_list_is_named(self, videos, old, new, message):
        replace(videos / self.list_, old, new)
        with pytest.raises(ValueError, match=message):
            videomem.check(videos)

    def test_an_unknown_video_or_an_empty_list_is_named(self, videos):
        for number in range(5):
            (videos / f"sources/video{number}.mp4").unlink()
        with pytest.raises(FileNotFoundError, match=r"sources/video\d\.mp4: no such file, but .*\(3 of 3 files"):
            read(videomem, videos, "train", **self.shares)
        (videos / self.list_).write_text("\n")
        with pytest.raises(ValueError, match=r"dev-set\.csv: empty, expected a line with the columns video"):
            videomem.check(videos)
        (videos / self.list_).unlink()
        with pytest.raises(FileNotFoundError, match=r"dev-set\.csv: no such file(.|\n)*video1\.webm"):
            videomem.check(videos)

    def test_the_missing_package_is_named(self, videos, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "av", None)
        with pytest.raises(ValueError, match="read with PyAV, which is missing .*pip install av"):
            videomem.check(videos)


class TestArc:
    def test_the_first_label_has_the_highest_rank(self, views):
        arc.check(views)
        table = read(arc, views, "train")
        assert table["name"].to_pylist() == ["a.jpg", "in/b.png"]
        assert table["label_ranks"].to_pylist() == [[1, 2, 0, 0], [1, 2, 3, 0]]  # sky, sea, tree, rock
        assert table["image"][1].as_py()["path"] == "images/in/b.png"
        assert json.loads(table.schema.metadata[b"classes"]) == ["sky", "sea", "tree", "rock"]
        assert read(arc, views, "val")["label_ranks"].to_pylist() == [[1, 0, 0, 0]]

    def test_classes_may_stand_in_the_params(self, views):
        (views / "classes.txt").unlink()
        with pytest.raises(FileNotFoundError, match=r"classes\.txt: no such file(.|\n)*option `classes`"):
            arc.check(views)
        table = read(arc, views, "test", classes=["tree", "sea", "sky"])
        assert table["label_ranks"].to_pylist() == [[2, 0, 1]]
        with pytest.raises(ValueError, match=r"classes: \['a', 'a'\], expected two or more names"):
            arc.check(views, classes=["a", "a"])

    def test_without_splits_they_are_made_by_seed(self, views):
        lines = (views / "labels.csv").read_text().splitlines()
        cells = [line.split(",") for line in lines]
        (views / "labels.csv").write_text("\n".join(",".join([row[0], *row[2:]]) for row in cells))
        shares = {"val_share": 0.25, "test_share": 0.25}
        names = [read(arc, views, split, **shares)["name"].to_pylist() for split in reading.SPLITS]
        assert [len(part) for part in names] == [2, 1, 1]
        assert sorted(name for part in names for name in part) == ["a.jpg", "c.jpg", "d.jpg", "in/b.png"]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("sea,sky,\n", "sea,lake,\n", r"labels\.csv: line 2: unknown class 'lake'; there are sky, sea"),
            ("sea,sky,\n", "sea,sea,\n", "line 2: labels are .* expected each class once"),
            ("sea,sky,\n", "sea,,sky\n", "line 2: labels are .* without gaps"),
            ("sea,sky,\n", ",,\n", "line 2: labels are .* without gaps"),
            ("c.jpg,val", "a.jpg,val", r"line 4: image a\.jpg is there twice"),
            ("c.jpg,val", "c.jpg,dev", "line 4: split is 'dev'"),
            ("c.jpg,val", ",val", "line 4: no image is named"),
            ("split,label1", "spilt,label1", "unknown column spilt"),
            ("label3", "label4", "no column label3"),
            ("image,split", "image,image", "column image is there twice"),
            ("c.jpg", "c" * 200_000, "line 4: no line of a CSV file"),
        ],
    )
    def test_a_fault_in_the_list_is_named(self, views, old, new, message):
        replace(views / "labels.csv", old, new)
        with pytest.raises(ValueError, match=message):
            arc.check(views)

    def test_a_missing_image_and_a_split_without_images_are_named(self, views):
        replace(views / "labels.csv", "c.jpg,val", "c.jpg,test")
        with pytest.raises(ValueError, match=r"labels\.csv \(split val\): names no file"):
            read(arc, views, "val")
        (views / "images/c.jpg").unlink()
        with pytest.raises(FileNotFoundError, match=r"images/c\.jpg: no such file, but"):
            read(arc, views, "test")


ALL = {
    "voc2007": ("voc", {}),
    "coco_captions": ("coco", {}),
    "lamem": ("memorable", {}),
    "videomem": ("videos", {"val_share": 0.2, "test_share": 0.2}),
    "arc": ("views", {}),
}
MODULES = {"voc2007": voc2007, "coco_captions": coco_captions, "lamem": lamem, "videomem": videomem, "arc": arc}


@pytest.fixture
def run(request, tmp_path, monkeypatch):
    """Runs the stage on the small copy of a dataset."""
    monkeypatch.chdir(tmp_path)

    def run(name, snapshot=1, **more):
        fixture, options = ALL[name]
        request.getfixturevalue(fixture)
        block = SimpleNamespace(size=SIZE, args=options | more, seed=1)
        data = SimpleNamespace(snapshot=snapshot)
        params = SimpleNamespace(real_data={name: block}, data=data, compute=SimpleNamespace(threads=2))
        real_data.main(params, name)
        return tmp_path / "data" / name

    return run


def said_of(module, folder):
    """What is said against a dataset, or None."""
    rows = json.loads((folder / "manifest.json").read_text())["rows"]
    facts = [pd.DataFrame(module.measure(folder, split)) for split in rows]
    suite = Suite(
        "rows", pd.concat(facts, ignore_index=True), module.expectations(rows=rows, size=SIZE), ["split", "id"]
    )
    try:
        validate(folder.name, [suite], report=folder.parent / "validation")
    except ExpectationsFailed as failed:
        return str(failed)
    return None


def changed(folder, column, change, split="train"):
    """Changes the first cell of a column of a split."""
    path = folder / f"{split}.parquet"
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[0] = change(values[0])
    kind = table.schema.field(column)
    pq.write_table(table.set_column(table.column_names.index(column), kind, pa.array(values, kind.type)), path)


def half(photo):
    return photo | {"bytes": photo["bytes"][: len(photo["bytes"]) // 2]}


def gray(photo):
    buffer = BytesIO()
    Image.new("L", (SIZE, SIZE)).save(buffer, "JPEG")
    return photo | {"bytes": buffer.getvalue()}


def larger(photo):
    return photo | {"bytes": images_io.as_jpeg(Image.new("RGB", (SIZE + 1, SIZE)))}


FAULTS = [
    ("voc2007", "labels", lambda row: [2, *row[1:]], "labels_are_0_or_1"),
    ("voc2007", "labels", lambda row: [0] * 20, "labels: expect_column_values_to_be_between"),
    ("voc2007", "difficult", lambda row: [True] * 20, "difficult_are_present"),
    ("voc2007", "image", half, "decodes"),
    ("voc2007", "image", gray, "mode = L"),
    ("voc2007", "image", larger, "size = 33 x 32"),
    ("voc2007", "name", lambda name: "", "name: expect_column_value_lengths"),
    ("coco_captions", "captions", lambda row: [" ", *row[1:]], "shortest_caption"),
    ("coco_captions", "id", lambda number: 1, "split, id: expect_compound_columns"),
    ("lamem", "score", lambda score: 1.5, "score = 1.5"),
    ("lamem", "score", lambda score: None, "score: expect_column_values_to_not_be_null"),
    ("lamem", "frames", lambda frames: [gray(frames[0])], "mode = L"),
    ("videomem", "score", lambda score: -0.5, "score = -0.5"),
    ("videomem", "frames", lambda frames: [*frames[:6], half(frames[6])], "decodes"),
    ("videomem", "frames", lambda frames: [*frames[:6], larger(frames[6])], "size = 32 x 32, 33 x 32"),
    ("arc", "label_ranks", lambda row: [1, 3, 0, 0], "ranks_are_1_upwards"),
    ("arc", "label_ranks", lambda row: [1, 2, 3, 4], "labels = 4"),
]


class TestStage:
    @pytest.mark.parametrize("name", ALL)
    def test_writes_tables_that_hold_what_is_expected(self, run, name):
        folder = run(name)
        manifest = json.loads((folder / "manifest.json").read_text())
        rows = {split: pq.read_metadata(folder / f"{split}.parquet").num_rows for split in reading.SPLITS}
        assert manifest["rows"] == rows
        assert manifest["options"] == {"size": SIZE, "seed": 1, "args": ALL[name][1]}
        assert manifest["skipped"]["train"] == {"files": 0, "names": []}
        assert said_of(MODULES[name], folder) is None

    def test_tasks_read_what_was_written(self, run):
        images, labels, difficult = multilabel.load_split(run("voc2007"), "train", threads=1)
        assert images.shape == (2, 3, SIZE, SIZE)
        assert labels.sum(1).tolist() == [1, 2]
        assert difficult.sum(1).tolist() == [0, 1]
        images, captions, _ = retrieval.load_split(run("coco_captions"), "train", threads=1)
        assert images.shape == (3, 3, SIZE, SIZE)
        assert [len(several) for several in captions] == [5, 5, 5]
        images, label_ranks = label_ranking.load_split(run("arc"), "train", threads=1)
        assert images.shape == (2, 3, SIZE, SIZE)
        assert label_ranks.amax(1).tolist() == [2, 3]
        for name, frames in (("lamem", 1), ("videomem", 7)):
            images, scores = memorability.load_split(run(name), "train", threads=1)
            assert images.shape[1:] == (frames, 3, SIZE, SIZE)
            assert len(images) == len(scores)

    @pytest.mark.parametrize("name", ALL)
    def test_is_the_same_again(self, run, name):
        folder = run(name)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        run(name)
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}

    @pytest.mark.parametrize(("name", "column", "change", "expected"), FAULTS)
    def test_a_planted_fault_is_named(self, run, name, column, change, expected):
        folder = run(name)
        changed(folder, column, change)
        said = said_of(MODULES[name], folder)
        assert said is not None
        assert expected in said
        assert f"{name}.rows" in said

    def test_an_image_in_two_splits_and_a_lost_row_are_named(self, run):
        folder = run("lamem")
        pq.write_table(pq.read_table(folder / "train.parquet").slice(0, 1), folder / "test.parquet")
        said = said_of(lamem, folder)
        assert "file = images/a.jpg" in said
        pq.write_table(pq.read_table(folder / "train.parquet").slice(0, 1), folder / "train.parquet")
        said = said_of(lamem, folder)
        assert "split_rows = train: 1" in said
        assert "expect_table_row_count_to_equal" in said

    def test_a_missing_column_is_named(self, run):
        folder = run("lamem")
        pq.write_table(pq.read_table(folder / "val.parquet").drop(["frames"]), folder / "val.parquet")
        with pytest.raises(ValueError, match=r"val\.parquet: no column frames; it has id, name, score"):
            lamem.measure(folder, "val")

    def test_what_was_left_out_stands_in_the_manifest(self, run, memorable):
        truncate(memorable / "images/b.jpg")
        folder = run("lamem", skip_broken=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["rows"] == {"train": 1, "val": 2, "test": 1}
        assert manifest["skipped"]["train"] == {"files": 1, "names": ["images/b.jpg"]}
        assert said_of(lamem, folder) is None

    def test_a_failure_leaves_what_was_there_before(self, run, memorable, tmp_path):
        folder = run("lamem")
        before = (folder / "train.parquet").read_bytes()
        truncate(memorable / "images/e.jpg")
        with pytest.raises(ValueError, match=r"e\.jpg: not a whole image"):
            run("lamem")
        with pytest.raises(ValueError, match="nothing is left of test: all of its files are broken"):
            run("lamem", skip_broken=True)
        assert (folder / "train.parquet").read_bytes() == before
        assert sorted(path.name for path in folder.parent.iterdir()) == ["lamem", "raw"]

    @pytest.mark.parametrize("name", ALL)
    def test_a_missing_dataset_is_named_with_its_layout(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        block = SimpleNamespace(size=SIZE, args={}, seed=1)
        data = SimpleNamespace(snapshot=1)
        params = SimpleNamespace(real_data={name: block}, data=data, compute=SimpleNamespace(threads=1))
        with pytest.raises(FileNotFoundError, match=rf"data/raw/{name}/.*: no such file or folder(.|\n)*{name}/"):
            real_data.main(params, name)


class TestDeliveries:
    @pytest.fixture
    def dated(self, views):
        """The first delivery, and two more of other photos: one with all splits, one for training alone."""
        inside = list(views.iterdir())
        first = views / "first"
        first.mkdir()
        for path in inside:
            path.rename(first / path.name)
        for number, day in enumerate(("2026-10-01", "2026-11-01")):
            folder = views / day
            lines = ["image,split,label1,label2,label3"]
            for place, split in enumerate(reading.SPLITS):
                save(folder / f"images/{day}-{place}.jpg", 10 * (number + 1) + place)
                lines.append(f"{day}-{place}.jpg,{split if number == 0 else 'train'},sky,sea,")
            (folder / "labels.csv").write_text("\n".join(lines) + "\n")
            (folder / "classes.txt").write_text("sky\nsea\ntree\nrock\n")
        return views

    def test_later_ones_add_training_rows_up_to_the_snapshot(self, dated, run):
        names, tested = [], set()
        for snapshot in (1, 2, 3, 4):  # the fourth has not come in yet
            folder = run("arc", snapshot=snapshot)
            assert said_of(arc, folder) is None
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

    def test_with_other_classes_or_files_beside_them_are_refused(self, dated, run):
        (dated / "2026-10-01/classes.txt").write_text("sea\nsky\ntree\nrock\n")
        with pytest.raises(ValueError, match=r"a delivery has columns .*sea.*sky.*the first one"):
            run("arc", snapshot=2)
        (dated / "labels.csv").write_text("")
        with pytest.raises(ValueError, match=r"labels.csv beside the folder first"):
            run("arc", snapshot=2)
        (dated / "labels.csv").unlink()
        (dated / "2026-10-01").rename(dated / "2026-13-01")
        with pytest.raises(ValueError, match="2026-13-01: month must be in 1..12"):
            run("arc", snapshot=2)

    def test_with_few_photos_and_no_splits_are_trained_on_whole(self, dated, run):
        for day in ("2026-10-01", "2026-11-01"):
            path = dated / day / "labels.csv"
            path.write_text("\n".join(",".join(line.split(",")[:1] + line.split(",")[2:])
                                      for line in path.read_text().splitlines()) + "\n")  # fmt: skip
        assert len(pq.read_table(run("arc", snapshot=3) / "train.parquet")) == 8

    @pytest.mark.parametrize("name", ALL)
    def test_a_dataset_as_a_delivery_is_read_whole(self, request, name):
        raw = request.getfixturevalue(ALL[name][0])
        splits = [read(MODULES[name], raw, split, **ALL[name][1]) for split in reading.SPLITS]
        whole = read(MODULES[name], raw, "all", **ALL[name][1])
        assert sorted(whole["name"].to_pylist()) == sorted(pa.concat_tables(splits)["name"].to_pylist())

    def test_without_a_first_one_are_refused(self, dated, run):
        (dated / "first").rename(dated / "2026-09-01")
        with pytest.raises(ValueError, match="2026-09-01, but no folder first, from which validation and test come"):
            run("arc")

    def test_an_incomplete_one_is_named_with_the_layout(self, dated, run):
        (dated / "2026-10-01/labels.csv").unlink()
        with pytest.raises(FileNotFoundError, match=r"2026-10-01/labels.csv: no such file(.|\n)*labels.csv +with"):
            run("arc", snapshot=2)
        assert run("arc", snapshot=1).is_dir()


def test_drawing_splits_does_not_touch_the_global_state():
    before = torch.get_rng_state()
    options = {"val_share": 0.2, "test_share": 0.2, "seed": 1, "use": "test", "listed_in": "x"}
    reading.share_of([str(number) for number in range(9)], "train", **options)
    assert torch.get_rng_state().equal(before)


def test_the_examples_in_the_documentation_are_of_known_options():
    text = (Path(__file__).parents[1] / "docs/real_data.md").read_text()
    seen = {}
    for part in text.split("```yaml\n")[1:]:
        example = YAML(typ="safe").load(part.split("```")[0])
        for name, block in example["real_data"].items():
            seen[name] = block
            assert set(block) == {"size", "args", "seed"}
            assert set(block["args"]) <= set(lookup.options(MODULES[name].check))
        assert {run["dataset"] for runs in list(example.values())[1:] for run in runs.values()} <= set(seen)
    assert set(seen) == set(MODULES)


@pytest.mark.parametrize("name", ALL)
def test_check_and_tables_take_the_same_options(name):
    of = lambda function: set(lookup.options(function)) - {"size", "threads", "seed"}  # noqa: E731
    assert of(MODULES[name].tables) == of(MODULES[name].check)
    assert f"{name}/" in MODULES[name].LAYOUT


def test_lists_that_windows_wrote_are_read_alike(memorable, views):
    """With the mark of UTF-8 at their begin, which is part of no name."""
    for path in (memorable / "splits/train_1.txt", views / "labels.csv", views / "classes.txt"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read(lamem, memorable, "train")["name"].to_pylist() == ["a.jpg", "b.jpg"]
    assert read(arc, views, "train")["label_ranks"].to_pylist() == [[1, 2, 0, 0], [1, 2, 3, 0]]

"""Digits, score vectors and the tables that all datasets are stored in."""

import gzip
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dvc.repo import Repo

from pipelines.cli.data import fetch
from pipelines.config.schema import check_shapes
from pipelines.expectations import ExpectationsFailed
from pipelines.stages import score_vectors as score_vectors_stage
from rankgrad.datasets.scenes import digits, mnist
from rankgrad.datasets.vectors import score_vectors
from rankgrad.inputs.image import Image
from rankgrad.io.parquet import encode_images, matrix, read_table
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import derived_seed

from conftest import ROOT, SUBSET, git, params_of, with_cell  # isort: skip


class TestMnist:
    @pytest.fixture
    def files(self, tmp_path, monkeypatch):
        """Four files in MNIST's format with contents of their own, packed, and their sums."""
        contents = {}
        for number, name in enumerate(mnist.FILES):
            rows = 30 if name.startswith("train") else 12
            header, values = [0x801, rows], np.arange(rows, dtype=np.uint8) % 10
            if "images" in name:
                header = [0x803, rows, 28, 28]
                values = np.random.default_rng(number).integers(0, 256, (rows, 28, 28), dtype=np.uint8)
                values[7] = values[2]  # a picture that stands there twice
            contents[name] = np.array(header, ">u4").tobytes() + values.tobytes()
        monkeypatch.setattr(mnist, "FILES", {name: hashlib.md5(raw).hexdigest() for name, raw in contents.items()})
        root = tmp_path / "given" / "MNIST" / "raw"
        root.mkdir(parents=True)
        for name, raw in contents.items():
            (root / f"{name}.gz").write_bytes(gzip.compress(raw))
        return root

    def test_is_found_in_any_form_copied_and_read(self, files, tmp_path):
        plain, in_a_folder, *_ = sorted(files.iterdir())
        plain.with_suffix("").write_bytes(gzip.decompress(plain.read_bytes()))
        plain.unlink()
        (files / in_a_folder.stem).mkdir()
        in_a_folder.rename(files / in_a_folder.stem / in_a_folder.name)
        mnist.copy(tmp_path / "given", tmp_path / "raw")
        images, labels = mnist.read(tmp_path / "raw", test=True)
        assert images.shape == (12, 28, 28)
        assert labels.tolist() == [*range(10), 0, 1]
        tables = [digits.table(of_split) for of_split in digits.splits("mnist", tmp_path / "raw").values()]
        assert (len(tables[0]) + len(tables[1]), len(tables[2])) == (29, 11)  # no picture is in two
        for column in ("glyph", "pixels"):
            assert len({str(value) for table in tables for value in table[column].to_pylist()}) == 40

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            (lambda file: file.write_bytes(gzip.compress(bytes(23_531))), ValueError, "23531 bytes"),
            (lambda file: file.write_bytes(file.read_bytes()[:-20]), ValueError, "damaged"),
            (lambda file: shutil.copy(file.with_name("t10k-labels-idx1-ubyte.gz"), file), ValueError, "t10k-labels"),
            (lambda file: file.unlink(), FileNotFoundError, ""),
        ],
    )
    def test_a_damaged_or_missing_file_is_named_and_not_copied(self, files, tmp_path, change, error, message):
        change(files / "train-images-idx3-ubyte.gz")
        for read in (lambda: mnist.copy(files, tmp_path / "raw"), lambda: mnist.check(files)):
            with pytest.raises(error, match=rf"train-images-idx3-ubyte.*{message}"):
                read()
        assert not (tmp_path / "raw/train-images-idx3-ubyte").exists()
        with pytest.raises(FileNotFoundError, match="RANKGRAD_MNIST_ROOT"):
            mnist.copy(tmp_path / "nowhere", tmp_path / "raw")

    def test_what_is_fetched_is_in_dvc_and_not_in_git_and_is_not_fetched_again(self, files, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        git("init", "--quiet")
        Repo.init(".").close()
        shutil.copy(ROOT / ".gitignore", tmp_path)
        monkeypatch.setenv("RANKGRAD_MNIST_ROOT", str(files))
        fetch(["mnist"])
        monkeypatch.setenv("RANKGRAD_MNIST_ROOT", str(tmp_path / "nowhere"))
        shutil.rmtree("data/raw/mnist")
        with Repo() as repo:
            repo.checkout()  # of the cache, which travels by `dvc push`
        fetch(["mnist"])
        assert mnist.read("data/raw/mnist", test=True)[1].tolist() == [*range(10), 0, 1]
        untracked = git("status", "--porcelain", "--untracked-files", "data")
        assert ("data/raw/mnist.dvc" in untracked, "ubyte" in untracked) == (True, False)

    @pytest.mark.skipif("RANKGRAD_MNIST_ROOT" not in os.environ, reason="set RANKGRAD_MNIST_ROOT to the real files")
    def test_the_real_files_are_read_and_the_subset_is_of_them(self, tmp_path):
        mnist.copy(os.environ["RANKGRAD_MNIST_ROOT"], tmp_path)
        full = digits.splits("mnist", tmp_path)
        for split, subset in digits.splits("subset", SUBSET).items():
            rows = full[split].rows_of(subset.glyph)
            assert full[split].images[rows].equal(subset.images)
            assert full[split].labels[rows].equal(subset.labels)


def test_the_digits_that_ship_are_as_many_of_each_class_and_in_one_split():
    splits = digits.splits("subset", SUBSET)
    for split, of_each in {"train": 700, "val": 200, "test": 500}.items():
        assert splits[split].labels.bincount().tolist() == [of_each] * 10
    pictures = {image.numpy().tobytes() for of_split in splits.values() for image in of_split.images}
    assert len(pictures) == 14000


def test_a_subset_that_is_not_as_it_ships_is_told_where_to_get_it(tmp_path):
    shutil.copytree(SUBSET, tmp_path, dirs_exist_ok=True)
    pq.write_table(pq.read_table(SUBSET / "val.parquet").slice(1), tmp_path / "val.parquet")
    with pytest.raises(ValueError, match=r"val\.parquet: .*git checkout"):
        digits.splits("subset", tmp_path)
    (tmp_path / "val.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"val\.parquet: .*git checkout"):
        digits.splits("subset", tmp_path)


def test_vectors_that_sorters_learn_from_have_exact_ranks_and_faulty_ones_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = {"length": 8, "rows": {"train": 120, "val": 60, "test": 60}}
    params = check_shapes(params_of({"score_vectors": {"sodeep": few}}))
    score_vectors_stage.main(params, "sodeep")
    score_vectors_stage.check(params, "sodeep")
    passed, path = Path("checks/score_vectors/sodeep.passed"), Path("data/score_vectors/sodeep/train.parquet")
    assert passed.is_file()
    scores, ranks, kinds = score_vectors.load(path.parent, "val")
    assert scores.shape == (60, 8)
    assert ranks.equal(exact_ranks(scores))
    assert kinds.min() >= 0
    table = pq.read_table(path)
    for change in (
        with_cell("ranks", 2, lambda ranks: [ranks[0] + 1, *ranks[1:]]),
        with_cell("scores", 3, lambda scores: [float("nan"), *scores[1:]]),
        lambda table: table.set_column(1, "kind", pa.array([1] * len(table))),
    ):
        table = change(table)
    pq.write_table(table, path)
    with pytest.raises(ExpectationsFailed) as error:
        score_vectors_stage.check(params, "sodeep")
    for fault in ("train, id 2: largest_rank_error = 1.0", "train, id 3: finite = False", "vectors: kind"):
        assert fault in str(error.value)
    assert not passed.exists()


class TestTables:
    def test_images_of_another_size_or_form_are_named(self, tmp_path):
        path = tmp_path / "some.parquet"
        sizes = pa.concat_arrays([encode_images(np.zeros((1, side, side), np.uint8), threads=1) for side in (9, 8)])
        for images, message in ((sizes, r"row 1: .*8, 8\).*9, 9\)"), ([b"PNG"], ".*struct<bytes")):
            pq.write_table(pa.table({"image": images}), path)
            with pytest.raises(ValueError, match=rf"some\.parquet: {message}"):
                Image.read(path, lists=False, threads=1, memory=1.0)

    def test_a_corrupt_file_a_missing_column_and_one_of_no_matrix_are_named(self, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"a": [[1, 2], [3]]}), path)
        with pytest.raises(ValueError, match="column b"):
            read_table(path, ["b"])
        with pytest.raises(ValueError, match=r"t\.parquet: column a: .*expected 1"):
            matrix(read_table(path, ["a"]), "a", path=path)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(ValueError, match=r"t\.parquet: not a complete"):
            read_table(path, ["a"])


def test_each_use_has_a_seed_of_its_own_and_keeps_it():
    """If one changed, every made dataset would be another one."""
    assert digits.DIGITS_OF["gate"] == digits.DIGITS_OF["val"]
    assert len({digits.DIGITS_OF[split] for split in ("train", "val", "test")}) == 3  # none is seen in two
    digest = hashlib.sha256(b"1/ranked_mnist/train").hexdigest()
    assert derived_seed(1, "ranked_mnist", "train") == int(digest[:12], 16)
    assert len({derived_seed(*use) for use in ((1, "ab"), (1, "a", "b"), (1, "1"), (11,), (1,))}) == 5

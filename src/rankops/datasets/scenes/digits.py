"""Handwritten digits, 28 x 28 with labels, in disjoint splits: MNIST, or those that scikit-learn ships."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from rankops.datasets.expected import between, frequencies, in_set, unique
from rankops.datasets.scenes import mnist
from rankops.io.parquet import read_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLASSES", "DIGITS_OF", "Digits", "expectations", "load", "measure", "splits", "tables"]

SPLITS = ("train", "val", "test")
# Whose digits the scenes of a split are made of. The gate's are those on which epochs are chosen, not the test's: it
# decides on models again and again, and the reported test set must not know of that.
DIGITS_OF = {"train": "train", "val": "val", "test": "test", "gate": "val"}
CLASSES = 10
SIDE = 28
PIXELS = pa.binary(SIDE * SIDE)


@dataclass(frozen=True)
class Digits:
    """One split. `glyph` numbers digits over all splits, so that a digit in two of them is seen."""

    glyph: torch.Tensor  # (n,) int64
    images: torch.Tensor  # (n, 28, 28) uint8
    labels: torch.Tensor  # (n,) int64

    def drawn(self, classes: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw a glyph of each class (...), uniformly among the digits of the class.

        Raises:
            ValueError: a class has no digit.
        """
        # Rows of one class stand together after a sort.
        by_class = self.labels.argsort(stable=True)
        counts = torch.bincount(self.labels, minlength=CLASSES)
        if (counts == 0).any():
            raise ValueError(f"no digit of class {int((counts == 0).nonzero()[0])} among {len(by_class)} digits")
        begins = counts.cumsum(0) - counts
        within = (torch.rand(classes.shape, generator=generator) * counts[classes]).long()
        return self.glyph[by_class[begins[classes] + within]]

    def rows_of(self, glyph: torch.Tensor) -> torch.Tensor:
        """Return the rows that hold these glyphs; any row where none does."""
        order = self.glyph.argsort()
        return order[torch.searchsorted(self.glyph[order], glyph).clamp(max=len(order) - 1)]


def _bundled() -> Path:
    """Return the file that `sklearn.datasets.load_digits` reads: to import scikit-learn takes seconds.

    Raises:
        FileNotFoundError: scikit-learn is not installed, or has its digits elsewhere.
    """
    found = find_spec("sklearn")
    places = list(found.submodule_search_locations or []) if found else []
    files = [file for place in places if (file := Path(place) / "datasets/data/digits.csv.gz").is_file()]
    if not files:
        raise FileNotFoundError("scikit-learn's digits are not there: `pip install scikit-learn`, or use MNIST")
    return files[0]


def _enlarged(images: np.ndarray) -> np.ndarray:
    """scikit-learn's 8 x 8 digits of 0..16, at 28 x 28 with a margin like MNIST's."""
    canvas = np.zeros((len(images), SIDE, SIDE), np.uint8)
    for place, image in zip(canvas, (images * (255 / 16)).round().astype(np.uint8), strict=True):
        place[2:26, 2:26] = np.asarray(Image.fromarray(image).resize((24, 24), Image.Resampling.BICUBIC))
    return canvas


def splits(source: str, raw: str | Path, *, seed: int) -> dict[str, Digits]:
    """Return the three splits.

    MNIST: test from its test split, validation a sixth of its train split. Bundled: 60, 20 and 20 %. A digit whose
    pixels stand in the source twice is used once, so that no split knows another's.

    Args:
        source: `mnist` or `bundled`.
        raw: folder of the MNIST files.
        seed: of the split.

    Raises:
        FileNotFoundError, ValueError: MNIST is asked for and is not there, or damaged.
    """
    shuffle = np.random.default_rng(seed)
    if source == "mnist":
        parts = [mnist.read(raw, test=False), mnist.read(raw, test=True)]
        images = np.concatenate([part[0] for part in parts])
        labels = np.concatenate([part[1] for part in parts])
        training = shuffle.permutation(len(parts[0][1]))
        held_out = len(training) // 6
        rows = {
            "train": training[held_out:],
            "val": training[:held_out],
            "test": np.arange(len(training), len(labels)),
        }
    else:
        bundled = np.loadtxt(_bundled(), delimiter=",")  # 64 pixels and the label
        images, labels = _enlarged(bundled[:, :-1].reshape(-1, 8, 8)), bundled[:, -1].astype(np.int64)
        every = shuffle.permutation(len(labels))
        rows = dict(zip(SPLITS, np.split(every, [len(every) * 6 // 10, len(every) * 8 // 10]), strict=True))
    first = np.zeros(len(images), bool)
    first[np.unique([sha256(image.tobytes()).digest() for image in images], return_index=True)[1]] = True
    chosen = {split: np.sort(some[first[some]]) for split, some in rows.items()}
    return {
        split: Digits(*map(torch.from_numpy, (some.astype(np.int64), images[some], labels[some].astype(np.int64))))
        for split, some in chosen.items()
    }


def tables(source: str, raw: str | Path, *, seed: int) -> dict[str, pa.Table]:
    """Return the three splits as tables `glyph`, `label` and `pixels` (784 bytes, row by row).

    They are no PNG: each stage that draws reads tens of thousands of digits, and would decode as many pictures.

    Args:
        source, raw, seed: see `splits`.

    Raises:
        FileNotFoundError, ValueError: see `splits`.
    """
    return {
        split: pa.table(
            {
                "glyph": digits.glyph.numpy(),
                "label": digits.labels.numpy(),
                "pixels": pa.FixedSizeBinaryArray.from_buffers(
                    PIXELS, len(digits.images), [None, pa.py_buffer(digits.images.numpy())]
                ),
            }
        )
        for split, digits in splits(source, raw, seed=seed).items()
    }


def load(folder: str | Path, split: str) -> Digits:
    """Read one split of `data/digits`.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["glyph", "label", "pixels"])
    if read["pixels"].type != PIXELS or read["pixels"].null_count:
        raise ValueError(f"{path}: column pixels is {read['pixels'].type}, expected {PIXELS} without missing values")
    pixels = torch.frombuffer(bytearray(b"".join(read["pixels"].to_pylist())), dtype=torch.uint8)
    return Digits(
        torch.from_numpy(read["glyph"].to_numpy().copy()),
        pixels.view(-1, SIDE, SIDE),
        torch.from_numpy(read["label"].to_numpy().copy()),
    )


def measure(folder: str | Path, split: str) -> "dict[str, pd.DataFrame]":
    """Return what the expectations are held against, a row a digit."""
    import pandas as pd  # takes half a second to import; only validation needs it

    digits = load(folder, split)
    images = digits.images.numpy()
    facts = {
        "split": split,
        "glyph": digits.glyph.numpy(),
        "label": digits.labels.numpy(),
        "ink": images.reshape(len(images), -1).mean(1),
        "pixels": [sha256(image.tobytes()).hexdigest() for image in images],
    }
    return {"digits": pd.DataFrame(facts).set_index(["split", "glyph"])}


def expectations(rows: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """Return what must hold, see `rankops.datasets.expected`.

    Args:
        rows: of each split, as the manifest has them.
    """
    return {
        "digits": [
            {"type": "expect_table_row_count_to_equal", "value": sum(rows.values())},
            in_set("split", *rows),
            in_set("label", *range(CLASSES)),
            unique("glyph"),
            unique("pixels"),
            between("ink", 1.0, 160.0),
            # People write some digits more often than others, however many they write.
            frequencies("label", dict.fromkeys(range(CLASSES), 1 / CLASSES), total=1) | {"threshold": 0.05},
        ]
    }

"""Handwritten digits, 28 x 28 with labels, in disjoint splits: MNIST, or the subset that ships with the project."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from rankgrad.datasets.scenes import mnist

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CLASSES", "DIGITS_OF", "Digits", "load", "read", "splits", "table"]

# SHA-256 of the tables that ship with the project.
SUBSET = {
    "train": "3c853d9b28ca3a328cb07199a62c86e150b395e9fd6280f89d94159a4ec4343c",
    "val": "22255eab8a16d94f049384a745973020273ec3d6140a6da5f6cfa01e64202cb3",
    "test": "a09054c4c20608ca851252b581570773035ae091abb2e67113bdba991b99d1e9",
}
SEED = 1  # for the choice of validation digits from MNIST's train split
# The digits of each split's scenes. The gate uses validation digits rather than test digits: its repeated decisions
# must not depend on the test set.
DIGITS_OF = {"train": "train", "val": "val", "test": "test", "gate": "val"}
CLASSES = 10
SIDE = 28


@dataclass(frozen=True)
class Digits:
    """One split. `glyph` numbers digits over all splits, so a digit in two splits can be detected."""

    glyph: torch.Tensor  # (n,) int64
    images: torch.Tensor  # (n, 28, 28) uint8
    labels: torch.Tensor  # (n,) int64

    def drawn(self, classes: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw a glyph of each class (...), uniformly among the digits of the class.

        Raises:
            ValueError: a class has no digit.
        """
        # Sort rows by class.
        by_class = self.labels.argsort(stable=True)
        counts = torch.bincount(self.labels, minlength=CLASSES)
        if (counts == 0).any():
            raise ValueError(f"no digit of class {int((counts == 0).nonzero()[0])} among {len(by_class)} digits")
        begins = counts.cumsum(0) - counts
        within = (torch.rand(classes.shape, generator=generator) * counts[classes]).long()
        return self.glyph[by_class[begins[classes] + within]]

    def rows_of(self, glyph: torch.Tensor) -> torch.Tensor:
        """Return the rows that hold these glyphs; an arbitrary row for unknown glyphs."""
        order = self.glyph.argsort()
        return order[torch.searchsorted(self.glyph[order], glyph).clamp(max=len(order) - 1)]


def read(raw: str | Path) -> dict[str, Digits]:
    """Return the splits of `data/raw/subset` or `data/raw/mnist`, see `splits`."""
    return splits(Path(raw).name, raw)


def splits(source: str, raw: str | Path) -> dict[str, Digits]:
    """Return the three splits, which are always the same.

    For MNIST, test is its test split, and validation a sixth of its train split. Digits whose pixels occur twice in
    MNIST are used once, so that no split shares digits with another. The subset has the first digits of each class in
    each of these splits.

    Args:
        source: `mnist` or `subset`.
        raw: folder of the MNIST files, or of the subset's tables.

    Raises:
        FileNotFoundError, ValueError: the files are missing or damaged.
    """
    if source == "subset":
        for split, digest in SUBSET.items():
            path = Path(raw) / f"{split}.parquet"
            if not path.is_file() or sha256(path.read_bytes()).hexdigest() != digest:
                raise (ValueError if path.is_file() else FileNotFoundError)(
                    f"{path}: missing or changed; restore it with `git checkout {Path(raw)}`"
                )
        return {split: load(raw, split) for split in SUBSET}
    halves = [mnist.read(raw, test=False), mnist.read(raw, test=True)]
    images = np.concatenate([half[0] for half in halves])
    labels = np.concatenate([half[1] for half in halves])
    training = np.random.default_rng(SEED).permutation(len(halves[0][1]))
    held_out = len(training) // 6
    rows = {
        "train": training[held_out:],
        "val": training[:held_out],
        "test": np.arange(len(training), len(labels)),
    }
    first = np.zeros(len(images), bool)
    first[np.unique([sha256(image.tobytes()).digest() for image in images], return_index=True)[1]] = True
    digits_of_split = {}
    for split, numbers in rows.items():
        glyph = np.sort(numbers[first[numbers]]).astype(np.int64)
        digits_of_split[split] = Digits(*map(torch.from_numpy, (glyph, images[glyph], labels[glyph].astype(np.int64))))
    return digits_of_split


def table(digits: Digits) -> "pa.Table":
    """Return a split as a table with `glyph`, `label`, and `pixels` (784 bytes, row by row), which `load` reads.

    Pixels are not PNG, since each stage that draws would have to decode tens of thousands of pictures.
    """
    import pyarrow as pa  # reading MNIST itself does not need it

    buffers = [None, pa.py_buffer(digits.images.numpy())]
    pixels = pa.FixedSizeBinaryArray.from_buffers(pa.binary(SIDE * SIDE), len(digits.images), buffers)
    return pa.table({"glyph": digits.glyph.numpy(), "label": digits.labels.numpy(), "pixels": pixels})


def load(folder: str | Path, split: str) -> Digits:
    """Read one split of the subset.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt.
    """
    from rankgrad.io.parquet import read_table  # reading MNIST itself does not need it

    read = read_table(Path(folder) / f"{split}.parquet", ["glyph", "label", "pixels"])
    pixels = torch.frombuffer(bytearray(b"".join(read["pixels"].to_pylist())), dtype=torch.uint8)
    return Digits(
        torch.from_numpy(read["glyph"].to_numpy().copy()),
        pixels.view(-1, SIDE, SIDE),
        torch.from_numpy(read["label"].to_numpy().copy()),
    )

"""Choose the digits that ship with the project from the four MNIST files: `python -m tools.subset FOLDER`.

It writes the first digits of each class in each split to data/raw/subset. Since splits do not mix, a model trained on
the subset can be tested on MNIST's test digits, and vice versa.
"""

import argparse
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import torch

from rankgrad.datasets.scenes import mnist
from rankgrad.datasets.scenes.digits import CLASSES, Digits, splits, table
from rankgrad.io.atomic import replaced_file

FOLDER = Path("data/raw/subset")
OF_EACH_CLASS = {"train": 700, "val": 200, "test": 500}
LARGEST = 10**6  # bytes of a file


def chosen(digits: Digits, of_each: int) -> Digits:
    """Return the first `of_each` digits of each class, in their original order."""
    rows = torch.cat([(digits.labels == label).nonzero()[:of_each, 0] for label in range(CLASSES)]).sort().values
    return Digits(digits.glyph[rows], digits.images[rows], digits.labels[rows])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.subset", description="Choose the digits that ship.")
    parser.add_argument("root", help="folder with the four MNIST files somewhere below it, plain or gzip")
    with TemporaryDirectory() as raw:
        mnist.copy(parser.parse_args().root, raw)
        made = splits("mnist", raw)
    for split, of_each in OF_EACH_CLASS.items():
        with replaced_file(FOLDER / f"{split}.parquet") as partial:
            rows = table(chosen(made[split], of_each))
            pq.write_table(rows, partial, compression="brotli", compression_level=11, use_dictionary=False)
            if (size := partial.stat().st_size) > LARGEST:
                raise ValueError(f"{split}: {size:,} bytes, expected at most {LARGEST:,}: choose fewer digits")
        digest = sha256((FOLDER / f"{split}.parquet").read_bytes()).hexdigest()  # for `SUBSET` of the digits
        print(f"{FOLDER / split}.parquet: {len(rows):,} digits, {size:,} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()

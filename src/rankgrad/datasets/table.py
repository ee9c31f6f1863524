"""Your own table: columns of CSV, TSV, JSON Lines, Parquet, or SVMlight files, by their roles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.files.expected import Expectations, joined
from rankgrad.datasets.tables.deliveries import Deliveries, delivery_of, folders_of, further_passages
from rankgrad.datasets.tables.facts import compared, expected_of, facts_of
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.datasets.tables.suspects import described, warn

__all__ = ["Table"]

HEAD = 1000  # rows of each file to check before any stage runs


@dataclass(frozen=True, kw_only=True)
class Table(TableOptions):
    """Your own table, see `TableOptions` for its options; every requirement of a role is checked."""

    def check_head(self, raw: str | Path) -> None:
        folder, *later = folders_of(Path(raw))
        first = delivery_of(self, folder, seed=0, head=HEAD).examples
        for delivered in later:
            delivery_of(self, delivered, seed=0, head=HEAD, first_roles=first.roles)
        rows = first.frame
        judged = self.target or self.relevance or self.margin
        for column, truth in ((self.train_target, "train_target"), (judged, "truth")):
            if column is None:
                continue
            numbers = rows[truth].explode().to_numpy(np.float64)
            if not np.isnan(numbers).all():
                warn(folder, described({column: numbers}, None, None))
        further_passages(self, folder, head=HEAD)

    def opened(self, raw: str | Path, reading: Reading) -> Deliveries:
        return Deliveries(self, Path(raw), reading)

    def facts(
        self, folder: str | Path, splits: Sequence[str], *, raw: str | Path, threads: int
    ) -> dict[str, pd.DataFrame]:
        return compared(joined([facts_of(self, Path(folder), split, threads=threads) for split in splits]))

    def expected(self, rows: dict[str, int], *, size: int | None) -> Expectations:
        return expected_of(self, rows, size=size)

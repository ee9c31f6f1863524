"""Photos with up to three ordered labels for multi-label ranking, as in ARC (RLSEP, Section 5.1)."""

import posixpath
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between, in_set
from rankgrad.datasets.public.reading import (
    SPLITS,
    DrawnSplits,
    PhotoDataset,
    read_list,
    same_elsewhere,
    with_classes,
    with_gate,
)
from rankgrad.io.parquet import IMAGE

__all__ = ["Arc", "SCHEMA"]  # noqa: RUF022 - the dataset comes first

LABELS = ["label1", "label2", "label3"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("image", IMAGE),
        ("label_ranks", pa.list_(pa.int64())),  # of any classes
        ("group", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Arc(DrawnSplits, PhotoDataset):
    """Images with `label_ranks` of each class (0 = absent, larger = more important).

    Attributes:
        classes: their names, in the order of the scores; None = those of classes.txt.
        val_share, test_share, gate_share: of all images, where labels.csv has no splits; train gets the rest. Where it
            has splits but no gate, `gate_share` is of its validation images.
    """

    classes: list[str] | None = None

    layout: ClassVar[str] = """\
arc/
  images/       the photos, in folders if need be
  labels.csv    with the columns image (its path below images/), label1, label2, label3 (most important first; the last
                ones may be empty) and, if there are, split (train, val, test or gate) and group (a name for images that
                must be in one split, as those of one product)
  classes.txt   all classes, a line each, in the order of the scores; or give them in the option `classes`
"""
    needs: ClassVar[tuple[str, ...]] = ("images",)
    schema: ClassVar[pa.Schema] = SCHEMA
    expected: ClassVar[tuple[dict[str, Any], ...]] = (
        between("labels", 1, len(LABELS)),
        in_set("ranks_are_1_upwards", True),
        in_set("same_group_as", ""),
    )

    def __post_init__(self) -> None:
        if self.classes is not None and (len(set(self.classes)) < max(2, len(self.classes)) or not all(self.classes)):
            raise ValueError(f"classes is {self.classes}, expected two or more names, each once, none empty")
        super().__post_init__()

    def schema_of(self, raw: Path) -> pa.Schema:
        return with_classes(SCHEMA, self._classes(raw))

    def _classes(self, raw: Path) -> list[str]:
        if self.classes is not None:
            return list(self.classes)
        path = raw / "classes.txt"
        classes = read_list(path, ["class"], layout=self.layout)["class"].tolist()
        if len(classes) < 2:
            raise ValueError(f"{path}: {len(classes)} classes, expected two or more")
        return classes

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        path, classes = raw / "labels.csv", self._classes(raw)
        table = read_list(path, ["image", *LABELS], layout=self.layout, header=True)
        known = ["image", "split", "group", *LABELS]
        if unknown := [name for name in table if name not in known]:
            raise ValueError(f"{path}: unknown column {', '.join(unknown)}; expected {', '.join(known)}")
        names, ranks = table["image"].tolist(), []
        for name, labels in zip(names, table[LABELS].to_numpy().tolist(), strict=True):
            present = [label for label in labels if label]
            if not present or labels[: len(present)] != present or len(set(present)) < len(present):
                raise ValueError(
                    f"{path}: {name}: labels are {labels}, expected label1, then label2, then label3, without gaps, "
                    "each class once"
                )
            if unknown := [label for label in present if label not in classes]:
                raise ValueError(f"{path}: {name}: unknown class {unknown[0]!r}; expected {', '.join(classes)}")
            # The most important of n labels has label rank n, the last 1.
            rank = {label: len(present) - place for place, label in enumerate(present)}
            ranks.append([rank.get(label, 0) for label in classes])
        files = [f"images/{name}" for name in names]
        groups = self._groups(path, table)
        splits = self._splits(path, table, groups, seed)
        listed = {"file": files, "split": splits, "name": names, "label_ranks": ranks, "group": groups}
        return pd.DataFrame(listed)

    def check_later(self, raw: str | Path, *, first: str | Path, seed: int) -> None:
        known = self.placed(Path(first), seed=seed)
        held = known[known["split"] != "train"].drop_duplicates("group").set_index("group")["split"]
        later = self.placed(Path(raw), seed=seed)
        later = later[later["group"].isin(held.index)]
        if len(later):
            name, group = later[["name", "group"]].iloc[0]
            raise ValueError(
                f"{Path(raw) / 'labels.csv'}: {name}: group {group} is in {held[group]} of {first}, and later "
                f"deliveries are for training; remove its rows ({len(later)} rows of this delivery are of such groups)"
            )

    def _groups(self, path: Path, table: pd.DataFrame) -> list[str]:
        """Return the group of each row, an image by itself if there is no such column."""
        if "group" not in table:
            return table["image"].map(posixpath.normpath).tolist()
        names = table["group"].tolist()
        for image, group in zip(table["image"], names, strict=True):
            if not group:
                raise ValueError(f"{path}: {image}: no group, expected one in each row; or leave the column out")
        # Keyboards write the accents of one name in several ways.
        return [unicodedata.normalize("NFC", posixpath.normpath(name)) for name in names]

    def _splits(self, path: Path, table: pd.DataFrame, names: list[str], seed: int) -> list[str]:
        if "split" not in table:
            return self.drawn(names, seed=seed)
        splits, allowed = table["split"].tolist(), (*SPLITS, "gate")
        for image, split in zip(table["image"], splits, strict=True):
            if split not in allowed:
                raise ValueError(f"{path}: {image}: split is {split!r}, expected one of {', '.join(allowed)}")
        first: dict[str, str] = {}
        for image, group, split in zip(table["image"], names, splits, strict=True):
            if "group" in table and first.setdefault(group, split) != split:
                raise ValueError(
                    f"{path}: {image}: group {group} is in {split} and in {first[group]}, expected one split; correct "
                    "the column split, or leave one of the two columns out"
                )
        if "gate" not in splits:
            return with_gate(splits, names, gate_share=self.gate_share, seed=seed)
        if not self.gate_share:
            raise ValueError(f"{path}: it has a split gate, but gate_share is 0; expected a share above 0 to use it")
        return splits

    def facts(self, read: pa.Table) -> dict[str, Any]:
        rows = [[] if None in row else row for row in read["label_ranks"].to_pylist()]  # none is as wrong as no label
        present = [sorted(rank for rank in row if rank != 0) for row in rows]
        return {
            "labels": [len(row) for row in present],
            "ranks_are_1_upwards": [row == list(range(1, len(row) + 1)) for row in present],
            "group": read["group"].to_pylist(),
        }

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        rows = super().across(facts)["rows"]
        elsewhere = same_elsewhere(rows["group"])
        named = [place and f"{group} in {place}" for group, place in zip(rows["group"], elsewhere, strict=True)]
        return {"rows": rows.assign(same_group_as=named)}

"""A table of one's own: columns of CSV, TSV, JSON lines, Parquet, or SVMlight files, by their roles."""

import logging
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.public.reading import Reading, place_of, split_at
from rankgrad.datasets.tables.cells import first_place
from rankgrad.datasets.tables.examples import (
    Examples,
    by_query,
    columns_of,
    encoded,
    examples_of,
    gathered,
    in_pieces,
    named_features,
    of_classes,
    with_truth,
)
from rankgrad.datasets.tables.facts import compared, expected_of, facts_of, joined_in_float32
from rankgrad.datasets.tables.files import Sheet, read_sheet
from rankgrad.datasets.tables.formats import FORMATS
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.lookup import did_you_mean
from rankgrad.plain_text import near_names

__all__ = ["Table"]

HEAD = 1000  # rows of a file that are looked at before it is read
NAMED = 20  # classes that a line names
CLASSES = 10_000  # each row has a number for each


@dataclass(frozen=True, kw_only=True)
class Table(TableOptions):
    """A table of one's own, see `TableOptions` for its options; everything that a role implies is checked."""

    # What stages call.

    def check(self, raw: str | Path) -> None:
        self._read(Path(raw), seed=0)

    def check_head(self, raw: str | Path) -> None:
        self._read(Path(raw), seed=0, head=HEAD)

    def check_later(self, raw: str | Path, *, first: str | Path, seed: int) -> None:
        known, later = self._read(Path(first), seed=seed), self._read(Path(raw), seed=seed)
        for key in ("group", "name", "key"):
            held = known.frame[known.frame["split"] != "train"].drop_duplicates(key).set_index(key)["split"]
            both = later.frame[later.frame[key].isin(held.index)]
            told = {"group": self.group, "name": self.id or self.image, "key": isinstance(self.split, dict)}
            if len(both) and told[key]:
                number, value = int(both.index[0]), both[key].iloc[0]
                raise ValueError(
                    f"{later.sheet.place(number)}: {key} {value} is in {held[value]} of {first}, and later deliveries "
                    f"are for training; remove its rows ({len(both)} rows of this delivery are such)"
                )

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        examples = self._read(Path(raw), seed=seed)
        frame = examples.frame[examples.frame["delivery"] == 0]
        parts = {
            split: with_truth(self, examples, frame[frame["split"] == split], learned=split == "train")
            for split in self.splits
        }
        frame, train = pd.concat(parts.values()), parts["train"]
        if not len(train):
            raise ValueError(f"{raw}: none of its {len(frame)} rows is for training; see `split`")
        fitted: dict[str, Any] = {"rows": len(train), "left_out": len(examples.left_out)}
        if self.has_label_cells:
            fitted |= self._classes(Path(raw), examples.sheet, train)
        elif self.truth in ("labels", "label_ranks"):
            present = np.stack(train["truth"].tolist()) != 0
            fitted |= {"classes": examples.classes, "counts": present.sum(0).tolist()}
        elif self.truth == "target":
            fitted |= {"mean": float(train["truth"].mean()), "deviation": float(train["truth"].std(ddof=0))}
        elif self.relevance:
            fitted["whole"] = all(float(one).is_integer() for row in frame["truth"] for one in row)
        if self.has_names:
            names = named_features(self, examples, train)
            fitted |= {"width": len(names), "features": names, "single": self.features is None}
        elif self.input_type.vectors:
            first = train["input"].iloc[0][0] if self.relevance else train["input"].iloc[0]
            fitted |= {"width": len(first), "features": examples.features, "single": first.dtype == np.float32}
            if examples.sheet.lowest is not None:
                fitted["lowest"] = examples.sheet.lowest
        fitted["understood"] = self._understood(examples, frame, fitted)
        if joined := joined_in_float32(columns_of(self, examples, train)):
            fitted["understood"]["joined"] = "; ".join(joined)
            for line in joined:
                logging.warning("%s: %s: a network cannot tell these apart; see whether an outlier is right", raw, line)
        logging.info("%s", "; ".join(f"{key} {value}" for key, value in fitted["understood"].items()))
        return fitted

    def _classes(self, raw: Path, sheet: Sheet, train: pd.DataFrame) -> dict[str, Any]:
        counts = Counter(label for labels in train["truth"] for label in labels)
        if self.classes is None and (near := near_names(counts)):
            rarer, other = sorted(near[0], key=lambda name: counts[name])
            number = next(number for number, labels in train["truth"].items() if rarer in labels)
            raise ValueError(
                f"{sheet.place(number)}: {self.labels} has {rarer!r} ({counts[rarer]} rows), and other rows have "
                f"{other!r} ({counts[other]} rows): correct one of them, or name both in `classes`"
            )
        classes = self.classes or sorted(counts)
        if not 2 <= len(classes) <= min(len(train), CLASSES):
            found = (
                f"the {len(train)} training rows have {len(classes)} classes, expected two or more"
                if len(classes) < 2
                else f"{len(classes)} classes in {len(train)} training rows, expected at most as many and {CLASSES:,}"
            )
            raise ValueError(
                f"{raw}: {found}; is {self.labels} the column of labels, and {self.label_separator!r} the "
                "label_separator?"
            )
        return {"classes": list(classes), "counts": [counts[name] for name in classes]}

    def _understood(self, examples: Examples, frame: pd.DataFrame, fitted: dict[str, Any]) -> dict[str, Any]:
        """Return what was understood of a delivery, a value or a line each."""
        splits = frame["split"].value_counts()
        told: dict[str, Any] = {
            "rows": f"{len(frame)}: " + ", ".join(f"{splits.get(name, 0)} {name}" for name in self.splits),
            "input": f"{self.input} from {_named(self.input_columns)}",
        }
        told["truth"] = f"{self.truth} from {_named(getattr(self, self.truth_role))}"
        if self.train_target:
            told["truth"] += f", in training rows from {self.train_target}"
        if classes := fitted.get("classes"):
            counted = [f"{name} {count}" for name, count in zip(classes, fitted["counts"], strict=True)]
            told["classes"] = f"{len(classes)} in the training rows: {', '.join(counted[:NAMED])}" + (
                ", ..." if len(counted) > NAMED else ""
            )
        sizes = frame["truth"].map(len) if self.relevance else frame["group"].value_counts() if self.group else None
        if sizes is not None:
            told["groups"] = f"{len(sizes)} of {self.group}, with {sizes.min()} to {sizes.max()} rows"
        near = near_names(frame["group"].unique()) if self.group else []
        if self.has_names:
            near += near_names(fitted["features"])
        if near:
            told["near"] = ", ".join(f"{one!r} beside {other!r}" for one, other in near[:NAMED])
            logging.warning("%s: names that may be one: %s", examples.sheet.paths[0], told["near"])
        told["missing"] = f"{len(examples.left_out)} rows left out" if examples.left_out else "none"
        return told

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        examples = self._read(Path(raw), seed=reading.seed)
        chosen = self._chosen(Path(raw), examples, split, reading)
        if split == "all" or (split == "train" and self.date):
            reading.skipped.extend(name for name, delivery in examples.left_out.items() if delivery or split == "all")
        if split == "all" and not (self.id or self.image or self.relevance):  # numbers of rows, in a file of its own
            chosen = chosen.assign(name=[f"{Path(raw).name}/{name}" for name in chosen["name"]])
        schema, rows = self.schema_for(reading.fitted), 0
        chosen = self._encoded(examples, chosen, reading.fitted)
        for part in in_pieces(self, Path(raw), examples.sheet, chosen, reading):
            columns = {
                **part[["difficult"] if self.ignore else []].astype(object).to_dict("list"),
                "id": range(rows, rows + len(part)),
                "name": part["name"].tolist(),
                self.input: part["input"].tolist(),
                self.truth: part["truth"].tolist(),
                "group": part["group"].tolist(),
                "weight": part["weight"].tolist(),
            }
            yield pa.table({name: columns[name] for name in schema.names}, schema=schema)
            rows += len(part)

    def _chosen(self, raw: Path, examples: Examples, split: str, reading: Reading) -> pd.DataFrame:
        """Return the examples of a split; to those of training, later deliveries of the same files are added."""
        frame = examples.frame
        first = frame["delivery"] == 0
        if split == "all":
            return with_truth(self, examples, frame, learned=True)
        chosen = with_truth(self, examples, frame[first & (frame["split"] == split)], learned=split == "train")
        if not len(chosen):
            raise ValueError(
                f"{raw}: none of its {int(first.sum())} rows is in {split}; give it some, or choose a larger share"
            )
        if split == "train" and self.date:
            later = with_truth(self, examples, frame[~first & (frame["delivery"] < reading.snapshot)], learned=True)
            held = frame[first & (frame["split"] != "train")]
            known = (
                later["group"].isin(held["group"]) | later["name"].isin(held["name"]) | later["key"].isin(held["key"])
            )
            if known.any():
                logging.warning(
                    "%s: %d of %d rows of later deliveries belong to groups that the first one holds out: left out",
                    raw, known.sum(), len(later),
                )  # fmt: skip
                reading.skipped.extend(later["name"][known])
            chosen = pd.concat([chosen, later[~known]])
        return chosen

    def _encoded(self, examples: Examples, chosen: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
        """Return examples with numbers of classes in place of their names, of the length that was fitted."""
        if self.has_names:
            chosen = encoded(self, examples.sheet, chosen, fitted["features"])
        elif "width" in fitted:
            widths = chosen["input"].map(lambda cell: len(cell[0] if self.relevance else cell))
            if (wrong := widths != fitted["width"]).any():
                position, place = first_place(examples.sheet, chosen.index, wrong)
                raise ValueError(
                    f"{place}: {widths.iloc[position]} features, expected {fitted['width']} as in the first delivery; "
                    "give it the same columns"
                )
            first = chosen["input"].iloc[0][0] if self.relevance else chosen["input"].iloc[0]
            if fitted.get("single") and first.dtype != np.float32:
                _, place = first_place(examples.sheet, chosen.index, [True])
                raise ValueError(
                    f"{place}: features are {first.dtype}, expected float32 as in the first delivery; store them alike"
                )
        return of_classes(self, examples.sheet, chosen, fitted["classes"]) if self.has_label_cells else chosen

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        return facts_of(self, Path(folder), split, threads=threads)

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return compared(self, facts)

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return expected_of(self, rows, size=size)

    # From files to examples.

    def _paths(self, raw: Path) -> tuple[list[Path], list[str]]:
        """Return the files, and the split of each where they say it."""
        paths, splits = [], []
        for split, pattern in (self.file if isinstance(self.file, dict) else {"": self.file}).items():
            some = sorted(_matching(raw, pattern)) if set(pattern) & set("*?[") else [raw / pattern]
            if not some or not some[0].is_file():
                inside = sorted(path.name for path in raw.iterdir()) if raw.is_dir() else []
                near = [name for name in inside if Path(name).suffix.lower() in FORMATS][:10] or inside[:10]
                there = f"it has {', '.join(near)}{did_you_mean(pattern, near)}" if near else "it is empty or missing"
                raise FileNotFoundError(f"{raw / pattern}: no such file in {raw}; {there}")
            paths += some
            splits += [split] * len(some)
        return paths, splits

    def _read(self, raw: Path, *, seed: int, head: int | None = None) -> Examples:
        """Read the files, and say of each example its name, split, delivery, group, weight, input and truth."""
        examples, splits = self._parsed(raw, head)
        sheet = examples.sheet
        if isinstance(self.file, dict):
            own = [splits[number] for number in sheet.file[examples.frame.index]]
            examples = examples._replace(frame=examples.frame.assign(split=own))
        if self.drawn:  # by a hash of the key
            places = {key: place_of(posixpath.normpath(key), seed=seed) for key in examples.frame["key"].unique()}
            # From both ends, so that another share of validation moves no row of the test or the gate.
            shares = {name: self.shares[name] for name in ("test", "val")}
            gate = 1 - self.shares["gate"]
            drawn = ["gate" if places[key] >= gate else split_at(places[key], shares) for key in examples.frame["key"]]
            examples = examples._replace(frame=examples.frame.assign(split=drawn))
        gather = by_query if self.relevance else gathered
        examples = gather(self, examples)
        if not self.drawn:
            examples = examples._replace(frame=self._with_gate(examples.frame, raw, seed))
        return examples

    def _parsed(self, raw: Path, head: int | None) -> tuple[Examples, list[str]]:
        """Return the examples of the files, and the split of each file: parsed once, though asked for by each split."""
        if vars(self).get("_kept", (None,))[0] != (raw, head):
            paths, splits = self._paths(raw)

            def columns(names: list[str]) -> list[str]:
                return list(dict.fromkeys(column for some in self.roles(names).values() for column in some))

            how = {"kind": self.format, "encoding": self.encoding, "writing": self.writing}
            pictures = self.input_columns if self.input_type.files else []
            sheet = read_sheet(paths, columns, **how, head=head, pictures=pictures)
            examples = examples_of(self, sheet, self.roles(list(sheet.frame)))
            object.__setattr__(self, "_kept", ((raw, head), (examples, splits)))
        return vars(self)["_kept"][1]

    def _with_gate(self, frame: pd.DataFrame, raw: Path, seed: int) -> pd.DataFrame:
        """Return examples whose splits have a gate: their own, or a share of validation."""
        has_gate = (frame["split"] == "gate").any()
        if has_gate and "gate" not in self.splits:
            raise ValueError(f"{raw}: it has a split gate, but gate_share is 0; expected a share above 0 to use it")
        if has_gate:
            return frame
        places = frame["key"].map(lambda key: place_of(posixpath.normpath(key), seed=seed))
        moved = (frame["split"] == "val") & (places < self.gate_share)
        return frame.assign(split=frame["split"].where(~moved, "gate"))


def _named(columns: str | list[str]) -> str:
    columns = [columns] if isinstance(columns, str) else columns
    return ", ".join(columns[:5]) + (f", ... ({len(columns)} columns)" if len(columns) > 5 else "")


def _matching(raw: Path, pattern: str) -> list[Path]:
    """Return the files that a pattern names, without those that editors and systems hide there, such as `.#t.csv`."""
    return [path for path in raw.glob(pattern) if not path.name.startswith(".") or Path(pattern).name.startswith(".")]

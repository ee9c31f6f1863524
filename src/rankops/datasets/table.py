"""A table of one's own: columns of CSV, TSV, JSON lines, Parquet, SVMlight or NPZ files, by their roles."""

import json
import logging
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from rankops.datasets.public.reading import SPLITS, DiskDataset, Reading, check_shares, place_of, split_at
from rankops.datasets.tables.examples import (
    INPUTS,
    STRUCTURE,
    TRUTHS,
    Examples,
    by_query,
    examples_of,
    gathered,
    read_pictures,
)
from rankops.datasets.tables.facts import compared, expected_of, facts_of
from rankops.datasets.tables.files import FORMATS, Format, Sheet, columns_like, read_sheet, require_columns
from rankops.io.parquet import IMAGE
from rankops.lookup import did_you_mean

__all__ = ["Table"]

ALL_SPLITS = (*SPLITS, "gate")
SHARES = {"val": 0.1, "test": 0.2, "gate": 0.1}
HEAD = 1000  # rows of a file that are looked at before it is read
NAMED = 20  # classes that a line names

Columns = str | list[str] | None


@dataclass(frozen=True, kw_only=True)
class Table(DiskDataset):
    """A table of one's own. Options say which columns have which role; everything that a role implies is checked.

    Attributes:
        file: a name or a pattern (`photos-*.csv`) below the raw folder, or one a split: {train: , val: , test: }.
        format: csv, tsv, jsonl, parquet, svmlight or npz; None for that of the suffix. SVMlight has the columns
            `label`, `qid` and `all`, the vector. Cells of a CSV are separated by what cuts its header into most.
        encoding: of text.
        image: column of paths below the raw folder, or of bytes in Parquet.
        frames: columns of such paths, or one with several in a cell.
        features: columns of numbers, `f_*` for all that begin so, or one column or array of vectors.
        text: column of text.
        labels: column with the names of a row's labels in one cell, or columns of 0 and 1.
        ordered: labels of a cell stand in order, the most important first.
        label_ranks: columns, one a class: 0 for absent, larger for more important.
        target: column of numbers.
        relevance: column of grades; the rows of one `group` are the documents of a query.
        captions: columns of text; rows of one image (or of one `id`) are gathered.
        label_separator, frame_separator: between the names in a cell.
        group: column; rows of one group stay in one split, and are drawn together by the bootstrap.
        weight: column of numbers above 0.
        id: column that comes back in predictions; None for the image's path, else the row's number.
        date: {column, first, every}: rows up to the day `first` are the first delivery, those of each later day, week,
            month or year one more, which is for training.
        split: column of train, val, test and gate, or {hash_of: column, val: 0.1, test: 0.2, gate: 0.1}. By default by
            a hash of the group, or of the id. Where a column or files have no gate, it is `gate_share` of validation.
        classes: names of the labels, in the order of the scores; None for those of the training rows, sorted.
        unknown_labels: whether a label that is none of the classes is refused, or left out of its row.
        missing: whether a row with a missing value is refused, or left out.
        skip_broken: leave out rows of pictures that cannot be decoded.
        allow_repeated: accept that a picture is in several splits.
        without_relevant: whether queries with nothing to order, without a relevant document or with one in all, are
            kept or dropped. Kept ones must have two documents.
    """

    file: str | dict[str, str]
    format: Format | None = None
    encoding: str = "utf-8"
    image: str | None = None
    frames: Columns = None
    features: Columns = None
    text: str | None = None
    labels: Columns = None
    ordered: bool = False
    label_ranks: Columns = None
    target: str | None = None
    relevance: str | None = None
    captions: Columns = None
    label_separator: str = "|"
    frame_separator: str = "|"
    group: str | None = None
    weight: str | None = None
    id: str | None = None
    date: dict[str, str] | None = None
    split: str | dict[str, str | float] | None = None
    classes: list[str] | None = None
    unknown_labels: Literal["refuse", "leave_out"] = "refuse"
    missing: Literal["refuse", "leave_out"] = "refuse"
    skip_broken: bool = False
    allow_repeated: bool = False
    without_relevant: Literal["keep", "drop"] = "keep"

    layout: ClassVar[str] = "a folder with the files that `file` names, and the pictures that their cells name\n"

    def __post_init__(self) -> None:
        super().__post_init__()
        for roles, what in ((INPUTS, "input"), (TRUTHS, "truth")):
            given = [role for role in roles if getattr(self, role) is not None]
            if len(given) != 1:
                found = " and ".join(given) or "none"
                raise ValueError(f"the {what} is {found}, expected exactly one of {', '.join(roles)}")
        self._check_truth()
        self._check_split()
        if self.group is None and isinstance(self.split, dict) and self.split["hash_of"] not in (self.id, self.image):
            # What decides on the split belongs together in folds, in later deliveries and in the bootstrap, too.
            object.__setattr__(self, "group", self.split["hash_of"])
        if self.date is not None:
            _check_keys("date", self.date, required=("column", "first", "every"))
            if self.date["every"] not in ("day", "week", "month", "year"):
                raise ValueError(f"date.every is {self.date['every']!r}, expected day, week, month or year")
            try:
                pd.Timestamp(self.date["first"])
            except ValueError as error:
                raise ValueError(f"date.first is {self.date['first']!r}, expected a day: '2026-10-31'") from error
        names = self.file.values() if isinstance(self.file, dict) else [self.file]
        for name in names:
            if name.startswith("/") or ".." in name.split("/") or not name:
                raise ValueError(f"file is {name!r}, expected a name below the dataset's raw folder, without `..`")

    def _check_truth(self) -> None:
        if self.classes is not None and (len(set(self.classes)) < max(2, len(self.classes)) or not all(self.classes)):
            raise ValueError(f"classes is {self.classes}, expected two or more names, each once, none empty")
        if self.classes is not None and not self._has_label_cells:
            raise ValueError("classes: expected with `labels` in one column alone; other classes are columns' names")
        if self.ordered and not self._has_label_cells:
            raise ValueError("ordered: expected with `labels` in one column alone; for columns there is label_ranks")
        if self.relevance is not None and self.group is None:
            raise ValueError("relevance needs `group`: the column that says to which query a row belongs")
        if self.relevance is not None and self.frames is not None:
            raise ValueError("relevance: documents may be image, features or text, not frames")
        if self.captions is not None and self.text is not None:
            raise ValueError("captions describe an image, frames or features, not text")

    def _check_split(self) -> None:
        if isinstance(self.file, dict):
            _check_keys("file", self.file, required=SPLITS, optional=("gate",))
            if self.split is not None:
                raise ValueError("split: the files say which rows are in which; leave it out")
        if isinstance(self.split, dict):
            _check_keys("split", self.split, required=("hash_of",), optional=tuple(SHARES))
            if wrong := [key for key in SHARES if isinstance(self.split.get(key), str)]:
                raise ValueError(f"split.{wrong[0]} is {self.split[wrong[0]]!r}, expected a share such as 0.1")
        if self._drawn:
            shares = self._shares
            if not 0 <= shares["gate"] < 1:
                raise ValueError(f"split.gate is {shares['gate']}, expected from 0 (no gate) to below 1")
            check_shares(val_share=shares["val"], test_share=shares["test"], gate_share=shares["gate"])

    @property
    def _has_label_cells(self) -> bool:
        return isinstance(self.labels, str) and not self.labels.endswith("*")

    @property
    def _drawn(self) -> bool:
        """Whether splits follow from a hash."""
        return not isinstance(self.split, str) and not isinstance(self.file, dict)

    @property
    def _shares(self) -> dict[str, float]:
        given = self.split if isinstance(self.split, dict) else {}
        return {name: float(given.get(name, share)) for name, share in SHARES.items()}

    @property
    def splits(self) -> tuple[str, ...]:
        if self._drawn:
            return ALL_SPLITS if self._shares["gate"] else SPLITS
        return ALL_SPLITS if self.gate_share or "gate" in self.file else SPLITS

    # What its tables have, by the options alone.

    @property
    def input(self) -> str:
        """The role of the input."""
        return next(role for role in INPUTS if getattr(self, role) is not None)

    @property
    def truth(self) -> str:
        """The column of the truth."""
        role = next(role for role in TRUTHS if getattr(self, role) is not None)
        return "label_ranks" if role == "labels" and self.ordered else role

    @property
    def schema(self) -> pa.Schema:  # ty: ignore[incompatible-property-override] - it depends on the options
        return self._schema({})

    def _schema(self, fitted: Mapping[str, Any]) -> pa.Schema:
        """Return the schema, with lengths and names where something is fitted."""
        classes, width = fitted.get("classes", []), fitted.get("width")
        each = pa.list_(pa.int64(), len(classes)) if classes else pa.list_(pa.int64())
        inputs = {
            "image": IMAGE,
            "frames": pa.list_(IMAGE),
            "features": pa.list_(pa.float32(), width or -1),
            "text": pa.string(),
        }
        grades = pa.int64() if fitted.get("whole", True) else pa.float64()
        truths = {
            "labels": each,
            "label_ranks": each,
            "target": pa.float32(),
            "relevance": pa.list_(grades),
            "captions": pa.list_(pa.string()),
        }
        given = getattr(self, self.input)
        from_columns = {"columns": given if isinstance(given, list) else [given]}
        if self.frames is not None:
            from_columns["separator"] = self.frame_separator
        kind = pa.list_(inputs[self.input]) if self.relevance else inputs[self.input]
        fields = {"id": pa.int64(), "name": pa.string(), self.input: kind, self.truth: truths[self.truth]}
        if self.group is not None and not self.relevance:
            fields["group"] = pa.string()
        if self.weight is not None:
            fields["weight"] = pa.float32()
        told = {"classes": classes, "features": fitted.get("features"), "input": from_columns}
        metadata = {name: json.dumps(value) for name, value in told.items() if value}
        return pa.schema(fields, metadata or None)

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
                    "are "
                    f"for training; remove its rows ({len(both)} rows of this delivery are such)"
                )

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        examples = self._read(Path(raw), seed=seed)
        frame = examples.frame[examples.frame["delivery"] == 0]
        train = frame[frame["split"] == "train"]
        if not len(train):
            raise ValueError(f"{raw}: none of its {len(frame)} rows is for training; see `split`")
        fitted: dict[str, Any] = {"rows": len(train), "left_out": len(examples.left_out)}
        if self._has_label_cells:
            fitted |= self._classes(Path(raw), train)
        elif self.truth in ("labels", "label_ranks"):
            present = np.stack(train["truth"].tolist()) != 0
            fitted |= {"classes": examples.classes, "counts": present.sum(0).tolist()}
        elif self.truth == "target":
            fitted |= {"mean": float(train["truth"].mean()), "deviation": float(train["truth"].std(ddof=0))}
        elif self.relevance:
            fitted["whole"] = all(float(one).is_integer() for row in frame["truth"] for one in row)
        if self.input == "features":
            first = train["input"].iloc[0]
            fitted |= {"width": len(first[0] if self.relevance else first), "features": examples.features}
        fitted["understood"] = self._understood(examples, frame, fitted)
        logging.info("%s", "; ".join(f"{key} {value}" for key, value in fitted["understood"].items()))
        return fitted

    def _classes(self, raw: Path, train: pd.DataFrame) -> dict[str, Any]:
        counts = Counter(label for labels in train["truth"] for label in labels)
        classes = self.classes or sorted(counts)
        if len(classes) < 2:
            raise ValueError(
                f"{raw}: the {len(train)} training rows have {len(classes)} classes, expected two or more; is "
                f"{self.labels} the column of labels, and {self.label_separator!r} the label_separator?"
            )
        if len(classes) > len(train):
            raise ValueError(
                f"{raw}: {len(classes)} classes, more than the {len(train)} training rows; is {self.labels} the "
                "column of "
                f"labels, and {self.label_separator!r} the label_separator?"
            )
        return {"classes": list(classes), "counts": [counts[name] for name in classes]}

    def _understood(self, examples: Examples, frame: pd.DataFrame, fitted: dict[str, Any]) -> dict[str, Any]:
        """Return what was understood of a delivery, a value or a line each."""
        splits = frame["split"].value_counts()
        told: dict[str, Any] = {
            "rows": f"{len(frame)}: " + ", ".join(f"{splits.get(name, 0)} {name}" for name in self.splits),
            "input": f"{self.input} from {_named(getattr(self, self.input))}",
        }
        role = next(role for role in TRUTHS if getattr(self, role) is not None)
        told["truth"] = f"{self.truth} from {_named(getattr(self, role))}"
        if classes := fitted.get("classes"):
            counted = [f"{name} {count}" for name, count in zip(classes, fitted["counts"], strict=True)]
            told["classes"] = f"{len(classes)} in the training rows: {', '.join(counted[:NAMED])}" + (
                ", ..." if len(counted) > NAMED else ""
            )
        sizes = frame["truth"].map(len) if self.relevance else frame["group"].value_counts() if self.group else None
        if sizes is not None:
            told["groups"] = f"{len(sizes)} of {self.group}, with {sizes.min()} to {sizes.max()} rows"
        told["missing"] = f"{len(examples.left_out)} rows left out" if examples.left_out else "none"
        return told

    def tables(self, raw: str | Path, split: str, reading: Reading) -> Iterator[pa.Table]:
        examples = self._read(Path(raw), seed=reading.seed)
        chosen = self._chosen(Path(raw), examples, split, reading)
        if split == "all" or (split == "train" and self.date):
            reading.skipped.extend(name for name, delivery in examples.left_out.items() if delivery or split == "all")
        if split == "all" and not (self.id or self.image or self.relevance):  # numbers of rows, in a file of its own
            chosen = chosen.assign(name=[f"{Path(raw).name}/{name}" for name in chosen["name"]])
        schema, rows = self._schema(reading.fitted), 0
        chosen = self._encoded(examples.sheet, chosen, reading.fitted)
        for part in read_pictures(self, Path(raw), examples.sheet, chosen, reading):
            columns = {
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
            return frame
        chosen = frame[first & (frame["split"] == split)]
        if not len(chosen):
            raise ValueError(
                f"{raw}: none of its {int(first.sum())} rows is in {split}; give it some, or choose a larger share"
            )
        if split == "train" and self.date:
            later = frame[~first & (frame["delivery"] < reading.snapshot)]
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

    def _encoded(self, sheet: Sheet, chosen: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
        """Return examples with numbers of classes in place of their names, of the length that was fitted."""
        for number, cell in chosen["input"].items() if "width" in fitted else ():
            width = len(cell[0] if self.relevance else cell)
            if width != fitted["width"]:
                raise ValueError(
                    f"{sheet.place(number)}: {width} features, expected {fitted['width']} as in the first delivery; "
                    "give "
                    "it the same columns"
                )
        if not self._has_label_cells:
            return chosen
        if "classes" not in fitted:
            raise ValueError("no classes were fitted; expected what `fit` gave for the first delivery")
        place_of_class = {name: place for place, name in enumerate(fitted["classes"])}
        rows, left = [], 0
        for number, labels in chosen["truth"].items():
            known = [label for label in labels if label in place_of_class]
            if len(known) < len(labels) and self.unknown_labels == "refuse":
                label = next(label for label in labels if label not in place_of_class)
                raise ValueError(
                    f"{sheet.place(number)}: label {label!r} is none of the {len(place_of_class)} classes of the "
                    "training "
                    f"rows{did_you_mean(label, place_of_class)}; correct it, name all in `classes:`, or set "
                    "unknown_labels: leave_out"
                )
            left += len(labels) - len(known)
            row = np.zeros(len(place_of_class), np.int64)
            for place, label in enumerate(known):
                row[place_of_class[label]] = len(known) - place if self.ordered else 1
            rows.append(row)
        if left:
            logging.warning("%s: %d labels that are no class left out", sheet.paths[0], left)
        chosen = chosen.assign(truth=pd.Series(rows, chosen.index, dtype=object))
        return chosen[[row.any() for row in rows]] if self.ordered else chosen  # an order needs a label

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        return facts_of(self, Path(folder), split, threads=threads)

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return compared(self, facts)

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        return expected_of(self, rows, size=size)

    # From files to examples.

    def roles(self, names: list[str]) -> dict[str, list[str]]:
        """Return the columns of each role, of those that a file has.

        Raises:
            ValueError: a column is missing, or none begins as a pattern says.
        """
        found: dict[str, list[str]] = {}
        for role in (*INPUTS, *TRUTHS, *STRUCTURE):
            given = self._column_of(role)
            if given is None:
                continue
            patterns = given if isinstance(given, list) else [given]
            columns = [column for pattern in patterns for column in columns_like(pattern, names)]
            if not columns:
                require_columns([str(given)], names)
            require_columns(columns, names)
            if len(set(columns)) < len(columns):
                raise ValueError(f"{role}: column {max(columns, key=columns.count)!r} is named twice; name it once")
            found[role] = columns
        for role in (*TRUTHS, "weight", "id", "split"):
            if self.features is not None and (both := set(found.get(role, ())) & set(found["features"])):
                raise ValueError(
                    f"features: column {min(both)!r} is the {role} too, which would be learned from itself; name the "
                    "features without it"
                )
        return found

    def _column_of(self, role: str) -> Any:
        if role == "date":
            return self.date["column"] if self.date else None
        if role == "key":
            return self.split["hash_of"] if isinstance(self.split, dict) else None
        if role == "split":
            return self.split if isinstance(self.split, str) else None
        return getattr(self, role)

    def _paths(self, raw: Path) -> tuple[list[Path], list[str]]:
        """Return the files, and the split of each where they say it."""
        paths, splits = [], []
        for split, pattern in (self.file if isinstance(self.file, dict) else {"": self.file}).items():
            some = sorted(raw.glob(pattern)) if set(pattern) & set("*?[") else [raw / pattern]
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
        if self._drawn:  # by a hash of the key
            places = {key: place_of(posixpath.normpath(key), seed=seed) for key in examples.frame["key"].unique()}
            # From both ends, so that another share of validation moves no row of the test or the gate.
            shares = {name: self._shares[name] for name in ("test", "val")}
            gate = 1 - self._shares["gate"]
            drawn = ["gate" if places[key] >= gate else split_at(places[key], shares) for key in examples.frame["key"]]
            examples = examples._replace(frame=examples.frame.assign(split=drawn))
        gather = by_query if self.relevance else gathered
        examples = gather(self, examples)
        if not self._drawn:
            examples = examples._replace(frame=self._with_gate(examples.frame, raw, seed))
        return examples

    def _parsed(self, raw: Path, head: int | None) -> tuple[Examples, list[str]]:
        """Return the examples of the files, and the split of each file: parsed once, though asked for by each split."""
        if vars(self).get("_kept", (None,))[0] != (raw, head):
            paths, splits = self._paths(raw)

            def columns(names: list[str]) -> list[str]:
                return list(dict.fromkeys(column for some in self.roles(names).values() for column in some))

            sheet = read_sheet(paths, columns, kind=self.format, encoding=self.encoding, head=head)
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


def _check_keys(
    place: str, block: Mapping[str, Any], *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    for key in block:
        if key not in (known := (*required, *optional)):
            raise ValueError(f"{place}.{key}: unknown key; expected {', '.join(known)}{did_you_mean(key, known)}")
    if missing := [key for key in required if key not in block]:
        raise ValueError(f"{place}.{missing[0]}: missing; expected {', '.join(required)}")


def _named(columns: str | list[str]) -> str:
    columns = [columns] if isinstance(columns, str) else columns
    return ", ".join(columns[:5]) + (f", ... ({len(columns)} columns)" if len(columns) > 5 else "")

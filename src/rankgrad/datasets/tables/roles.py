"""Options of your own table: the roles of its columns, and how its rows are split."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, ClassVar, Literal

import pyarrow as pa

from rankgrad import lookup
from rankgrad.datasets.files.dataset import SPLITS
from rankgrad.datasets.tables.files import columns_like, require_columns
from rankgrad.datasets.tables.formats import Format
from rankgrad.inputs import InputType
from rankgrad.inputs.features import Features
from rankgrad.lookup import did_you_mean
from rankgrad.numbers import ORDERS, Writing

__all__ = ["ALL_SPLITS", "INPUTS", "LEARNED", "NAMED", "NUMERIC", "SLICE", "TRUTHS", "TableOptions"]

ALL_SPLITS = (*SPLITS, "gate")
WRITTEN = ("encoding", "empty", "decimal", "thousands", "dates")  # options of how text is written
SHARES = {"val": 0.1, "test": 0.2, "gate": 0.1}
INPUTS = tuple(lookup.names("inputs"))
NAMED = Features.roles  # which become features too
LEARNED = (Features.name, *NAMED)
TRUTHS = ("labels", "label_ranks", "target", "relevance", "rejected", "captions")
STRUCTURE = (
    "train_target",
    "margin",
    "ignore",
    "negatives",
    "gallery",
    "group",
    "weight",
    "id",
    "date",
    "split",
    "key",
    "slices",
)
SLICE = "slice "  # prefix of the stored columns of slices
# Options that need a truth, and which.
BESIDE = {
    "train_target": "target",
    "within": "target",
    "margin": "rejected",
    "gallery": "captions",
    "negatives": "captions",
}
NUMERIC = (Features.name, "label_ranks", "target", "train_target", "relevance", "margin", "weight")

Columns = str | list[str] | None


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Your own table. Options name the columns of each role; every requirement of a role is checked.

    Attributes:
        file: a name or a pattern (`photos-*.csv`) below the raw folder, or one per split: {train: , val: , test: }.
        format: csv, tsv, jsonl, parquet, or svmlight; by default, by the suffix. SVMlight has the columns `label`,
            `qid`, and `all` (the vector), and `docid` if the comment of every row has one. The delimiter of a CSV is
            the one that splits its header into the most columns.
        encoding: the encoding of text.
        empty: texts that stand for a missing value in any column, such as [n/a, "-"].
        decimal: the decimal point or comma of numbers in text.
        thousands: the thousands separator of numbers in text, such as `.` in 1.306 for 1306.
        image: column of paths below the raw folder, or of bytes in Parquet.
        frames: columns of such paths, or one column with several paths per cell.
        features: columns of numbers, `f_*` for all that start with `f_`, or one column of vectors.
        dates: which columns of `features` are dates, each with the order of year, month, and day, such as
            {listed_on: DMY} for 30.11.2026. YYYY-MM-DD, perhaps with a time, is read in any order. The feature is the
            number of days since 1970-01-01.
        categories: columns of names such as brands. Each name in the training rows becomes a feature of 0 or 1, in
            addition to `features`; other names and empty cells are 0 in all of them.
        letters: columns of texts of equal length, such as aligned proteins. Each letter at each position becomes a
            feature of 0 or 1; positions with the same letter in all training rows are left out.
        words: columns of texts beside other features. Each of the most frequent words and punctuation marks of a column
            becomes a feature of 0 or 1; at most 2,000 that at least 3 training rows have, and not all. A cell may be
            empty.
        text: column of text.
        text_pair: two columns of text that are read together, such as a query and a passage.
        labels: column with the names of a row's labels in one cell, or columns of 0 and 1.
        ordered: the labels in a cell are in order, the most important first.
        ignore: columns of 0 and 1, one for each column of `labels`: 1 if average precision ignores the row, such as a
            difficult object. Training uses the labels of these rows, too.
        label_ranks: columns, one per class: 0 for absent, larger for more important.
        target: column of numbers.
        train_target: column that replaces `target` in training, such as clicks if the target is a grade; training rows
            then need no `target`. Validation, test, and gate use `target`, and need no `train_target`.
        relevance: column of grades; the rows of one `group` are the documents of a query.
        rejected: column of rejected answers, for preferences. Each row is a query with two documents: the input, which
            was preferred, and the input with its last column replaced by this one, such as
            `text_pair: [prompt, chosen]` with `rejected: rejected`. Rows of one `group` stay in one split; for pairs of
            texts, the first text is the group.
        margin: column of numbers of at least 0, the size of the preference; 0 is a tie, which metrics leave out.
        captions: columns of text by which an item is searched, such as queries that a passage (`text`) answers; rows
            with the same image, text, or `id` are merged.
        negatives: columns of texts, or of lists of texts, that do not answer the row's captions (hard negatives, with
            `text`); training compares each caption with one of its negatives per epoch. Cells may be empty.
        gallery: column; retrieval searches each item within its gallery. By default, captions of texts search the texts
            of all splits, and other captions the items of their own split.
        collection: a name or a pattern of files below the raw folder with further texts that captions search, such as
            passages that answer no query. Their column is called as `text`, or is their only column of texts.
        label_separator, frame_separator: the separator of names or paths in a cell.
        group: column; rows of one group stay in one split, and the bootstrap draws them together.
        within: compare only rows of the same group, by their `target`: losses get a list for each group, and metrics
            are means over groups. For targets whose scale or offset differs between groups, such as labs.
        weight: column of numbers of at least 0; a row of weight 0 is left out. Of queries, above 0.
        id: column that predictions return; None for the image's path, or else the row's number.
        date: {column, first, every}: rows up to the date `first` are the first delivery. Each later day, week, month,
            or year is another delivery, for training and the gate. Dates are read as 2026-11-30, or, with `order: DMY`
            or MDY, as 30.11.2026 or 11/30/2026, too.
        split: column of train, val, test, and gate, or {hash_of: column, val: 0.1, test: 0.2, gate: 0.1}, of which any
            key may be left out. By default, a hash of the group, the id, or else the input. With `relevance`, `hash_of`
            may be a column that several queries share, such as a prompt: these queries then also stay in one fold, and
            the bootstrap draws them together. If a column or files have no gate, it is `gate_share` of validation.
        classes: names of the labels, in the order of the scores; by default the training labels, sorted.
        unknown_labels: refuse a label outside the classes, or leave it out of its row.
        missing: refuse a row with a missing value, or leave it out; or fill an empty feature with the training median
            and flag it with another feature (`impute`), and leave out rows with other missing values.
        gray: store pictures in gray, losslessly, instead of RGB as JPEG; networks then have one channel.
        pad: resize the whole picture and add black bars if it is not square; by default, crop to the center square.
        skip_broken: leave out rows whose pictures cannot be decoded.
        allow_repeated: allow a picture in several splits.
        slices: columns that nothing learns, such as a topic or a judge: the main metric is shown, and may be guarded by
            the gate, for each of their frequent values. Of a query, its first row counts; cells may be empty.
        gate_share: the fraction of validation rows that become the gate, if the splits come from a column or files
            without one; the gate compares versions before one is promoted. 0 for no gate.
        without_relevant: keep or drop queries with nothing to order: without a relevant document, or with a single
            document. Kept queries must have two documents.
    """

    file: str | dict[str, str]
    format: Format | None = None
    encoding: str = "utf-8"
    empty: list[str] | None = None
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ".", ",", " ", "'"] = ""
    image: str | None = None
    frames: Columns = None
    features: Columns = None
    dates: dict[str, Literal["YMD", "DMY", "MDY"]] | None = None
    categories: Columns = None
    letters: Columns = None
    words: Columns = None
    text: str | None = None
    text_pair: list[str] | None = None
    labels: Columns = None
    ordered: bool = False
    ignore: Columns = None
    label_ranks: Columns = None
    target: str | None = None
    train_target: str | None = None
    relevance: str | None = None
    rejected: str | None = None
    margin: str | None = None
    captions: Columns = None
    negatives: Columns = None
    gallery: str | None = None
    collection: str | None = None
    label_separator: str = "|"
    frame_separator: str = "|"
    group: str | None = None
    within: bool = False
    weight: str | None = None
    id: str | None = None
    date: dict[str, str] | None = None
    split: str | dict[str, str | float] | None = None
    classes: list[str] | None = None
    unknown_labels: Literal["refuse", "leave_out"] = "refuse"
    missing: Literal["refuse", "leave_out", "impute"] = "refuse"
    gray: bool = False
    pad: bool = False
    skip_broken: bool = False
    allow_repeated: bool = False
    without_relevant: Literal["keep", "drop"] = "keep"
    slices: list[str] | None = None
    gate_share: float = 0.5

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # the check of the params refuses unknown options

    def __post_init__(self) -> None:
        if not 0 <= self.gate_share < 1:
            raise ValueError(f"gate_share is {self.gate_share}, expected from 0 (no gate) to below 1")
        inputs, truths = self._given(INPUTS), self._given(TRUTHS)
        if len(inputs) > 1 or not (inputs or self.has_names):
            named = " and ".join(inputs) or "none"
            raise ValueError(f"the input is {named}, expected exactly one of {', '.join(INPUTS)}")
        if len(truths) != 1:
            named = " and ".join(truths) or "none"
            raise ValueError(f"the truth is {named}, expected exactly one of {', '.join(TRUTHS)}")
        self._check_input()
        self._check_truth()
        self._check_split()
        if self.group is None and self.hashed not in (None, self.id, self.image):
            # Rows that share a split also stay together in folds, in later deliveries, and in the bootstrap.
            object.__setattr__(self, "group", self.hashed)
        if self.rejected is not None and self.group is None and self.text_pair is not None:
            object.__setattr__(self, "group", self.input_columns[0])  # answers to one prompt belong together
        if self.within and self.group is None:
            raise ValueError("within needs `group`: the column that says which rows to compare with each other")
        if self.date is not None:
            self._check_date(self.date)
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}, expected different characters")
        for name in [*self.files.values(), *([] if self.collection is None else [self.collection])]:
            if name.startswith("/") or ".." in name.split("/") or not name:
                raise ValueError(f"file is {name!r}, expected a name below the dataset's raw folder, without `..`")

    def _check_date(self, date: dict[str, str]) -> None:
        _check_keys("date", date, required=("column", "first", "every"), optional=("order",))
        if date.get("order", ORDERS[0]) not in ORDERS:
            raise ValueError(f"date.order is {date['order']!r}, expected {', '.join(ORDERS)}")
        if date["every"] not in ("day", "week", "month", "year"):
            raise ValueError(f"date.every is {date['every']!r}, expected day, week, month or year")
        try:
            day = datetime.date.fromisoformat(date["first"]).isoformat()
        except ValueError:
            day = None
        if day != date["first"]:  # 01/11/2026 depends on the country, and 20261031 may be a number
            raise ValueError(f"date.first is {date['first']!r}, expected a date such as '2026-10-31'")

    def _check_input(self) -> None:
        if (count := self.input_type.columns) is not None and len(self.input_columns) != count:
            raise ValueError(f"{self.input} is {self.input_columns}, expected the names of {count} columns")
        if self.filled and not self.input_type.vectors:
            raise ValueError(f"missing: impute fills only `features`; expected leave_out with {self.input}")
        if self.has_names and not self.input_type.vectors:
            names = " and ".join(self._given(NAMED))
            raise ValueError(f"{names}: expected with `features` or without another input, not with {self.input}")
        if self.lists and self.input_type.sampled:
            raise ValueError(f"{self.truth_role}: documents may be image, features, or text, not {self.input}")
        if self.rejected in self.input_columns:
            raise ValueError(f"rejected: {self.rejected} is a column of {self.input} too; name another one")
        if self.rejected is not None and self.input_columns[-1].endswith("*"):
            raise ValueError(
                f"rejected: it replaces a single column, not {self.input_columns[-1]}; put the numbers of each item "
                "into one column of vectors"
            )

    def _check_truth(self) -> None:
        if self.classes is not None and (len(set(self.classes)) < max(2, len(self.classes)) or not all(self.classes)):
            raise ValueError(f"classes is {self.classes}, expected two or more different names, none empty")
        for option in ("classes", "ordered"):
            if getattr(self, option) and not self.has_label_cells:
                raise ValueError(
                    f"{option}: expected only with `labels` in one column; several columns already name their classes, "
                    "and label_ranks order them"
                )
        if self.ignore is not None and (self.labels is None or self.has_label_cells):
            raise ValueError("ignore: expected only with `labels` in columns of 0 and 1")
        for option, truth in BESIDE.items():
            if getattr(self, option) and getattr(self, truth) is None:
                raise ValueError(f"{option}: expected with `{truth}`, not with {self.truth_role}; leave it out")
        if self.negatives is not None and self.text is None:
            raise ValueError(f"negatives: expected with `text`, not with {self.input}; leave it out")
        if self.collection is not None and not self.is_one_collection:
            raise ValueError(
                f"collection: expected with `text` and `captions` and without `gallery`, not with {self.input} and "
                f"{self.truth_role}; leave it out"
            )
        if self.relevance is not None and self.group is None:
            raise ValueError("relevance needs `group`: the column that says to which query a row belongs")

    def _check_split(self) -> None:
        if isinstance(self.file, dict):
            _check_keys("file", self.file, required=SPLITS, optional=("gate",))
            if self.split is not None:
                raise ValueError("split: there is already one file per split; leave `split` out")
        if isinstance(self.split, dict):
            _check_keys("split", self.split, required=(), optional=("hash_of", *SHARES))
            if not isinstance(self.split.get("hash_of", ""), str):
                raise ValueError(f"split.hash_of is {self.split['hash_of']!r}, expected the name of a column")
            if wrong := [key for key in SHARES if isinstance(self.split.get(key), str)]:
                raise ValueError(f"split.{wrong[0]} is {self.split[wrong[0]]!r}, expected a fraction such as 0.1")
        if self.drawn:
            for name, share in self.shares.items():
                if not (share > 0 or (name == "gate" and share == 0)):
                    raise ValueError(f"split.{name} is {share}, expected above 0 and below 1 (only gate may be 0)")
            if not (total := sum(self.shares.values())) < 1:
                raise ValueError(
                    f"split.val, test, and gate sum to {total:g}, expected a sum below 1: train gets the rest"
                )

    @property
    def files(self) -> dict[str, str]:
        """Names of files or patterns by split; the key is "" if there is one for all splits."""
        return self.file if isinstance(self.file, dict) else {"": self.file}

    @property
    def foldable(self) -> bool:
        return self.train_target is None  # otherwise training rows have a different truth

    @property
    def has_label_cells(self) -> bool:
        return isinstance(self.labels, str) and not self.labels.endswith("*")

    @property
    def has_names(self) -> bool:
        """Whether some features are made from names."""
        return bool(self._given(NAMED))

    @property
    def filled(self) -> bool:
        """Whether an empty number is filled with the median of the training rows."""
        return self.missing == "impute"

    @property
    def drawn(self) -> bool:
        """Whether splits are drawn by a hash."""
        return not isinstance(self.split, str) and not isinstance(self.file, dict)

    @property
    def hashed(self) -> str | None:
        """The column in `hash_of`, whose hash draws the split; None for the group, the id, or the input."""
        return str(self.split["hash_of"]) if isinstance(self.split, dict) and "hash_of" in self.split else None

    @property
    def shares(self) -> dict[str, float]:
        split = self.split if isinstance(self.split, dict) else {}
        return {name: float(split.get(name, share)) for name, share in SHARES.items()}

    @property
    def splits(self) -> tuple[str, ...]:
        if self.drawn:
            return ALL_SPLITS if self.shares["gate"] else SPLITS
        return ALL_SPLITS if self.gate_share or "gate" in self.files else SPLITS

    @property
    def writing(self) -> Writing:
        return Writing(self.decimal, self.thousands, (*(self.dates or {}).items(),))

    @property
    def split_group(self) -> str | None:
        """The column whose rows stay in one split and fold: the group, or the prompts that several queries share."""
        return (self.hashed if self.relevance else None) or self.group

    @property
    def reading(self) -> dict[str, Any]:
        """Return what a model must know to read such a file: options that are not the default, and role columns."""
        unusual = {name: vars(self)[name] for name in WRITTEN if vars(self)[name] != getattr(TableOptions, name)}
        # The group may also be the query.
        is_own_group = not self.relevance and self.group != self.captions
        named = {
            "format": self.format,
            "id": self.id,
            "query": self.group if self.relevance else None,
            "rejected": self.rejected,
            "pad": self.pad,
            "group": self.group if is_own_group else None,
            "caption": self.captions if isinstance(self.captions, str) else None,
            "separator": self.frame_separator if self.frames is not None else None,
        }
        return {"columns": self.input_columns, **unusual} | {name: value for name, value in named.items() if value}

    def _given(self, roles: tuple[str, ...]) -> list[str]:
        return [role for role in roles if getattr(self, role) is not None]

    @property
    def input_type(self) -> type[InputType]:
        """The type of the input: the one whose name is a given role, or else to which a given role belongs."""
        types = [lookup.find("inputs", name) for name in INPUTS]
        named = [input_type for input_type in types if self._given((input_type.name,))]
        return named[0] if named else next(input_type for input_type in types if self._given(input_type.roles))

    @property
    def input(self) -> str:
        """The role of the input."""
        return self.input_type.name

    @property
    def input_columns(self) -> list[str]:
        """The columns of the input, or patterns for them."""
        options = [getattr(self, role) for role in self._given((self.input, *NAMED))]
        return [column for option in options for column in (option if isinstance(option, list) else [option])]

    @property
    def truth_role(self) -> str:
        """The role of the truth."""
        return self._given(TRUTHS)[0]

    @property
    def truth(self) -> str:
        """The column of the truth."""
        stored_as = {"labels": "label_ranks"} if self.ordered else {"rejected": "relevance"}
        return stored_as.get(self.truth_role, self.truth_role)

    @property
    def lists(self) -> bool:
        """Whether an example is a query with a list of inputs, its documents."""
        return self.truth == "relevance"

    @property
    def is_one_collection(self) -> bool:
        """Whether queries search the passages of all splits."""
        return self.text is not None and self.captions is not None and self.gallery is None

    @property
    def passages_repeat(self) -> bool:
        """Whether a passage may be in several rows, in any splits: each group of queries has its own."""
        return self.is_one_collection and self.group is not None

    @property
    def schema(self) -> pa.Schema:
        return self.schema_for({})

    def schema_for(self, fitted: Mapping[str, Any]) -> pa.Schema:
        """Return the schema, with the fitted lengths and names if there are any."""
        classes, width = fitted.get("classes", []), fitted.get("width")
        each = pa.list_(pa.int64(), len(classes)) if classes else pa.list_(pa.int64())
        stored = self.input_type.stored(width=width, single=bool(fitted.get("single")))
        grades = pa.int64() if fitted.get("whole", True) else pa.float64()
        truths = {
            "labels": each,
            "label_ranks": each,
            "target": pa.float64(),
            "relevance": pa.list_(grades),
            "captions": pa.list_(pa.string()),
        }
        of_file = {name: fitted[name] for name in ("lowest", "other_columns") if name in fitted}
        kind = pa.list_(stored) if self.lists else stored
        fields = {"id": pa.int64(), "name": pa.string(), self.input: kind, self.truth: truths[self.truth]}
        if self.ignore is not None:
            fields["difficult"] = pa.list_(pa.bool_(), len(classes) or -1)
        if self.group is not None and (not self.relevance or self.split_group != self.group):
            fields["group"] = pa.string()
        else:
            fields["key"] = pa.string()  # decides on the split and the fold, see `rankgrad.datasets.tables.examples`
        if self.within:
            fields["within"] = pa.string()  # the name of the group column, which predictions keep
        if self.weight is not None:
            fields["weight"] = pa.float64()
        if self.negatives is not None:
            fields["negatives"] = pa.list_(pa.list_(pa.string()))  # of each caption
        if self.gallery is not None:
            fields["gallery"] = pa.int64()
        fields |= {SLICE + column: pa.string() for column in self.slices or ()}
        facts = {"classes": classes, "features": fitted.get("features"), "input": self.reading | of_file}
        metadata = {name: json.dumps(value) for name, value in facts.items() if value}
        return pa.schema(fields, metadata or None)

    def roles(self, names: list[str]) -> dict[str, list[str]]:
        """Return the columns of each role in a file.

        Raises:
            ValueError: a column is missing, or no column matches a pattern.
        """
        columns_of: dict[str, list[str]] = {}
        for role in (*INPUTS, *NAMED, *TRUTHS, *STRUCTURE):
            option = self._column_of(role)
            if option is None:
                continue
            patterns = option if isinstance(option, list) else [option]
            columns = [column for pattern in patterns for column in columns_like(pattern, names)]
            if not columns:
                require_columns([str(option)], names)
            require_columns(columns, names)
            if len(set(columns)) < len(columns):
                raise ValueError(f"{role}: column {max(columns, key=columns.count)!r} is named twice; name it once")
            columns_of[role] = columns
        if self.slices is not None:
            require_columns(self.slices, names)  # stored by these names, so they are no patterns
        if self.ignore is not None:
            ignored, labels = len(columns_of["ignore"]), len(columns_of["labels"])
            if ignored != labels:
                raise ValueError(f"ignore: {ignored} columns, expected one for each of the {labels} columns of labels")
            columns_of["ignore"] = self._beside_labels(columns_of["ignore"], columns_of["labels"])
        for column in self.dates or ():
            if column not in columns_of.get("features", ()):
                raise ValueError(f"dates: {column!r} is not a column of features; add it to `features`")
        for learned, role in product(LEARNED, (*TRUTHS, "train_target", "weight", "id", "split")):
            if shared := set(columns_of.get(role, ())) & set(columns_of.get(learned, ())):
                raise ValueError(
                    f"{learned}: column {min(shared)!r} is the {role} too, so the model would see it as input; leave "
                    f"it out of {learned}"
                )
        for first, second in combinations(LEARNED, 2):
            if shared := set(columns_of.get(first, ())) & set(columns_of.get(second, ())):
                raise ValueError(f"column {min(shared)!r} is in {first} and in {second}; name it in only one of them")
        return columns_of

    def _beside_labels(self, ignored: list[str], labels: list[str]) -> list[str]:
        """Return the columns of `ignore` in the order of those of `labels`: of two patterns, by what `*` stands for."""
        starts = []
        for option in (self.ignore, self.labels):
            [pattern, *others] = option if isinstance(option, list) else [str(option)]
            if others or not pattern.endswith("*"):
                return ignored
            starts.append(pattern.removesuffix("*"))
        start, start_of_label = starts
        expected = [start + label.removeprefix(start_of_label) for label in labels]
        if {*expected} != {*ignored}:
            missing = next(column for column in expected if column not in ignored)
            raise ValueError(
                f"ignore: no column {missing!r}, expected one for each column of labels; or list both in the same order"
            )
        return expected

    def _column_of(self, role: str) -> Any:
        if role == "date":
            return self.date["column"] if self.date else None
        if role == "key":
            return self.hashed
        if role == "split":
            return self.split if isinstance(self.split, str) else None
        return getattr(self, role)


def _check_keys(option: str, block: Mapping[str, Any], *, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for key in block:
        if key not in (keys := (*required, *optional)):
            raise ValueError(f"{option}.{key}: unknown key; expected {', '.join(keys)}{did_you_mean(key, keys)}")
    if missing := [key for key in required if key not in block]:
        raise ValueError(f"{option}.{missing[0]}: missing; expected {', '.join(required)}")

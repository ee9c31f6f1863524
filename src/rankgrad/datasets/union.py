"""Several datasets of photos or videos as one: rows of each, in the splits that they have there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from rankgrad import lookup
from rankgrad.datasets.files.expected import in_set
from rankgrad.datasets.public.reading import PhotoDataset
from rankgrad.io.parquet import is_list, read_table

__all__ = ["Union"]

OF_ALL = ("skip_broken", "allow_repeated")  # options of the union, not of a source


@dataclass(frozen=True, kw_only=True)
class Union(PhotoDataset):
    """Rows of several datasets, one after another; each is called `<raw of its source>/<name>`.

    All have the same columns. Where they differ in the number of frames (VideoMem has seven, LaMem one), each row keeps
    its own.

    Attributes:
        sources: at least two: the `name` of a dataset, `raw`, its folder below the union's, and `args`, its options.
    """

    sources: list[dict[str, Any]]
    gate_share: float = field(default=0.5, init=False)  # of each source, in its options

    layout: ClassVar[str] = "a folder for each source, which `raw` of the source names, in that dataset's own layout\n"

    def __post_init__(self) -> None:
        for number, source in enumerate(self.sources):
            _check(source, f"sources.{number}")
        folders = [source["raw"] for source in self.sources]
        if len(folders) < 2 or len(set(folders)) < len(folders):
            raise ValueError(f"sources have the folders {', '.join(folders)}, expected two or more, each its own")
        super().__post_init__()
        _shared([one.schema for one in self.parts.values()])

    @cached_property
    def parts(self) -> dict[str, PhotoDataset]:
        """The datasets by their folders."""
        return {one["raw"]: lookup.find("datasets", one["name"])(**one.get("args", {})) for one in self.sources}

    @property
    def schema(self) -> pa.Schema:  # ty: ignore[incompatible-property-override] - it depends on the options
        return _shared([one.schema for one in self.parts.values()])

    @property
    def grows(self) -> bool:  # ty: ignore[incompatible-property-override]
        return all(one.grows for one in self.parts.values())

    @property
    def foldable(self) -> bool:  # ty: ignore[incompatible-property-override]
        return all(one.foldable for one in self.parts.values())

    @property
    def splits(self) -> tuple[str, ...]:
        return max((one.splits for one in self.parts.values()), key=len)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(sorted({length for one in self.parts.values() for length in one.lengths}))

    def schema_of(self, raw: Path) -> pa.Schema:
        return _shared([one.schema_of(raw / folder) for folder, one in self.parts.items()])

    def check(self, raw: str | Path) -> None:
        for folder, one in self.parts.items():
            one.check(Path(raw) / folder)

    def check_later(self, raw: str | Path, *, first: str | Path, seed: int) -> None:
        for folder, one in self.parts.items():
            one.check_later(Path(raw) / folder, first=Path(first) / folder, seed=seed)

    def fit(self, raw: str | Path, *, seed: int) -> dict[str, Any]:
        fitted = {folder: one.fit(Path(raw) / folder, seed=seed) for folder, one in self.parts.items()}
        return {folder: values for folder, values in fitted.items() if values}

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        tables = []
        for folder, one in self.parts.items():
            listed = one.placed(raw / folder, seed=seed)
            named = {column: f"{folder}/" + listed[column] for column in ("file", "name")}
            tables.append(listed.assign(source=folder, **named))
        return pd.concat(tables, ignore_index=True)

    def prepared(self, listed: pd.DataFrame, fitted: Mapping[str, Any]) -> pd.DataFrame:
        rows = {folder: listed[listed["source"] == folder] for folder in self.parts}
        return pd.concat([one.prepared(rows[folder], fitted.get(folder, {})) for folder, one in self.parts.items()])

    def photos_of(self, raw: Path, file: str, size: int) -> list[bytes]:
        folder, _, rest = file.partition("/")
        return self.parts[folder].photos_of(raw / folder, rest, size)

    def measure(self, folder: str | Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
        """Return facts of each row, and of each source those of its own columns."""
        measured = super().measure(folder, split, threads=threads)
        path, rows = Path(folder) / f"{split}.parquet", measured["rows"]
        read = read_table(path, [name for name in self.schema.names if name not in ("frames", "image")])
        sources = rows["name"].fillna("").str.partition("/")[0]
        for source, one in self.parts.items():
            own = (sources == source).to_numpy()
            facts = one.facts(read.filter(pa.array(own)))
            measured[source] = pd.DataFrame(facts, index=rows.index[own])
        return measured

    def across(self, facts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        result = super().across({"rows": facts["rows"]})
        for source, one in self.parts.items():
            result[source] = one.across({"rows": facts["rows"].join(facts[source], how="inner")})["rows"]
        return result

    def expectations(self, rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
        expected = super().expectations(rows, size=size)
        for source, one in self.parts.items():
            expected[source] = [in_set("photos", *one.lengths), *one.expected]
        return expected


def _check(source: dict[str, Any], where: str) -> None:
    """Raise ValueError if a source cannot be one."""
    if not {"name", "raw"} <= source.keys() <= {"name", "raw", "args"} or not isinstance(source.get("args", {}), dict):
        raise ValueError(f"{where} is {source}, expected {{name: ..., raw: ..., args: {{...}}}}")
    if not isinstance(source["raw"], str) or not re.fullmatch(r"\w[\w.-]*", source["raw"], re.ASCII):
        raise ValueError(f"{where}.raw is {source['raw']!r}, expected the name of a folder in that of the union")
    kind, args = lookup.find("datasets", source["name"], where=f"{where}.name"), source.get("args", {})
    if not issubclass(kind, PhotoDataset):
        raise ValueError(f"{where}.name: {source['name']} has no photos in files that lists name")
    if common := [option for option in OF_ALL if option in args]:
        raise ValueError(f"{where}.args.{common[0]}: give it to the union, for all of its sources")
    lookup.check_options("datasets", source["name"], args, where=where)
    try:
        kind(**args)
    except (TypeError, ValueError) as error:  # the former of an option of another type
        raise ValueError(f"{where}.args: {error}") from error


def _shared(schemas: list[pa.Schema]) -> pa.Schema:
    """Return the schema of tables one below another; lists of different lengths are lists of any.

    Raises:
        ValueError: they have other columns, or other classes.
    """
    first, *others = schemas
    fields = list(first)
    for other in others:
        if other.names != first.names or other.metadata != first.metadata:
            raise ValueError(
                f"sources have the columns {', '.join(first.names)} ({first.metadata}) and {', '.join(other.names)} "
                f"({other.metadata}), expected the same, with the same classes"
            )
        for place, (ours, theirs) in enumerate(zip(fields, other, strict=True)):
            if ours.type != theirs.type:
                if not (is_list(ours.type) and is_list(theirs.type) and ours.type.value_type == theirs.type.value_type):
                    raise ValueError(f"sources have {ours.name} as {ours.type} and as {theirs.type}, expected the same")
                fields[place] = pa.field(ours.name, pa.list_(ours.type.value_type))
    return pa.schema(fields, metadata=first.metadata)

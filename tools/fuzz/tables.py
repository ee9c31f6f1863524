"""Tables of one's own in every format, whole and damaged, with options that fit and that do not."""

import json
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from rankops.datasets.public.reading import Reading
from rankops.datasets.table import Table
from tools.fuzz.attempt import WrongAnswer, refused
from tools.fuzz.mutation import ODD, changed_bytes, changed_tree

OPTIONS: tuple[dict[str, Any], ...] = (
    {"features": ["a", "b"], "target": "y"},
    {"features": "*", "target": "y", "id": "name", "weight": "w"},
    {"features": ["a", "b"], "relevance": "grade", "group": "query"},
    {"text": "words", "labels": "tags"}, {"text": "words", "labels": "tags", "ordered": True, "label_separator": " "},
    {"text": "words", "target": "y", "group": "query"}, {"features": ["a"], "label_ranks": ["p", "q", "grade"]},
    {"text": "words", "labels": ["p", "q"], "split": "part"}, {"features": ["a", "b"], "captions": "words"},
    {"text": "words", "target": "y", "date": {"column": "day", "first": "2026-01-20", "every": "week"}},
)  # fmt: skip
FORMATS = ("csv", "csv", "csv", "tsv", "jsonl", "parquet", "npz", "svmlight")
SPLIT = {"hash_of": "query", "val": 0.25, "test": 0.25, "gate": 0.2}


def draw(random: np.random.Generator) -> dict[str, Any]:
    kind, options = FORMATS[random.integers(len(FORMATS))], dict(OPTIONS[random.integers(len(OPTIONS))])
    rows, cells, texts = int(random.choice([1, 5, 40, 40, 40])), int(random.choice([0, 0, 1, 3])), 0
    frame = _frame(rows, random)
    if options.get("features") == "*":
        options["features"] = ["a", "b"]
    for _ in range(cells):
        column = frame.columns[random.integers(frame.shape[1])]
        frame[column] = frame[column].astype(object)
        frame.iloc[int(random.integers(rows)), frame.columns.get_loc(column)] = ODD[random.integers(20)]
    if random.random() < 0.25:
        texts = int(random.integers(1, 4))
    if "split" not in options and "date" not in options:
        options["split"] = dict(SPLIT)
    if kind == "svmlight":
        options = {"features": "all", "target": "label", "group": "qid", "split": SPLIT | {"hash_of": "qid"}}
    right = not cells and not texts and rows == 40
    if random.random() < 0.2:
        options, right = changed_tree(options, random, times=1), False
    contents = changed_bytes(_encoded(frame, kind), random, times=texts)
    return {"kind": kind, "contents": contents.hex(), "options": options, "right": right}


def _frame(rows: int, random: np.random.Generator) -> pd.DataFrame:
    words = np.array(["red", "blue", "hat", "shoe", "dress", "größe", "a,b", 'say "so"'], object)
    some = lambda count: [" ".join(random.choice(words[:count], 3)) for _ in range(rows)]  # noqa: E731
    return pd.DataFrame({
        "name": [f"n{row}" for row in range(rows)], "a": random.normal(size=rows), "b": random.integers(0, 9, rows),
        "y": random.normal(size=rows).round(3), "w": random.random(rows) + 0.1, "grade": random.integers(0, 3, rows),
        "query": [f"q{row // 2}" for row in range(rows)], "words": some(8),
        "tags": [str(random.choice(words[:5])) for _ in range(rows)], "p": random.integers(0, 2, rows),
        "q": 1 - random.integers(0, 2, rows), 
        "part": [("train", "train", "val", "test")[row % 4] for row in range(rows)],
        "day": [f"2026-01-{1 + row % 28:02d}" for row in range(rows)],
    })  # fmt: skip


def _encoded(frame: pd.DataFrame, kind: str) -> bytes:
    buffer = BytesIO()
    try:
        match kind:
            case "csv" | "tsv":
                frame.to_csv(buffer, index=False, sep="," if kind == "csv" else "\t")
            case "jsonl":
                lines = [json.dumps(row, default=str) for row in frame.to_dict("records")]
                buffer.write("\n".join(lines).encode(errors="replace"))
            case "parquet":
                frame.to_parquet(buffer)
            case "npz":
                np.savez(buffer, **{name: frame[name].to_numpy() for name in frame if frame[name].dtype != object})
            case _:
                for number, row in enumerate(frame.to_dict("records")):
                    buffer.write(f"{row['y']} qid:{number // 2} 1:{row['a']} 3:{row['b']}\n".encode(errors="replace"))
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        frame.astype(str).to_csv(buffer, index=False)  # no such file can be written
    return buffer.getvalue()


def check(kind: str, contents: str, options: dict[str, Any], right: bool) -> None:
    with TemporaryDirectory(prefix="raw-") as scratch:
        raw = Path(scratch)
        (raw / f"t.{kind}").write_bytes(bytes.fromhex(contents))
        args = {"file": f"t.{kind}"} | options
        table = None
        with refused("for Table"):  # as the params are checked
            table = TypeAdapter(Table).validate_json(json.dumps(args), strict=True)
        if table is None:
            return
        found: list[Any] = []
        with refused(r"raw-|\bsplit|_share|hash_of"):
            table.check(raw)
            fitted = json.loads(json.dumps(table.fit(raw, seed=1), allow_nan=False))
            for split in table.splits:
                found += table.tables(raw, split, Reading(None, 1, 1, fitted, [], 1))
        _check_rows(found, table)
        if right and kind not in ("npz", "svmlight") and (table.target, table.date) == ("y", None) and found:
            _compare(found, _read(raw / f"t.{kind}"), table)


def _check_rows(found: list[Any], table: Table) -> None:
    names = [name for part in found for name in part["name"].to_pylist()]
    if not table.relevance and not table.captions and len({*names}) < len(names):
        raise WrongAnswer("a row in two splits")
    for part in found:
        for column in {"target", "weight"} & {*part.column_names}:
            if not np.isfinite(part[column].to_numpy()).all():
                raise WrongAnswer(f"{column} is not finite")


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".jsonl":
        return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")


def _compare(found: list[Any], written: pd.DataFrame, table: Table) -> None:
    """Raise where a row has not the target of the row that it is named after, or one is lost."""
    written = written.set_index(written["name"] if table.id else pd.Index(map(str, range(1, len(written) + 1))))
    read = {
        name: y for part in found for name, y in zip(*(part[c].to_pylist() for c in ("name", "target")), strict=True)
    }
    if len(read) != len(written):
        raise WrongAnswer(f"{len(read)} of {len(written)} rows")
    if not np.allclose([written["y"][name] for name in read], [*read.values()], atol=1e-6):
        raise WrongAnswer("a row with the target of another")

"""What must hold for the tables that are made of a person's own: facts of each row and class, and expectations."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rankops.datasets.files.expected import between, in_set, mean, rows_of, unique
from rankops.datasets.public.reading import photo_facts, same_elsewhere
from rankops.io.parquet import columns_of, list_lengths, parquet_file, read_table

if TYPE_CHECKING:
    from rankops.datasets.table import Table

__all__ = ["compared", "expected_of", "facts_of"]

PIECE = 64  # rows of pictures that are decoded together
DRIFT = 0.1  # of a class's share, and of deviations of a target's mean: beyond it, a later delivery is another
LEFT_OUT = 0.5  # of the rows, beyond which what is left is hardly the data


def facts_of(table: "Table", folder: Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
    """Return facts of a split: `rows`, and `classes` where there are labels.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or lacks a column.
    """
    path = folder / f"{split}.parquet"
    names = list(table.schema.names)
    pictures = table.input in ("image", "frames")
    read = read_table(path, [name for name in names if not (pictures and name == table.input)])
    if table.input not in columns_of(path):
        raise ValueError(f"{path}: no column {table.input}")
    facts: dict[str, Any] = {
        "split": split,
        "id": read["id"].to_pylist(),
        "split_rows": f"{split}: {len(read)}",
        "name": read["name"].to_pylist(),
    }
    if table.group is not None and not table.relevance:
        facts["group"] = read["group"].to_pylist()
    if table.weight is not None:
        facts["weight"] = read["weight"].to_pylist()
    facts |= _truth_facts(table, read)
    if pictures:
        found = _picture_facts(table, path, threads)
        facts |= {name: [row[name] for row in found] for name in found[0]} if found else {}
    elif table.input == "text":
        cells = [[cell] if isinstance(cell, str) else cell or [""] for cell in read["text"].to_pylist()]
        facts["characters"] = [min(map(len, row)) for row in cells]
    else:
        facts |= _feature_facts(table, read["features"])
    if table.relevance:
        facts["documents"] = facts["photos"] if pictures else list_lengths(read[table.input])
        facts["a_grade_each"] = [count == own for count, own in zip(facts["documents"], facts["grades"], strict=True)]
    result = {"rows": pd.DataFrame(facts).set_index(["split", "id"])}
    if table.truth in ("labels", "label_ranks"):
        result["classes"] = _class_facts(table, folder, path, split, read)
    result["splits"] = _split_facts(table, folder, split, read)
    return result


def _truth_facts(table: "Table", read: pa.Table) -> dict[str, Any]:
    truth = read[table.truth]
    if table.truth == "target":
        return {"target": truth.to_pylist(), "finite_target": np.isfinite(truth.to_numpy())}
    rows = [row or [] for row in truth.to_pylist()]
    if table.truth == "captions":
        return {
            "captions": [len(row) for row in rows],
            "captions_have_words": [all(any(map(str.isalnum, one or "")) for one in row) for row in rows],
        }
    if table.truth == "relevance":
        grades = [[one for one in row if one is not None] for row in rows]
        return {
            "grades": [len(row) for row in grades],
            "lowest_relevance": [min(row, default=0) for row in grades],
            "highest_relevance": [max(row, default=0) for row in grades],
            "has_relevant": [float(max(row, default=0) > 0) for row in grades],
        }
    present = [[rank for rank in row if rank != 0] for row in rows]
    if table.truth == "labels":
        return {"labels": list(map(len, present)), "labels_are_0_or_1": [set(row) <= {0, 1} for row in rows]}
    dense = [None not in row and sorted(set(row)) == list(range(1, len(set(row)) + 1)) for row in present]
    return {"labels": list(map(len, present)), "ranks_are_1_upwards": dense}


def _feature_facts(table: "Table", column: pa.ChunkedArray) -> dict[str, Any]:
    cells = [chunk.flatten() for chunk in column.chunks] if table.relevance else column.chunks
    vectors = pa.chunked_array(cells, type=column.type.value_type if table.relevance else column.type)
    lengths = list_lengths(vectors)
    values = pa.chunked_array([chunk.flatten() for chunk in vectors.chunks], type=vectors.type.value_type).to_numpy()
    ends = np.cumsum(lengths)
    finite = np.array(
        [np.isfinite(values[end - length : end]).all() for end, length in zip(ends, lengths, strict=True)]
    )
    largest = np.array(
        [np.abs(values[end - length : end]).max(initial=0.0) for end, length in zip(ends, lengths, strict=True)]
    )
    if table.relevance:
        sizes = list_lengths(column)
        starts = np.cumsum(sizes) - sizes
        return {
            "features": np.maximum.reduceat(lengths, starts),
            "finite_features": np.logical_and.reduceat(finite, starts),
            "largest_feature": np.maximum.reduceat(largest, starts),
        }
    return {"features": lengths, "finite_features": finite, "largest_feature": largest}


def _picture_facts(table: "Table", path: Path, threads: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with parquet_file(path) as file, ThreadPoolExecutor(threads) as pool:
        for batch in file.iter_batches(batch_size=PIECE, columns=[table.input]):
            cells = [cell if isinstance(cell, list) else [cell] for cell in batch.column(0).to_pylist()]
            rows += pool.map(photo_facts, cells)
    return rows


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def _first_rows(folder: Path, rows: int) -> int:
    """Return how many rows of training are of the first delivery, where there are later ones; else 0."""
    first = _manifest(folder).get("fitted", {}).get("rows", rows)
    return first if first < rows else 0


def _class_facts(table: "Table", folder: Path, path: Path, split: str, read: pa.Table) -> pd.DataFrame:
    """Facts of each class: how many rows of the split have it, and in training how its share drifts over time."""
    metadata = read.schema.metadata or {}
    width = int(list_lengths(read[table.truth])[:1].sum())
    classes = json.loads(metadata.get(b"classes", b"null")) or [str(number) for number in range(width)]
    present = np.array(read[table.truth].to_pylist()).reshape(len(read), -1) != 0
    drift = np.zeros(len(classes))
    if split == "train" and (first := _first_rows(folder, len(read))):
        drift = np.abs(present[first:].mean(0) - present[:first].mean(0))
    facts = {"split": split, "class": classes, "rows": present.sum(0), "drift": drift}
    return pd.DataFrame(facts).set_index(["split", "class"])


def _split_facts(table: "Table", folder: Path, split: str, read: pa.Table) -> pd.DataFrame:
    """Facts of a split: its rows, how many were left out, and in training how far later targets are from the first."""
    manifest = _manifest(folder)
    left_out = manifest.get("skipped", {}).get(split, {}).get("files", 0)
    if split == "train":
        left_out += manifest.get("fitted", {}).get("left_out", 0)
    facts = {
        "split": split,
        "rows": len(read),
        "left_out": left_out,
        "left_out_share": left_out / (left_out + len(read)),
    }
    if table.truth == "target":
        target, first = read["target"].to_numpy(), _first_rows(folder, len(read)) if split == "train" else 0
        shift = (
            abs(target[first:].mean() - target[:first].mean()) / max(float(target[:first].std()), 1e-12) if first else 0
        )
        facts |= {"mean_target": float(target.mean()), "shift_in_deviations": float(shift)}
    return pd.DataFrame([facts]).set_index("split")


def compared(table: "Table", facts: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the facts of all splits with what is the same elsewhere: names, pictures, groups."""
    rows, result = facts["rows"], dict(facts)
    told = {"same_name_as": same_elsewhere(rows["name"])}
    if "pixels" in rows:
        told["same_picture_as"] = same_elsewhere(rows["pixels"])
    if "group" in rows:
        elsewhere = same_elsewhere(rows["group"])
        named = [place and f"{group} in {place}" for group, place in zip(rows["group"], elsewhere, strict=True)]
        told["same_group_as"] = pd.Series(named, rows.index)
    result["rows"] = rows.assign(**told)
    if "classes" in facts:
        classes = facts["classes"]
        seen = classes.xs("train")["rows"]
        result["classes"] = classes.assign(in_training=classes.index.get_level_values("class").map(seen))
    return result


def expected_of(table: "Table", rows: dict[str, int], *, size: int | None) -> dict[str, list[dict[str, Any]]]:
    """Return what must hold, see `rankops.datasets.files.expected`; a `severity` of warning fails nothing."""
    expected = [
        *rows_of(rows),
        in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items())),
        in_set("same_name_as", ""),
        {"type": "expect_column_value_lengths_to_be_between", "column": "name", "min_value": 1},
    ]
    if table.captions is None:
        expected.append(unique("name"))
    if table.group is not None and not table.relevance:
        expected.append(in_set("same_group_as", ""))
    if table.weight is not None:
        expected.append({**between("weight", 0.0), "strict_min": True})
    expected += _expected_truth(table) + _expected_input(table, size)
    result = {"rows": expected, "splits": [between("left_out_share", 0.0, LEFT_OUT)]}
    if table.truth == "target":
        result["splits"].append({**between("shift_in_deviations", 0.0, DRIFT), "severity": "warning"})
    if table.truth in ("labels", "label_ranks"):
        result["classes"] = [between("in_training", 1), {**between("drift", 0.0, DRIFT), "severity": "warning"}]
    return result


def _expected_truth(table: "Table") -> list[dict[str, Any]]:
    return {
        "target": [in_set("finite_target", True)],
        "captions": [between("captions", 1), in_set("captions_have_words", True)],
        "relevance": [
            between("documents", 2),
            in_set("a_grade_each", True),
            between("lowest_relevance", 0),
            {**mean("has_relevant", 0.5, 1.0), "severity": "warning"},
        ],
        "labels": [in_set("labels_are_0_or_1", True), between("labels", 0)],
        "label_ranks": [in_set("ranks_are_1_upwards", True), between("labels", 1)],
    }[table.truth]


def _expected_input(table: "Table", size: int | None) -> list[dict[str, Any]]:
    if table.input == "text":
        return [between("characters", 1)]
    if table.input == "features":
        return [in_set("finite_features", True), between("features", 1), between("largest_feature", 0.0)]
    same = [] if table.allow_repeated or table.relevance else [in_set("same_picture_as", "")]
    return [
        *same,
        between("photos", 1),
        in_set("decodes", True),
        in_set("mode", "RGB"),
        in_set("size", f"{size} x {size}"),
    ]

"""Facts about the rows and classes of a stored table, and the expectations they must meet."""

import json
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import Expectation, Expectations, between, in_set, mean, rows_of, unique
from rankgrad.datasets.files.folds import FOLD
from rankgrad.datasets.tables.cells import has_word
from rankgrad.datasets.tables.roles import TableOptions
from rankgrad.io.parquet import columns_of, documents_of, read_table, said
from rankgrad.plain_text import spelled_alike

__all__ = ["compared", "expected_of", "facts_of"]

# A later delivery may shift a class's fraction by this much, or the target's mean by this many standard deviations,
# without a warning.
DRIFT = 0.1
LEFT_OUT = 0.5  # largest fraction of rows that may be left out


def facts_of(table: TableOptions, folder: Path, split: str, *, threads: int) -> dict[str, pd.DataFrame]:
    """Return facts about a split: `rows`, `training`, `splits`, and, if the table has them, `classes` and `groups`.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or lacks a column.
    """
    path, lists = folder / f"{split}.parquet", table.lists
    stored = columns_of(path)
    if table.input not in stored:
        raise ValueError(f"{path}: no column {table.input}")
    columns = [name for name in table.schema.names if name != table.input]
    read = read_table(path, columns + ([FOLD] if FOLD in stored else []))
    split_name = "all folds" if FOLD in stored else split
    splits = [f"fold {fold}" for fold in read[FOLD].to_pylist()] if FOLD in stored else [split] * len(read)
    counts = Counter(splits)
    facts: dict[str, Any] = {"split": splits, "split_rows": [f"{name}: {counts[name]}" for name in splits]}
    facts |= {name: read[name].to_pylist() for name in ("id", "name", "group", "weight") if name in columns}
    facts |= pd.DataFrame(map(TRUTH_FACTS[table.truth], read[table.truth].to_pylist())).to_dict("list")
    facts |= table.input_type.facts(path, lists=lists, threads=threads).to_dict("list")
    if not table.input_type.pictures:
        cells = read_table(path, [table.input])[table.input].to_pandas()
        facts["contents"] = [_digest(cell).hex() for cell in cells]
        if lists:
            facts["different_documents"] = [len({*map(_digest, cell)}) for cell in cells]
    if table.truth == "captions":
        facts["repeated_captions"] = _repeated_captions(read["captions"].to_pylist())
        if table.is_one_collection:
            facts["query"] = [spelled_alike(captions[0] or "") for captions in read["captions"].to_pylist()]
    if lists:
        facts["documents"] = documents_of(path, table.input)
        facts["a_grade_each"] = [*map(operator.eq, facts["documents"], facts["grades"])]
    result = {"rows": pd.DataFrame(facts).set_index(["split", "id"])}
    manifest = json.loads((folder / "manifest.json").read_text())
    first = manifest["fitted"]["rows"] if split == "train" else len(read)  # rows of the first delivery
    if table.truth in ("labels", "label_ranks"):
        result["classes"] = _class_facts(table, split_name, path, read, first)
    if table.within:
        result["groups"] = _group_facts(splits, read)
    variety = _variety(split_name, result["rows"])
    result["training"] = variety if split == "train" else variety[:0]
    result["splits"] = _split_facts(table, split_name, read, manifest, first)
    return result


# Facts about a cell of each truth; a missing value fails.


def _target(value: float | None) -> dict[str, Any]:
    return {"target": value, "finite_target": value is not None and isfinite(value)}


def _captions(row: list[str | None] | None) -> dict[str, Any]:
    captions = [caption or "" for caption in row or []]
    return {"captions": len(captions), "captions_have_words": all(map(has_word, captions))}


def _grades(row: list[float | None] | None) -> dict[str, Any]:
    grades = [grade for grade in row or [] if grade is not None]
    lowest, highest = min(grades, default=0), max(grades, default=0)
    facts = {"grades": len(grades), "lowest_relevance": lowest, "highest_relevance": highest}
    return facts | {"has_relevant": float(highest > 0)}


def _labels(row: list[int | None] | None) -> dict[str, Any]:
    present = [label for label in row or [] if label != 0]
    return {"labels": len(present), "labels_are_0_or_1": all(label == 1 for label in present)}


def _ranks(row: list[int | None] | None) -> dict[str, Any]:
    present = [rank for rank in row or [] if rank != 0]
    dense = None not in present and {*present} == {*range(1, len({*present}) + 1)}
    return {"labels": len(present), "ranks_are_1_upwards": dense}


TRUTH_FACTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "target": _target, "captions": _captions, "relevance": _grades, "labels": _labels, "label_ranks": _ranks,
}  # fmt: skip


def _digest(cell: Any) -> bytes:
    """Return a digest of an input or of a list of inputs; it ignores case and spaces of texts.

    >>> _digest("A  lamp") == _digest("a lamp"), _digest(np.array(["a", "b"], object)) == _digest("ab")
    (True, False)
    """
    if isinstance(cell, np.ndarray) and cell.dtype != object:
        contents = cell.tobytes()
    elif isinstance(cell, np.ndarray):
        contents = b"".join(map(_digest, cell))
    else:
        contents = (spelled_alike(cell) if isinstance(cell, str) else repr(cell)).encode(errors="surrogatepass")
    return blake2b(contents, digest_size=16).digest()


def _repeated_captions(rows: list[list[str | None] | None]) -> list[int]:
    """Return how many captions of each row also occur in another row, ignoring case and spaces.

    >>> _repeated_captions([["A lamp", "a  LAMP", "red"], ["a lamp"], ["blue"]])
    [1, 1, 0]
    """
    captions_of_rows = []
    for row in rows:
        captions_of_rows.append({spelled_alike(caption or "") for caption in row or []})
    counts, repeated = Counter(chain.from_iterable(captions_of_rows)), []
    for captions in captions_of_rows:
        repeated.append(sum(counts[caption] > 1 for caption in captions))
    return repeated


def _variety(split: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return how many different inputs a split has, or how many of its queries have different documents."""
    inputs = rows["pixels" if "pixels" in rows else "contents"]
    facts = {"split": [split], "different_inputs": [inputs.nunique()]}
    if "different_documents" in rows:
        facts["queries_of_different_documents"] = [(rows["different_documents"] > 1).sum()]
    return pd.DataFrame(facts).set_index("split")


def _class_facts(table: TableOptions, split: str, path: Path, read: pa.Table, first: int) -> pd.DataFrame:
    """Return how many rows of a split have each class, and how its fraction drifts after the first rows."""
    present = np.array(read[table.truth].to_pylist()) != 0
    later = present[first:] if first < len(read) else present[:first]
    drift = np.abs(later.mean(0) - present[:first].mean(0))
    facts = {"split": split, "class": said(path, "classes"), "rows": present.sum(0), "drift": drift}
    return pd.DataFrame(facts).set_index(["split", "class"])


def _split_facts(
    table: TableOptions, split: str, read: pa.Table, manifest: Mapping[str, Any], first: int
) -> pd.DataFrame:
    """Return the rows of a split, how many were left out, and how targets shift after the first rows."""
    files = [split] if split in manifest["skipped"] else ["train", "val", "test"]
    left_out = sum(manifest["skipped"].get(file, {}).get("files", 0) for file in files)
    left_out += manifest["fitted"]["left_out"] if "train" in files else 0
    fraction = left_out / (left_out + len(read))
    # Dropped queries and later rows of held-out groups are counted but are no reason to fail.
    left_out += sum(manifest.get("dropped", {}).get(file, 0) for file in files)
    left_out += manifest.get("known", 0) if "train" in files else 0
    facts = {"split": split, "rows": len(read), "left_out": left_out, "left_out_share": fraction}
    if table.truth == "target":
        target = read["target"].to_numpy()
        later = target[first:] if first < len(read) else target[:first]
        shift = abs(later.mean() - target[:first].mean()) / max(float(target[:first].std()), 1e-12)
        facts |= {"mean_target": float(target.mean()), "shift_in_deviations": float(shift)}
    return pd.DataFrame([facts]).set_index("split")


def _group_facts(splits: list[str], read: pa.Table) -> pd.DataFrame:
    """Return how many groups each split or fold has, how many can be judged, and why the others cannot."""
    rows = pd.DataFrame({"split": splits, "group": read["group"].to_pylist(), "target": read["target"].to_numpy()})
    of_groups = rows.groupby(["split", "group"])["target"]
    size, distinct = of_groups.size(), of_groups.nunique()
    facts = {
        "groups": 1,  # summed below
        "judged_groups": distinct > 1,
        "groups_of_one_row": size == 1,
        "groups_of_equal_targets": (size > 1) & (distinct == 1),
    }
    return pd.DataFrame(facts, size.index).groupby("split").sum()


def compared(facts: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Add to the facts of all splits which names, pictures, inputs, and groups also occur in another split."""
    rows, result = facts["rows"], dict(facts)
    columns = {"name": "name", "pixels": "picture", "contents": "input", "query": "query"}
    same = {f"same_{what}_as": _same_elsewhere(rows[column]) for column, what in columns.items() if column in rows}
    if "group" in rows:
        elsewhere = _same_elsewhere(rows["group"])
        same["same_group_as"] = elsewhere.where(elsewhere == "", rows["group"] + " in " + elsewhere)
    result["rows"] = rows.assign(**same)
    if "classes" in facts:
        classes = facts["classes"]
        seen = classes.xs(classes.index[0][0])["rows"]  # the training rows, or the rows of all folds
        result["classes"] = classes.assign(in_training=classes.index.get_level_values("class").map(seen))
    return result


def _same_elsewhere(values: pd.Series) -> pd.Series:
    """Return for each row the split and id of the first row of another split with the same value, or "".

    Args:
        values: indexed by `split` and `id`.

    >>> rows = pd.MultiIndex.from_tuples([("train", 0), ("train", 1), ("test", 0)], names=["split", "id"])
    >>> _same_elsewhere(pd.Series(["a", "b", "a"], rows)).tolist()
    ['test 0', '', 'train 0']
    """
    rows = values.index.to_frame(index=False).assign(value=values.to_numpy())
    firsts = rows.drop_duplicates(["value", "split"])
    pairs = firsts.merge(firsts, on="value", suffixes=("", "_elsewhere"))
    pairs = pairs[pairs["split"] != pairs["split_elsewhere"]].drop_duplicates(["value", "split"])
    pairs["same"] = pairs["split_elsewhere"] + " " + pairs["id_elsewhere"].astype(str)
    same = rows.merge(pairs[["value", "split", "same"]], on=["value", "split"], how="left")["same"].fillna("")
    return pd.Series(same.to_numpy(), values.index)


def expected_of(table: TableOptions, rows: dict[str, int], *, size: int | None) -> Expectations:
    """Return the expectations, see `rankgrad.datasets.files.expected`; those with `severity` warning fail nothing."""
    expected = [
        *rows_of(rows),
        in_set("split_rows", *(f"{split}: {count}" for split, count in rows.items())),
        *([] if table.passages_repeat else [in_set("same_name_as", "")]),
        {"type": "expect_column_value_lengths_to_be_between", "column": "name", "min_value": 1},
    ]
    if table.captions is None:
        expected.append(unique("name"))
    if "group" in table.schema.names:
        expected.append(in_set("same_group_as", ""))
    if table.weight is not None:
        expected.append({**between("weight", 0.0), "strict_min": True})
    expected += _expected_truth(table) + _expected_input(table, size)
    result = {"rows": expected, "splits": [between("left_out_share", 0.0, LEFT_OUT)]}
    result["training"] = [between("different_inputs", 2)]
    if table.lists and not table.input_type.pictures:
        result["training"] = [between("queries_of_different_documents", 1)]
    if table.within:
        result["groups"] = [between("judged_groups", 1)]
    if table.truth == "target":
        result["splits"].append({**between("shift_in_deviations", 0.0, DRIFT), "severity": "warning"})
    if table.truth in ("labels", "label_ranks"):
        result["classes"] = [between("in_training", 1), {**between("drift", 0.0, DRIFT), "severity": "warning"}]
    return result


def _expected_truth(table: TableOptions) -> list[Expectation]:
    return {
        "target": [in_set("finite_target", True)],
        "captions": [
            between("captions", 1),
            in_set("captions_have_words", True),
            # Queries may repeat in a split, since their other passages do not count as wrong.
            {
                **(in_set("same_query_as", "") if table.is_one_collection else between("repeated_captions", 0, 0)),
                "severity": "warning",
            },
        ],
        "relevance": [
            between("documents", 2),
            in_set("a_grade_each", True),
            between("lowest_relevance", 0),
            {**mean("has_relevant", 0.5, 1.0), "severity": "warning"},
        ],
        "labels": [in_set("labels_are_0_or_1", True), between("labels", 0)],
        "label_ranks": [in_set("ranks_are_1_upwards", True), between("labels", 1)],
    }[table.truth]


def _expected_input(table: TableOptions, size: int | None) -> list[Expectation]:
    input_type = table.input_type
    may_repeat = table.allow_repeated or table.lists
    expected = [in_set("same_picture_as", "")] if input_type.pictures and not may_repeat else []
    if not input_type.pictures and not table.passages_repeat:
        expected.append({**in_set("same_input_as", ""), "severity": "warning"})
    implied = input_type.expected(size=size) | ({"mode": "L"} if table.gray else {})
    for fact, value in implied.items():
        expected.append(in_set(fact, value) if isinstance(value, bool | str) else between(fact, value))
    return expected

"""Choose the seed and the gate of a table's splits, and say what is too small in them."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from pipelines.cli.starting_runs import examples_column, read_column
from pipelines.config import JUDGED
from rankgrad.datasets.files.dataset import SPLITS
from rankgrad.datasets.files.folds import fold_of
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.cells import as_numbers, converted, missing_in, split_in
from rankgrad.datasets.tables.deliveries import drawn_splits
from rankgrad.datasets.tables.examples import group_in, shortened
from rankgrad.datasets.tables.roles import SHARES
from rankgrad.plain_text import key_in

__all__ = ["Units", "check_splits", "draw_splits", "line_on_gate", "settle_refit", "trainings", "units_of"]

SEEDS, COMPARED = 1000, 100  # seeds to try until no split is empty; seeds to choose the best from
DRAWN = 1000  # most groups to draw for each seed: with so many, no split is empty
SMALL = 300  # rows or groups, for which several seeds are compared
FEW = 1000  # rows or groups; a test split of fewer than 200 leaves wide intervals
BY_HAND = "`rankgrad promote MODEL --version N`"
MOST_VALIDATION = 0.15  # so that most of a small table is for training
REFITTED = 10_000  # most rows, queries, or items of a table whose runs learn validation rows, too
CHOOSING = 20  # fewest validation rows by which epochs and settings are chosen
CHOSEN = 50  # fewest validation rows by which one of several models is chosen well


class Units(NamedTuple):
    """What the splits of a table divide: groups, items, or rows.

    Attributes:
        name: `rows`, or the column of groups.
        names: the name of each group or item, or the cell of each row.
        split: `all` if these are drawn for splits; for given splits, the one that they are in: the gate, or else `val`.
        examples: the number of rows, queries, or items.
        rows: the number of rows of each group; one for each item or row.
    """

    name: str
    names: pd.Series
    split: Literal["all", "gate", "val"]
    examples: int
    rows: Sequence[int]

    @property
    def needed_for_gate(self) -> int:
        """The fewest with which the gate can judge if it gets a fifth of them, or half of a given validation split."""
        return {"all": 6 * JUDGED, "gate": 0, "val": 2 * JUDGED}[self.split]

    @property
    def share_of_gate(self) -> float:
        """The fraction with which the gate can judge; a hash may draw a few less."""
        return ceil(120 * JUDGED / len(self.names)) / 100

    @property
    def share_of_validation(self) -> float:
        """The fraction with which some rows choose epochs and settings, if it is not much more than the usual one."""
        return min(max(SHARES["val"], ceil(120 * CHOOSING / self.examples) / 100), MOST_VALIDATION)

    @property
    def are_too_few_for_gate(self) -> bool:
        return len(self.names) < self.needed_for_gate


def units_of(folder: Path, dataset: Table) -> Units:
    """Read what the splits of a table divide."""
    example_column, is_example = examples_column(dataset)
    group, split = dataset.split_group, "gate" if "gate" in dataset.files else "val"
    sheet, cells = read_column(dataset, folder, group or example_column, split=split)
    is_there = ~missing_in(cells, numeric=False)
    if isinstance(dataset.split, str):
        splits = _given_splits(folder, dataset)
        split = "gate" if (splits == "gate").any() else "val"
        is_there &= cells.index.isin(splits.index[splits == split])
    if dataset.weight is not None:
        weight_sheet, weights = read_column(dataset, folder, dataset.weight, split=split)
        are_given = ~missing_in(weights, numeric=True)
        is_there[are_given] &= as_numbers(weight_sheet, weights[are_given]) != 0
    if dataset.without_relevant == "drop":
        is_there &= _are_in_useful_queries(folder, dataset, split=split)
    names = cells[is_there]
    examples, rows = len(names), [1] * len(names)
    if is_example:
        _, cells = read_column(dataset, folder, example_column, split=split)
        examples = cells[is_there].map(str).nunique()
    if group:
        sizes = names.map(str).value_counts(sort=False)
        firsts = converted(sheet, names[~names.map(str).duplicated()], partial(group_in, dataset))
        names, rows = firsts.drop_duplicates(), pd.Series(sizes.to_numpy()).groupby(firsts.to_numpy(), sort=False).sum()
    elif is_example:
        names = names.map(str).drop_duplicates()
    return Units(group or "rows", names, "all" if dataset.drawn else split, examples, [*rows])


def _are_in_useful_queries(folder: Path, dataset: Table, *, split: str) -> np.ndarray:
    """Return which rows (n,) belong to queries that are kept: with several documents and a grade above 0."""
    _, queries = read_column(dataset, folder, str(dataset.group), split=split)
    sheet, cells = read_column(dataset, folder, str(dataset.relevance), split=split)
    is_there = ~missing_in(cells, numeric=True) & ~missing_in(queries, numeric=False)
    grades = as_numbers(sheet, cells[is_there]).groupby(converted(sheet, queries[is_there], key_in))
    is_useful = (grades.transform("size") > 1) & (grades.transform("max") > 0)
    return is_useful.reindex(cells.index, fill_value=False).to_numpy()


def _given_splits(folder: Path, dataset: Table) -> pd.Series:
    """Return the split of each row that has one in the table's own column."""
    sheet, cells = read_column(dataset, folder, str(dataset.split))
    return converted(sheet, cells[~missing_in(cells, numeric=False)], split_in)


def settle_refit(runs: Mapping[str, dict[str, Any]], block: dict[str, Any], units: Units) -> bool:
    """Take `refit` out of runs that cannot learn validation rows, too, or gain little; return whether it is left.

    The gate then needs rows of its own. Many rows gain little from some more, and training takes twice the time.

    Args:
        runs: the runs on a table.
        block: the block of the dataset.
        units: what its splits divide.
    """
    dataset = Table(**block["args"])
    has_rows = dataset.drawn and "gate" in dataset.splits and dataset.train_target is None
    if not has_rows or units.examples > REFITTED:
        for run in runs.values():
            run.pop("refit", None)
    return any("refit" in run for run in runs.values())


def trainings(folds: int | None, *, is_refitted: bool) -> int:
    """Return how many models a run trains for each seed: one for each fold, the one to register, and its refit."""
    return 1 + (folds or 0) + is_refitted


def check_splits(folder: Path, dataset: Table, folds: int | None) -> None:
    """Raise ValueError if the table's own column of splits lacks one of them, or if folds would replace it."""
    if not isinstance(dataset.split, str):
        return
    if folds is not None:
        raise ValueError(
            f"--folds {folds}: folds would replace the splits in the column {dataset.split}: leave --folds out, or "
            "remove the column"
        )
    splits = {*_given_splits(folder, dataset)}
    absent = [split for split in SPLITS if split not in splits]
    if absent:
        raise ValueError(
            f"no {dataset.split} is {absent[0]}, expected train, val, and test: write {absent[0]} into a tenth of "
            "the other rows, and the same into all rows of a group"
        )


def draw_splits(dataset: dict[str, Any], units: Units, folds: int | None, *, before: Mapping[str, Any] | None) -> bool:
    """Write the seed and the shares of splits into the block of a dataset.

    Args:
        dataset: the block, which is changed.
        units: what its splits divide.
        folds: the number of its folds, which replace validation and test.
        before: the block that it replaces; None if it is new.

    Returns:
        Whether they are those of the block before, so that rows stay in their splits.
    """
    kept = {} if before is None else _kept(before, dataset, units, folds)
    dataset["args"] |= kept["args"] if kept else _shares_for(dataset["args"], units, folds)
    dataset["seed"] = kept["seed"] if kept else _seed_of(units, Table(**dataset["args"]), folds)
    return bool(kept)


def _seed_of(units: Units, dataset: Table, folds: int | None) -> int:
    """Return the seed of the hash that draws splits, or folds, of groups.

    No split but the gate, and no fold, may be empty. Of few groups, some have many rows, so the best of the first seeds
    is chosen: with it, fractions of rows are closest to the requested ones.

    Raises:
        ValueError: there are fewer groups or rows than folds or splits, or hardly more.
    """
    count, needed = len(units.names), folds or len(SPLITS)
    if units.split != "all":
        return 1  # nothing is drawn
    if count < needed:
        raise _too_few(units, dataset, folds)
    if dataset.split_group is None:
        return 1  # rows of equal size, whose fractions are close with any seed
    requested = _shares_of(dataset, folds)
    distances: dict[int, float] = {}
    for seed in range(1, SEEDS):
        splits = _splits_of(units.names.iloc[:DRAWN], dataset, seed, folds)
        rows = pd.Series(units.rows[:DRAWN]).groupby(splits).sum()
        filled = rows.index.difference(["gate"])
        if len(filled) == needed:
            shares = rows / rows.sum()
            distances[seed] = sum(abs(shares.get(split, 0.0) - share) for split, share in requested.items())
        has_enough_seeds = seed >= COMPARED or count > SMALL  # of many groups, the first seed that fills all will do
        if distances and has_enough_seeds:
            return min(distances, key=distances.__getitem__)
    raise _too_few(units, dataset, folds)


def _too_few(units: Units, dataset: Table, folds: int | None) -> ValueError:
    count = len(units.names)
    if folds is not None:
        return ValueError(f"--folds {folds}: {count} {units.name} are too few; pass fewer folds, or add {units.name}")
    advice = f"; if their rows need not stay together, remove the column {units.name}" if dataset.group else ""
    return ValueError(f"{count} {units.name} are too few for training, validation, and test: add {units.name}{advice}")


def _splits_of(names: pd.Series, dataset: Table, seed: int, folds: int | None) -> list[str]:
    """Return the split, or the fold, of each group."""
    splits = drawn_splits(dataset, names, seed)
    if folds is not None:  # which replace the splits except the gate
        keys = names if "group" in dataset.schema.names else names.map(shortened)
        for index, key in enumerate(keys):
            if splits[index] != "gate":
                splits[index] = str(fold_of(key, folds=folds, seed=seed))
    return splits


def _shares_of(dataset: Table, folds: int | None) -> dict[str, float]:
    """Return the fraction of rows that each split, or each fold and the gate, should have."""
    if folds is None:
        return {**dataset.shares, "train": 1 - sum(dataset.shares.values())}
    gate = dataset.shares["gate"]
    return {str(fold): (1 - gate) / folds for fold in range(1, folds + 1)} | {"gate": gate}


def _shares_for(options: dict[str, Any], units: Units, folds: int | None) -> dict[str, Any]:
    """Return the options by which validation and the gate of a small table get enough rows, or no gate; may be empty.

    Folds replace validation.
    """
    shares: dict[str, float] = {}
    if units.are_too_few_for_gate:
        shares["gate"] = 0
    elif units.split == "all" and units.share_of_gate > SHARES["gate"]:
        shares["gate"] = units.share_of_gate
    if isinstance(options["file"], dict) or isinstance(options.get("split"), str):
        return {"gate_share": shares["gate"]} if shares else {}
    if folds is None and units.share_of_validation > SHARES["val"]:
        shares["val"] = units.share_of_validation
    return {"split": options.get("split", {}) | shares} if shares else {}


def _kept(before: Mapping[str, Any], dataset: Mapping[str, Any], units: Units, folds: int | None) -> dict[str, Any]:
    """Return the seed and the options by which rows stay in the splits that a dataset drew.

    They are empty if it drew others, or if one of its splits or folds would be empty.

    Args:
        before: the dataset in the params, which `dataset` replaces.
        dataset: the new dataset.
        units: what its splits divide.
        folds: the number of its folds.
    """
    try:
        ours, theirs = (Table(**block["args"]) for block in (dataset, before))
        seed, split = before["seed"], before["args"].get("split")
    except (KeyError, TypeError, ValueError):  # written by hand, or by an older version
        return {}
    if not ours.drawn or _drawn_by(ours) != _drawn_by(theirs) or before.get("folds") != folds:
        return {}
    args = {} if split is None else {"split": split}
    splits = {*_splits_of(units.names.iloc[:DRAWN], Table(**dataset["args"] | args), seed, folds)} - {"gate"}
    return {"seed": seed, "args": args} if len(splits) == (folds or len(SPLITS)) else {}


def _drawn_by(table: Table) -> tuple[Any, ...]:
    """Return what decides on the split of a row."""
    key = table.hashed or table.split_group or table.id
    return table.drawn, key, None if key else table.input_columns


def line_on_gate(units: Units, block: dict[str, Any], *, is_refitted: bool, seeds: int) -> str:
    """Return a line on the size of the gate, on too few rows for validation, and on folds.

    Args:
        units: what the splits divide.
        block: the block of the dataset.
        is_refitted: whether runs learn validation rows, too.
        seeds: the number of models to train for each run.
    """
    dataset, total = Table(**block["args"]), len(units.names)
    unit = units.name if units.name == "rows" else f"groups of {units.name}"
    count, advice = round(total * dataset.shares["gate"]), "raise `split.gate`"
    if "gate" not in dataset.splits and not units.are_too_few_for_gate:
        line = "gate: none, as before; for one, write `gate: 0.1` into `split`, which moves rows out of training"
    elif "gate" not in dataset.splits:
        line = (
            f"gate: none, because {total} {unit} are fewer than {units.needed_for_gate}: promote by hand with {BY_HAND}"
        )
    elif units.split == "gate":
        line, count, advice = f"gate: {total} {unit}", total, "give more rows the split `gate`"
    elif units.split == "val":
        count, advice = round(total * dataset.gate_share), "raise `gate_share`"
        line = f"gate: about {count} of the {total} {unit} of val"
    elif dataset.split_group:
        count = drawn_splits(dataset, units.names, block["seed"]).count("gate")
        line = f"gate: {count} of {total} {unit}"
    else:
        line = f"gate: about {count} of {total} {unit}"
    if count < JUDGED and "gate" in dataset.splits:
        advice = f"{advice}, add more {unit}" if total >= 2 * JUDGED else f"add more {unit}"
        line += f"; with fewer than {JUDGED} it promotes no version: {advice}, or promote by hand with {BY_HAND}"
    if "folds" in block:  # folds replace validation and test
        return line
    if units.split != "gate":  # val was counted
        line += _advice_on_validation(dataset, units.examples)
    if total < FEW and dataset.foldable and not isinstance(dataset.split, str):
        folds = 5 if total >= JUDGED else 3
        now, then = (seeds * trainings(None, is_refitted=is_refitted), trainings(folds, is_refitted=is_refitted))
        line += (
            f"; to compare the runs on all rows outside the gate, pass `--folds {folds} --seeds 1`: each run then "
            f"trains {then} models, not {now}"
        )
        if dataset.drawn:
            of_folds = 1 if is_refitted else 1 - 1 / folds
            learned = (1 - dataset.shares["gate"]) * of_folds
            drawn = 1 - sum(dataset.shares.values()) + (dataset.shares["val"] if is_refitted else 0)
            line += f", and the model to register learns from {learned:.0%} of the rows, not {drawn:.0%}"
    return line


def _advice_on_validation(dataset: Table, examples: int) -> str:
    """Return what to do about too few examples for validation, which gets a share of their number, or ""."""
    share, way_out = 1 - dataset.gate_share, "give more rows the split `val`"
    if dataset.drawn:
        share, way_out = dataset.shares["val"], "raise `split.val`"
    count = round(examples * share)
    if count >= CHOSEN:
        return ""
    return f"; val: about {count}, too few to choose the champion by: {way_out}"

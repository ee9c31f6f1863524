"""Test whether new rows, and a model's predictions for them, still look like its training data.

Each quantity of a row gets a two-sample test, corrected for the number of quantities. Its distance must also be large
enough: with enough rows, any difference is significant, but not every difference is worth a training. Rows of one group
are alike, so the test counts them as fewer rows. See `pipelines.monitoring.reference` for the reference data.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import binom
from scipy.stats import false_discovery_control, fisher_exact, ks_2samp, kstwo

from pipelines.config import MONITORED
from pipelines.monitoring.measure import Measured, measure, prepared
from pipelines.monitoring.reference import GROUP, ROWS, Reference, chosen, read_reference
from pipelines.monitoring.shadow import Shadow, agreements
from pipelines.ops.messages import as_line, first_line
from pipelines.serving.named_model import at_version, model_folder
from pipelines.serving.request_log import CAPTION, input_compared
from rankgrad.cli import answers as tables
from rankgrad.datasets.tables.ranges import REFERENCE, are_outside, in_words
from rankgrad.datasets.tables.rows import OWN, Roles, Row, read
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.recipes import recipe_of
from rankgrad.io.written import as_json
from rankgrad.training.device import find_device

__all__ = ["Comparison", "Outside", "Quantity", "compare", "list_of", "quantities", "report_of", "write"]

LONGEST_NAME = 100  # characters of a quantity in a verdict
LISTED = 200  # rows to label at most


@dataclass(frozen=True)
class Quantity:
    """A quantity of the rows, in the training data and in the new rows.

    The distance is Kolmogorov-Smirnov's: the largest difference between the two fractions of rows below any value. The
    Kolmogorov-Smirnov test is also valid for counts, for which it is conservative. A quantity of 0 and 1 gets Fisher's
    exact test. If rows have groups, such as laboratories, the p-value uses the effective number of independent rows.
    """

    name: str  # such as `brightness`, `age`, `score cat`
    reference: float  # mean
    fresh: float  # mean of the new rows
    distance: float
    p: float
    adjusted_p: float  # after the Benjamini-Hochberg correction over all quantities
    drifted: bool  # significant, and the distance is large enough; never of a date


@dataclass(frozen=True)
class Outside:
    """An input for which new rows have values outside the range of all training rows."""

    name: str
    training: tuple[float, float]  # smallest and largest
    fresh: tuple[float, float]
    rows: int  # number of rows outside; for queries, of queries with such a document
    first_row: int  # the number of the first such row in the file, or of the first row of such a query


@dataclass(frozen=True)
class Comparison:
    """The comparison of a new file with the training data, see `compare`."""

    file: str
    model: str
    version: str | None  # None if the model came from a folder
    dataset: str
    alpha: float
    least_distance: float
    rows: dict[str, int]  # how many were compared: `train` (inputs), `val` (network), and `fresh`
    quantities: list[Quantity]
    shadow: Shadow | None = None  # None if no challenger was asked for, or there is none
    to_label: list[dict[str, Any]] = field(default_factory=list)  # see `rows_to_label`
    outside: list[Outside] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)  # quantities that are days since 1970-01-01

    def shown(self, name: str, value: float, digits: str) -> str:
        """Return a value of a quantity in words: a date, or a number with these digits."""
        return in_words(value, is_date=True) if name in self.dates else f"{value:{digits}}"

    @property
    def outside_in_words(self) -> list[dict[str, Any]]:
        """The inputs outside the training range, with their ranges in words."""
        rows = []
        for column in self.outside:
            row = asdict(column)
            for name in ("training", "fresh"):
                low, high = row[name]
                row[name] = f"{self.shown(column.name, low, '.6g')} to {self.shown(column.name, high, '.6g')}"
            rows.append(row)
        return rows

    @property
    def drifted(self) -> list[str]:
        """Names of the quantities that have drifted, by descending distance."""
        moved = [quantity for quantity in self.quantities if quantity.drifted]
        return [quantity.name for quantity in sorted(moved, key=lambda quantity: -quantity.distance)]

    @property
    def verdict(self) -> str:
        """The result in one line, used as the reason for a retraining; names are escaped."""
        names, of = self.drifted, f"{as_line(self.file)} ({self.rows['fresh']} rows)"
        first = ", ".join(as_line(name, LONGEST_NAME) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"drift: {first}{more} in {of}" if names else f"no drift in {of}"


def _check_options(alpha: float, least_distance: float, rows: int) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}, expected above 0 and below 1")
    if not 0 <= least_distance < 1:
        raise ValueError(f"the least distance is {least_distance}, expected from 0 to below 1")
    if rows < MONITORED:
        raise ValueError(f"rows is {rows}, expected at least {MONITORED}")


def compare(
    fresh: str | Path,
    *,
    model: str,
    roles: Roles = OWN,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    rows: int = ROWS,
    challenger: str | None = None,
) -> Comparison:
    """Compare the rows of a file, and a model's predictions for them, with the dataset that it was trained on.

    Args:
        fresh: raw rows in a form that `rankgrad predict` takes, such as a table or a folder of pictures; no truth
            needed.
        model: a registered model, such as `models:/<name>@champion`, or the folder of such a version.
        roles: the roles of the table's columns, if they differ from training.
        alpha: the false-positive rate for a file without drift, over all quantities together.
        least_distance: the smallest distance of a drifted quantity; 0 to rely on the tests alone.
        rows: the largest number of new rows to compare; from a longer file, that many are drawn.
        challenger: a model of the same task that predicts the new rows too, see `pipelines.monitoring.shadow`; or an
            alias of the registered model, such as `@challenger`, which is ignored if no other version has it.

    Raises:
        FileNotFoundError, ValueError: a file is missing, corrupt, lacks the model's input, or has too few rows; a row
            is corrupt or the model cannot predict it; the model or its reference data is missing; or an option is out
            of range.
    """
    _check_options(alpha, least_distance, rows)
    address, version = at_version(model)
    with model_folder(address) as folder:
        recipe, reference = recipe_of(folder), read_reference(folder, model=model)
        network = load_model(folder, device=find_device("auto"))

    if input_compared(recipe) == CAPTION:
        if reference.compared != CAPTION:
            raise ValueError(
                f"{model}: {REFERENCE} is of an earlier version of RankGrad and describes no queries; publish the "
                "model again with `make repro`"
            )
        roles = roles._replace(captions=True)

    def fresh_rows() -> Iterator[Row]:
        return read([Path(fresh)], recipe, roles)

    every_row, groups = [], []  # the number in the file and the id of each row
    for index, row in enumerate(fresh_rows(), 1):
        every_row.append((row.number or index, row.id))
        groups += row.group.values()
    counts = {
        "train": _enough(f"{model}: training", len(reference.inputs)),
        "test": _enough(f"{model}: test (with folds, validation or gate)", len(reference.network)),
        "fresh": _enough(str(fresh), len(every_row)),
    }
    numbers = sorted(chosen("fresh", counts["fresh"], rows))

    def measured(network: Any) -> Measured:
        return measure(prepared(fresh_rows(), network.recipe, chosen=numbers), network, known=reference.words)

    ours, shadow = measured(network), None
    if challenger and challenger.startswith("@"):
        from pipelines.tracking.registry import beside  # MLflow takes seconds to import

        challenger = None if version is None else beside(version, challenger.removeprefix("@"))
    if challenger is not None:
        try:
            theirs = measured(_network(challenger, recipe["task"]))
            shadow = Shadow(challenger, agreements(ours.answers, theirs.answers))
        except (ValueError, OSError, FloatingPointError) as error:
            shadow = Shadow(challenger, failed=first_line(error))
    if groups:
        ours = _by_group(ours, [groups[number] for number in numbers])
    compared, dates = [every_row[number] for number in numbers], [*(recipe["input"].get("dates") or ())]
    tested = quantities(reference, ours, alpha=alpha, least_distance=least_distance, dates=dates)
    return Comparison(
        str(fresh), model, None if version is None else str(version.version), reference.dataset, alpha, least_distance,
        rows=counts | {"fresh": len(numbers)}, shadow=shadow, quantities=tested,
        to_label=rows_to_label(reference, ours, tested, compared),
        outside=outside(reference, ours, [number for number, _ in compared]), dates=dates,
    )  # fmt: skip


def _network(model: str, task: str) -> Any:
    with model_folder(model) as folder:
        if (other := recipe_of(folder).get("task")) != task:
            raise ValueError(f"{model}: a model for {other}, expected one for {task}, like the model to compare with")
        return load_model(folder, device=find_device("auto"))


def _enough(rows_of: str, count: int) -> int:
    """Return the number of rows, or raise if there are too few to test."""
    if count < MONITORED:
        raise ValueError(
            f"{rows_of}: {count} rows, expected at least {MONITORED}: add rows, or train "
            "and test on more if these are the model's own rows"
        )
    return count


def _both(reference: Reference, fresh: Measured) -> list[tuple[str, pd.Series, pd.Series]]:
    """Return each quantity's name, with its values in the reference and in the new rows.

    The result is a list because a user's column may have the name of a network's quantity, such as `score`.

    Raises:
        ValueError: an earlier version of the project described the training data by other quantities.
    """
    theirs, inputs = reference.network, fresh.inputs.quantities
    ours = reference.directions.of(fresh)
    for name in theirs.columns.intersection(inputs.columns).difference(reference.inputs.columns):
        ours[name] = inputs[name]  # earlier versions compared unknown names with those of validation rows
    if unknown := [*reference.inputs.columns.difference(inputs.columns), *theirs.columns.difference(ours.columns)]:
        raise ValueError(
            f"{REFERENCE}: has {unknown[0]!r}, which this version of RankGrad does not measure; publish the model "
            "again with `make repro`"
        )
    both = []
    for name in reference.inputs:
        title = f"input {name}" if name in theirs else name
        both.append((title, reference.inputs[name], inputs[name]))
    both += [(name, theirs[name], ours[name]) for name in theirs]
    return both


def quantities(
    reference: Reference, fresh: Measured, *, alpha: float, least_distance: float, dates: Collection[str] = ()
) -> list[Quantity]:
    """Compare the quantities of new rows with the reference; dates do not drift, as new rows have later ones."""
    tested = {name: _tested(before, now) for name, before, now in _both(reference, fresh)}
    names = [name for name in tested if name not in dates]
    adjusted = dict(zip(names, false_discovery_control([tested[name][2] for name in names]).tolist(), strict=True))
    result = []
    for name, (means, distance, p) in tested.items():
        drifted = name in adjusted and adjusted[name] <= alpha and distance >= least_distance
        result.append(Quantity(name, *means, distance, p, adjusted.get(name, p), drifted))
    return result


def outside(reference: Reference, fresh: Measured, numbers: Sequence[int]) -> list[Outside]:
    """Return the inputs for which new rows are outside the range of training rows, those with the most rows first.

    A test over all rows misses a few outliers, however far outside they are.

    Args:
        reference, fresh: the reference and the new rows.
        numbers: numbers of the new rows in their file, from 1.
    """
    names, left = [*reference.ranges], []
    lowest, highest = fresh.inputs.lowest[names].to_numpy(), fresh.inputs.highest[names].to_numpy()
    is_outside = are_outside(reference.ranges, lowest, highest)
    for column in np.flatnonzero(is_outside.any(0)):
        bounds = float(lowest[:, column].min()), float(highest[:, column].max())
        first_row = numbers[int(is_outside[:, column].argmax())]
        rows = int(is_outside[:, column].sum())
        left.append(Outside(names[column], reference.ranges[names[column]], bounds, rows, first_row))
    return sorted(left, key=lambda column: -column.rows)


def rows_to_label(
    reference: Reference,
    fresh: Measured,
    tested: Sequence[Quantity],
    rows: Sequence[tuple[int, Any]],
) -> list[dict[str, Any]]:
    """Return the new rows that contribute most to the drift, in descending order, for a person to label.

    For each quantity that drifted, there is a value where the fractions of rows below it differ most. On one side of
    it, new rows are more frequent than training rows. A row's `drift` is the sum of the distances of the quantities for
    which it is on that side.

    Args:
        reference, fresh: the reference and the new rows.
        tested: the comparison of each quantity.
        rows: number in the file and id of each new row.
    """
    numbers, ids = zip(*rows, strict=True)
    drift, values = np.zeros(len(rows)), dict[str, np.ndarray]()
    for quantity, (name, before, now) in zip(tested, _both(reference, fresh), strict=True):
        if quantity.drifted:
            result = ks_2samp(before, now)
            now = now.to_numpy(np.float64)
            above = now > result.statistic_location
            drift += quantity.distance * (above if result.statistic_sign > 0 else ~above)
            values[f"value {name}"] = now
    order = np.argsort(-drift, kind="stable")[:LISTED]
    rounded = [round(value, 4) for value in drift.tolist()]
    columns = {"id": pd.Series(ids, dtype=object), "row": pd.Series(numbers), "drift": rounded}
    return pd.DataFrame(columns | values).iloc[order[drift[order] > 0]].to_dict("records")


def report_of(fresh: Path, model: str) -> Path:
    """Return the path of the report: a folder for the model, and in it the whole path of the file or folder.

    Another file of the same name, or another model, therefore gets another report.

    >>> report_of(Path("data/b/new.csv"), "models:/label_ranking-photos@champion").as_posix()
    'reports/monitoring/label_ranking-photos@champion/data/b/new.csv.json'
    """
    report = Path("reports/monitoring")
    for path in (model.removeprefix("models:/"), fresh):
        whole = Path(path).resolve()
        report /= whole.relative_to(Path.cwd() if whole.is_relative_to(Path.cwd()) else whole.anchor)
    return report.with_name(f"{report.name}.json")


def list_of(report: str | Path) -> Path:
    """Return the path of the rows to label, next to the report."""
    return Path(report).with_name(f"{Path(report).stem}-to_label.csv")


def write(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as JSON, atomically, and the rows to label as a table next to it."""
    report = asdict(replace(comparison, to_label=[])) | {"drifted": comparison.drifted, "to_label": None}
    if comparison.to_label:
        report["to_label"] = str(list_of(path))
        tables.write(list_of(path), [comparison.to_label])
    else:
        list_of(path).unlink(missing_ok=True)
    with replaced_file(path) as partial:
        partial.write_text(as_json(report, indent=2) + "\n")


def _by_group(measured: Measured, groups: Sequence[Any]) -> Measured:
    """Return measurements whose quantities are indexed by the group of each row; a row without one is its own."""
    names = [f"row {row}" if group is None else f"group {group}" for row, group in enumerate(groups)]
    index, inputs = pd.Index(names, name=GROUP), measured.inputs
    inputs = inputs._replace(quantities=inputs.quantities.set_index(index))
    return measured._replace(inputs=inputs, answers=measured.answers.set_index(index))


def _tested(reference: pd.Series, fresh: pd.Series) -> tuple[tuple[float, float], float, float]:
    """Return both means, the distance, and the p-value of one quantity."""
    means = float(reference.astype(np.float64).mean()), float(fresh.astype(np.float64).mean())
    samples = [values if values.index.name == GROUP else values.reset_index(drop=True) for values in (reference, fresh)]
    pooled = pd.concat(samples, keys=["reference", "fresh"])
    sizes = independent_rows(pooled)
    if not pooled.isin((0, 1)).all():
        result = ks_2samp(reference, fresh)
        p, independent = result.pvalue, sizes.prod() / sizes.sum()
        if sizes.sum() < len(pooled):
            least = 2 / binom(sizes.sum(), sizes.iloc[0])  # of the exact test, if all new rows are above the others
            p = max(least, kstwo.sf(result.statistic, max(1, round(independent))))
        return means, float(result.statistic), float(p)
    # Yes or no, such as an unknown name: Kolmogorov-Smirnov's p would be far too large.
    counts = [[round(size * mean), round(size) - round(size * mean)] for size, mean in zip(sizes, means, strict=True)]
    return means, abs(means[0] - means[1]), float(fisher_exact(counts).pvalue)


def independent_rows(values: pd.Series) -> pd.Series:
    """Return the effective number of independent rows in each sample.

    It is n / (1 + (m - 1) r) for n rows in groups of m rows, weighted by their size, where r is the correlation of the
    ranks of two rows of a group within their sample: n if groups do not differ, and the number of groups if their rows
    are equal, or if nothing shows r because each sample is one group or all values are equal.

    Args:
        values: numbers, indexed by the sample and the group.

    >>> groups = [("new", "a"), ("new", "a"), ("new", "b"), ("new", "b"), ("old", "c"), ("old", "d")]
    >>> independent_rows(pd.Series([1.0, 1.0, 5.0, 5.0, 2.0, 3.0], pd.MultiIndex.from_tuples(groups))).to_dict()
    {'new': 2.0, 'old': 2.0}
    """
    if values.index.is_unique:  # each row is its own group
        return pd.Series(1.0, values.index).groupby(level=0, sort=False).sum()
    ranks = values.rank()
    by_group = ranks.groupby(level=[0, 1], sort=False)
    sizes = by_group.size()
    rows = sizes.groupby(level=0, sort=False).sum()
    group_size = (sizes**2).groupby(level=0, sort=False).sum() / rows

    # Estimate r from the mean squares within and between groups of a sample: a shift of the sample is drift.
    correlation, freedom = 1.0, len(sizes) - len(rows)
    if freedom > 0 and len(sizes) < len(values):
        means = by_group.transform("mean")
        within = ((ranks - means) ** 2).sum() / (len(values) - len(sizes))
        between = ((means - ranks.groupby(level=0).transform("mean")) ** 2).sum() / freedom
        total = between + ((len(values) - group_size.sum()) / freedom - 1) * within
        correlation = max(0.0, (between - within) / total) if total > 0 else 1.0
    return rows / (1 + (group_size - 1) * correlation)

"""Test whether new rows, and a model's predictions for them, still look like its training data.

Each quantity of a row gets a two-sample test, corrected for the number of quantities. Its distance must also be large
enough: with enough rows, any difference is significant, but not every difference is worth a training. See
`pipelines.monitoring.reference` for the reference data.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control, fisher_exact, ks_2samp

from pipelines.config import MONITORED
from pipelines.monitoring.measure import Answers, Measured, measure, measure_answers
from pipelines.monitoring.reference import ROWS, Reference, chosen, read_reference
from pipelines.monitoring.shadow import Shadow, agreements
from pipelines.ops.messages import as_line, first_line
from pipelines.serving.named_model import is_registered, model_folder
from rankgrad.cli import answers as tables
from rankgrad.datasets.tables.ranges import are_outside
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
    exact test.
    """

    name: str  # such as `brightness`, `age`, `score cat`
    reference: float  # mean
    fresh: float  # mean of the new rows
    distance: float
    p: float
    adjusted_p: float  # after the Benjamini-Hochberg correction over all quantities
    drifted: bool  # significant, and the distance is large enough


@dataclass(frozen=True)
class Outside:
    """An input for which new rows have values outside the range of all training rows."""

    name: str
    training: tuple[float, float]  # smallest and largest
    fresh: tuple[float, float]
    rows: int  # number of rows outside; for queries, of queries with such a document
    first_row: int  # the first such row or query of the file, from 1


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
        raise ValueError(f"rows is {rows}, expected at least {MONITORED} for a meaningful test")


def _shadow(challenger: str, answers: Callable[[str], Answers], ours: Answers) -> Shadow:
    """Return how much a challenger's answers agree with the model's, or why it has no answers."""
    try:
        return Shadow(challenger, agreements(ours, answers(challenger)))
    except (ValueError, OSError, FloatingPointError) as error:
        return Shadow(challenger, failed=first_line(error))


def compare(
    fresh: str | Path,
    *,
    model: str,
    roles: Roles = OWN,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    rows: int = ROWS,
    seed: int = 0,
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
        seed: seed of the draw.
        challenger: a model of the same task that predicts the new rows too, see `pipelines.monitoring.shadow`; or an
            alias of the registered model, such as `@challenger`, which is ignored if no other version has it.

    Raises:
        FileNotFoundError, ValueError: a file is missing, corrupt, lacks the model's input, or has too few rows; a row
            is corrupt or the model cannot predict it; the model or its reference data is missing; or an option is out
            of range.
    """
    _check_options(alpha, least_distance, rows)
    version = _version(model)
    # Load the version by its number, since the alias may move meanwhile.
    with model_folder(model if version is None else f"models:/{version.name}/{version.version}") as folder:
        recipe, reference = recipe_of(folder), read_reference(folder, model=model)
        network = load_model(folder, device=find_device("auto"))

    def fresh_rows() -> Iterator[Row]:
        return read([Path(fresh)], recipe, roles)

    ids = [row.id for row in fresh_rows()]
    counts = {
        "train": _enough(f"{model}: training", len(reference.inputs)),
        "val": _enough(f"{model}: validation", len(reference.network)),
        "fresh": _enough(str(fresh), len(ids)),
    }
    numbers = chosen("fresh", counts["fresh"], rows, seed=seed)

    def answers(name: str) -> Answers:
        network = _network(name, recipe["task"])
        return measure_answers(fresh_rows(), network, chosen=numbers, known=reference.words)

    ours, shadow = measure(fresh_rows(), network, chosen=numbers, known=reference.words), None
    if challenger and challenger.startswith("@"):
        challenger = _registry().beside(version, challenger.removeprefix("@")) if version else None
    if challenger is not None:
        shadow = _shadow(challenger, answers, ours.answers)
    tested = quantities(reference, ours, alpha=alpha, least_distance=least_distance)
    return Comparison(
        str(fresh), model, None if version is None else str(version.version), reference.dataset, alpha, least_distance,
        rows=counts | {"fresh": len(numbers)}, shadow=shadow, quantities=tested,
        to_label=rows_to_label(reference, ours, tested, [(number, ids[number]) for number in sorted(numbers)]),
        outside=outside(reference, ours, sorted(numbers)),
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
            f"{rows_of}: {count} rows, expected at least {MONITORED} for a meaningful test: add rows, or train "
            "on more if these are training or validation rows"
        )
    return count


def _version(model: str) -> Any:
    """Return the registered version that an address names; None for a folder."""
    return _registry().version_of(model) if is_registered(model) else None


def _registry() -> Any:
    from pipelines.tracking import registry  # MLflow takes seconds to import

    return registry


def _both(reference: Reference, fresh: Measured) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return each quantity's name, with its values in the reference and in the new rows.

    The result is a list because a user's column may have the name of a network's quantity, such as `score`.
    """
    theirs, ours = reference.network, reference.of_network(fresh.answers)
    both = []
    for name in reference.inputs:
        title = f"input {name}" if name in theirs else name
        both.append((title, reference.inputs[name].to_numpy(), fresh.inputs.quantities[name].to_numpy()))
    both += [(name, theirs[name].to_numpy(), ours[name].to_numpy()) for name in theirs]
    return both


def quantities(reference: Reference, fresh: Measured, *, alpha: float, least_distance: float) -> list[Quantity]:
    """Compare the quantities of new rows with the reference."""
    tested = [(name, *_tested(before, now)) for name, before, now in _both(reference, fresh)]
    adjusted = false_discovery_control([p for *_, p in tested])
    return [
        Quantity(name, *means, distance, p, corrected, corrected <= alpha and distance >= least_distance)
        for (name, means, distance, p), corrected in zip(tested, adjusted.tolist(), strict=True)
    ]


def outside(reference: Reference, fresh: Measured, numbers: Sequence[int]) -> list[Outside]:
    """Return the inputs for which new rows are outside the range of training rows, those with the most rows first.

    A test over all rows misses a few outliers, however far outside they are.

    Args:
        reference, fresh: the reference and the new rows.
        numbers: numbers of the new rows in their file, from 0.
    """
    names, left = [*reference.ranges], []
    lowest, highest = fresh.inputs.lowest[names].to_numpy(), fresh.inputs.highest[names].to_numpy()
    is_outside = are_outside(reference.ranges, lowest, highest)
    for column in np.flatnonzero(is_outside.any(0)):
        bounds = float(lowest[:, column].min()), float(highest[:, column].max())
        first_row = numbers[int(is_outside[:, column].argmax())] + 1
        rows = int(is_outside[:, column].sum())
        left.append(Outside(names[column], reference.ranges[names[column]], bounds, rows, first_row))
    return sorted(left, key=lambda column: -column.rows)


def rows_to_label(
    reference: Reference, fresh: Measured, tested: Sequence[Quantity], rows: Sequence[tuple[int, Any]]
) -> list[dict[str, Any]]:
    """Return the new rows that contribute most to the drift, in descending order, for a person to label.

    For each quantity that drifted, there is a value where the fractions of rows below it differ most. On one side of
    it, new rows are more frequent than training rows. A row's `drift` is the sum of the distances of the quantities for
    which it is on that side.

    Args:
        reference, fresh: the reference and the new rows.
        tested: the comparison of each quantity.
        rows: number and id of each new row.
    """
    drift, values = np.zeros(len(rows)), dict[str, np.ndarray]()
    for quantity, (name, before, now) in zip(tested, _both(reference, fresh), strict=True):
        if quantity.drifted:
            result = ks_2samp(before, now)
            above = now > result.statistic_location
            drift += quantity.distance * (above if result.statistic_sign > 0 else ~above)
            values[name] = now
    listed = []
    for index in np.argsort(-drift, kind="stable")[:LISTED]:
        if drift[index] > 0:
            number, row_id = rows[index]
            of_row = {f"value {name}": float(column[index]) for name, column in values.items()}
            listed.append({"id": row_id, "row": number + 1, "drift": round(float(drift[index]), 4), **of_row})
    return listed


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
    if comparison.to_label:
        tables.write(list_of(path), [comparison.to_label])
    else:
        list_of(path).unlink(missing_ok=True)
    report = asdict(replace(comparison, to_label=[])) | {"drifted": comparison.drifted}
    report["to_label"] = str(list_of(path)) if comparison.to_label else None
    with replaced_file(path) as partial:
        partial.write_text(as_json(report, indent=2) + "\n")


def _tested(reference: np.ndarray, fresh: np.ndarray) -> tuple[tuple[float, float], float, float]:
    """Return both means, the distance, and the p-value of one quantity."""
    means = float(reference.mean(dtype=np.float64)), float(fresh.mean(dtype=np.float64))
    both = np.concatenate([reference, fresh])
    if not np.isin(both, (0, 1)).all():
        result = ks_2samp(reference, fresh)
        return means, float(result.statistic), float(result.pvalue)
    # Yes or no, such as an unknown name: Kolmogorov-Smirnov's p would be far too large.
    counts = [[int(values.sum()), int(len(values) - values.sum())] for values in (reference, fresh)]
    return means, abs(means[0] - means[1]), float(fisher_exact(counts).pvalue)

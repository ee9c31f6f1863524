"""Whether fresh rows, and what a model makes of them, still look like its training data.

Each quantity of a row gets a two-sample test, corrected for the number of quantities. Its distance must be large
enough too: of enough rows any difference is significant, and not each is worth a training.

- Quantities of the input, prepared as the network takes it, are compared with the training split: that is the training
  distribution. Photos come in any size and format: what is compared is what is left of them.
- Quantities of the network (embedding, scores) are compared with the validation split, and so is the share of words
  that no training text has. The weights were fitted to the training rows: scores lie further apart on these than on new
  rows of the very same kind, which would count as drift.
- Embeddings are compared along the directions in which the training split's vary most. Using either sample's own
  directions would favor it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2_contingency, false_discovery_control, ks_2samp
from sklearn.decomposition import PCA

from pipelines.config import load
from pipelines.monitoring.measure import Measured, measure
from pipelines.monitoring.shadow import Shadow, agreements
from pipelines.ops.messages import as_line, first_line
from pipelines.serving.named_model import is_registered, model_folder, run_of
from rankgrad.datasets.tables.rows import OWN, Roles, Row, kind_of, read
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.recipes import recipe_of
from rankgrad.io.written import as_json
from rankgrad.seeding import generator
from rankgrad.training.device import find_device

__all__ = ["Comparison", "Quantity", "compare", "quantities", "report_of", "write"]

LONGEST_NAME = 100  # characters of a quantity in a verdict
FEWEST = 50  # rows on either side: a test of fewer says nothing
DIRECTIONS = 5  # in which embeddings are compared one by one


@dataclass(frozen=True)
class Quantity:
    """A quantity of the rows, on both sides.

    The distance is Kolmogorov-Smirnov's: the largest difference of the two shares of rows below any value.
    """

    name: str  # such as `brightness`, `age`, `score cat`
    test: str  # `kolmogorov_smirnov` for what is measured, `chi_squared` for what is counted
    reference: float  # mean
    fresh: float
    distance: float
    p: float
    adjusted_p: float  # after Benjamini-Hochberg's correction over all quantities
    drifted: bool  # significant and far enough


@dataclass(frozen=True)
class Comparison:
    """A fresh file against the training data, see `compare`."""

    file: str
    model: str
    version: str | None  # None if the model came from a folder
    dataset: str
    reference: str  # where its training data were read, and whether they are those that the version learned from
    alpha: float
    least_distance: float
    rows: dict[str, int]  # that were compared: `train` (inputs), `val` (network) and `fresh`
    quantities: list[Quantity]
    shadow: Shadow | None = None  # None if no challenger was asked for, or there is none

    @property
    def drifted(self) -> list[str]:
        """Names of the quantities that have drifted, those that moved furthest first."""
        moved = sorted((one for one in self.quantities if one.drifted), key=lambda one: -one.distance)
        return [one.name for one in moved]

    @property
    def verdict(self) -> str:
        """In a line, such as a retraining gets for its reason, whatever columns and files are called."""
        names, of = self.drifted, f"{as_line(self.file)} ({self.rows['fresh']} rows)"
        shown = ", ".join(as_line(name, LONGEST_NAME) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"drift: {shown}{more} in {of}" if names else f"no drift in {of}"


def _check_options(alpha: float, least_distance: float, rows: int) -> None:
    for name, given, is_fine, expected in (
        ("alpha", alpha, 0 < alpha < 1, "above 0 and below 1"),
        ("the least distance", least_distance, 0 <= least_distance < 1, "from 0 to below 1"),
        ("rows", rows, rows >= FEWEST, f"at least {FEWEST}: a test of fewer says nothing"),
    ):
        if not is_fine:
            raise ValueError(f"{name} is {given}, expected {expected}")


def _shadow(challenger: str, answers: Callable[[str], Measured], ours: Measured) -> Shadow:
    """Return in how much a challenger's answers agree with the model's, or why it gives none."""
    try:
        return Shadow(challenger, agreements(ours, answers(challenger)))
    except (ValueError, OSError, FloatingPointError) as error:
        return Shadow(challenger, failed=first_line(error))


def compare(
    fresh: str | Path,
    *,
    model: str,
    dataset: str | None = None,
    roles: Roles = OWN,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    rows: int = 2000,
    seed: int = 0,
    challenger: str | None = None,
) -> Comparison:
    """Compare the rows of a file, and what a model says of them, with the dataset that it was trained on.

    A registered version is compared with the very files that it learned from: by their hash those of this checkout, or
    else DVC's cache, where retrainings leave theirs.

    Args:
        fresh: raw rows, as `rankgrad predict` takes them: a table, a folder of pictures; no truth needed.
        model: registered, such as `models:/<name>@champion`, or a folder such as a run's.
        dataset: below data/, whose training and validation split are the reference; None for the model's own.
        roles: of the table's columns, where they are others than those of the training.
        alpha: how often a file without drift may be called drifted, all quantities together.
        least_distance: of a quantity that has drifted; 0 leaves it to the tests.
        rows: how many rows of each file are looked at, at most; of more, so many are drawn.
        seed: of the draw.
        challenger: a model of the same task that answers the fresh rows too, see `pipelines.monitoring.shadow`; or an
            alias, such as `@challenger`, of the registered model: one that nobody has, or the version itself, is none.

    Raises:
        FileNotFoundError, ValueError: a file is missing, corrupt, lacks the model's input or has too few rows, or a row
            is corrupt; the model, the dataset, or the data that the model learned from are missing; an option is out of
            its range.
        FloatingPointError: the model gives scores that are not finite.
    """
    _check_options(alpha, least_distance, rows)
    version = _version(model)
    dataset = _dataset(model, version, dataset)
    # By its number: the alias may move meanwhile.
    with model_folder(model if version is None else f"models:/{version.name}/{version.version}") as folder:
        recipe = recipe_of(folder)
        reference, files = _reference(model, version, dataset, recipe.get("made", {}).get("inputs", {}))
        kind_of(recipe, where=model)
        readers: dict[str, Callable[[], Iterator[Row]]] = {"fresh": lambda: read([Path(fresh)], recipe, roles)}
        readers |= {split: partial(read, [file], recipe, form="parquet") for split, file in files.items()}
        # A split by its name: in DVC's cache a file is called by its hash.
        named = {split: f"data/{dataset}/{split}.parquet" for split in files}
        counts = {name: _enough(named.get(name, fresh), reader()) for name, reader in readers.items()}
        network = load_model(folder, device=find_device("auto"))

    def measured(name: str, network: Any, words: set[str] | None = None) -> Measured:
        chosen = torch.randperm(counts[name], generator=generator(seed, "monitor", name))[:rows]
        return measure(readers[name](), network, chosen=chosen.tolist(), known=words)

    train = measured("train", network)
    words = train.words if recipe["input"]["kind"] == "text" else None
    val, ours = measured("val", network, words), measured("fresh", network, words)
    if challenger and challenger.startswith("@"):
        challenger = _registry().beside(version, challenger.removeprefix("@")) if version else None
    shadow = None
    if challenger is not None:
        shadow = _shadow(challenger, lambda name: measured("fresh", _network(name, recipe["task"]), words), ours)
    return Comparison(
        str(fresh), model, None if version is None else str(version.version), dataset, reference, alpha, least_distance,
        rows={name: min(rows, count) for name, count in counts.items()}, shadow=shadow,
        quantities=quantities(train, val, ours, alpha=alpha, least_distance=least_distance),
    )  # fmt: skip


def _network(model: str, task: str) -> Any:
    with model_folder(model) as folder:
        if (found := recipe_of(folder).get("task")) != task:
            raise ValueError(f"{model}: a model of the task {found}, expected one of {task}, as the other")
        return load_model(folder, device=find_device("auto"))


def _enough(file: str | Path, rows: Iterator[Row]) -> int:
    """Return how many rows a file has, or raise where they are too few to test."""
    if (count := sum(1 for _ in rows)) < FEWEST:
        raise ValueError(
            f"{file}: {count} rows, expected at least {FEWEST}: a test of fewer says nothing; give it more, or train "
            "on more where the model learned from it"
        )
    return count


def _version(model: str) -> Any:
    """Return the registered version that an address names; None of a folder."""
    return _registry().version_of(model) if is_registered(model) else None


def _registry() -> Any:
    from pipelines.tracking import registry  # MLflow takes seconds to import

    return registry


def _dataset(model: str, version: Any, asked: str | None) -> str:
    """Return the dataset that a version or a run of the params was trained on, which is the one that was asked for."""
    known = version.tags.get("dataset") if version else None
    if version is None and Path("params.yaml").is_file() and (run := run_of(model, load())):
        known = run.dataset
    if (dataset := asked or known) is None:
        raise ValueError(f"{model}: nothing says what it was trained on: name it, as in --dataset photos")
    if known not in (None, dataset):
        raise ValueError(
            f"{model}{f', version {version.version}' if version else ''}: was trained on {known}, not on {dataset}: "
            "leave that out"
        )
    return dataset


def _reference(model: str, version: Any, dataset: str, learned: Mapping[str, str]) -> tuple[str, dict[str, Path]]:
    """Return where the training and the validation split are read, in words and by name.

    Args:
        learned: the hash of each file that the version learned from, by its path.
    """
    files = {split: Path("data") / dataset / f"{split}.parquet" for split in ("train", "val")}
    expected = {split: learned.get(path.as_posix(), "") for split, path in files.items()}
    if not all(expected.values()):
        return "this checkout; nothing says whether the model learned from the same files", files
    differing = [split for split, path in files.items() if not path.is_file() or _md5(path) != expected[split]]
    if not differing:
        return "this checkout, whose files the model learned from", files
    from dvc.repo import Repo  # which takes a second

    with Repo(".") as repo:
        for split in differing:
            cached = Path(repo.cache.local.oid_to_path(expected[split]))
            if not cached.is_file():
                raise FileNotFoundError(
                    f"{files[split]}: is not what {model}, version {version.version}, learned from (md5 "
                    f"{expected[split]}), which is not in DVC's cache either: `dvc fetch` it where dvc.lock names it, "
                    "such as on the branch of the retraining that made the version"
                )
            files[split] = cached
    return "DVC's cache: the model learned from other files than this checkout has", files


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def quantities(
    train: Measured, val: Measured, fresh: Measured, *, alpha: float, least_distance: float
) -> list[Quantity]:
    """Return the quantities of fresh rows against those of the two splits."""
    directions = PCA(min(DIRECTIONS, *train.embedding.shape), random_state=0).fit(train.embedding)
    theirs, ours = (_along(one.embedding, directions) | dict(one.answers.items()) for one in (val, fresh))
    # A list, as a column of a person's may be called as a quantity of the network is, such as `score`.
    tested = []
    for name in train.inputs:
        shown = f"input {name}" if name in theirs else name
        tested.append((shown, *_tested(train.inputs[name].to_numpy(), fresh.inputs[name].to_numpy())))
    tested += [(name, *_tested(np.asarray(theirs[name]), np.asarray(ours[name]))) for name in theirs]
    adjusted = false_discovery_control([p for *_, p in tested])
    return [
        Quantity(name, test, *means, distance, p, corrected, corrected <= alpha and distance >= least_distance)
        for (name, test, means, distance, p), corrected in zip(tested, adjusted.tolist(), strict=True)
    ]


def _along(embedding: np.ndarray, directions: PCA) -> dict[str, np.ndarray]:
    """Return the coordinates of embeddings along `directions`, and what these leave out."""
    coordinates = directions.transform(embedding)
    # How far a row is from all that training rows have in common: where those lie that resemble none of them.
    rest = np.linalg.norm(embedding - directions.inverse_transform(coordinates), axis=1)
    return {f"embedding {number}": column for number, column in enumerate(coordinates.T, 1)} | {"embedding, rest": rest}


def report_of(fresh: Path) -> Path:
    """Return where the comparison of a file or a folder is kept: by its name, of which a folder's has no suffix."""
    return Path("reports/monitoring") / f"{fresh.resolve().name if fresh.is_dir() else fresh.stem}.json"


def write(comparison: Comparison, path: str | Path) -> None:
    """Write the whole comparison as JSON, whole or not at all."""
    report = asdict(comparison) | {"drifted": comparison.drifted}
    with replaced_file(path) as partial:
        partial.write_text(as_json(report, indent=2) + "\n")


def _tested(reference: np.ndarray, fresh: np.ndarray) -> tuple[str, tuple[float, float], float, float]:
    """Return the test's name, both means, the distance and p of one quantity."""
    means = float(reference.mean(dtype=np.float64)), float(fresh.mean(dtype=np.float64))
    if reference.dtype.kind == "f":
        result = ks_2samp(reference, fresh)
        return "kolmogorov_smirnov", means, float(result.statistic), float(result.pvalue)
    kinds, numbered = np.unique(np.concatenate([reference, fresh]), return_inverse=True)
    sides = np.split(numbered, [len(reference)])
    counts = np.stack([np.bincount(side, minlength=len(kinds)) for side in sides])
    shares = counts / counts.sum(1, keepdims=True)
    distance = np.abs(np.diff(shares.cumsum(1), axis=0)).max()
    # The test wants about five of a kind to be expected on each side: rarer numbers are counted with the next ones.
    begins, expected = [0], 0.0
    for place, some in enumerate(counts.sum(0) * counts.sum(1).min() / counts.sum()):
        if expected >= 5:
            begins.append(place)
            expected = 0.0
        expected += some
    if expected < 5 and len(begins) > 1:
        begins.pop()
    merged = np.add.reduceat(counts, begins, axis=1)
    return "chi_squared", means, float(distance), float(chi2_contingency(merged).pvalue)

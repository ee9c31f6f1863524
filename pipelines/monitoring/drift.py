"""Whether fresh images, and what a label ranker makes of them, still look like its training data.

Each quantity of an image gets a two-sample test, corrected for the number of quantities. Its distance must be large
enough too: of enough images any difference is significant, and not each is worth a training.

- Quantities of pixels are compared with the training split: that is the training distribution.
- Quantities of the network (embedding, scores) are compared with the validation split. The weights were fitted to the
  training images: scores lie further apart on these than on new images of the very same kind, which would count as
  drift.
- Embeddings are compared along the directions in which the training split's vary most. Directions of either of the two
  samples that are compared would suit that one better.
"""

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.table import Table
from rich.text import Text
from scipy.stats import chi2_contingency, false_discovery_control, ks_2samp
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import conv2d, pad

from pipelines.ops.dvc_lock import INPUT
from pipelines.ops.messages import in_a_line
from pipelines.serving.batch import load_ranker
from rankops.io.atomic import replaced_file
from rankops.io.images import image_batches, image_count, picture
from rankops.io.parquet import as_batch
from rankops.io.pictures import PIXELS
from rankops.io.recipes import image_of
from rankops.seeding import generator
from rankops.training.finetune import embedded

__all__ = ["Comparison", "Quantity", "compare", "measure", "quantities", "table", "write"]

FEWEST = 50  # images on either side: a test of fewer says nothing
DIRECTIONS = 5  # in which embeddings are compared one by one
LAPLACE = torch.tensor([[[[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]]])
OF_PIXELS = ("format", "brightness", "contrast", "ink", "sharpness")


@dataclass(frozen=True)
class Quantity:
    """A quantity of the images, on both sides.

    The distance is Kolmogorov-Smirnov's: the largest difference of the two shares of images below any value. Formats
    have no order, so theirs is the share of images that would have to change.
    """

    name: str  # such as `brightness`, `score 3`
    test: str  # `kolmogorov_smirnov` for what is measured, `chi_squared` for what is counted
    reference: float  # mean; of `format`, the share of the reference's most frequent one
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
    images: dict[str, int]  # that were compared: `train` (pixels), `val` (network) and `fresh`
    formats: dict[str, dict[str, int]]  # of `train` and `fresh`: how many images have a width, height and mode
    quantities: list[Quantity]

    @property
    def drifted(self) -> list[str]:
        """Names of the quantities that have drifted, those that moved furthest first."""
        moved = sorted((one for one in self.quantities if one.drifted), key=lambda one: -one.distance)
        return [one.name for one in moved]

    @property
    def verdict(self) -> str:
        """In a line, such as a retraining gets for its reason."""
        names, of = self.drifted, f"{self.file} ({self.images['fresh']} images)"
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"drift: {', '.join(names[:4])}{more} in {of}" if names else f"no drift in {of}"


def compare(
    fresh: str | Path,
    *,
    model: str | Path,
    dataset: str | None = None,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    rows: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare the images of a file, and a label ranker's scores of them, with the dataset that it was trained on.

    A registered version is compared with the very files that it learned from: by their hash those of this checkout, or
    else DVC's cache, where retrainings leave theirs.

    Images of another size are not resized, but scored as they are, though a served model refuses them: their size is a
    quantity of its own.

    Args:
        fresh: Parquet with a column `image`: {bytes, path}, as in `rankops.io.parquet.IMAGE`; no labels needed.
        model: registered, such as `models:/label_ranking@champion`, or a folder such as a run's.
        dataset: below data/, whose training and validation split are the reference; None for the version's own.
        alpha: how often a file without drift may be called drifted, all quantities together.
        least_distance: of a quantity that has drifted; 0 leaves it to the tests.
        rows: how many images of each file are looked at, at most; of more, so many are drawn.
        seed: of the draw.

    Raises:
        FileNotFoundError, ValueError: a file is missing, corrupt, has no images or too few, or an image is corrupt; the
            model, the dataset, or the data that the model learned from are missing; an option is out of its range.
        FloatingPointError: the model gives scores that are not finite.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}, expected above 0 and below 1")
    if not 0 <= least_distance < 1:
        raise ValueError(f"the least distance is {least_distance}, expected from 0 to below 1")
    if rows < FEWEST:
        raise ValueError(f"rows is {rows}, expected at least {FEWEST}: a test of fewer images says nothing")
    version = _version(str(model))
    dataset = _dataset(str(model), version, dataset)
    reference, files = _reference(str(model), version, dataset)
    files = {"fresh": Path(fresh), **files}
    counts = {name: image_count(path) for name, path in files.items()}
    for name, count in counts.items():
        if count < FEWEST:
            todo = "give it more" if name == "fresh" else f"train on at least as many, see rows.{name} in params.yaml"
            raise ValueError(
                f"{files[name]}: {count} images, expected at least {FEWEST}: a test of fewer says nothing; {todo}"
            )
    # By its number: the alias may move meanwhile.
    ranker = load_ranker(str(model) if version is None else f"models:/{version.name}/{version.version}")
    measured = {}
    for name, path in files.items():
        chosen = torch.randperm(counts[name], generator=generator(seed, "monitor", name))[:rows]
        measured[name] = measure(path, ranker, chosen=chosen.sort().values.numpy())
    return Comparison(
        file=str(fresh),
        model=str(model),
        version=None if version is None else str(version.version),
        dataset=dataset,
        reference=reference,
        alpha=alpha,
        least_distance=least_distance,
        images={name: len(part["format"]) for name, part in measured.items()},
        formats={name: dict(Counter(measured[name]["format"].tolist())) for name in ("train", "fresh")},
        quantities=quantities(**measured, alpha=alpha, least_distance=least_distance),
    )


def _version(model: str) -> Any:
    """The registered version that an address names; None of a folder."""
    if not model.startswith("models:/"):
        return None
    from pipelines.tracking.registry import version_of

    return version_of(model)


def _dataset(model: str, version: Any, asked: str | None) -> str:
    """The dataset that a version was trained on, which is the one that was asked for."""
    known = version.tags.get("dataset") if version else None
    if (dataset := asked or known) is None:
        raise ValueError(f"{model}: nothing says what it was trained on: name it, as in --dataset ranked_mnist")
    if known not in (None, dataset):
        raise ValueError(
            f"{model}, version {version.version}: was trained on {known}, not on {dataset}: leave that out"
        )
    return dataset


def _reference(model: str, version: Any, dataset: str) -> tuple[str, dict[str, Path]]:
    """Where the training and the validation split are read, in words and by name."""
    files = {split: Path("data") / dataset / f"{split}.parquet" for split in ("train", "val")}
    tags = version.tags if version else {}
    expected = {split: tags.get(f"{INPUT}{path.as_posix()}", "") for split, path in files.items()}
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
    train: dict[str, np.ndarray],
    val: dict[str, np.ndarray],
    fresh: dict[str, np.ndarray],
    *,
    alpha: float,
    least_distance: float,
) -> list[Quantity]:
    """Return the quantities of fresh images against those of the two splits; all three as `measure` gives them."""
    directions = PCA(min(DIRECTIONS, *train["embedding"].shape), random_state=0).fit(train["embedding"])
    ours = {name: fresh[name] for name in OF_PIXELS} | _of_network(fresh, directions)
    theirs = {name: train[name] for name in OF_PIXELS} | _of_network(val, directions)
    tested = {name: _tested(values, ours[name]) for name, values in theirs.items()}
    adjusted = false_discovery_control([p for *_, p in tested.values()])
    return [
        Quantity(name, test, *means, distance, p, corrected, corrected <= alpha and distance >= least_distance)
        for (name, (test, means, distance, p)), corrected in zip(tested.items(), adjusted.tolist(), strict=True)
    ]


def write(comparison: Comparison, path: str | Path) -> None:
    """Write the whole comparison as JSON, whole or not at all."""
    report = asdict(comparison) | {"drifted": comparison.drifted}
    with replaced_file(path) as partial:
        partial.write_text(json.dumps(report, indent=2) + "\n")


def table(comparison: Comparison) -> Table:
    """Return the quantities, for a terminal."""
    shown = Table(title=Text(f"means of {comparison.dataset} and {comparison.file}"), title_justify="left")
    shown.add_column("quantity", no_wrap=True)
    for column in ("training", "fresh", "KS distance", "adjusted p", "drifted"):
        shown.add_column(column, justify="right")
    for one in comparison.quantities:
        numbers = [f"{number:.3f}" for number in (one.reference, one.fresh, one.distance)]
        style = "bold red" if one.drifted else ""
        shown.add_row(one.name, *numbers, f"{one.adjusted_p:.2g}", "yes" if one.drifted else "no", style=style)
    most = {side: Counter(counts).most_common(3) for side, counts in comparison.formats.items()}
    lines = [f"{side}: {', '.join(f'{name} ({count})' for name, count in formats)}" for side, formats in most.items()]
    shown.caption = Text(f"training data: {comparison.reference}; most frequent formats of {'; '.join(lines)}")
    return shown


def _pixel_quantities(images: Tensor) -> dict[str, Tensor]:
    """Of images (n, colors, height, width) uint8, each (n,), in shares of white; ink is what is over half."""
    gray = images.float().mean(1, keepdim=True) / 255
    edges = conv2d(pad(gray, (1, 1, 1, 1), mode="replicate"), LAPLACE)
    return {
        "brightness": gray.mean((1, 2, 3)),
        "contrast": gray.std((1, 2, 3), correction=0),
        "ink": (gray > 0.5).float().mean((1, 2, 3)),
        "sharpness": edges.std((1, 2, 3), correction=0),
    }


@torch.inference_mode()
def measure(path: Path, ranker: Any, *, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Measure what pixels and network say of the images of a file; a row an image, in any order.

    Args:
        path: Parquet with a column `image`.
        ranker: with `scorer` and `thresholds`.
        chosen: numbers of the rows that are looked at, ascending.

    Returns:
        `format`, `brightness`, `contrast`, `ink` and `sharpness` (n,), `embedding` (n, features), `scores` (n, K) and
        `selected` (n,), how many labels; of the images as they are, whatever views the ranker averages over.

    Raises:
        ValueError: the file or an image is not whole, or the network cannot take it; the message names its row.
        FloatingPointError: scores are not finite.
    """
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    colors = image_of(ranker.recipe, where="the model")["colors"]
    for first, batch in image_batches(path):
        by_size: dict[torch.Size, list[tuple[int, str, Tensor]]] = defaultdict(list)
        for row in chosen[(chosen >= first) & (chosen < first + len(batch))].tolist():
            encoded = batch["image"][row - first].as_py()
            pixels = picture(encoded, colors=colors, where=f"{path}: row {row}")
            with Image.open(BytesIO(encoded)) as image:  # as it came; the network gets it gray or colored
                kind = f"{image.width} x {image.height} {image.mode}"
            by_size[pixels.shape].append((row, kind, pixels))
        for several in by_size.values():
            at_once = max(1, PIXELS // several[0][2].numel())
            for start in range(0, len(several), at_once):
                rows, kinds, pixels = zip(*several[start : start + at_once], strict=True)
                images = as_batch(torch.cat(pixels))
                values = _network_quantities(path, ranker, rows, images) | _pixel_quantities(images)
                parts["format"].append(np.array(kinds))
                for name, value in values.items():
                    parts[name].append(value.cpu().numpy())
    return {name: np.concatenate(values) for name, values in parts.items()}


def _network_quantities(path: Path, ranker: Any, rows: tuple[int, ...], images: Tensor) -> dict[str, Tensor]:
    """What a label ranker makes of images of one size, which are these rows of the file."""
    try:
        embedding = embedded(ranker.scorer, [images])
    except (RuntimeError, IndexError) as error:  # PyTorch's, where pooling leaves nothing
        height, width = images.shape[-2:]
        raise ValueError(
            f"{path}: row {rows[0]}: image of {width} x {height} pixels, which the network cannot take "
            f"({in_a_line(error)})"
        ) from error
    scores = ranker.scorer.head(embedding)
    if not (finite := scores.isfinite().all(1)).all():
        raise FloatingPointError(
            f"{path}: row {rows[int(finite.int().argmin())]}: the model's scores are not finite; name another model"
        )
    return {"embedding": embedding, "scores": scores, "selected": (scores > ranker.thresholds(embedding)).sum(1)}


def _of_network(measured: dict[str, np.ndarray], directions: PCA) -> dict[str, np.ndarray]:
    """The places of embeddings along `directions`, what these leave out, and quantities of the scores."""
    places = directions.transform(measured["embedding"])
    # How far an image is from all that training images have in common: where those lie that resemble none of them.
    rest = np.linalg.norm(measured["embedding"] - directions.inverse_transform(places), axis=1)
    result = {f"embedding {number}": column for number, column in enumerate(places.T, 1)} | {"embedding, rest": rest}
    result |= {f"score {label}": column for label, column in enumerate(measured["scores"].T)}
    return result | {"highest score": measured["scores"].max(1), "labels selected": measured["selected"]}


def _tested(reference: np.ndarray, fresh: np.ndarray) -> tuple[str, tuple[float, float], float, float]:
    """The test's name, both means, the distance and p of one quantity."""
    if reference.dtype.kind == "f":
        result = ks_2samp(reference, fresh)
        means = float(reference.mean(dtype=np.float64)), float(fresh.mean(dtype=np.float64))
        return "kolmogorov_smirnov", means, float(result.statistic), float(result.pvalue)
    kinds, numbered = np.unique(np.concatenate([reference, fresh]), return_inverse=True)
    sides = np.split(numbered, [len(reference)])
    counts = np.stack([np.bincount(side, minlength=len(kinds)) for side in sides])
    shares = counts / counts.sum(1, keepdims=True)
    if reference.dtype.kind == "U":
        usual = counts[0].argmax()
        means, distance = (shares[0, usual], shares[1, usual]), np.abs(shares[0] - shares[1]).sum() / 2
    else:
        means, distance = (reference.mean(), fresh.mean()), np.abs(np.diff(shares.cumsum(1), axis=0)).max()
    # The test wants about five of a kind to be expected on each side: rarer kinds are counted as one.
    rare = counts.sum(0) * counts.sum(1).min() / counts.sum() < 5
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    merged = merged[:, merged.any(0)]
    return "chi_squared", (float(means[0]), float(means[1])), float(distance), float(chi2_contingency(merged).pvalue)

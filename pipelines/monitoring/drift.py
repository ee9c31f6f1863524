"""Whether fresh images, and what the champion makes of them, still look like its training data.

Each figure of an image gets a two-sample test, corrected for the number of figures. Its distance must be large enough
too: of enough images any difference is significant, and not each is worth a training.

What is held against what:

- Figures of the pixels, against the training split: that is the training distribution. A registered version is held
  against the files that it was trained on, from DVC's cache or remote if the checkout's are others by now: after a
  promotion of a model that was trained on what has changed, the same is no drift any more.
- Figures out of the network (embedding, scores), against the validation split. The weights were fitted to the training
  images: the longer, the further apart scores lie on these than on new images of the very same kind, and that would
  count as drift. Validation images are drawn alike, and no weight was fitted to them; that the best epoch was chosen on
  them is one choice among a few dozen, by a mean over all of them.
- The directions in which embeddings are compared are those in which the training split's vary most. Found on either of
  the two samples that are compared, they would suit that one better.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import file_digest
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from rich.table import Table
from rich.text import Text
from ruamel.yaml import YAML
from scipy.stats import chi2_contingency, false_discovery_control, ks_2samp
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import conv2d, pad

from pipelines.ops.dvc_lock import INPUT
from pipelines.ops.messages import in_a_line, on_one_line
from pipelines.serving.batch import image_column, load_ranker
from rankops.io.atomic import replaced_file
from rankops.io.images import PIXELS, picture
from rankops.seeding import generator
from rankops.tasks.label_ranking import LabelRanker
from rankops.tasks.predict import colors_of
from rankops.training.finetune import embedded

__all__ = ["Comparison", "Figure", "compare", "figures", "measure", "table", "write"]

FEWEST = 50  # images on either side, of which a test says something
DIRECTIONS = 5  # in which embeddings are compared one by one
PIECE = 64  # rows decoded and forgotten together
LAPLACE = torch.tensor([[[[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]]])


@dataclass(frozen=True)
class Figure:
    """One figure of the images, on both sides.

    Attributes:
        name: such as `brightness`, `score 3`.
        test: `kolmogorov_smirnov` for what is measured, `chi_squared` for what is counted.
        reference, fresh: means; of `format`, the shares of the training images' most frequent one.
        distance: Kolmogorov-Smirnov's: the largest difference of the two shares of images below any value. Formats have
            no order, so theirs is the share of images that would have to change.
        p: of the test.
        adjusted_p: the same after Benjamini-Hochberg's correction over all figures.
        drifted: significant and far enough.
    """

    name: str
    test: str
    reference: float
    fresh: float
    distance: float
    p: float
    adjusted_p: float
    drifted: bool


@dataclass(frozen=True)
class Comparison:
    """A fresh file beside the training data.

    Attributes:
        file: the fresh one.
        model, version, dataset: of the reference; the version is None where the model came from a folder.
        alpha: how often a file without drift may be called drifted.
        least_distance: below which a figure has not drifted.
        reference: which files `train` and `val` are.
        images: how many were compared: `train` (pixels), `val` (network) and `fresh`.
        formats: width, height and mode of the images, and how many have it: `train` and `fresh`.
        figures: all of them.
    """

    file: str
    model: str
    version: str | None
    dataset: str
    alpha: float
    least_distance: float
    reference: dict[str, str]
    images: dict[str, int]
    formats: dict[str, dict[str, int]]
    figures: list[Figure]

    @property
    def drifted(self) -> list[str]:
        """Names of the figures that have drifted, those that moved furthest first."""
        moved = sorted((figure for figure in self.figures if figure.drifted), key=lambda figure: -figure.distance)
        return [figure.name for figure in moved]

    @property
    def verdict(self) -> str:
        """In a line, such as a retraining gets for its reason."""
        names = self.drifted
        if not names:
            return f"no drift in {self.file} ({self.images['fresh']} images)"
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"drift: {', '.join(names[:4])}{more} in {self.file} ({self.images['fresh']} images)"


def compare(
    fresh: str | Path,
    *,
    model: str | Path,
    dataset: str,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    rows: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compares the images of a file, and a label ranker's scores of them, with the training data.

    Images of another size are not resized: a served model takes them as they are, and so they are scored here. Their
    size is a figure of its own.

    Args:
        fresh: Parquet with a column `image`: {bytes, path}, as in `rankops.io.parquet.IMAGE`; no labels needed.
        model: of the registry, such as `models:/label_ranking@champion`, or a folder such as a run's.
        dataset: below data/, that the model was trained on.
        alpha: how often a file without drift may be called drifted, all figures together.
        least_distance: of a figure that has drifted; 0 leaves it to the tests.
        rows: how many images of each file are looked at, at most; of more, so many are drawn.
        seed: of the draw.

    Raises:
        FileNotFoundError, ValueError: a file is missing, corrupt, has no images or too few, or an image is corrupt; the
            model or the dataset is not there, or the one was not trained on the other; an option is out of its range.
        FloatingPointError: the model gives scores that are not finite.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}, expected above 0 and below 1")
    if not 0 <= least_distance < 1:
        raise ValueError(f"the least distance is {least_distance}, expected from 0 to below 1")
    if rows < FEWEST:
        raise ValueError(f"rows is {rows}, expected at least {FEWEST}: a test of fewer images says nothing")
    counts = {"fresh": _count(Path(fresh))}  # whose faults are the ones to be expected
    ranker, version, tags = _ranker(str(model))
    reference, said = _trained_on(tags, dataset)
    files = {"fresh": Path(fresh)} | reference
    counts |= {split: _count(path) for split, path in reference.items()}
    measured = {
        split: measure(path, ranker, chosen=_chosen(counts[split], rows, seed=seed, use=split))
        for split, path in files.items()
    }
    return Comparison(
        file=str(fresh), model=str(model), version=version, dataset=dataset, alpha=alpha,
        least_distance=least_distance, reference=said,
        images={split: len(part["format"]) for split, part in measured.items()},
        formats={split: dict(Counter(measured[split]["format"].tolist())) for split in ("train", "fresh")},
        figures=figures(**measured, alpha=alpha, least_distance=least_distance),
    )  # fmt: skip


def figures(
    train: dict[str, np.ndarray],
    val: dict[str, np.ndarray],
    fresh: dict[str, np.ndarray],
    *,
    alpha: float,
    least_distance: float,
) -> list[Figure]:
    """The figures of fresh images beside those of the two splits; all three as `measure` gives them."""
    directions = PCA(min(DIRECTIONS, *train["embedding"].shape), random_state=0).fit(train["embedding"])
    reference = _of_pixels(train) | _of_network(val, directions)
    of_fresh = _of_pixels(fresh) | _of_network(fresh, directions)
    tested = {name: _tested(values, of_fresh[name]) for name, values in reference.items()}
    adjusted = false_discovery_control([p for *_, p in tested.values()])
    return [
        Figure(name, test, *means, distance, p, corrected, corrected <= alpha and distance >= least_distance)
        for (name, (test, means, distance, p)), corrected in zip(tested.items(), adjusted.tolist(), strict=True)
    ]


def write(comparison: Comparison, path: str | Path) -> None:
    """The whole comparison as JSON, written whole or not at all."""
    report = asdict(comparison) | {"drifted": comparison.drifted}
    with replaced_file(path) as partial:
        partial.write_text(json.dumps(report, indent=2) + "\n")


def table(comparison: Comparison) -> Table:
    """The figures, for a terminal."""
    shown = Table(title=Text(f"means of {comparison.dataset} and {comparison.file}"), title_justify="left")
    shown.add_column("figure", no_wrap=True)
    for column in ("training", "fresh", "KS distance", "adjusted p", "drifted"):
        shown.add_column(column, justify="right")
    for figure in comparison.figures:
        numbers = (figure.reference, figure.fresh, figure.distance)
        shown.add_row(
            figure.name, *(f"{number:.3f}" for number in numbers), f"{figure.adjusted_p:.2g}",
            "yes" if figure.drifted else "no", style="bold red" if figure.drifted else "",
        )  # fmt: skip
    formats = {}
    for side, found in comparison.formats.items():
        most = [f"{name} ({count})" for name, count in Counter(found).most_common(3)]
        formats[side] = ", ".join(most + ["..."] * (len(found) > 3))
    held = "; ".join(comparison.reference.values())
    shown.caption = Text(f"formats: training {formats['train']}; fresh {formats['fresh']}\nheld against {held}")
    return shown


def _ranker(model: str) -> tuple[LabelRanker, str | None, dict[str, str]]:
    """A label ranker; if it is of the registry, its version and the tags of the run that made it."""
    if ":/" not in model:
        return load_ranker(model), None, {}
    from pipelines.tracking.publish import Registry, store, weights_of

    with TemporaryDirectory() as scratch:
        folder = weights_of(model, Path(scratch))
        ranker = load_ranker(str(folder))
        said = folder.parents[1] / "registered_model_meta"  # which MLflow puts beside what it downloads
        if not said.is_file():
            return ranker, None, {}
        found = YAML(typ="safe").load(said)
    name, version = found["model_name"], str(found["model_version"])
    with store() as client:
        return ranker, version, Registry(client).run_tags(name, version)


def _trained_on(tags: dict[str, str], dataset: str) -> tuple[dict[str, Path], dict[str, str]]:
    """The two splits that a model was trained on, and what to say of each; of a model that does not tell, those of now.

    Args:
        tags: of the run that made it, with DVC's hash of each input, `input.<path>`.
        dataset: below data/.

    Raises:
        ValueError: it was trained on another dataset.
        FileNotFoundError: a file is neither here, nor in DVC's cache or remote.
    """
    inputs = {name.removeprefix(INPUT): digest for name, digest in tags.items() if name.startswith(f"{INPUT}data/")}
    others = sorted(Path(path).parent.name for path in inputs if path.endswith("/train.parquet"))
    if others and dataset not in others:
        raise ValueError(f"the model was trained on {others[0]}, not on {dataset}: name that as the dataset")
    files, said = {}, {}
    for split in ("train", "val"):
        path = Path("data") / dataset / f"{split}.parquet"
        if digest := inputs.get(path.as_posix()):
            files[split], said[split] = _content(path, digest), f"{path}, MD5 {digest}, which the model was trained on"
        elif path.is_file():
            files[split], said[split] = path, f"{path} as it is now; the model does not tell what it was trained on"
        else:
            raise FileNotFoundError(f"{path}: no such file to compare with; make it with `dvc repro`")
    return files, said


def _content(path: Path, digest: str) -> Path:
    """Where a file with this MD5 is: in its place, or else in DVC's cache, for which DVC's remote is asked."""
    if path.is_file():
        with path.open("rb") as file:
            if file_digest(file, "md5").hexdigest() == digest:
                return path
    from dvc.repo import Repo  # a second, which is seldom needed
    from dvc_data.hashfile.hash_info import HashInfo

    because = ""
    try:
        with Repo(".") as repo:
            kept = Path(repo.cache.local.oid_to_path(digest))
            if not kept.is_file() and repo.config["core"].get("remote"):
                repo.cloud.pull([HashInfo("md5", digest)])
            if kept.is_file():
                return kept
    except Exception as error:  # each kind of remote has its own
        because = f" ({type(error).__name__}: {on_one_line(error)})"
    raise FileNotFoundError(
        f"{path}: the model was trained on another version of it (MD5 {digest}), which is not in DVC's cache and could "
        f"not be fetched from a default remote{because}: see that `dvc push` was run where the model was trained and "
        "that the remote answers here, or compare with the file of now by naming the model's folder, such as "
        "models/runs/label_ranking-rlsep"
    )


def _opened(path: Path) -> pq.ParquetFile:
    # Buffered: a row group, which may be the whole file, would otherwise be read at once.
    return pq.ParquetFile(path, buffer_size=2**20)


def _count(path: Path) -> int:
    """How many rows a file of images has.

    Raises:
        FileNotFoundError, ValueError: it is not there, not whole, has no images or too few.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected Parquet with a column image: {{bytes, path}}")
    try:
        with _opened(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error}); make or fetch it again") from error
    image_column(schema, path)
    if count < FEWEST:
        raise ValueError(f"{path}: {count} images, expected at least {FEWEST}: a test of fewer says nothing")
    return count


def _chosen(count: int, rows: int, *, seed: int, use: str) -> np.ndarray:
    """Which rows are looked at: a boolean for each."""
    chosen = np.zeros(count, bool)
    chosen[torch.randperm(count, generator=generator(seed, "monitor", use))[:rows].numpy()] = True
    return chosen


def _pieces(path: Path, chosen: np.ndarray) -> Iterator[list[tuple[int, bytes]]]:
    """The chosen rows' numbers and encoded images, a piece at a time, so that no file is too large."""
    start = 0
    try:
        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=PIECE, columns=["image"]):
                rows = np.flatnonzero(chosen[start : start + len(batch)])
                images = batch.column(0).take(pa.array(rows, pa.int64())).to_pylist()
                encoded = [(image.get("bytes") if isinstance(image, dict) else image) or b"" for image in images]
                yield list(zip((start + rows).tolist(), encoded, strict=True))
                start += len(batch)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error}); make or fetch it again") from error


def _format(encoded: bytes) -> str:
    """Of an image as it came, such as `64 x 64 L`; what the network gets is made gray or colored."""
    with Image.open(BytesIO(encoded)) as image:
        return f"{image.width} x {image.height} {image.mode}"


def _statistics(images: Tensor) -> dict[str, Tensor]:
    """Figures of pixels (n, colors, height, width) uint8, each (n,): in shares of white; ink is what is over half."""
    gray = images.float().mean(1, keepdim=True) / 255
    edges = conv2d(pad(gray, (1, 1, 1, 1), mode="replicate"), LAPLACE)
    return {
        "brightness": gray.mean((1, 2, 3)),
        "contrast": gray.std((1, 2, 3), correction=0),
        "ink": (gray > 0.5).float().mean((1, 2, 3)),
        "sharpness": edges.std((1, 2, 3), correction=0),
    }


@torch.inference_mode()
def measure(path: Path, ranker: LabelRanker, *, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """What pixels and network say of the images of a file; a row an image, in any order.

    Args:
        path: Parquet with a column `image`.
        ranker: from `pipelines.serving.batch.load_ranker`.
        chosen: for each row, whether it is looked at.

    Returns:
        `format`, `brightness`, `contrast`, `ink` and `sharpness` (n,), `embedding` (n, features), `scores` (n, K) and
        `selected` (n,), how many labels; of the images as they are, whatever views the ranker averages over.

    Raises:
        ValueError: the file or an image is not whole, or the network cannot take it; the message names its row.
        FloatingPointError: scores are not finite.
    """
    colors = colors_of(ranker.scorer)
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    for piece in _pieces(path, chosen):
        by_size: dict[torch.Size, list[tuple[int, str, Tensor]]] = defaultdict(list)
        for row, encoded in piece:
            pixels = picture(encoded, colors=colors, where=f"{path}: row {row}")
            by_size[pixels.shape].append((row, _format(encoded), pixels))
        for size, found in by_size.items():
            rows, formats, pixels = zip(*found, strict=True)
            images = torch.cat(pixels).view(len(rows), colors, *size[-2:])
            at_once = max(1, PIXELS // images[0].numel())
            try:
                embedding = embedded(ranker.scorer, images, batch_size=at_once)
            except (RuntimeError, IndexError) as error:  # PyTorch's, where pooling leaves nothing
                raise ValueError(
                    f"{path}: row {rows[0]}: image of {size[-1]} x {size[-2]} pixels, which the network cannot take "
                    f"({in_a_line(error)})"
                ) from error
            scores = ranker.scorer.head(embedding)
            selected = (scores > ranker.thresholds(embedding)).sum(1)
            if not (finite := scores.isfinite().all(1)).all():
                raise FloatingPointError(
                    f"{path}: row {rows[int(finite.int().argmin())]}: the model's scores of it are not finite; see "
                    "that it is whole, or name another with --model"
                )
            parts["format"].append(np.array(formats))
            for name, values in {"embedding": embedding, "scores": scores, "selected": selected}.items():
                parts[name].append(values.cpu().numpy())
            for part in images.split(at_once):
                for name, values in _statistics(part).items():
                    parts[name].append(values.numpy())
    return {name: np.concatenate(values) for name, values in parts.items()}


def _of_pixels(measured: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: measured[name] for name in ("format", "brightness", "contrast", "ink", "sharpness")}


def _of_network(measured: dict[str, np.ndarray], directions: PCA) -> dict[str, np.ndarray]:
    """The places of embeddings along `directions`, what these leave out, and figures of the scores."""
    places = directions.transform(measured["embedding"])
    # How far an image is from all that training images have in common: where those lie that resemble none of them.
    rest = np.linalg.norm(measured["embedding"] - directions.inverse_transform(places), axis=1)
    figures = {f"embedding {number}": column for number, column in enumerate(places.T, 1)} | {"embedding, rest": rest}
    figures |= {f"score {label}": column for label, column in enumerate(measured["scores"].T)}
    return figures | {"highest score": measured["scores"].max(1), "labels selected": measured["selected"]}


def _tested(reference: np.ndarray, fresh: np.ndarray) -> tuple[str, tuple[float, float], float, float]:
    """The test's name, both means, the distance and p of one figure."""
    if reference.dtype.kind == "f":
        found = ks_2samp(reference, fresh)
        means = float(reference.mean(dtype=np.float64)), float(fresh.mean(dtype=np.float64))
        return "kolmogorov_smirnov", means, float(found.statistic), float(found.pvalue)
    kinds, numbered = np.unique(np.concatenate([reference, fresh]), return_inverse=True)
    counts = np.stack(
        [np.bincount(part, minlength=len(kinds)) for part in np.split(numbered, [len(reference)])]
    )  # fmt: skip
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
    p = chi2_contingency(merged).pvalue
    return "chi_squared", (float(means[0]), float(means[1])), float(distance), float(p)

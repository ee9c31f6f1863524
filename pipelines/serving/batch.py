"""Label ranking for people: images from files, annotated ones, and whole tables from Parquet to Parquet."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tqdm import tqdm

from rankops.io.atomic import replaced_file, write_error
from rankops.io.checkpoints import load_model
from rankops.io.images import image_batches, image_count, picture
from rankops.tasks.label_ranking import LabelRanking
from rankops.tasks.predict import order_of, picture_of, predicted

__all__ = ["Prediction", "annotate", "annotated_paths", "load_ranker", "predict", "predict_table"]

TASK: Any = LabelRanking()
WRITTEN = 8192  # predictions that are written at a time
COLUMNS = [
    ("scores", pa.list_(pa.float32())), ("label_ranks", pa.list_(pa.int64())), ("selected", pa.list_(pa.bool_()))
]  # fmt: skip


def load_ranker(model: str) -> nn.Module:
    """Load a label ranker, on the GPU if there is one.

    Args:
        model: a registered version, or a folder: of a run, such as models/runs/label_ranking-rlsep, of which the seed
            that is best on validation is taken, or of a seed.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: not a label ranker, or see `pipelines.tracking.registry.weights_of`.
    """
    with TemporaryDirectory() as scratch:
        folder = Path(model)
        if ":/" in model:
            from pipelines.tracking.registry import weights_of

            folder = weights_of(model, Path(scratch))
        elif not folder.is_dir():
            raise FileNotFoundError(
                f"{model}: no such folder; expected one that a run wrote, or such as models:/label_ranking@champion"
            )
        network = load_model(folder, device="cuda" if torch.cuda.is_available() else "cpu")
    if (task := getattr(network, "recipe", {}).get("task")) != TASK.name:
        raise ValueError(f"{model}: a model of {task or 'no task'}, expected one of {TASK.name}")
    return network


@dataclass(frozen=True)
class Prediction:
    """The labels of an image, the most important first."""

    path: Path
    places: list[int]  # equally important labels share theirs
    labels: list[int]
    scores: list[float]


def predict(ranker: nn.Module, paths: Sequence[Path]) -> list[Prediction]:
    """Return the labels of each image.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not an image, or too large or too small; the message names the file.
    """
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")
    results = []
    for path, row in zip(paths, _predicted(ranker, [(str(path), path) for path in paths]).to_pylist(), strict=True):
        labels, ranks = order_of(row["label_ranks"]), row["label_ranks"]
        places = [max(ranks) + 1 - ranks[label] for label in labels]
        results.append(Prediction(path, places, labels, [row["scores"][label] for label in labels]))
    return results


def _predicted(ranker: nn.Module, images: list[tuple[str, bytes | Path | None]]) -> pa.Table:
    """Return predictions of encoded images; messages call them by their names."""

    def decoded(named: tuple[str, bytes | Path | None]) -> tuple[str, Tensor]:
        return named[0], picture_of(ranker, named[1], where=named[0])

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return predicted(pool.map(decoded, images), lambda pixels: TASK.predict(ranker, (pixels, None)))


def annotated_paths(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return where annotated images go: to `out` for a single one, into the folder `out` for several.

    Raises:
        ValueError: one would replace another, or an image that is read.
    """
    single = len(paths) == 1 and out.suffix and not out.is_dir()
    results = [out] if single else [out / f"{path.stem}.png" for path in paths]
    read = {path.resolve() for path in paths}
    for number, result in enumerate(results):
        if result in results[:number] or result.resolve() in read:
            raise ValueError(f"--out {out}: the annotated {paths[number]} would replace {result}: name another folder")
    return results


def annotate(path: Path, prediction: Prediction) -> None:
    """Draw an image beside its labels, the most important one on top, as long as its score."""
    count = len(prediction.labels)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    shown, bars = figure.subplots(1, 2)
    shown.imshow(picture(prediction.path, colors=3, where=str(prediction.path))[0].permute(1, 2, 0).numpy())
    shown.axis("off")
    drawn = bars.barh(range(count), prediction.scores)
    bars.bar_label(drawn, [f"{score:.2f}" for score in prediction.scores], padding=3)
    names = [f"{place}.  label {label}" for place, label in zip(prediction.places, prediction.labels, strict=True)]
    bars.set_yticks(range(count), names)
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set(xlabel="score", title="most important first" if count else "no label")
    figure.suptitle(prediction.path.name, parse_math=False)
    with replaced_file(path) as partial:
        figure.savefig(partial, dpi=100, format=path.suffix.removeprefix(".").lower())


def predict_table(source: Path, target: Path, ranker: nn.Module) -> int:
    """Predict a Parquet file of images into another, whole or not at all, and return the number of rows.

    The file is read, predicted and written in pieces, so that memory does not grow with it.

    Args:
        source: with a column `image`, of `rankops.io.parquet.IMAGE` or of bytes. A column `id` is kept; without one,
            `id` is the number of the row.
        target: gets `id`, `scores`, `label_ranks` and `selected`.
        ranker: from `load_ranker`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a Parquet file, without such a column, or an image in it is broken; the message names its row.
        OSError: the target cannot be written.
    """
    count = image_count(source)
    if target.is_dir() or target.resolve() == source.resolve():
        raise ValueError(f"{target}: {'a folder' if target.is_dir() else 'the file that is read'}; name another file")
    given = pq.read_schema(source)
    own = ["id"] if "id" in given.names else []
    schema = pa.schema([("id", given.field("id").type if own else pa.int64()), *COLUMNS])
    progress = tqdm(total=count, desc=source.name, unit=" images", disable=None)
    with replaced_file(target) as partial, progress as bar:
        try:
            with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
                waiting: list[pa.Table] = []
                for first, batch in image_batches(source, columns=own):
                    rows = range(first, first + len(batch))
                    images = zip((f"{source}: row {row}" for row in rows), batch["image"].to_pylist(), strict=True)
                    table = _predicted(ranker, list(images))
                    waiting.append(table.set_column(0, "id", batch["id"] if own else pa.array(rows, pa.int64())))
                    bar.update(len(table))
                    if sum(map(len, waiting)) >= WRITTEN:  # many together: each writing makes a row group
                        writer.write_table(pa.concat_tables(waiting))
                        waiting = []
                if waiting:
                    writer.write_table(pa.concat_tables(waiting))
        except OSError as error:
            raise write_error(target, error) from error
    return count

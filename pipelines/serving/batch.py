"""Label ranking for people: pictures from files, annotated ones, and whole tables from Parquet to Parquet."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from rankops.io.atomic import replaced_file, write_error
from rankops.io.images import picture
from rankops.io.parquet import IMAGE
from rankops.tasks.label_ranking import LabelRanker, load
from rankops.tasks.predict import colors_of, order_of, predicted

__all__ = ["Prediction", "annotate", "image_column", "load_ranker", "places_for", "predict", "predict_table"]

READ, WRITTEN = 64, 8192  # rows at a time: of pictures, which are large, and of predictions
FORM = [("scores", pa.list_(pa.float32())), ("label_ranks", pa.list_(pa.int64())), ("selected", pa.list_(pa.bool_()))]


def load_ranker(model: str) -> LabelRanker:
    """A label ranker on the GPU, or on the CPU where there is none.

    Args:
        model: a folder that a run wrote, such as models/runs/label_ranking-rlsep, or a registered version.

    Raises:
        FileNotFoundError: no such folder, or not one of a label ranker.
        ValueError: the model is broken, or see `pipelines.tracking.publish.weights_of`.
    """
    if ":/" in model:
        from pipelines.tracking.publish import weights_of

        with TemporaryDirectory() as scratch:
            return _loaded(weights_of(model, Path(scratch)), model)
    if not Path(model).is_dir():
        raise FileNotFoundError(
            f"{model}: no such folder; expected one that a run wrote, or such as models:/label_ranking@champion"
        )
    return _loaded(Path(model), model)


def _loaded(folder: Path, model: str) -> LabelRanker:
    for part in ("scorer", "thresholds"):
        if not (folder / part).is_dir():
            raise FileNotFoundError(f"{model}: has no {part}, so it is no label ranker; expected a label_ranking run")
    return load(folder, device="cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Prediction:
    """What a picture shows, the most important label first.

    Attributes:
        path: of the picture.
        places: of each label; equally important ones share theirs.
        labels: their numbers.
        scores: theirs.
    """

    path: Path
    places: list[int]
    labels: list[int]
    scores: list[float]


def predict(ranker: LabelRanker, paths: Sequence[Path]) -> list[Prediction]:
    """The labels of each picture.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a picture, or too large; see `rankops.io.images.picture`.
    """
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")
    colors, found = colors_of(ranker.scorer), []
    table = predicted(ranker, ((str(path), picture(path, colors=colors, where=str(path))) for path in paths))
    for path, row in zip(paths, table.to_pylist(), strict=True):
        labels, most = order_of(row["label_ranks"]), max(row["label_ranks"])
        found.append(
            Prediction(
                path=path,
                places=[most + 1 - row["label_ranks"][label] for label in labels],
                labels=labels,
                scores=[row["scores"][label] for label in labels],
            )
        )
    return found


def places_for(paths: Sequence[Path], out: Path) -> list[Path]:
    """Where the annotated picture of each goes: `out` for a single one, files in the folder `out` for several.

    Raises:
        ValueError: `out` is not of a kind that can be drawn, two would have the same name, or one would take the place
            of a picture that is read.
    """
    if len(paths) == 1 and not out.is_dir():
        kinds = Figure().canvas.get_supported_filetypes()
        if out.suffix.removeprefix(".").lower() not in kinds:
            raise ValueError(f"--out {out}: not a kind of picture that can be drawn; expected a name such as out.png")
        places = [out]
    else:
        if out.exists() and not out.is_dir():
            raise ValueError(f"--out {out}: a file; expected a folder for the {len(paths)} annotated pictures")
        places = [out / f"{path.stem}.png" for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise ValueError(
                f"--out {out}: {paths[places.index(place)]} and {paths[number]} would both become {place}; "
                "give them different names"
            )
        if place.resolve() in [path.resolve() for path in paths]:
            raise ValueError(f"--out {out}: {place} would take the place of a picture that is read; name another")
    return places


def annotate(place: Path, prediction: Prediction) -> None:
    """Draws a picture beside its labels, the most important one on top, as long as its score."""
    count = len(prediction.labels)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    shown, bars = figure.subplots(1, 2)
    shown.imshow(picture(prediction.path, colors=3, where=str(prediction.path))[0].permute(1, 2, 0).numpy())
    shown.axis("off")
    drawn = bars.barh(range(count), prediction.scores)
    bars.bar_label(drawn, [f"{score:.2f}" for score in prediction.scores], padding=3)
    bars.set_yticks(range(count), [f"{place}.  label {label}" for place, label in zip(
        prediction.places, prediction.labels, strict=True)])  # fmt: skip
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set(xlabel="score", title="most important first" if count else "no label")
    figure.suptitle(prediction.path.name, parse_math=False)
    with replaced_file(place) as partial:
        figure.savefig(partial, dpi=100, format=place.suffix.removeprefix(".").lower())


def predict_table(source: Path, target: Path, ranker: LabelRanker) -> int:
    """Predicts a Parquet file of pictures into another, in the form of `predictions/<run>.parquet`, or not at all.

    Read, predicted and written in pieces: memory does not grow with the file.

    Args:
        source: with a column `image`, of `rankops.io.parquet.IMAGE` or of bytes. A column `id` is kept; where there is
            none, `id` is the number of the row.
        target: gets `id`, `scores`, `label_ranks` and `selected`.
        ranker: from `load_ranker`.

    Returns:
        How many rows there are.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a Parquet file, without such a column, or a picture in it is broken; the message names its row.
        OSError: the target cannot be written.
    """
    if not source.is_file():
        raise FileNotFoundError(f"{source}: no such file")
    if target.is_dir() or target.resolve() == source.resolve():
        raise ValueError(f"{target}: {'a folder' if target.is_dir() else 'the file that is read'}; name another file")
    try:
        # Through a buffer: a row group, which may be the whole file, would otherwise be read at once.
        file = pq.ParquetFile(source, buffer_size=2**20, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{source}: not a whole Parquet file ({error})") from error
    with (
        file,
        replaced_file(target) as partial,
        tqdm(total=file.metadata.num_rows, desc=source.name, unit=" images", disable=None) as bar,
    ):
        columns = [image_column(file.schema_arrow, source), *(["id"] if "id" in file.schema_arrow.names else [])]
        kind = file.schema_arrow.field("id").type if "id" in columns else pa.int64()
        waiting: list[pa.Table] = []
        try:
            with pq.ParquetWriter(partial, pa.schema([("id", kind), *FORM]), compression="zstd") as writer:
                for table in _predicted_pieces(file, columns, source, ranker):
                    waiting.append(table)
                    bar.update(len(table))
                    if sum(map(len, waiting)) >= WRITTEN:  # many together: each writing makes a row group
                        writer.write_table(pa.concat_tables(waiting))
                        waiting = []
                if waiting:
                    writer.write_table(pa.concat_tables(waiting))
        except OSError as error:
            raise write_error(target, error) from error
        return file.metadata.num_rows


def image_column(schema: pa.Schema, source: Path) -> str:
    """Where the pictures' bytes are: `image.bytes` or `image`.

    Raises:
        ValueError: nowhere, or they are no bytes.
    """
    if "image" not in schema.names:
        raise ValueError(f"{source}: no column image; it has {', '.join(schema.names) or 'none'}")
    kind, name = schema.field("image").type, "image"
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind, name = kind.field("bytes").type, "image.bytes"
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ValueError(f"{source}: column image is of type {schema.field('image').type}, expected {IMAGE} or binary")
    return name


def _predicted_pieces(
    file: pq.ParquetFile, columns: list[str], source: Path, ranker: LabelRanker
) -> Iterator[pa.Table]:
    colors, first = colors_of(ranker.scorer), 0

    def decoded(numbered: tuple[int, bytes | None]) -> tuple[str, Tensor]:
        where = f"{source}: row {numbered[0]}"
        return where, picture(numbered[1], colors=colors, where=where)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for batch in _batches(file, columns, source):
            image = batch["image"]
            if not len(batch):
                continue
            encoded = (image.field("bytes") if pa.types.is_struct(image.type) else image).to_pylist()
            table = predicted(ranker, pool.map(decoded, enumerate(encoded, first)))
            ids = batch["id"] if "id" in columns else pa.array(range(first, first + len(table)), pa.int64())
            yield table.set_column(0, "id", ids)
            first += len(table)


def _batches(file: pq.ParquetFile, columns: list[str], source: Path) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(batch_size=READ, columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{source}: not a whole Parquet file ({error})") from error

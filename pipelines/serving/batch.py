"""Label ranking of whole tables, from Parquet to Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import nn
from tqdm import tqdm

from pipelines.serving.ranker import ranker_folder
from rankops.cli import predict
from rankops.inputs.image import Image
from rankops.io.atomic import replaced_file, write_error
from rankops.io.images import image_batches, image_count

__all__ = ["load_ranker", "predict_table"]

WRITTEN = 8192  # predictions that are written at a time
COLUMNS = [
    ("scores", pa.list_(pa.float32())), ("label_ranks", pa.list_(pa.int64())), ("selected", pa.list_(pa.bool_()))
]  # fmt: skip


def load_ranker(model: str | None) -> Any:
    """Load a label ranker, see `pipelines.serving.ranker.ranker_folder` and `rankops.cli.predict.load_ranker`."""
    with ranker_folder(model) as folder:
        return predict.load_ranker(folder)


def predict_table(source: Path, target: Path, ranker: nn.Module, *, skip_broken: bool = False) -> tuple[int, list[int]]:
    """Predict a Parquet file of images into another, whole or not at all; return how many rows, and which are broken.

    The file is read, predicted and written in pieces, so that memory does not grow with it.

    Args:
        source: with a column `image`, of `rankops.io.parquet.IMAGE` or of bytes. A column `id` is kept; without one,
            `id` is the number of the row.
        target: gets `id`, `scores`, `label_ranks` and `selected`.
        ranker: from `load_ranker`.
        skip_broken: give an image that cannot be read nulls, and say why in a further column `error`, which is null
            elsewhere.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a Parquet file, without such a column, or, without `skip_broken`, an image in it is broken; the
            message names its row.
        OSError: the target cannot be written.
    """
    count = image_count(source)
    if target.is_dir() or target.resolve() == source.resolve():
        raise ValueError(f"{target}: {'a folder' if target.is_dir() else 'the file that is read'}; name another file")
    given = pq.read_schema(source)
    if (ids := given.names.count("id")) > 1:
        raise ValueError(f"{source}: {ids} columns are called id, expected at most one")
    own = ["id"] * ids
    columns = [*COLUMNS, ("error", pa.string())] if skip_broken else COLUMNS
    schema = pa.schema([("id", given.field("id").type if own else pa.int64()), *columns])
    broken: list[int] = []
    progress = tqdm(total=count, desc=source.name, unit=" images", disable=None)
    with replaced_file(target) as partial, progress as bar:
        try:
            with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
                waiting: list[pa.Table] = []
                for first, batch in image_batches(source, columns=own):
                    rows = range(first, first + len(batch))
                    names = [f"{source}: row {row}" for row in rows]
                    images = list(zip(names, batch["image"].to_pylist(), strict=True))
                    errors = [_error_of(ranker, *image) if skip_broken else None for image in images]
                    broken += [row for row, error in zip(rows, errors, strict=True) if error]
                    table = _predictions(ranker, images, errors)
                    if skip_broken:
                        table = table.append_column("error", pa.array(errors, pa.string()))
                    waiting.append(table.set_column(0, "id", batch["id"] if own else pa.array(rows, pa.int64())))
                    bar.update(len(table))
                    if sum(map(len, waiting)) >= WRITTEN:  # many together: each writing makes a row group
                        writer.write_table(pa.concat_tables(waiting))
                        waiting = []
                if waiting:
                    writer.write_table(pa.concat_tables(waiting))
        except OSError as error:
            raise write_error(target, error) from error
    return count, broken


def _error_of(ranker: nn.Module, name: str, encoded: bytes | None) -> str | None:
    """Return why an image cannot be read, if it cannot."""
    try:
        Image.prepared([encoded], vars(ranker)["recipe"]["input"], where=name)
    except ValueError as error:
        return str(error).removeprefix(f"{name}: ")
    return None


def _predictions(ranker: nn.Module, images: list[tuple[str, Any]], errors: list[str | None]) -> pa.Table:
    """Return a row an image, of nulls where there is an error."""
    whole = [image for image, error in zip(images, errors, strict=True) if error is None]
    if len(whole) == len(images):
        return predict.predictions(ranker, images)
    rows = iter(range(len(whole)))
    places = pa.array([next(rows) if error is None else None for error in errors], pa.int64())
    if not whole:
        return pa.table({"id": places} | {name: pa.nulls(len(images), kind) for name, kind in COLUMNS})
    return predict.predictions(ranker, whole).take(places)

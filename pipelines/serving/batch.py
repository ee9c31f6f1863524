"""Label ranking of whole tables, from Parquet to Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import nn
from tqdm import tqdm

from pipelines.serving.ranker import ranker_folder
from rankops.cli import predict
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
                    table = predict.predictions(ranker, list(images))
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

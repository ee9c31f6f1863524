"""A public dataset from data/raw/<name>, in its own layout, to the tables that the tasks read."""

import importlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines.settings import Settings
from pipelines.stage import run
from rankops.atomic_writes import replaced_folder
from rankops.photos import SPLITS


def main(params: Settings, name: str) -> None:
    options, threads = params.real_data[name], params.compute.threads
    raw = Path("data/raw") / name
    # By its name, so that another adapter's change does not rerun this one.
    dataset = importlib.import_module(f"rankops.datasets.{name}")
    dataset.check(raw, **options.args)
    rows, skipped = {}, {split: [] for split in SPLITS}
    with replaced_folder(f"data/{name}") as folder, tqdm(desc=name, unit=" rows") as bar:
        for split in SPLITS:
            made = dataset.tables(
                raw, split, skipped[split], size=options.size, threads=threads, seed=options.seed, **options.args
            )
            rows[split] = _write(folder / f"{split}.parquet", made, bar)
            if not rows[split]:
                raise ValueError(f"{raw}: nothing is left of {split}: all of its files are broken; get them again")
        manifest = {
            "rows": rows,
            "skipped": {split: {"files": len(files), "names": files} for split, files in skipped.items()},
            "options": {"size": options.size, "seed": options.seed, "args": options.args},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _write(path: Path, tables: Iterator[pa.Table], bar: tqdm) -> int:
    """Writes tables as they come, and says how many rows they had."""
    rows = 0
    with ExitStack() as closing:
        for table in tables:
            if not rows:  # the schema may depend on the data, as with the number of classes
                writer = closing.enter_context(pq.ParquetWriter(path, table.schema, compression="zstd"))
            writer.write_table(table)
            rows += len(table)
            bar.update(len(table))
    return rows


if __name__ == "__main__":
    run(main)

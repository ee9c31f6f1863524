"""Read and write predictions of rivals, in the form of the run on the same data with which they are compared."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankgrad.io.atomic import replaced_file


def of_run(run: str) -> pa.Table:
    """Return the predictions of the first seed of a run, in the order of the test rows."""
    return next(iter(of_seeds(run).values()))


def of_seeds(run: str) -> dict[int, pa.Table]:
    """Return the predictions of each seed of a run, in the order of the test rows."""
    table = pq.read_table(f"predictions/{run}.parquet")
    seeds = table["seed"].to_numpy()
    return {int(seed): table.filter(pa.array(seeds == seed)).sort_by("id") for seed in np.unique(seeds)}


def with_column(table: pa.Table, name: str, values: list) -> pa.Table:
    """Return a table with other values in one of its columns."""
    column = pa.array(values, table.schema.field(name).type)
    return table.set_column(table.column_names.index(name), name, column)


def write(rival: str, tables: Mapping[int, pa.Table]) -> None:
    """Write the predictions of a rival, given as one table per seed."""
    seeds = [with_column(table, "seed", [seed] * len(table)) for seed, table in tables.items()]
    with replaced_file(f"predictions/{rival}.parquet") as partial:
        pq.write_table(pa.concat_tables(seeds), partial, compression="zstd")

"""Draw embeddings with a skewed target: prices of items, a few of them a hundred times the usual.

`python draw.py FOLDER [ROWS]`
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZE = 64


def draw(folder: Path, rows: int = 3000) -> None:
    """Write `embeddings.parquet` with `X`, vectors of 64 numbers, and `price`."""
    draws = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    embeddings = draws.normal(size=(rows, SIZE)).astype(np.float32)
    quality = np.tanh(embeddings @ draws.normal(size=(SIZE, 4)) / 4) @ np.array([1.0, -0.7, 0.5, 0.3])
    price = np.exp(3 * quality + draws.normal(size=rows)) * 20
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.ravel()), SIZE)
    pq.write_table(pa.table({"X": vectors, "price": price.astype(np.float32)}), folder / "embeddings.parquet")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), *map(int, sys.argv[2:]))

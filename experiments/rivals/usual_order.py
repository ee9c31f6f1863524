"""Sort the components that cross-entropy finds in a kanji by their usual order: predictions/kanji-usual_order.parquet.

It is the simple alternative to a loss that sees the order: `python -m rivals.usual_order`.
"""

import numpy as np
import pyarrow.parquet as pq
from rivals.predictions import with_column
from rivals.rules import usual_ranks

from rankops.io.atomic import replaced_file

LIKE, NAME = "label_ranking-cross_entropy-kanji", "kanji-usual_order"


def main() -> None:
    table = pq.read_table(f"predictions/{LIKE}.parquet")
    found = np.stack(table["selected"].to_numpy())
    with replaced_file(f"predictions/{NAME}.parquet") as partial:
        pq.write_table(with_column(table, "scores", list(np.where(found, usual_ranks(), -1.0))), partial)


if __name__ == "__main__":
    main()

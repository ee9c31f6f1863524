"""Order the components that cross-entropy finds in a kanji as is usual in training: `python -m rivals.usual_order`.

It is a rival of losses on the order, since it needs a classifier alone. Components that are not found stay below, in
the classifier's own order.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankgrad.io.atomic import replaced_file
from studies.rivals.predictions import of_seeds, with_column
from studies.rivals.rules import usual_places

NAME, OF = "kanji-usual_order", "label_ranking-multilabel_cross_entropy-kanji"


def main() -> None:
    """Write the predictions of every seed of the classifier with other scores."""
    tables, usual = of_seeds(OF), usual_places()
    for seed, table in tables.items():
        scores, selected = (np.stack(table[column].to_numpy()) for column in ("scores", "selected"))
        ordered = np.where(selected, usual, scores - scores.max() - 1)  # usual places are above 0
        tables[seed] = with_column(table, "scores", list(ordered))
    with replaced_file(f"predictions/{NAME}.parquet") as partial:
        pq.write_table(pa.concat_tables(tables.values()), partial, compression="zstd")


if __name__ == "__main__":
    main()

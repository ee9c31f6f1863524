"""Sort the components that cross-entropy finds into their usual order: `python -m studies.rivals.usual_order`.

It is a baseline for ranking losses, since it needs only a classifier. Components that are not found come last, in the
classifier's own order.
"""

import numpy as np

from studies.rivals.predictions import of_seeds, with_column, write
from studies.rivals.rules import usual_positions

NAME, OF = "kanji-usual_order", "label_ranking-multilabel_cross_entropy-kanji"


def main() -> None:
    """Write the predictions of every seed of the classifier with these scores instead."""
    tables, usual = of_seeds(OF), usual_positions()
    for seed, table in tables.items():
        scores, selected = (np.stack(table[column].to_numpy()) for column in ("scores", "selected"))
        ordered = np.where(selected, usual, scores - scores.max() - 1)  # usual positions are above 0
        tables[seed] = with_column(table, "scores", list(ordered))
    write(NAME, tables)


if __name__ == "__main__":
    main()

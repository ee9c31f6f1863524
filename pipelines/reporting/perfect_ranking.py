"""What the paper's ranked mAP is for a ranking without any mistake: less than 1.

Of the test images here, or of another file: `python -m pipelines.reporting.perfect_ranking data/ranked_mnist/val.parquet`.
"""

import sys
from pathlib import Path

from rankops.io.parquet import matrix, read_table
from rankops.metrics.label_ranking import ranked

__all__ = ["perfect_mean_average_precision"]


def perfect_mean_average_precision(path: Path) -> float:
    """The ranked mAP of the true label ranks themselves, of a split's images: the most that any ranking can have.

    It averages precisions, and one that is of no pair counts as 0. Where the labels that are left above the absent ones
    are the last of all, in ascending order (the last label alone, say), each is second in its pairs with less important
    ones: none of them is positive, and no ranking predicts any either (RLSEP, Section 5.3: see
    `rankops.metrics.label_ranking.ranked`).

    Raises:
        FileNotFoundError, ValueError: no such file, or it has no label ranks.
    """
    label_ranks = matrix(read_table(path, ["label_ranks"]), "label_ranks", path=path)
    return ranked(label_ranks.double(), label_ranks)["mean_average_precision"].mean().item()


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "data/ranked_mnist/test.parquet")
    try:
        print(f"{path}: a ranking without any mistake has a ranked mAP of {perfect_mean_average_precision(path):.4f}")
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
